//! A client process: calls at random until it is told to end.

use crate::{batch, calls, deadline};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sidewire::{Client, Session};
use sidewire_tests::history::file::Writer;
use sidewire_tests::history::{Call, Outcome};
use sidewire_tests::{child, server::client_builder};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Calls between two pauses: what happens side by side matters, not how much.
const BURST: u32 = 12;

/// A client that writes down what it does.
pub struct Caller {
    pub client: Client,
    pub session: Session,
    pub random: SmallRng,
    /// The last token that was given back or lost, and in which life.
    pub late: Option<(u64, u64)>,
    writer: Writer<File>,
    number: u64,
    stamps: u64,
}

impl Caller {
    /// The life of the server that the client is attached to.
    pub fn life(&self) -> u64 {
        self.client.attachment().incarnation.0
    }

    /// A stamp that no other write has.
    pub fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.number << 32 | self.stamps
    }

    /// A call begins.
    pub fn begin(&mut self, call: Call) -> u64 {
        let life = self.life();
        self.writer.begin(life, call).unwrap()
    }

    /// A call has ended.
    pub fn end(&mut self, number: u64, outcome: Outcome) {
        let life = self.life();
        self.writer.end(number, life, outcome).unwrap();
    }

    /// Something is noticed that happened in this life since `from`.
    pub fn noticed(&mut self, life: u64, from: u64, call: Call) {
        self.writer.noticed(life, from, call).unwrap();
    }

    /// One call, written down.
    pub fn call<T>(&mut self, call: Call, run: impl FnOnce(&Session) -> T, outcome: impl FnOnce(&T) -> Outcome) -> T {
        let number = self.begin(call);
        let result = run(&self.session);
        self.end(number, outcome(&result));
        result
    }
}

/// Connects, however often the server is away meanwhile.
fn connected(address: &str) -> (Client, Session) {
    loop {
        let client = client_builder(address).deadline(deadline()).connect();
        match client.and_then(|client| client.session().map(|session| (client, session))) {
            Ok(both) => return both,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The role.
pub fn run(arguments: &[String]) {
    let [address, number, seed, pause_ms, file] = arguments else { panic!("{arguments:?}") };
    let number: u64 = number.parse().unwrap();
    let pause_ms_max: u64 = pause_ms.parse().unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&end);
    std::thread::spawn(move || {
        let _ = child::hear();
        told.store(true, Ordering::Relaxed);
    });
    let (client, session) = connected(address);
    session.set_deadline(deadline());
    let random = SmallRng::seed_from_u64(seed.parse().unwrap());
    let writer = Writer::new(File::create_new(file).unwrap(), number.try_into().unwrap());
    let mut caller = Caller { client, session, random, late: None, writer, number, stamps: 0 };
    child::say("calling");
    while !end.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            if caller.random.random_range(0..8) == 0 {
                batch::run(&mut caller);
            } else {
                calls::any(&mut caller);
            }
        }
        let pause = caller.random.random_range(0..pause_ms_max);
        std::thread::sleep(Duration::from_millis(pause));
    }
    child::say(format!("{:?}", caller.client.stats()));
}
