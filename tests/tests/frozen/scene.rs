//! Calls that are prepared, begin together, and are timed.

use crate::calls::CASES;
use crate::{deadline, most};
use sidewire::{Client, Error, Session};
use sidewire_tests::history::file::now;
use sidewire_tests::stalls::Watch;
use sidewire_tests::{Server, server::client_builder, setting};
use std::fmt::Debug;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long the preparation of all calls may take.
const READY: Duration = Duration::from_secs(60);

/// Keys that exist.
pub const KEYS: [&[u8]; 3] = [b"k0", b"k1", b"k2"];
pub const COUNTER: &[u8] = b"counter";
pub const SEQUENCE: &[u8] = b"sequence";
pub const LOCK: &[u8] = b"{t}free-lock";
pub const GUARDED: &[u8] = b"{t}guarded";

/// A prepared server, and clients about to call.
pub struct Scene {
    pub address: String,
    pub client: Client,
    gate: Gate,
    watch: Watch,
}

/// Where prepared calls wait for each other. One that fails before holds nobody up for ever.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn arrive(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        let (state, _) = self.changed.wait_timeout_while(state, READY, |state| !state.1).unwrap();
        assert!(state.1, "not all calls could be prepared");
    }

    fn wait_for(&self, count: usize) {
        let (state, _) = self.changed.wait_timeout_while(self.state.lock().unwrap(), READY, |state| state.0 < count).unwrap();
        assert!(state.0 == count, "{} of {count} calls could be prepared", state.0);
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// Prepares something, on a machine on which all prepare at once, with a client whose deadline is short.
pub fn prepared<T>(what: impl Fn() -> Result<T, Error>) -> T {
    let until = Instant::now() + READY / 2;
    loop {
        match what() {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    }
}

/// How a call went.
pub struct Timed {
    pub took: Duration,
    pub ended: String,
}

impl Scene {
    pub fn new(server: &Server) -> Self {
        let client = prepared(|| server.client_builder().deadline(deadline()).connect());
        let session = prepared(|| client.session());
        session.set_deadline(server.lease() * 2);
        for key in KEYS {
            session.put(key, b"value").unwrap();
        }
        session.create_counter(COUNTER, 0).unwrap();
        session.create_sequence(SEQUENCE, 0).unwrap();
        session.lock(LOCK, server.lease() * 2).unwrap().unlock().unwrap();
        Self { address: server.address().into(), client, gate: Gate::default(), watch: Watch::start() }
    }

    /// A session whose later calls have the deadline under test.
    pub fn session(&self) -> Session {
        let session = prepared(|| self.client.session());
        session.set_deadline(setting::patience(Duration::from_secs(5)));
        session.get(KEYS[0]).unwrap();
        session.put(KEYS[1], b"value").unwrap();
        session.set_deadline(deadline());
        session
    }

    pub fn another_client(&self) -> Client {
        prepared(|| client_builder(&self.address).deadline(deadline()).connect())
    }

    /// Waits for the freeze, then times the call.
    pub fn go<T: Debug>(&self, call: impl FnOnce() -> Result<T, Error>) -> Timed {
        self.gate.arrive();
        let started = now();
        let result = call();
        let ended = now();
        // What the machine took from everybody is not the call's.
        let took = Duration::from_nanos(ended - started).saturating_sub(self.watch.stood(started, ended));
        let ended = match result {
            Ok(done) => format!("{done:?}"),
            Err(error) => format!("error: {error}"),
        };
        Timed { took, ended }
    }

    /// Makes all calls while what `freeze` returns lives; tells those that took too long.
    pub fn play<F>(&self, what: &str, freeze: impl FnOnce() -> F) -> Vec<String> {
        std::thread::scope(|scope| {
            let begun: Vec<_> = CASES.iter().map(|(name, case)| (name, scope.spawn(move || case(self)))).collect();
            self.gate.wait_for(CASES.len());
            let frozen = freeze();
            self.gate.open();
            let mut slow = Vec::new();
            for (name, case) in begun {
                let Timed { took, ended } = case.join().unwrap();
                println!("{what}: {name}: {took:?}: {ended}");
                assert!(ended.matches("is gone").count() <= 1, "{name}: {ended}");
                if took > most() {
                    slow.push(format!("{what}: {name} took {took:?}: {ended}"));
                }
            }
            drop(frozen);
            slow
        })
    }

    /// Once nothing is frozen any more, a session of before works again.
    pub fn goes_on(&self) {
        let until = Instant::now() + setting::patience(Duration::from_secs(10));
        loop {
            let session = self.client.session();
            match session.and_then(|session| session.put(KEYS[0], b"value").and_then(|_| session.get(KEYS[0]))) {
                Ok(_) => return,
                Err(error) => assert!(Instant::now() < until, "no way back: {error}"),
            }
        }
    }
}
