//! The way to the server, made when it is first needed and kept for the next command of a shell.

use crate::cli::{Fabric, Globals};
use crate::failure::{Done, Failure, TROUBLE};
use sidewire::{Admin, Client, Error, Fleet, Session};
use std::cell::OnceCell;

/// Everything a command needs besides its arguments.
pub struct Context {
    globals: Globals,
    // Declared in the order of teardown: the session leaves before its client.
    session: OnceCell<Session>,
    client: OnceCell<Client>,
    fleet: OnceCell<Fleet>,
}

impl Context {
    /// Nothing is connected yet.
    pub const fn new(globals: Globals) -> Self {
        Self { globals, session: OnceCell::new(), client: OnceCell::new(), fleet: OnceCell::new() }
    }

    /// What holds for every command.
    pub const fn globals(&self) -> &Globals {
        &self.globals
    }

    /// This thread's session.
    pub fn session(&self) -> Done<&Session> {
        if let Some(session) = self.session.get() {
            return Ok(session);
        }
        let session = self.client()?.session().map_err(|error| self.explain(error))?;
        session.set_deadline(self.globals.timeout);
        Ok(self.session.get_or_init(|| session))
    }

    /// The attachment.
    pub fn client(&self) -> Done<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut builder = Client::builder().servers(self.globals.servers()).deadline(self.globals.timeout).program("kvctl");
        if let Some(Fabric::Only(kind)) = self.globals.fabric {
            builder = builder.fabric(Some(kind));
        }
        if let Some(device) = &self.globals.device {
            builder = builder.device(device);
        }
        let client = builder.connect().map_err(|error| self.explain(error))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// The servers' own reports, for which nothing is attached.
    pub fn fleet(&self) -> Done<&Fleet> {
        if let Some(fleet) = self.fleet.get() {
            return Ok(fleet);
        }
        let fleet = Fleet::connect(&self.globals.servers(), self.globals.timeout).map_err(|error| self.explain(error))?;
        Ok(self.fleet.get_or_init(|| fleet))
    }

    /// The first of the servers named that answers.
    pub fn any_admin(&self) -> Done<Admin> {
        let mut last = None;
        for server in self.globals.servers() {
            match Admin::connect_within(server, self.globals.timeout) {
                Ok(admin) => return Ok(admin),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| Failure::usage("no server is named"), |error| self.explain(error)))
    }

    /// An error on the way to the server, with what to do about it.
    fn explain(&self, error: Error) -> Failure {
        let Error::ServerGone { reason, .. } = error else { return error.into() };
        let server = self.globals.server();
        let advice = format!("is kv-server running at {server}? Name another with -s ADDR or SIDEWIRE_SERVER");
        Failure::new(TROUBLE, "unreachable", format!("cannot reach the server: {reason}; {advice}"))
    }
}
