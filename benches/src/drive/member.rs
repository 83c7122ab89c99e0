//! One thread of the generator: chooses, asks, checks, records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rustix::time::{ClockId, clock_gettime};

use super::phase::{Part, Phase, Work};
use super::{closed_loop, pipelined_loop, stats_delta};
use crate::acked::Acked;
use crate::failure::{Failure, FailureKind};
use crate::key_chooser::KeyChooser;
use crate::key_format::KeyFormat;
use crate::recorder::Recorder;
use crate::target::Target;
use crate::value;

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
    /// Length of values, bytes.
    pub value_bytes: usize,
    /// Whether values are checked.
    pub verify: bool,
    /// Operations in flight; 1 = each is waited for.
    pub pipeline: usize,
    /// Which records exist.
    pub acked: Arc<Acked>,
}

/// One thread and all it needs; nothing here is shared but the mark and the counter of operations.
pub struct Member<T> {
    /// The store.
    pub target: T,
    /// What it does.
    pub plan: Plan,
    pub(super) rng: SmallRng,
    pub(super) value: Vec<u8>,
    /// The next value's version; threads count in ranges of their own.
    pub(super) version: u64,
    pub(super) recorder: Recorder,
    pub(super) done: Arc<Done>,
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
    /// Thread `index` of a run.
    pub fn new(target: T, plan: Plan, index: usize, done: Arc<Done>) -> Self {
        // Versions of another run differ from this one's, so that a torn value cannot look whole.
        let run = u64::from(std::process::id()) << 32;
        Self {
            target,
            rng: SmallRng::from_os_rng(),
            value: vec![0; plan.value_bytes],
            version: run ^ ((index as u64) << 54),
            plan,
            recorder: Recorder::default(),
            done,
            outage: Outage::default(),
        }
    }

    /// Does its part of a phase.
    pub fn run(&mut self, phase: &Phase, work: Work) -> Part {
        self.recorder = Recorder::default();
        self.outage = Outage::default();
        phase.begin();
        let stats = self.target.stats();
        let cpu = thread_cpu_ns();
        let began = Instant::now();
        match work {
            Work::Sweep => closed_loop::sweep(self, phase),
            Work::Mix(mix) | Work::Endless(mix) if self.plan.pipeline == 1 => {
                closed_loop::run(self, phase, &mix, matches!(work, Work::Endless(_)));
            }
            Work::Mix(mix) | Work::Endless(mix) => {
                pipelined_loop::run(self, phase, &mix, matches!(work, Work::Endless(_)));
            }
        }
        Part {
            ended: Instant::now(),
            began,
            cpu_ns: thread_cpu_ns() - cpu,
            stats: stats_delta::since(stats, self.target.stats()),
            recorder: std::mem::take(&mut self.recorder),
            gave_up: self.outage.gave_up.take(),
        }
    }

    /// A record that exists, or `None` while there is none.
    #[inline]
    pub(super) fn choose(&mut self) -> Option<u64> {
        let mark = self.plan.acked.mark();
        (mark > 0).then(|| self.plan.chooser.next(mark, &mut self.rng))
    }

    /// Makes the next value of a record.
    #[inline]
    pub(super) fn make_value(&mut self, record: u64) {
        self.version += 1;
        value::fill(&mut self.value, record, self.version);
    }

    /// An operation came through.
    #[inline]
    pub(super) fn came_through(&mut self) {
        if self.outage.since.is_some() {
            self.outage = Outage::default();
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

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
