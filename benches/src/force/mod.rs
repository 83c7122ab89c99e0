//! Those who put a store under load: the threads of this process, or processes with threads of their own.

mod child;
mod parent;

use serde::{Deserialize, Serialize};

use crate::connect::Stop;
use crate::drive::{Crew, CrewError, Line, Measured, Order, Sent};
use crate::progress::Progress;
use crate::settings::Settings;
use crate::target::{Store, TargetUrl};
pub use child::{serve, tell};
use parent::Processes;

/// Threads or processes.
pub enum Force {
    /// Threads of this process.
    Threads(Crew),
    /// Processes.
    Processes(Processes),
}

/// What a process tells the one that started it, a line each.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Its sessions are open.
    Ready,
    /// So many operations of the phase have ended.
    Done(u64),
    /// What the phase brought.
    Measured(Box<Sent>),
    /// It cannot go on.
    Failed(String),
}

impl Force {
    /// Opens the sessions.
    pub fn raise(store: &dyn Store, settings: &Settings<'_>, target: &TargetUrl) -> Result<Self, Stop> {
        if settings.args.clients == 1 {
            return Ok(Self::Threads(store.crew(&settings.plan(target)?, settings.threads)?));
        }
        Ok(Self::Processes(Processes::start(settings.args.clients, target)?))
    }

    /// Runs a phase.
    pub fn run(&self, order: &Order, line: Option<Line>, progress: &Progress) -> Result<Measured, CrewError> {
        match self {
            Self::Threads(crew) => crew.run(order, line, progress),
            Self::Processes(processes) => processes.run(order, line, progress),
        }
    }
}
