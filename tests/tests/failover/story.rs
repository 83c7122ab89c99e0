//! What happens, and whether it may.

use crate::servers::{SERVERS, Servers};
use crate::{deadline, lease};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sidewire_tests::history::file::now;
use sidewire_tests::history::lives::{check_all, split};
use sidewire_tests::history::{Call, Event, Limits, Outcome, file};
use sidewire_tests::stalls::{Watch, overlap};
use sidewire_tests::{Child, setting};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::BufReader;
use std::time::Duration;
use tempfile::TempDir;

const CLIENTS: u32 = 4;
/// Longest pause of a client between two bursts, ms.
const PAUSE_MS: u64 = 60;
/// By how much the shard's clock may be wrong, as a reader sees it.
const EXPIRY_BAND: Duration = Duration::from_millis(60);
/// How much longer than its lease a key of a dead server may be without one; and what a machine that others use adds.
const PAUSE_BEYOND_LEASE: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_millis(1500);

pub struct Story {
    servers: Servers,
    clients: Vec<(u32, Child)>,
    folder: TempDir,
    random: SmallRng,
    watch: Watch,
    faults: Vec<(u64, u64)>,
}

pub struct Account {
    calls: usize,
    classes: BTreeMap<&'static str, usize>,
    /// The longest time without a good call on any one key.
    pause: (Duration, String),
    /// The longest call, and what it was.
    longest: (Duration, String),
    explored: Result<usize, String>,
    lost: u64,
    stats: Vec<String>,
    /// What the servers said.
    said: Vec<String>,
    folder: TempDir,
}

impl Story {
    pub fn begin(seed: u64) -> Self {
        let servers = Servers::start();
        let folder = tempfile::tempdir().unwrap();
        let mut random = SmallRng::seed_from_u64(seed);
        let clients = (0..CLIENTS).map(|number| {
            let file = folder.path().join(format!("{number}.jsonl"));
            let [name, seed, pause] = [number.into(), random.random(), PAUSE_MS].map(|n: u64| n.to_string());
            let client = Child::start("client", &[&servers.addresses(), &name, &seed, &pause, file.to_str().unwrap()]);
            assert_eq!(client.hear(), "calling");
            (number, client)
        });
        let clients = clients.collect();
        Self { servers, clients, folder, random, watch: Watch::start(), faults: Vec::new() }
    }

    /// One fault, and the time until every shard has its copies again.
    pub fn fault(&mut self, fault: fn(&mut Servers, usize)) {
        std::thread::sleep(Duration::from_millis(self.random.random_range(300..1500)));
        let from = now();
        fault(&mut self.servers, self.random.random_range(0..SERVERS));
        self.servers.heal();
        self.faults.push((from, now()));
    }

    pub fn end(self) -> Account {
        std::thread::sleep(Duration::from_millis(500));
        let mut stats = Vec::new();
        let mut ended = HashMap::new();
        for (number, mut client) in self.clients {
            client.tell("end");
            stats.extend(client.finish());
            ended.insert(number, now());
        }
        let stalls = self.watch.stalls();
        let mut calls = Vec::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap().map(Result::unwrap) {
            let from = BufReader::new(std::fs::File::open(entry.path()).unwrap());
            calls.extend(file::read(from).unwrap_or_else(|e| panic!("{}: {e}", entry.path().display())));
        }
        calls.sort_by_key(|call| call.event.invoked);
        // One history: nothing ends with one server.
        // The token of a free lock is its next holder's affair: a new primary begins above all that were granted.
        calls.retain(|call| !matches!(call.event.call, Call::LockState { .. }));
        calls.iter_mut().for_each(|call| (call.life, call.until) = (1, call.until.map(|_| 1)));
        let limits = Limits { expiry_band: nanos(setting::patience(EXPIRY_BAND)), ..Limits::default() };
        let explored = check_all(&split(&calls, &ended), &limits).map(|lives| lives.iter().map(|life| life.explored).sum());
        let events: Vec<Event> = calls.into_iter().map(|call| call.event).collect();
        let mut classes = BTreeMap::new();
        events.iter().for_each(|event| *classes.entry(event.ending()).or_default() += 1);
        let took = |e: &Event| {
            e.returned.map_or(0, |to| (to - e.invoked).saturating_sub(overlap(&stalls, e.invoked, to).as_nanos() as u64))
        };
        Account {
            calls: events.len(),
            classes,
            pause: longest_pause(&events, &stalls),
            longest: longest_call(&events, took),
            explored,
            lost: self.servers.lost(),
            stats,
            said: self.servers.said(),
            folder: self.folder,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

fn longest_call(events: &[Event], took: impl Fn(&Event) -> u64) -> (Duration, String) {
    let longest = events.iter().filter(|e| e.outcome != Outcome::Noted).max_by_key(|e| took(e));
    longest.map_or_else(Default::default, |e| (Duration::from_nanos(took(e)), format!("{:?}: {:?}", e.call, e.outcome)))
}

/// For each key the time between two good calls that began one after the other; the machine's own stalls left out.
fn longest_pause(events: &[Event], stalls: &[(u64, u64)]) -> (Duration, String) {
    let mut last: HashMap<String, u64> = HashMap::new();
    let mut ends: Vec<(u64, &Event)> = events.iter().filter(|e| e.ended_well()).filter_map(|e| Some((e.returned?, e))).collect();
    ends.sort_unstable_by_key(|(at, _)| *at);
    let mut longest = (Duration::ZERO, String::new());
    for (at, event) in ends {
        for key in event.call.keys() {
            if let Some(before) = last.insert(key.to_string(), at) {
                let pause = Duration::from_nanos(at - before).saturating_sub(overlap(stalls, before, at));
                if pause > longest.0 {
                    longest = (pause, key.to_string());
                }
            }
        }
    }
    longest
}

impl Account {
    pub fn check(self) {
        let Err(wrong) = self.verdict() else { return };
        for (at, said) in self.said.iter().enumerate() {
            // What is wrong is told whether or not this can be written.
            let _ = std::fs::write(self.folder.path().join(format!("server-{at}.log")), said);
        }
        panic!("{wrong}\nthe clients' histories and the servers' logs are in {}", self.folder.keep().display());
    }

    fn verdict(&self) -> Result<(), String> {
        let must = |holds: bool, wrong: String| if holds { Ok(()) } else { Err(wrong) };
        must(self.lost == 0, format!("{} shards were begun anew", self.lost))?;
        let explored = self.explored.as_ref().map_err(Clone::clone)?;
        println!("linearizable as one history; {explored} configurations");
        let most = lease() + PAUSE_BEYOND_LEASE + setting::patience(SLACK);
        must(self.pause.0 <= most, format!("{} was without an answer for {:?}", self.pause.1, self.pause.0))?;
        must(self.longest.0 <= deadline() + deadline() / 10, format!("a call took {:?}", self.longest))?;
        must(self.calls > 1000, format!("{} calls only", self.calls))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} calls", self.calls)?;
        for (class, count) in &self.classes {
            writeln!(f, "  {count:>9} {class}")?;
        }
        writeln!(f, "  longest pause of a key {:?} ({}), longest call {:?}", self.pause.0, self.pause.1, self.longest.0)?;
        writeln!(f, "    {}", self.longest.1)?;
        self.stats.iter().try_for_each(|stats| writeln!(f, "  {stats}"))
    }
}
