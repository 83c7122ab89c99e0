//! Calls of every kind, one after the other, each with its end and the time it took.

use sidewire::{Client, Error, Session};
use sidewire_tests::{is_typed, setting, stamped};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Kinds of calls.
pub const KINDS: [&str; 4] = ["get", "put", "add", "add_exactly_once"];
const KEYS: u64 = 16;
/// How far a call may be beyond its deadline on a machine that is emulated.
const SLACK: Duration = Duration::from_millis(700);

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    pub kind: &'static str,
    pub ended: Instant,
    pub took: Duration,
    pub error: Option<Error>,
}

/// What must hold of the keys in the end.
#[derive(Clone, Default, Debug)]
struct Books {
    added: i64,
    maybe_added: i64,
    added_once: i64,
    maybe_added_once: i64,
    /// By key: the last version acknowledged, and the last one tried.
    acked: BTreeMap<u64, u64>,
    tried: BTreeMap<u64, u64>,
}

/// A thread that calls until it is told to stop.
pub struct Load {
    stop: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<Call>>>,
    thread: JoinHandle<Books>,
    deadline: Duration,
}

impl Load {
    /// Begins.
    pub fn start(client: &Client, deadline: Duration) -> Self {
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let session = client.session().unwrap();
        session.create_counter(b"added", 0).unwrap();
        session.create_counter(b"added-once", 0).unwrap();
        for n in 0..KEYS {
            session.put(&key(n), &stamped::stamp(n, 0, 300)).unwrap();
        }
        drop(session);
        let thread = {
            let (client, stop, calls) = (client.clone(), Arc::clone(&stop), Arc::clone(&calls));
            std::thread::spawn(move || run(&client, deadline, &stop, &calls))
        };
        Self { stop, calls, thread, deadline }
    }

    /// Calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Waits until each kind of call has ended well since `since`, and prints when.
    pub fn recovered(&self, what: &str, since: Instant, limit: Duration) {
        loop {
            let calls = self.calls();
            let first = |kind| calls.iter().find(|c| c.kind == kind && c.error.is_none() && c.ended - c.took >= since);
            let firsts: Vec<_> = KINDS.iter().filter_map(|kind| Some((kind, first(*kind)?.ended - since))).collect();
            if firsts.len() == KINDS.len() {
                let list: Vec<_> = firsts.iter().map(|(kind, after)| format!("{kind} {after:.0?}")).collect();
                println!("{what}: well again after {}", list.join(", "));
                return;
            }
            assert!(since.elapsed() < limit, "{what}: not well after {limit:?}: {firsts:?}; {:?}", calls.last());
            assert!(!self.thread.is_finished(), "the load has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What happened between two moments, in a line; every end must be typed and in time.
    #[track_caller]
    pub fn tell(&self, what: &str, from: Instant, to: Instant) -> usize {
        let calls: Vec<_> = self.calls().into_iter().filter(|c| c.ended >= from && c.ended - c.took <= to).collect();
        let slowest = calls.iter().max_by_key(|c| c.took);
        let longest = slowest.map(|c| c.took).unwrap_or_default();
        let mut ends = BTreeMap::<String, usize>::new();
        for call in &calls {
            let end = call.error.as_ref().map_or("ok".into(), |error| {
                assert!(is_typed(error), "{what}: {} ended in {error:?}", call.kind);
                format!("{error:?}").split([' ', '(']).next().unwrap_or_default().to_owned()
            });
            *ends.entry(end).or_default() += 1;
        }
        println!("{what}: {} calls, longest {longest:.0?} (deadline {:?}), {ends:?}", calls.len(), self.deadline);
        assert!(longest <= self.deadline * 11 / 10 + SLACK, "{what}: a call was late: {slowest:?}");
        calls.iter().filter(|c| c.error.is_some()).count()
    }

    /// Ends, and checks that nothing was lost or done twice.
    pub fn finish(self, client: &Client) {
        self.stop.store(true, Ordering::Relaxed);
        let books = self.thread.join().unwrap();
        let session = client.session().unwrap();
        session.set_deadline(setting::patience(Duration::from_secs(5)));
        let sums = [(&b"added"[..], books.added, books.maybe_added), (b"added-once", books.added_once, books.maybe_added_once)];
        for (counter, surely, maybe) in sums {
            let sum = session.counter(counter).unwrap().unwrap();
            let name = String::from_utf8_lossy(counter);
            println!("{name}: {sum}, {surely} were acknowledged, {maybe} are in doubt");
            assert!((surely..=surely + maybe).contains(&sum), "{name}: {sum} is not within {surely} and {maybe} more");
        }
        for n in 0..KEYS {
            let value = session.get(&key(n)).unwrap().expect("it was put and never deleted");
            let version = stamped::version_of(&value, n).unwrap();
            let (acked, tried) = (books.acked.get(&n).copied().unwrap_or(0), books.tried.get(&n).copied().unwrap_or(0));
            assert!((acked..=tried).contains(&version), "key {n}: {version}, {acked} was acknowledged, {tried} tried");
        }
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("load-{n}").into_bytes()
}

fn run(client: &Client, deadline: Duration, stop: &AtomicBool, calls: &Mutex<Vec<Call>>) -> Books {
    let session = client.session().unwrap();
    session.set_deadline(deadline);
    let mut books = Books::default();
    for round in 1.. {
        let kind = KINDS[round as usize % KINDS.len()];
        let started = Instant::now();
        let error = call(&session, kind, round, &mut books).err();
        let ended = Instant::now();
        calls.lock().unwrap().push(Call { kind, ended, took: ended - started, error });
        if stop.load(Ordering::Relaxed) {
            return books;
        }
    }
    books
}

fn call(session: &Session, kind: &str, round: u64, books: &mut Books) -> Result<(), Error> {
    let n = round / KINDS.len() as u64 % KEYS;
    match kind {
        "get" => {
            let value = session.get(&key(n))?.expect("it exists throughout");
            let version = stamped::version_of(&value, n).unwrap();
            let acked = books.acked.get(&n).copied().unwrap_or(0);
            assert!(version >= acked, "key {n}: {version} after {acked} was acknowledged");
        }
        "put" => {
            books.tried.insert(n, round);
            session.put(&key(n), &stamped::stamp(n, round, 300 + round as usize % 3000))?;
            books.acked.insert(n, round);
        }
        "add" => count(session.add(b"added", 1), &mut books.added, &mut books.maybe_added)?,
        _ => count(session.add_exactly_once(b"added-once", 1), &mut books.added_once, &mut books.maybe_added_once)?,
    }
    Ok(())
}

fn count(added: Result<i64, Error>, surely: &mut i64, maybe: &mut i64) -> Result<(), Error> {
    match added {
        Ok(_) => *surely += 1,
        Err(error) => {
            // Any other error says that it did not count.
            *maybe += i64::from(error.is_indeterminate());
            return Err(error);
        }
    }
    Ok(())
}
