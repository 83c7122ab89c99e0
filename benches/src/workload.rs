//! What a run does: the mix of operations and how keys are chosen, from a YCSB workload file.

use std::path::Path;

use rand::Rng;
use rand::rngs::SmallRng;
use serde::Serialize;

use crate::properties::{Properties, PropertyError};

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Each record as often as any other.
    Uniform,
    /// A few records most of the time, spread over the key space.
    Zipfian,
    /// The records inserted last most of the time.
    Latest,
}

/// The kinds of operations that are timed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One Get.
    Read,
    /// One Put of a record that is there.
    Update,
    /// One Put of a record that is not there yet.
    Insert,
    /// One Get, and a Put of the same record.
    Rmw,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Read, Self::Update, Self::Insert, Self::Rmw];

    /// The kind's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Rmw => "rmw",
        }
    }
}

/// The shares of the kinds of operations, as thresholds of a 32-bit random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    read_below: u64,
    update_below: u64,
    insert_below: u64,
}

impl Mix {
    /// A mix of one kind.
    pub fn only(kind: Kind) -> Self {
        Self::new(Kind::ALL.map(|k| if k == kind { 1.0 } else { 0.0 }))
    }

    /// Shares in the order of [`Kind::ALL`]; their sum is taken as the whole, as YCSB does.
    fn new(shares: [f64; 4]) -> Self {
        let whole: f64 = shares.iter().sum();
        let scaled = |sum: f64| ((sum / whole) * (1u64 << 32) as f64).round() as u64;
        let [read, update, insert, _] = shares;
        Self { read_below: scaled(read), update_below: scaled(read + update), insert_below: scaled(read + update + insert) }
    }

    /// The next operation's kind.
    #[inline]
    pub fn next(&self, rng: &mut SmallRng) -> Kind {
        if self.read_below == 1 << 32 {
            return Kind::Read;
        }
        let drawn = u64::from(rng.random::<u32>());
        if drawn < self.read_below {
            Kind::Read
        } else if drawn < self.update_below {
            Kind::Update
        } else if drawn < self.insert_below {
            Kind::Insert
        } else {
            Kind::Rmw
        }
    }

    /// Whether records are added.
    pub fn inserts(&self) -> bool {
        self.insert_below > self.update_below
    }
}

/// A workload, as its file says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// `a` to `f`, or the file's name.
    pub name: String,
    /// The shares of the kinds.
    pub mix: Mix,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// Zipf's exponent, if the file names one.
    pub theta: Option<f64>,
    /// `recordcount`, if the file names one.
    pub records: Option<u64>,
    /// `operationcount`, if the file names one.
    pub operations: Option<u64>,
    /// `fieldcount` × `fieldlength`, if the file names one of them.
    pub value_bytes: Option<u64>,
    /// Properties in the file that mean nothing here.
    pub ignored: Vec<String>,
}

/// Why there is no such workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The file says something that is not understood.
    #[error("workload {name}: {cause}")]
    Property {
        /// The workload's name.
        name: String,
        /// What is wrong.
        cause: PropertyError,
    },
    /// Scans.
    #[error("workload {0} scans: scan is not offered until an ordered index exists")]
    Scan(String),
    /// No operation has a share.
    #[error("workload {0}: no operation has a share above 0")]
    Empty(String),
    /// Neither a letter nor a file.
    #[error("workload {name}: not one of a, b, c, d, e, f, and not a readable file ({cause})")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What reading it as a file said.
        cause: std::io::Error,
    },
}

const BUILT_IN: [(&str, &str); 6] = [
    ("a", include_str!("../workloads/workloada")),
    ("b", include_str!("../workloads/workloadb")),
    ("c", include_str!("../workloads/workloadc")),
    ("d", include_str!("../workloads/workloadd")),
    ("e", include_str!("../workloads/workloade")),
    ("f", include_str!("../workloads/workloadf")),
];

/// Properties that mean something here, or whose meaning holds anyway: values are always read and written whole.
const KNOWN: [&str; 16] = [
    "workload",
    "recordcount",
    "operationcount",
    "fieldcount",
    "fieldlength",
    "readproportion",
    "updateproportion",
    "insertproportion",
    "readmodifywriteproportion",
    "scanproportion",
    "requestdistribution",
    "zipfiantheta",
    "readallfields",
    "writeallfields",
    "maxscanlength",
    "scanlengthdistribution",
];

impl Workload {
    /// The built-in workload of that letter, or the file of that name.
    pub fn open(name: &str) -> Result<Self, WorkloadError> {
        let letter = name.to_ascii_lowercase();
        if let Some((name, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == letter) {
            return Self::parse(name, text);
        }
        let text = std::fs::read_to_string(name).map_err(|cause| WorkloadError::Unknown { name: name.into(), cause })?;
        let short = Path::new(name).file_name().map_or_else(|| name.into(), |file| file.to_string_lossy().into_owned());
        Self::parse(&short, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Self, WorkloadError> {
        let wrong = |cause| WorkloadError::Property { name: name.into(), cause };
        let file = Properties::parse(text).map_err(wrong)?;
        let share = |kind: &str| file.proportion(kind).map_err(wrong);
        if share("scanproportion")? > 0.0 {
            return Err(WorkloadError::Scan(name.into()));
        }
        let shares = [
            share("readproportion")?,
            share("updateproportion")?,
            share("insertproportion")?,
            share("readmodifywriteproportion")?,
        ];
        if shares.iter().sum::<f64>() <= 0.0 {
            return Err(WorkloadError::Empty(name.into()));
        }
        Ok(Self {
            name: name.into(),
            mix: Mix::new(shares),
            distribution: distribution(&file).map_err(wrong)?,
            theta: theta(&file).map_err(wrong)?,
            records: file.count("recordcount").map_err(wrong)?,
            operations: file.count("operationcount").map_err(wrong)?,
            value_bytes: value_bytes(&file).map_err(wrong)?,
            ignored: file.others(&KNOWN).map(str::to_owned).collect(),
        })
    }
}

fn distribution(file: &Properties) -> Result<Distribution, PropertyError> {
    match file.text("requestdistribution") {
        None | Some("uniform") => Ok(Distribution::Uniform),
        Some("zipfian") => Ok(Distribution::Zipfian),
        Some("latest") => Ok(Distribution::Latest),
        Some(_) => Err(file.refuse("requestdistribution", "one of uniform, zipfian, latest")),
    }
}

fn theta(file: &Properties) -> Result<Option<f64>, PropertyError> {
    const NAME: &str = "zipfiantheta";
    const WANTED: &str = "a number above 0 and below 10";
    let Some(text) = file.text(NAME) else { return Ok(None) };
    let theta: f64 = text.parse().map_err(|_| file.refuse(NAME, WANTED))?;
    if theta > 0.0 && theta < 10.0 { Ok(Some(theta)) } else { Err(file.refuse(NAME, WANTED)) }
}

fn value_bytes(file: &Properties) -> Result<Option<u64>, PropertyError> {
    let (fields, bytes) = (file.count("fieldcount")?, file.count("fieldlength")?);
    // YCSB's own defaults: 10 fields of 100 bytes.
    let product = fields.unwrap_or(10).checked_mul(bytes.unwrap_or(100));
    match (fields, bytes) {
        (None, None) => Ok(None),
        _ => product.map(Some).ok_or_else(|| file.refuse("fieldlength", "a size that fits 64 bits with fieldcount")),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn the_built_in_workloads_are_those_of_ycsb() {
        let open = |name| Workload::open(name).expect(name);
        assert_eq!(open("a").mix, Mix::new([0.5, 0.5, 0.0, 0.0]));
        assert_eq!(open("B").mix, Mix::new([0.95, 0.05, 0.0, 0.0]));
        assert_eq!(open("c").mix, Mix::only(Kind::Read));
        assert_eq!(open("d").mix, Mix::new([0.95, 0.0, 0.05, 0.0]));
        assert_eq!(open("d").distribution, Distribution::Latest);
        assert!(open("d").mix.inserts() && !open("a").mix.inserts());
        assert_eq!(open("f").mix, Mix::new([0.5, 0.0, 0.0, 0.5]));
        assert!(open("a").ignored.is_empty());
        assert!(matches!(Workload::open("e"), Err(WorkloadError::Scan(_))));
        assert!(matches!(Workload::open("g"), Err(WorkloadError::Unknown { .. })));
    }

    #[test]
    fn a_mix_is_drawn_in_its_shares() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mix = Mix::new([0.6, 0.2, 0.15, 0.05]);
        let mut counts = [0u32; 4];
        for _ in 0..100_000 {
            counts[mix.next(&mut rng) as usize] += 1;
        }
        for (count, share) in counts.iter().zip([0.6, 0.2, 0.15, 0.05]) {
            assert!((f64::from(*count) / 100_000.0 - share).abs() < 0.01, "{counts:?}");
        }
    }

    #[test]
    fn a_custom_file_brings_its_figures() {
        let text = "recordcount=7\noperationcount=9\nfieldlength=50\nreadproportion=1\ninsertorder=hashed\n";
        let workload = Workload::parse("mine", text).expect("it parses");
        assert_eq!((workload.records, workload.operations, workload.value_bytes), (Some(7), Some(9), Some(500)));
        assert_eq!(workload.distribution, Distribution::Uniform);
        assert_eq!(workload.ignored, ["insertorder"]);
        assert!(matches!(Workload::parse("mine", "recordcount=7"), Err(WorkloadError::Empty(_))));
        assert!(matches!(Workload::parse("mine", "readproportion=2"), Err(WorkloadError::Property { .. })));
        assert!(Workload::parse("mine", "readproportion=1\nrequestdistribution=hotspot").is_err());
    }
}
