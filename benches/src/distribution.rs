//! How records are chosen, by name, and the figures that shape it.

use serde::{Deserialize, Serialize};

/// How records are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Each record as often as any other.
    Uniform,
    /// A few records most of the time, spread over the key space.
    Zipfian,
    /// The records inserted last most of the time.
    Latest,
    /// A share of the records takes a share of the operations.
    Hotspot,
    /// One record after the other.
    Sequential,
    /// Frequency falls exponentially with age.
    Exponential,
}

impl Distribution {
    /// All of them, with their names in workload files.
    pub const ALL: [(&'static str, Self); 6] = [
        ("uniform", Self::Uniform),
        ("zipfian", Self::Zipfian),
        ("latest", Self::Latest),
        ("hotspot", Self::Hotspot),
        ("sequential", Self::Sequential),
        ("exponential", Self::Exponential),
    ];

    /// Whether Zipf's exponent shapes it.
    pub const fn has_theta(self) -> bool {
        matches!(self, Self::Zipfian | Self::Latest)
    }
}

/// The figures that shape distributions; the defaults are YCSB's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Exponent of zipfian and latest.
    pub theta: f64,
    /// Share of the records that is hot.
    pub hot_data: f64,
    /// Share of the operations that take hot records.
    pub hot_operations: f64,
    /// This percentile of an exponential distribution ...
    pub exponential_percentile: f64,
    /// ... lies at this share of the records.
    pub exponential_share: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { theta: 0.99, hot_data: 0.2, hot_operations: 0.8, exponential_percentile: 95.0, exponential_share: 6.0 / 7.0 }
    }
}
