//! Calls that are prepared, begin together, and are timed.

use crate::calls::CASES;
use crate::{deadline, most};
use sidewire::{Client, Error, Session};
use sidewire_tests::{Server, server::client_builder, setting};
use std::fmt::Debug;
use std::sync::Barrier;
use std::time::{Duration, Instant};

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
    ready: Barrier,
    go: Barrier,
}

/// How a call went.
pub struct Timed {
    pub took: Duration,
    pub ended: String,
}

impl Scene {
    pub fn new(server: &Server) -> Self {
        let client = server.client_builder().deadline(deadline()).connect().unwrap();
        let session = client.session().unwrap();
        session.set_deadline(server.lease() * 2);
        for key in KEYS {
            session.put(key, b"value").unwrap();
        }
        session.create_counter(COUNTER, 0).unwrap();
        session.create_sequence(SEQUENCE, 0).unwrap();
        session.lock(LOCK, server.lease() * 2).unwrap().unlock().unwrap();
        let all = CASES.len() + 1;
        Self { address: server.address().into(), client, ready: Barrier::new(all), go: Barrier::new(all) }
    }

    /// A session whose later calls have the deadline under test.
    pub fn session(&self) -> Session {
        let session = self.client.session().unwrap();
        session.set_deadline(setting::patience(Duration::from_secs(5)));
        session.get(KEYS[0]).unwrap();
        session.put(KEYS[1], b"value").unwrap();
        session.set_deadline(deadline());
        session
    }

    pub fn another_client(&self) -> Client {
        client_builder(&self.address).deadline(deadline()).connect().unwrap()
    }

    /// Waits for the freeze, then times the call.
    pub fn go<T: Debug>(&self, call: impl FnOnce() -> Result<T, Error>) -> Timed {
        self.ready.wait();
        self.go.wait();
        let started = Instant::now();
        let result = call();
        let took = started.elapsed();
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
            self.ready.wait();
            let frozen = freeze();
            self.go.wait();
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
