//! What the doctor looks at: the kernel's files, and what devices say when they are opened. Nothing is judged here.

pub mod devices;
pub mod kernel;
pub mod limits;
pub mod memory;
pub mod root;

pub use devices::{Device, Gid, Port};
pub use kernel::{Availability, Kernel};
pub use limits::Limits;
pub use memory::{Hugepages, Memory};
pub use root::Root;

use sidewire_common::fabric::Surveyed;
use sidewire_common::memory::{HugepageMode, Mapping, Seals};

/// A machine, as it was found.
#[derive(Clone, Debug)]
pub struct Facts {
    pub devices: Vec<Device>,
    pub survey: Survey,
    pub kernel: Kernel,
    pub memory: Memory,
    pub limits: Limits,
}

/// What libibverbs says.
#[derive(Clone, Debug)]
pub enum Survey {
    /// Every device it knows.
    Devices(Vec<Surveyed>),
    /// It has none to tell of, and why.
    Failed(String),
    /// It was not asked: a copy of a machine is looked at.
    NotAsked,
}

impl Survey {
    /// What it says of a device.
    pub fn of(&self, name: &str) -> Option<&Surveyed> {
        match self {
            Self::Devices(devices) => devices.iter().find(|device| device.name == name),
            Self::Failed(_) | Self::NotAsked => None,
        }
    }
}

/// Looks at the machine below `root`.
pub fn gather(root: &Root) -> Facts {
    let survey = match root.is_live().then(sidewire_common::fabric::survey) {
        None => Survey::NotAsked,
        Some(Ok(devices)) => Survey::Devices(devices),
        Some(Err(error)) => Survey::Failed(error.to_string()),
    };
    let mut memory = memory::read(root);
    if root.is_live() {
        let made = Mapping::memfd("doctor", 1, HugepageMode::Off, Seals::ReadOnly);
        memory.memfd_trouble = made.err().map(|error| error.to_string());
    }
    Facts { devices: devices::read(root), survey, kernel: kernel::read(root), memory, limits: limits::read(root) }
}
