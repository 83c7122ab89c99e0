//! Where workers run.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::str::FromStr;

/// Where workers run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Pinning {
    /// Worker n on core n, where the machine has more cores than workers; else wherever the kernel likes.
    #[default]
    Auto,
    /// Wherever the kernel likes.
    Off,
    /// Worker n on the n-th of these cores, counted round.
    Cores(Vec<u32>),
}

impl FromStr for Pinning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            list => {
                let cores = list.split(',').map(|core| core.trim().parse::<u32>());
                let cores = cores.collect::<Result<Vec<_>, _>>();
                let possible = |cores: &Vec<u32>| cores.iter().all(|&core| (core as usize) < CpuSet::MAX_CPU);
                cores.ok().filter(possible).map(Self::Cores).ok_or_else(|| {
                    format!("`{list}` is not auto, off or a list of cores such as 0,2 (each below {})", CpuSet::MAX_CPU)
                })
            }
        }
    }
}

impl Pinning {
    fn core_of(&self, worker: u32, workers: u32) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::Cores(cores) => cores.get(worker as usize % cores.len().max(1)).copied(),
            Self::Auto => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
                (cores > workers).then_some(worker)
            }
        }
    }

    /// Pins the calling thread. A core that cannot be had is told, not fatal.
    pub(super) fn apply(&self, worker: u32, workers: u32) {
        let Some(core) = self.core_of(worker, workers) else { return };
        let mut set = CpuSet::new();
        set.set(core as usize);
        if let Err(error) = sched_setaffinity(None, &set) {
            tracing::warn!(worker, core, %error, "worker is not pinned");
        }
    }
}
