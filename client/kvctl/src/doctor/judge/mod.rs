//! From facts to findings. Pure: the same facts are always judged the same way.

mod choice;
mod devices;
#[cfg(test)]
mod fake;
mod kernel;
mod limits;
mod memory;
#[cfg(test)]
mod tests;

pub use choice::Choice;

use super::facts::Facts;
use super::finding::{Findings, Level};
use sidewire::FabricKind;
use sidewire_common::fabric::selection::Wanted;

/// What the machine is to be fit for.
#[derive(Clone, Copy, Debug)]
pub struct Purpose<'a> {
    /// Device and address to be used.
    pub wanted: Wanted<'a>,
    /// The fabric that must work; `None`: whichever there is.
    pub fabric: Option<FabricKind>,
    /// Memory of a server here.
    pub memory_bytes: u64,
    /// Whether that was asked for, so that a lack of it is a fault.
    pub memory_is_given: bool,
}

impl Purpose<'_> {
    /// How bad it is that no device can be used.
    const fn without_device(&self, otherwise: Level) -> Level {
        if matches!(self.fabric, Some(FabricKind::Verbs)) || self.wanted.device.is_some() { Level::Fault } else { otherwise }
    }

    /// How bad it is that the memory cannot be had.
    const fn without_memory(&self) -> Level {
        if self.memory_is_given { Level::Fault } else { Level::Warning }
    }
}

/// Judges a machine; the device that would be used, if there is one.
pub fn machine(facts: &Facts, purpose: &Purpose<'_>, findings: &mut Findings) -> Option<Choice> {
    devices::judge(facts, purpose, findings);
    let choice = choice::judge(facts, purpose, findings);
    kernel::judge(facts, purpose, findings);
    memory::judge(&facts.memory, purpose, findings);
    limits::judge(&facts.limits, purpose, choice.is_some(), findings);
    choice
}
