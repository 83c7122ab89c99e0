//! `kv-bench connections`: what a session costs, in time and memory, as one process has more and more of them.
//!
//! Each session has connections of its own: one for Reads and atomics, one to each worker that it writes to. It is opened,
//! stores a key and reads it, so that both kinds of connection are there; then every session reads in turn, which shows
//! what many connections do to a device's caches.

use std::fmt::{self, Formatter};
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;
use sidewire::{Client, Session};
use sidewire_common::host;

use crate::cli::ConnectionsArgs;
use crate::connect::{Stop, attach};
use crate::environment::Environment;
use crate::recorder::{Latency, histogram};
use crate::report::{Parameters, Report};
use crate::table::{group, time};

/// One step.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ConnectionStep {
    /// Sessions that are open.
    pub sessions: u32,
    /// Opening a session with its connection for Reads, those of this step.
    pub open_ns: Latency,
    /// Its first Put, which connects it to the key's worker.
    pub first_put_ns: Latency,
    /// A warm Get, each on the session after the one before.
    pub get_ns: Latency,
    /// What this process has resident for each session, bytes.
    pub client_bytes: u64,
    /// What the server has.
    pub server_bytes: u64,
}

/// Runs the command.
pub fn command(args: &ConnectionsArgs) -> Result<Report, Stop> {
    if !args.steps.is_sorted() {
        return Err(Stop::Usage("--step: the counts of sessions must rise".into()));
    }
    let client = attach(&args.common, None)?;
    let info = client.admin().info()?;
    let key = format!("bench{:07}", client.attachment().holder_id).into_bytes();
    let parameters = Parameters { key_bytes: key.len() as u64, threads: 1, pipeline: 1, ..Parameters::default() };
    let mut report = Report::new("connections", Environment::of(&client, &info), parameters);
    let mut crowd = Crowd { client: &client, key, sessions: Vec::new() };
    let before = (host::resident_bytes("self"), info.resident_bytes);
    for &sessions in &args.steps {
        match crowd.step(sessions, args.gets, before) {
            Ok(step) => report.connections.push(step),
            Err(stop) => {
                eprintln!("kv-bench: with {} sessions open: {stop}", crowd.sessions.len());
                report.complete = false;
                break;
            }
        }
    }
    if let Some(session) = crowd.sessions.first() {
        session.delete(&crowd.key)?;
    }
    Ok(report)
}

/// The sessions that are open.
struct Crowd<'a> {
    client: &'a Client,
    key: Vec<u8>,
    sessions: Vec<Session>,
}

impl Crowd<'_> {
    fn step(&mut self, sessions: u32, gets: u64, before: (u64, u64)) -> Result<ConnectionStep, Stop> {
        let (mut open, mut first_put) = (histogram(), histogram());
        while self.sessions.len() < sessions as usize {
            let started = Instant::now();
            let session = self.client.session()?;
            open.saturating_record(nanos(started));
            let started = Instant::now();
            session.put(&self.key, b"value")?;
            first_put.saturating_record(nanos(started));
            self.sessions.push(session);
        }
        self.read_each()?;
        let get = self.read(gets)?;
        let info = self.client.admin().info()?;
        let each = |now: u64, before: u64| now.saturating_sub(before) / u64::from(sessions);
        Ok(ConnectionStep {
            sessions,
            open_ns: Latency::of(&open),
            first_put_ns: Latency::of(&first_put),
            get_ns: Latency::of(&get),
            client_bytes: each(host::resident_bytes("self"), before.0),
            server_bytes: each(info.resident_bytes, before.1),
        })
    }

    /// Every session learns where the key is.
    fn read_each(&self) -> Result<(), Stop> {
        for session in &self.sessions {
            session.get(&self.key)?;
        }
        Ok(())
    }

    fn read(&self, gets: u64) -> Result<Histogram<u64>, Stop> {
        let mut taken = histogram();
        for session in self.sessions.iter().cycle().take(usize::try_from(gets).unwrap_or(usize::MAX)) {
            let started = Instant::now();
            if session.get(&self.key)?.is_none() {
                return Err(Stop::Failed("the key that was stored is gone".into()));
            }
            taken.saturating_record(nanos(started));
        }
        Ok(taken)
    }
}

fn nanos(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Writes the steps as a table.
pub fn table(f: &mut Formatter<'_>, steps: &[ConnectionStep]) -> fmt::Result {
    if steps.is_empty() {
        return Ok(());
    }
    let head = ["sessions", "open p50", "open max", "first put p50", "get p50", "get p99", "client KiB", "server KiB"];
    writeln!(f, "{}", head.map(|name| format!("{name:>14}")).concat())?;
    for step in steps {
        let columns = [
            step.sessions.to_string(),
            time(step.open_ns.p50),
            time(step.open_ns.max),
            time(step.first_put_ns.p50),
            time(step.get_ns.p50),
            time(step.get_ns.p99),
            group(step.client_bytes / 1024),
            group(step.server_bytes / 1024),
        ];
        writeln!(f, "{}", columns.map(|column| format!("{column:>14}")).concat())?;
    }
    writeln!(f, "open and put: of the sessions that a step added; KiB: resident for each session\n")
}
