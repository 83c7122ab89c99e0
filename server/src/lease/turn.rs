//! The lease thread's loop. It never blocks but in its own sleep.

use super::beats::Beats;
use super::locks::Locks;
use super::sweep::Sweeps;
use super::table::{BeatRefusal, Why};
use super::{LOOPBACK_DEPTH, Order, Shared};
use crate::refusals::Cause;
use crate::store::Store;
use crate::worker::Workers;
use crossbeam::channel::{Receiver, TryRecvError};
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::{Completion, EndpointId, Event, FabricError, FabricKind, PeerInfo, Port};
use sidewire_common::host;
use sidewire_common::id::ClientId;
use sidewire_common::layout::beat::{Answer, Beat, Verdict};
use sidewire_common::limits::MESSAGE_BYTES;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep between two turns.
const TURN_MAX: Duration = Duration::from_millis(20);
/// Sleep while a worker's reply to an `Expel` is awaited: it comes without waking the port.
const TURN_SWEEPING: Duration = Duration::from_millis(1);
/// Turns in a lease at least, so that the sleep itself never looks like a stall.
const TURNS_PER_LEASE: u32 = 16;
const _: () = assert!(TURNS_PER_LEASE > super::table::STALL_PART);
/// Shortest time between two layout epochs.
const EPOCH_PACE: Duration = Duration::from_millis(20);
/// Batches of completions taken in one turn, so that a client that floods cannot hold up the others' judgement.
const BATCHES_PER_TURN: u32 = 16;
/// Orders taken in one turn, for the same reason: opening an endpoint takes a while.
const ORDERS_PER_TURN: u32 = 16;

/// The thread's state.
pub(super) struct Turn {
    store: Arc<Store>,
    workers: Arc<Workers>,
    shared: Arc<Shared>,
    orders: Receiver<Order>,
    port: Box<dyn Port>,
    beats: Beats,
    sweeps: Sweeps,
    locks: Locks,
    completions: Vec<Completion>,
    epoch_began: BootInstant,
    /// Whether a client whose endpoints are gone may still reach the cells: it has them mapped.
    reaches_on: bool,
    /// Offences of peers that the port told of and that were counted.
    offences: u64,
    /// Epoch of the cluster's map that all clients were told to know.
    map_told: u32,
}

impl Turn {
    pub(super) fn new(
        store: Arc<Store>,
        workers: Arc<Workers>,
        shared: Arc<Shared>,
        orders: Receiver<Order>,
        port: Box<dyn Port>,
    ) -> Self {
        let reaches_on = store.fabric().info().kind == FabricKind::Shm;
        Self {
            store,
            workers,
            shared,
            orders,
            port,
            beats: Beats::default(),
            sweeps: Sweeps::default(),
            locks: Locks::new(LOOPBACK_DEPTH),
            completions: Vec::new(),
            epoch_began: BootInstant::now(),
            reaches_on,
            offences: 0,
            map_told: 0,
        }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        let longest = TURN_MAX.min(self.store.settings().lease / TURNS_PER_LEASE);
        loop {
            let now = BootInstant::now();
            if self.take_orders(now).is_break() {
                return;
            }
            self.take_completions(now);
            self.sweep_departed(now);
            self.judge(now);
            self.move_sweeps(now);
            self.move_epoch(now);
            let sleep = match (self.orders.is_empty(), self.sweeps.is_idle()) {
                (true, true) => longest,
                (true, false) => TURN_SWEEPING,
                (false, _) => Duration::ZERO,
            };
            if let Err(error) = self.port.sleep(sleep) {
                tracing::error!(%error, "the lease thread cannot wait for heartbeats");
                host::sleep(sleep);
            }
        }
    }

    fn take_orders(&mut self, now: BootInstant) -> ControlFlow<()> {
        for _ in 0..ORDERS_PER_TURN {
            match self.orders.try_recv() {
                Ok(Order::OpenBeat { client, peer, reply }) => drop(reply.send(self.open_beat(client, &peer))),
                Ok(Order::Detach { client, reply }) => {
                    self.begin_sweep(now, client, Why::Detached);
                    self.sweeps.on_end(client, reply);
                }
                Ok(Order::TellStopping) => {
                    let answer = self.words(Verdict::Stopping, 0);
                    self.beats.tell_all(&mut *self.port, &answer);
                }
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return ControlFlow::Break(()),
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
            }
        }
        ControlFlow::Continue(())
    }

    fn open_beat(&mut self, client: ClientId, peer: &PeerInfo) -> Result<PeerInfo, FabricError> {
        let opened = self.beats.open(&mut *self.port, client, peer)?;
        let mut table = self.shared.table.lock();
        if let Some(live) = table.live(client) {
            live.set_linked();
            table.restart_numbers(client);
        } else {
            // It was swept since it asked; nobody else would close this endpoint.
            self.beats.close(&mut *self.port, client);
        }
        Ok(opened)
    }

    fn take_completions(&mut self, now: BootInstant) {
        for _ in 0..BATCHES_PER_TURN {
            let mut completions = std::mem::take(&mut self.completions);
            let count = self.port.poll(&mut completions);
            for completion in completions.drain(..) {
                self.take_completion(now, completion);
            }
            self.completions = completions;
            if count == 0 {
                return;
            }
        }
    }

    fn take_completion(&mut self, now: BootInstant, completion: Completion) {
        let endpoint = completion.endpoint;
        match completion.event {
            Event::Done { id, status, old } => self.locks.done(now, &mut *self.port, id, status, old),
            Event::Message { slot } => self.take_message(now, endpoint, slot),
            Event::Broken if self.locks.owns(endpoint) => self.locks.broken(now, &mut *self.port),
            // Nothing to warn of: a client that leaves closes its end before it detaches.
            Event::Broken => {
                let offences = self.port.offences();
                self.store.refusals().add(Cause::Fabric, offences - std::mem::replace(&mut self.offences, offences));
                if let Some(client) = self.beats.client_of(endpoint) {
                    tracing::debug!(client = %client, "heartbeat endpoint broke; the client's lease runs on");
                    self.beats.close(&mut *self.port, client);
                }
            }
            Event::Written { .. } => self.close_end(endpoint, Cause::BeatWrite, "the peer wrote where it may only send"),
        }
    }

    fn close_end(&mut self, endpoint: EndpointId, cause: Cause, why: &str) {
        if let Some(client) = self.beats.client_of(endpoint) {
            if let Some(left_out) = self.store.refusals().count(cause) {
                let cause = cause.name();
                tracing::warn!(client = %client, cause, why, left_out, "a heartbeat endpoint is closed; the client's lease runs on");
            }
            self.beats.close(&mut *self.port, client);
        }
    }

    fn take_message(&mut self, now: BootInstant, endpoint: EndpointId, slot: u32) {
        let mut bytes = [0; MESSAGE_BYTES];
        let length = match self.port.take_message(endpoint, slot, &mut bytes) {
            Ok(length) => length.min(MESSAGE_BYTES),
            Err(error) => return self.close_end(endpoint, Cause::BeatMalformed, &error.to_string()),
        };
        let Some(client) = self.beats.client_of(endpoint) else { return };
        match Beat::decode(&bytes[..length]) {
            Ok(beat) if beat.client == client => self.take_beat(now, endpoint, &beat),
            Ok(_) => self.close_end(endpoint, Cause::BeatClient, "a beat under another client's id"),
            Err(error) => self.close_end(endpoint, Cause::BeatMalformed, &error.to_string()),
        }
    }

    fn take_beat(&mut self, now: BootInstant, endpoint: EndpointId, beat: &Beat) {
        let ours = beat.incarnation == self.store.incarnation();
        let taken = if ours {
            // The epoch is read under the lock, as in `Attach`: what is acknowledged is never ahead of it.
            let mut table = self.shared.table.lock();
            let current = self.store.epochs().current();
            table.beat(now, beat, current)
        } else {
            Err(BeatRefusal::Unknown)
        };
        let verdict = match taken {
            Ok(()) if self.shared.is_stopping() => Verdict::Stopping,
            Ok(()) => Verdict::Alive,
            Err(BeatRefusal::Unknown) => Verdict::Unknown,
            Err(BeatRefusal::Number { .. }) => {
                return self.close_end(endpoint, Cause::BeatNumber, "a beat whose number does not rise");
            }
            Err(BeatRefusal::Epoch { .. }) => {
                return self.close_end(endpoint, Cause::BeatEpoch, "a layout epoch that has not begun");
            }
        };
        let answer = self.words(verdict, beat.number);
        self.beats.answer(&mut *self.port, endpoint, &answer);
    }

    fn words(&self, verdict: Verdict, number: u64) -> Answer {
        let hands = self.store.cluster();
        // Before the member: a lease of the next one is never told as this one's.
        let lease_ms = self.store.grantable_lease().as_millis() as u64;
        Answer {
            verdict,
            incarnation: self.store.incarnation(),
            number,
            layout_epoch: self.store.epochs().current(),
            clock_ms: self.store.clock_ms(),
            clock_error_ms: self.store.clock_error_ms(),
            lease_ms,
            map_epoch: hands.map_epoch(),
            member: hands.member().map_or(0, |member| member.0),
        }
    }

    fn sweep_departed(&mut self, now: BootInstant) {
        for client in self.store.fabric().departed() {
            self.begin_sweep(now, client, Why::Departed);
        }
    }

    fn judge(&mut self, now: BootInstant) {
        let current = self.store.epochs().current();
        let hands = self.store.cluster();
        // The epoch is read first: whoever attaches after the table was looked at is told this one or a later one.
        let (map_epoch, awaited) = (hands.map_epoch(), hands.awaited_epoch());
        let (overdue, known) = {
            let mut table = self.shared.table.lock();
            (table.judge(now, current, awaited), table.acknowledged_map(now).min(map_epoch))
        };
        if awaited > self.map_told && known > self.map_told {
            self.map_told = known;
            hands.clients_know(known);
        }
        for (client, why) in overdue {
            self.sweep(now, client, why);
        }
    }

    fn begin_sweep(&mut self, now: BootInstant, client: ClientId, why: Why) {
        let begun = self.shared.table.lock().begin_sweep(client);
        if begun {
            self.sweep(now, client, why);
        }
    }

    /// The table has marked the client.
    fn sweep(&mut self, now: BootInstant, client: ClientId, why: Why) {
        let Some(holder) = self.shared.table.lock().swept_holder(client) else { return };
        if why != Why::Detached {
            let answer = self.words(Verdict::Unknown, 0);
            self.beats.tell(&mut *self.port, client, &answer);
        }
        self.sweeps.begin(now, client, holder, why, &self.workers);
    }

    fn move_sweeps(&mut self, now: BootInstant) {
        if self.sweeps.is_idle() {
            return;
        }
        let cells = self.store.cells();
        let ended = self.sweeps.advance(now, &mut self.locks, cells);
        self.locks.pump(now, &mut *self.port, cells);
        for swept in ended {
            self.beats.close(&mut *self.port, swept.client);
            if !(self.reaches_on && self.shared.table.lock().linger(swept.client, swept.why)) {
                self.store.fabric().dismiss(swept.client);
                self.shared.table.lock().end_sweep(swept.client, swept.why);
            }
            tracing::info!(client = %swept.client, why = ?swept.why, locks_released = swept.locks, took = ?swept.took, "client swept");
            swept.tell();
        }
    }

    fn move_epoch(&mut self, now: BootInstant) {
        let epochs = self.store.epochs();
        if epochs.wanted() && now.since(self.epoch_began) >= EPOCH_PACE {
            self.epoch_began = now;
            let current = epochs.advance();
            self.shared.table.lock().epoch_advanced(now, current);
            let verdict = if self.shared.is_stopping() { Verdict::Stopping } else { Verdict::Alive };
            let answer = self.words(verdict, 0);
            self.beats.tell_all(&mut *self.port, &answer);
        }
        let epochs = self.store.epochs();
        let table = self.shared.table.lock();
        let current = epochs.current();
        epochs.set_acknowledged(table.acknowledged(current));
        epochs.set_acknowledged_for_cells(table.acknowledged_for_cells(current));
    }
}
