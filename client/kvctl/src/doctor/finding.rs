//! What the doctor says.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// It works, but slowly, or not for long.
    Warning,
    /// It does not work.
    Fault,
}

impl Level {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Fault => "FAULT",
        }
    }
}

/// What it is about; findings are printed in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    /// Devices, ports, GIDs, and which are used.
    Devices,
    /// Modules, Soft-RoCE, namespaces.
    Kernel,
    /// Locked memory, hugepages, NUMA, `/dev/shm`.
    Memory,
    /// The control plane and the way to the data plane.
    Server,
    /// Each verb once.
    Data,
}

impl Area {
    /// Its heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Devices => "RDMA devices",
            Self::Kernel => "Kernel",
            Self::Memory => "Memory",
            Self::Server => "Server",
            Self::Data => "Data plane, each verb once",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What it is about.
    pub area: Area,
    /// How bad it is.
    pub level: Level,
    /// A word for programs.
    pub code: &'static str,
    /// What was seen.
    pub what: String,
    /// What follows from it.
    pub means: String,
    /// The command that mends it, where there is something to mend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// All findings of a visit.
#[derive(Default, Debug)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// As it should be.
    pub fn ok(&mut self, area: Area, code: &'static str, what: impl Into<String>, means: impl Into<String>) {
        self.0.push(Finding { area, level: Level::Ok, code, what: what.into(), means: means.into(), mend: None });
    }

    /// Nothing to mend, but good to know.
    pub fn note(&mut self, area: Area, code: &'static str, what: impl Into<String>, means: impl Into<String>) {
        self.0.push(Finding { area, level: Level::Note, code, what: what.into(), means: means.into(), mend: None });
    }

    /// Something that a command mends.
    pub fn mend(
        &mut self,
        (area, level, code): (Area, Level, &'static str),
        what: impl Into<String>,
        means: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.0.push(Finding { area, level, code, what: what.into(), means: means.into(), mend: Some(mend.into()) });
    }

    /// In the order in which they are told.
    pub fn all(&self) -> impl Iterator<Item = &Finding> {
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by_key(|finding| finding.area);
        sorted.into_iter()
    }

    /// How many are this bad.
    pub fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.level == level).count()
    }

    /// The finding with this code.
    #[cfg(test)]
    pub fn find(&self, code: &str) -> Option<&Finding> {
        self.0.iter().find(|finding| finding.code == code)
    }
}
