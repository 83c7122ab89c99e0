//! A queue pair in error: a wrong key posted on purpose, under calls that are in flight.

use sidewire::{Client, Error, Operation, OperationId, Outcome, Session, WriteOptions};
use sidewire_tests::{Server, is_typed, setting, stamped};
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const CALLS_AFTER: u64 = 100;
/// Gets in flight beside a wrong key.
const GETS: usize = 32;
/// What the log keeps of an endpoint's work requests.
const REMEMBERED: usize = 64;

/// What this process has logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// From the first call on, warnings of the whole process.
    fn listen() -> &'static Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        LOG.get_or_init(|| {
            let log = Self::default();
            let writer = log.clone();
            tracing_subscriber::fmt().with_ansi(false).with_env_filter("warn").with_writer(move || writer.clone()).init();
            log
        })
    }

    fn lines(&self, with: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
        text.lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
    }
}

fn session_of(client: &Client) -> Session {
    let session = client.session().unwrap();
    session.set_deadline(setting::patience(Duration::from_secs(3)));
    for n in 0..CALLS_AFTER {
        session.put(&n.to_le_bytes(), &stamped::stamp(n, 1, 200)).unwrap();
        session.get(&n.to_le_bytes()).unwrap().unwrap();
    }
    session
}

/// The same handle goes on as if nothing had happened.
fn goes_on(what: &str, session: &Session, version: u64) {
    let started = Instant::now();
    session.get(&0u64.to_le_bytes()).unwrap().unwrap();
    session.put(&0u64.to_le_bytes(), &stamped::stamp(0, version, 200)).unwrap();
    println!("{what}: a Get and a Put ended well {:.1?} after the error", started.elapsed());
    for n in 0..CALLS_AFTER {
        session.put(&n.to_le_bytes(), &stamped::stamp(n, version, 200)).unwrap();
        let value = session.get(&n.to_le_bytes()).unwrap().unwrap();
        assert_eq!(stamped::version_of(&value, n), Ok(version));
    }
}

#[test]
fn a_wrong_key_costs_one_call_and_the_connection_is_rebuilt() {
    let log = Log::listen();
    let server = Server::start();
    let client = server.client();
    let session = session_of(&client);
    for round in 0..5 {
        let before = log.lines("a queue pair failed").len();
        let error = session.raw().break_reads().unwrap();
        assert!(is_typed(&error), "{error:?}");
        goes_on(&format!("wrong key of a Read, round {round}"), &session, 2 + 2 * round);
        let error = session.raw().break_writes().unwrap();
        assert!(is_typed(&error), "{error:?}");
        goes_on(&format!("wrong key of a Write, round {round}"), &session, 3 + 2 * round);
        if setting::is_verbs() {
            let lines = log.lines("a queue pair failed");
            let line = &lines[before];
            assert!(line.contains("vendor_error="), "{line}");
            assert_eq!(line.matches('@').count(), REMEMBERED, "{line}");
            assert!(line.trim_end().contains("Read 64@0x0/0x7fffffff"), "the one that failed is the last: {line}");
        }
    }
    assert_eq!((client.stats().reattaches, server.info().clients_swept), (0, 0), "the attachment outlives its connections");
}

type Ended = (OperationId, Result<Outcome, Error>);

fn all(session: &Session, count: usize) -> Vec<Ended> {
    let mut finished = Vec::new();
    while finished.len() < count {
        session.wait(&mut finished).unwrap();
    }
    finished
}

/// What is in flight beside the wrong key is begun anew, or resolved: nobody else sees the error.
#[test]
fn calls_in_flight_beside_it_end_well() {
    let server = Server::start();
    let client = server.client();
    let session = session_of(&client);
    session.create_counter(b"once", 0).unwrap();
    for round in 0..20u64 {
        for n in 0..GETS as u64 {
            session.submit(Operation::Get { key: &n.to_le_bytes() }).unwrap();
        }
        session.raw().break_reads().unwrap();
        for (_, ended) in all(&session, GETS) {
            assert!(matches!(ended, Ok(Outcome::Value(Some(_)))), "{ended:?}");
        }
        let value = stamped::stamp(7, 100 + round, 5000);
        let keys: Vec<_> = (0..8).map(|n| format!("put-{round}-{n}").into_bytes()).collect();
        for key in &keys {
            session.submit(Operation::Put { key, value: &value, options: WriteOptions::new().if_absent() }).unwrap();
        }
        session.raw().break_writes().unwrap();
        for (_, ended) in all(&session, keys.len()) {
            assert!(matches!(ended, Ok(Outcome::Write(sidewire::Write::Done(_)))), "done once, and told: {ended:?}");
        }
        assert_eq!(session.add_exactly_once(b"once", 1).unwrap(), round as i64 + 1);
    }
}

/// A fault that lasts: the pauses grow, so that neither end is kept busy, and the first good answer ends them.
#[test]
fn a_fault_that_lasts_is_met_with_pauses() {
    let log = Log::listen();
    let server = Server::start();
    let client = server.client();
    let session = session_of(&client);
    let before = log.lines("a queue pair failed").len();
    let (started, length) = (Instant::now(), Duration::from_secs(2));
    let mut breaks = 0u32;
    while started.elapsed() < length {
        match session.raw().break_reads() {
            Ok(error) => {
                assert!(is_typed(&error), "{error:?}");
                breaks += 1;
            }
            Err(Error::Full) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
    let lines = log.lines("a queue pair failed").len() - before;
    println!("a wrong key after each reconnection: {breaks} connections in {length:?}, {lines} lines in the log");
    // Pauses of 1, 2, 4 … 250 ms, each shortened by half at most: 8 to grow, then at most 8 a second.
    assert!(breaks <= 8 + 2 * 8 + 4, "{breaks} connections were made and broken in {length:?}");
    goes_on("after a fault that lasted", &session, 9);
}
