//! LMDB in this process, through `heed`: a read transaction is kept open, and begun anew only after a write of this
//! thread or when a record that should be there is not in its snapshot. The newer releases of the client make opening
//! an unsafe call, which has no place here; the library underneath is the same.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heed::types::ByteSlice;
use heed::{Database, Env, EnvOpenOptions, RoTxn};
use sidewire::ClientStats;

use super::store::{Needs, Outcomes, Store};
use super::{Keys, Request, Target, Ticket};
use crate::connect::Stop;
use crate::drive::{Crew, CrewError, Plan};
use crate::environment::Environment;
use crate::failure::{Failure, FailureKind};
use crate::mix::Kind;
use crate::server_cost::ServerLook;

type Db = Database<ByteSlice, ByteSlice>;

/// Longest key that LMDB stores as it is built.
const KEY_BYTES_MAX: u64 = 511;
const VALUE_BYTES_MAX: u64 = 1 << 30;
/// Address space for each record beyond key and value, and for all.
const OVERHEAD_BYTES: u64 = 128;
const MAP_BYTES_MIN: u64 = 1 << 30;
const MAP_STEP: u64 = 1 << 21;
const READERS_MAX: u32 = 512;
/// Reads by one snapshot at most, so that others' writes are seen and their old pages are freed.
const SNAPSHOT_READS_MAX: u32 = 1 << 16;

/// A folder with an environment.
pub struct LmdbStore {
    /// Lives as long as the process: transactions borrow it, and a process opens few.
    env: &'static Env,
    db: Db,
    path: String,
    /// Writes that all threads have committed: a snapshot older than the last is begun anew.
    writes: &'static AtomicU64,
}

fn stop(error: impl std::fmt::Display) -> Stop {
    Stop::Failed(format!("lmdb: {error}"))
}

impl LmdbStore {
    /// Opens the folder, and makes it if need be.
    pub fn open(folder: &Path, needs: &Needs) -> Result<Self, Stop> {
        let path = folder.display().to_string();
        std::fs::create_dir_all(folder).map_err(|error| Stop::Usage(format!("--target lmdb:{path}: {error}")))?;
        // Copies on write need room beside what they replace; address space costs nothing.
        let bytes = needs.records.saturating_mul((needs.key_bytes + needs.value_bytes + OVERHEAD_BYTES) * 4).max(MAP_BYTES_MIN);
        let env = EnvOpenOptions::new()
            .map_size(bytes.next_multiple_of(MAP_STEP) as usize)
            .max_readers(READERS_MAX)
            .open(folder)
            .map_err(stop)?;
        let env: &'static Env = Box::leak(Box::new(env));
        let db = env.create_database(None).map_err(stop)?;
        Ok(Self { env, db, path, writes: Box::leak(Box::new(AtomicU64::new(0))) })
    }
}

impl Store for LmdbStore {
    fn lacks(&self, kind: Kind) -> Option<&'static str> {
        (kind == Kind::Lock).then_some("a library in one process has no locks that outlive a transaction")
    }

    fn lacks_ttl(&self) -> Option<&'static str> {
        Some("LMDB keeps what it was given")
    }

    fn longest(&self) -> (u64, u64) {
        (KEY_BYTES_MAX, VALUE_BYTES_MAX)
    }

    fn crew(&self, plan: &Plan, threads: usize) -> Result<Crew, CrewError> {
        let (env, db, writes) = (self.env, self.db, self.writes);
        Crew::start(plan, threads, move |_| {
            Ok(LmdbThread { env, db, writes, snapshot: None, reads_left: 0, seen: 0, outcomes: Outcomes::default() })
        })
    }

    fn missing(&self, keys: &[Vec<u8>]) -> Result<Option<usize>, Stop> {
        let snapshot = self.env.read_txn().map_err(stop)?;
        for (at, key) in keys.iter().enumerate() {
            if self.db.get(&snapshot, key).map_err(stop)?.is_none() {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn look(&self) -> Result<ServerLook, Stop> {
        Ok(ServerLook { cpu_ns: 0, requests: 0, wakeups: 0 })
    }

    fn environment(&self) -> Result<Environment, Stop> {
        Ok(Environment::of_peer(&format!("lmdb:{}", self.path), "in process", "lmdb"))
    }
}

/// One thread's transactions.
pub struct LmdbThread {
    env: &'static Env,
    db: Db,
    writes: &'static AtomicU64,
    snapshot: Option<RoTxn<'static>>,
    reads_left: u32,
    /// Writes by all threads when the snapshot was taken.
    seen: u64,
    outcomes: Outcomes<Result<Option<Vec<u8>>, Failure>>,
}

impl LmdbThread {
    /// Ends the snapshot when it may be too old.
    fn renew(&mut self) -> Result<(), Failure> {
        let writes = self.writes.load(Ordering::Acquire);
        if self.snapshot.is_none() || self.reads_left == 0 || writes != self.seen {
            self.snapshot = None;
            (self.snapshot, self.reads_left, self.seen) = (Some(self.env.read_txn()?), SNAPSHOT_READS_MAX, writes);
        }
        self.reads_left -= 1;
        Ok(())
    }

    fn change(&mut self, work: impl FnOnce(&Db, &mut heed::RwTxn<'_, '_>) -> heed::Result<()>) -> Result<(), Failure> {
        self.snapshot = None;
        let mut transaction = self.env.write_txn()?;
        work(&self.db, &mut transaction)?;
        transaction.commit()?;
        self.writes.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

impl Target for LmdbThread {
    #[inline]
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure> {
        self.renew()?;
        let Some(snapshot) = &self.snapshot else { return Err(Failure::refused("there is no snapshot")) };
        Ok(look(self.db.get(snapshot, key)?))
    }

    fn multi_get(&mut self, keys: &Keys, mut look: impl FnMut(usize, Option<&[u8]>)) -> Result<(), Failure> {
        for (at, key) in keys.iter().enumerate() {
            self.read(key, |value| look(at, value))?;
        }
        Ok(())
    }

    fn write(&mut self, key: &[u8], value: &[u8], _ttl: Option<Duration>) -> Result<(), Failure> {
        self.change(|db, transaction| db.put(transaction, key, value))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.change(|db, transaction| db.delete(transaction, key).map(drop))
    }

    fn add(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.change(|db, transaction| {
            let before = db.get(transaction, key)?.and_then(|bytes| bytes.first_chunk().copied()).map_or(0, i64::from_le_bytes);
            db.put(transaction, key, &(before + 1).to_le_bytes())
        })
    }

    fn lock_and_unlock(&mut self, _key: &[u8]) -> Result<(), Failure> {
        Err(Failure::refused("LMDB has no locks"))
    }

    fn create_counter(&mut self, _key: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn submit(&mut self, request: Request<'_>) -> Result<Option<Ticket>, Failure> {
        let outcome = match request {
            Request::Read { key } => self.read(key, |value| value.map(<[u8]>::to_vec)),
            Request::Write { key, value, ttl } => self.write(key, value, ttl).map(|()| None),
            Request::Delete { key } => self.delete(key).map(|()| None),
            Request::Add { key } => self.add(key).map(|()| None),
        };
        Ok(Some(self.outcomes.keep(outcome)))
    }

    fn wait(&mut self, mut ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        while let Some((ticket, outcome)) = self.outcomes.take() {
            ended(ticket, outcome.as_ref().map(Option::as_deref).map_err(Clone::clone));
        }
        Ok(())
    }

    fn stats(&self) -> ClientStats {
        ClientStats::default()
    }
}

impl From<heed::Error> for Failure {
    #[cold]
    fn from(error: heed::Error) -> Self {
        let full = matches!(error, heed::Error::Mdb(heed::MdbError::MapFull));
        Self { kind: if full { FailureKind::Full } else { FailureKind::Refused }, text: format!("lmdb: {error}") }
    }
}
