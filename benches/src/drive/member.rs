//! One thread of the generator: chooses, asks, checks, records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rustix::time::{ClockId, clock_gettime};

use super::crew::Told;
use super::phase::{Part, Phase, Work};
use super::{closed_loop, interim, pipelined_loop, replay_loop, stats_delta};
use crate::acked::Acked;
use crate::failure::{Failure, FailureKind};
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::mix::Kind;
use crate::numbering::Numbering;
use crate::pacer::Pacer;
use crate::recorder::Recorder;
use crate::replay::feed::Feed;
use crate::target::{Keys, Target};
use crate::ttl::Ttls;
use crate::value;
use crate::value_size::ValueSize;

/// What the keys of counters and locks begin with.
const COUNTER: [u8; 4] = *b"cntr";
const LOCK: [u8; 4] = *b"lock";

/// A thread gives up when nothing came through for this long.
const OUTAGE_MAX: Duration = Duration::from_secs(10);
/// And when a full server refused this many operations in a row.
const REFUSALS_MAX: u32 = 32;
/// Longest pause after an operation that did not come through.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A counter of its own cache lines: others only look at it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Done(AtomicU64);

impl Done {
    /// Operations that ended so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the thread that owns it adds, so a load and a store do.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }
}

/// What all threads of a run have in common.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Chooses records.
    pub chooser: KeyChooser,
    /// Writes keys.
    pub keys: KeyFormat,
    /// What others call this process's records.
    pub numbering: Numbering,
    /// Lengths of values.
    pub values: ValueSize,
    /// How long values stay.
    pub ttls: Ttls,
    /// Whether values are checked.
    pub verify: bool,
    /// Whether a record may be absent: where records are deleted or go away by themselves.
    pub may_miss: bool,
    /// Operations in flight; 1 = each is waited for.
    pub pipeline: usize,
    /// Records of a multi-get.
    pub multi_get: usize,
    /// Counters that are added to, if any are.
    pub counters: u64,
    /// Locks that are taken, if any are.
    pub locks: u64,
    /// This process among those that work together, and how many they are.
    pub process: (usize, usize),
    /// Which records exist.
    pub acked: Arc<Acked>,
    /// The requests of a trace, if one is replayed.
    pub feed: Option<Arc<Feed>>,
}

impl Plan {
    /// Creates this thread's share of the counters, and takes each of its locks once, so that it exists.
    pub fn prepare<T: Target>(&self, target: &mut T, index: usize, threads: usize) -> Result<(), Failure> {
        let (index, threads) = (self.process.0 * threads + index, self.process.1 * threads);
        let mut counters = KeyFormat::named(COUNTER);
        for counter in (index as u64..self.counters).step_by(threads) {
            target.create_counter(counters.write(counter))?;
        }
        let mut locks = KeyFormat::named(LOCK);
        for lock in (index as u64..self.locks).step_by(threads) {
            target.lock_and_unlock(locks.write(lock))?;
        }
        Ok(())
    }
}

/// One thread and all it needs; nothing here is shared but the mark and the counter of operations.
pub struct Member<T> {
    /// The store.
    pub target: T,
    /// What it does.
    pub plan: Plan,
    pub(super) rng: SmallRng,
    pub(super) recorder: Recorder,
    /// Latencies of the current interval, if intervals are told.
    interval: Option<Histogram<u64>>,
    ticks: u64,
    pub(super) done: Arc<Done>,
    pub(super) pacer: Option<Pacer>,
    counters: KeyFormat,
    locks: KeyFormat,
    batch: Keys,
    batched: Vec<u64>,
    value: Vec<u8>,
    /// The next value's version; threads count in ranges of their own.
    version: u64,
    /// This thread among those of its process.
    place: (usize, usize),
    teller: Sender<Told>,
    outage: Outage,
}

/// What has failed since something last came through.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Instant>,
    refusals: u32,
    gave_up: Option<String>,
}

impl<T: Target> Member<T> {
    /// A thread of a run: at `place.0` of `place.1`.
    pub fn new(target: T, mut plan: Plan, place: (usize, usize), done: Arc<Done>, teller: Sender<Told>) -> Self {
        // Versions of another run differ from this one's, so that a torn value cannot look whole.
        let run = u64::from(std::process::id()) << 32;
        let (index, threads) = (plan.process.0 * place.1 + place.0, plan.process.1 * place.1);
        plan.chooser = plan.chooser.for_thread(index, threads, plan.acked.mark());
        Self {
            target,
            rng: SmallRng::from_os_rng(),
            value: vec![0; plan.values.max() as usize],
            version: run ^ ((place.0 as u64) << 54),
            plan,
            recorder: Recorder::default(),
            interval: None,
            ticks: 0,
            done,
            pacer: None,
            counters: KeyFormat::named(COUNTER),
            locks: KeyFormat::named(LOCK),
            batch: Keys::default(),
            batched: Vec::new(),
            place,
            teller,
            outage: Outage::default(),
        }
    }

    /// Does its part of a phase.
    pub fn run(&mut self, phase: &Phase, work: Work, interim: bool) -> Part {
        self.recorder = Recorder::default();
        self.outage = Outage::default();
        (self.interval, self.ticks) = (interim.then(interim::histogram), 0);
        phase.begin();
        let stats = self.target.stats();
        let cpu = clock_ns(ClockId::ThreadCPUTime);
        let began_ns = clock_ns(ClockId::Monotonic);
        let (threads, processes) = (self.place.1, self.plan.process);
        let pacer = |pacing| Pacer::new(pacing, processes.0 * threads + self.place.0, processes.1 * threads, Instant::now());
        self.pacer = phase.pacing().map(pacer);
        match work {
            Work::Sweep => closed_loop::sweep(self, phase),
            Work::Replay => replay_loop::run(self, phase),
            Work::Mix(mix) | Work::Endless(mix) if self.plan.pipeline == 1 => {
                closed_loop::run(self, phase, &mix, matches!(work, Work::Endless(_)));
            }
            Work::Mix(mix) | Work::Endless(mix) => {
                pipelined_loop::run(self, phase, &mix, matches!(work, Work::Endless(_)));
            }
        }
        Part {
            began_ns,
            ended_ns: clock_ns(ClockId::Monotonic),
            cpu_ns: clock_ns(ClockId::ThreadCPUTime) - cpu,
            stats: stats_delta::since(stats, self.target.stats()),
            recorder: std::mem::take(&mut self.recorder),
            gave_up: self.outage.gave_up.take(),
        }
    }

    /// A record that exists, as this process counts, or `None` while there is none.
    #[inline]
    pub(super) fn choose(&mut self) -> Option<u64> {
        let mark = self.plan.acked.mark();
        (mark > 0).then(|| self.plan.chooser.next(mark, &mut self.rng))
    }

    /// Makes the next value of a record; gives the key, the value and how long it stays.
    #[inline]
    pub(super) fn make_value(&mut self, own: u64) -> (&mut T, &[u8], &[u8], Option<Duration>) {
        self.version += 1;
        let record = self.plan.numbering.record(own);
        let length = self.plan.values.next(&mut self.rng);
        value::fill(&mut self.value[..length], record, self.version);
        let ttl = self.plan.ttls.next(&mut self.rng);
        (&mut self.target, self.plan.keys.write(record), &self.value[..length], ttl)
    }

    /// The store, room for a value of this length, and its version.
    pub(super) fn value_of(&mut self, length: usize) -> (&mut T, &mut [u8], u64) {
        self.version += 1;
        if self.value.len() < length {
            self.value.resize(length, 0);
        }
        (&mut self.target, &mut self.value[..length], self.version)
    }

    /// This thread's place among those of its process.
    pub(super) fn thread(&self) -> usize {
        self.place.0
    }

    /// The store and the key of a record.
    #[inline]
    pub(super) fn key(&mut self, own: u64) -> (&mut T, &[u8]) {
        let record = self.plan.numbering.record(own);
        (&mut self.target, self.plan.keys.write(record))
    }

    /// The store and the key of the counter that a record stands for.
    #[inline]
    pub(super) fn counter(&mut self, own: u64) -> (&mut T, &[u8]) {
        (&mut self.target, self.counters.write(own % self.plan.counters.max(1)))
    }

    /// The store and the key of the lock that a record stands for.
    #[inline]
    pub(super) fn lock(&mut self, own: u64) -> (&mut T, &[u8]) {
        (&mut self.target, self.locks.write(own % self.plan.locks.max(1)))
    }

    /// Reads several records at once, the first of which is `own`, and judges each.
    pub(super) fn multi_get(&mut self, own: u64) -> Result<(), Failure> {
        self.batch.clear();
        self.batched.clear();
        let mark = self.plan.acked.mark();
        for at in 0..self.plan.multi_get {
            let own = if at == 0 { own } else { self.plan.chooser.next(mark, &mut self.rng) };
            let record = self.plan.numbering.record(own);
            self.batch.push(self.plan.keys.write(record));
            self.batched.push(record);
        }
        let (records, verify, may_miss) = (&self.batched, self.plan.verify, self.plan.may_miss);
        let (mut first_wrong, mut misses) = (Ok(()), 0);
        self.target.multi_get(&self.batch, |at, seen| match judge(seen, records[at], verify) {
            Err(failure) if may_miss && failure.kind == FailureKind::Absent => misses += 1,
            Err(failure) if first_wrong.is_ok() => first_wrong = Err(failure),
            _ => {}
        })?;
        self.recorder.misses += misses;
        first_wrong
    }

    /// Judges what was read of a record, as this process counts.
    #[inline]
    pub(super) fn verdict(&mut self, judged: Result<(), Failure>) -> Result<(), Failure> {
        match judged {
            Err(failure) if self.plan.may_miss && failure.kind == FailureKind::Absent => {
                self.recorder.misses += 1;
                Ok(())
            }
            judged => judged,
        }
    }

    /// An operation came through and took this long.
    #[inline]
    pub(super) fn record(&mut self, kind: Kind, took: Duration, phase: &Phase) {
        self.recorder.record(kind, took);
        self.done.add(1);
        if self.outage.since.is_some() {
            self.outage = Outage::default();
        }
        if let Some(interval) = &mut self.interval {
            interval.saturating_record(took.as_nanos() as u64);
            if self.ticks != phase.ticks() {
                self.ticks = phase.ticks();
                // Nobody listens any more when the main thread has given up.
                let _ = self.teller.send(Told::Interval(interval.clone()));
                interval.reset();
            }
        }
    }

    /// Counts a failure and pauses if asking again at once is of no use.
    #[cold]
    pub(super) fn failed(&mut self, failure: Failure) {
        if failure.kind.is_outage() {
            let since = *self.outage.since.get_or_insert_with(Instant::now);
            self.outage.refusals += 1;
            let hopeless = failure.kind == FailureKind::Full && self.outage.refusals >= REFUSALS_MAX;
            if hopeless || since.elapsed() > OUTAGE_MAX {
                self.outage.gave_up = Some(failure.text.clone());
            } else {
                std::thread::sleep(PAUSE_MAX.min(Duration::from_millis(1) * self.outage.refusals));
            }
        }
        self.recorder.fail(failure);
    }

    /// Whether nothing comes through any more.
    #[inline]
    pub(super) fn gave_up(&self) -> bool {
        self.outage.gave_up.is_some()
    }
}

/// Whether what was read is a whole value of the record.
#[inline]
pub(super) fn judge(seen: Option<&[u8]>, record: u64, verify: bool) -> Result<(), Failure> {
    match seen {
        None => Err(Failure::absent(record)),
        Some(bytes) if verify => value::check(bytes, record).map_err(|fault| Failure::fault(record, fault)),
        Some(_) => Ok(()),
    }
}

/// A clock's time in nanoseconds.
fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
