//! Who is expected at the door, who is linked, who has left.

use super::wire::{ToDoor, Token, Welcome};
use crate::id::ClientId;
use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What a token stands for. It is good for one hand-over.
pub(super) enum Expected {
    /// The link of an admitted client.
    Link(ClientId),
    /// An endpoint's descriptors.
    Endpoint(Handover),
}

/// What the client of an endpoint is given.
pub(super) struct Handover {
    /// What it must know.
    pub(super) welcome: Welcome,
    /// Its end of the socket; then A, B and S where there are rings.
    pub(super) fds: Vec<OwnedFd>,
}

struct Linked {
    caller: u64,
    socket: Arc<OwnedFd>,
}

#[derive(Default)]
struct Inner {
    expected: HashMap<Token, Expected>,
    admitted: HashMap<ClientId, Token>,
    links: HashMap<ClientId, Linked>,
    departed: Vec<ClientId>,
}

impl Inner {
    fn forget(&mut self, client: ClientId) {
        if let Some(token) = self.admitted.remove(&client) {
            self.expected.remove(&token);
        }
        if let Some(link) = self.links.remove(&client) {
            // The door hears the hang-up, finds no such link, and closes its side.
            let _ = shutdown(&*link.socket, Shutdown::Both);
        }
    }
}

/// Shared by the fabric, its ports and its door.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Inner>);

/// The right of one client to come; taken back when it is dropped.
pub(super) struct Invitation {
    ledger: Arc<Ledger>,
    pub(super) token: Token,
}

impl Drop for Invitation {
    fn drop(&mut self) {
        self.ledger.0.lock().expected.remove(&self.token);
    }
}

impl Ledger {
    /// Expects the client of an endpoint.
    pub(super) fn invite(self: &Arc<Self>, handover: Handover) -> Invitation {
        let token = rand::random();
        self.0.lock().expected.insert(token, Expected::Endpoint(handover));
        Invitation { ledger: Arc::clone(self), token }
    }

    /// Expects a client's link; an earlier invitation or link of the same client ends.
    pub(super) fn admit(&self, client: ClientId) -> Token {
        let token = rand::random();
        let mut inner = self.0.lock();
        inner.forget(client);
        inner.admitted.insert(client, token);
        inner.expected.insert(token, Expected::Link(client));
        token
    }

    /// Spends the token of a hello. A link counts from here on.
    pub(super) fn redeem(&self, hello: &ToDoor, caller: u64, socket: &Arc<OwnedFd>) -> Option<Expected> {
        let mut inner = self.0.lock();
        let (ToDoor::Link(token) | ToDoor::Endpoint(token)) = hello else { return None };
        let expected = inner.expected.remove(token)?;
        match (&expected, hello) {
            (Expected::Link(client), ToDoor::Link(_)) => {
                inner.admitted.remove(client);
                inner.links.insert(*client, Linked { caller, socket: Arc::clone(socket) });
            }
            (Expected::Endpoint(_), ToDoor::Endpoint(_)) => {}
            _ => return None,
        }
        Some(expected)
    }

    /// A link has hung up. A client that was dismissed, or linked anew, has not departed.
    pub(super) fn hung_up(&self, client: ClientId, caller: u64) {
        let mut inner = self.0.lock();
        if inner.links.get(&client).is_some_and(|link| link.caller == caller) {
            inner.links.remove(&client);
            inner.departed.push(client);
        }
    }

    /// Ends a client's link or invitation.
    pub(super) fn dismiss(&self, client: ClientId) {
        self.0.lock().forget(client);
    }

    /// Clients that have left since the last call.
    pub(super) fn departed(&self) -> Vec<ClientId> {
        std::mem::take(&mut self.0.lock().departed)
    }
}
