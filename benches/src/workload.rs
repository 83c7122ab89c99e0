//! What a run does, from a YCSB workload file and the properties set over it.

use std::path::Path;

use crate::distribution::{Distribution, Shape};
use crate::mix::{Kind, Mix};
use crate::properties::{Properties, PropertyError};
use crate::value_size::{Histogram, HistogramError, Length, ValueSize};

/// Records that a multi-get asks for unless told otherwise.
pub const MULTI_GET_DEFAULT: u64 = 16;
/// And at most.
pub const MULTI_GET_MAX: u64 = 1_024;
/// YCSB's own defaults: 10 fields of 100 bytes.
const FIELDS_DEFAULT: u64 = 10;
const FIELD_BYTES_DEFAULT: u64 = 100;
const FIELD_BYTES_MAX: u64 = 1 << 30;

/// A workload, as its file says it.
#[derive(Debug, Clone)]
pub struct Workload {
    /// `a` to `f`, or the file's name.
    pub name: String,
    /// The shares of the kinds.
    pub mix: Mix,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// What shapes the choice.
    pub shape: Shape,
    /// `recordcount`, if the file names one.
    pub records: Option<u64>,
    /// `operationcount`, if the file names one.
    pub operations: Option<u64>,
    /// `threadcount`, if the file names one.
    pub threads: Option<u64>,
    /// `target`, operations per second, if the file names one.
    pub rate: Option<u64>,
    /// `maxexecutiontime`, seconds, if the file names one.
    pub seconds: Option<u64>,
    /// Lengths of values, if the file says anything of fields.
    pub values: Option<ValueSize>,
    /// `multigetsize`: records of a multi-get.
    pub multi_get: u64,
    /// `countercount` and `lockcount`, if the file names them.
    pub cells: [Option<u64>; 2],
    /// Properties that mean nothing here.
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
    /// The table of lengths.
    #[error("workload {name}: fieldlengthhistogram: {cause}")]
    Lengths {
        /// The workload's name.
        name: String,
        /// What is wrong.
        cause: HistogramError,
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

/// Properties that mean something here, or whose meaning holds anyway: values are always read and written whole, keys are
/// hashed, and values are always checked unless `--verify off`.
const KNOWN: [&str; 34] = [
    "workload",
    "recordcount",
    "operationcount",
    "threadcount",
    "target",
    "maxexecutiontime",
    "fieldcount",
    "fieldlength",
    "minfieldlength",
    "fieldlengthdistribution",
    "fieldlengthhistogram",
    "readproportion",
    "updateproportion",
    "insertproportion",
    "readmodifywriteproportion",
    "scanproportion",
    "counteraddproportion",
    "lockproportion",
    "multigetproportion",
    "multigetsize",
    "deleteproportion",
    "countercount",
    "lockcount",
    "requestdistribution",
    "zipfiantheta",
    "hotspotdatafraction",
    "hotspotopnfraction",
    "exponential.percentile",
    "exponential.frac",
    "readallfields",
    "writeallfields",
    "insertorder",
    "maxscanlength",
    "scanlengthdistribution",
];

impl Workload {
    /// The built-in workload of that letter, or the file of that name, with properties set over it.
    pub fn open(name: &str, over: &[(String, String)]) -> Result<Self, WorkloadError> {
        let letter = name.to_ascii_lowercase();
        if let Some((name, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == letter) {
            return Self::parse(name, text, over);
        }
        let text = std::fs::read_to_string(name).map_err(|cause| WorkloadError::Unknown { name: name.into(), cause })?;
        let short = Path::new(name).file_name().map_or_else(|| name.into(), |file| file.to_string_lossy().into_owned());
        Self::parse(&short, &text, over)
    }

    fn parse(name: &str, text: &str, over: &[(String, String)]) -> Result<Self, WorkloadError> {
        let wrong = |cause| WorkloadError::Property { name: name.into(), cause };
        let mut file = Properties::parse(text).map_err(wrong)?;
        for (property, value) in over {
            file.set(property, value);
        }
        if file.proportion("scanproportion").map_err(wrong)? > 0.0 {
            return Err(WorkloadError::Scan(name.into()));
        }
        Ok(Self {
            name: name.into(),
            mix: mix(&file).map_err(wrong)?.ok_or_else(|| WorkloadError::Empty(name.into()))?,
            values: values(name, &file)?,
            ..Self::figures(name, &file).map_err(wrong)?
        })
    }

    /// All that is plain numbers and words.
    fn figures(name: &str, file: &Properties) -> Result<Self, PropertyError> {
        let some = |name: &str| file.count(name).map(|count| count.filter(|count| *count > 0));
        let multi_get = file.count("multigetsize")?.unwrap_or(MULTI_GET_DEFAULT);
        if !(1..=MULTI_GET_MAX).contains(&multi_get) {
            return Err(file.refuse("multigetsize", "a number from 1 to 1024"));
        }
        Ok(Self {
            name: name.into(),
            mix: Mix::only(Kind::Read),
            distribution: distribution(file)?,
            shape: shape(file)?,
            records: some("recordcount")?,
            operations: some("operationcount")?,
            threads: some("threadcount")?,
            rate: some("target")?,
            seconds: some("maxexecutiontime")?,
            values: None,
            multi_get,
            cells: [some("countercount")?, some("lockcount")?],
            ignored: file.others(&KNOWN).map(str::to_owned).collect(),
        })
    }
}

fn mix(file: &Properties) -> Result<Option<Mix>, PropertyError> {
    let mut shares = [0.0; Kind::ALL.len()];
    for (share, kind) in shares.iter_mut().zip(Kind::ALL) {
        *share = file.proportion(kind.property())?;
    }
    Ok((shares.iter().sum::<f64>() > 0.0).then(|| Mix::new(shares)))
}

fn distribution(file: &Properties) -> Result<Distribution, PropertyError> {
    const NAME: &str = "requestdistribution";
    let Some(text) = file.text(NAME) else { return Ok(Distribution::Uniform) };
    let found = Distribution::ALL.iter().find(|(name, _)| *name == text);
    let wanted = "one of uniform, zipfian, latest, hotspot, sequential, exponential";
    found.map(|(_, distribution)| *distribution).ok_or_else(|| file.refuse(NAME, wanted))
}

fn shape(file: &Properties) -> Result<Shape, PropertyError> {
    let plain = Shape::default();
    let share = |name: &str, plain: f64| Ok(file.within(name, 0.0, 1.0, "a number from 0 to 1")?.unwrap_or(plain));
    let theta = file.within("zipfiantheta", 1e-6, 9.999, "a number above 0 and below 10")?;
    let percentile = file.within("exponential.percentile", 1.0, 99.999, "a number from 1 to 99.999")?;
    let tail = file.within("exponential.frac", 1e-6, 1.0, "a number above 0 and up to 1")?;
    Ok(Shape {
        theta: theta.unwrap_or(plain.theta),
        hot_data: share("hotspotdatafraction", plain.hot_data)?,
        hot_operations: share("hotspotopnfraction", plain.hot_operations)?,
        exponential_percentile: percentile.unwrap_or(plain.exponential_percentile),
        exponential_share: tail.unwrap_or(plain.exponential_share),
    })
}

fn values(name: &str, file: &Properties) -> Result<Option<ValueSize>, WorkloadError> {
    let wrong = |cause| WorkloadError::Property { name: name.into(), cause };
    let fields = file.count("fieldcount").map_err(wrong)?;
    let bytes = file.count("fieldlength").map_err(wrong)?;
    let least = file.count("minfieldlength").map_err(wrong)?.unwrap_or(1);
    let law = file.text("fieldlengthdistribution").unwrap_or("constant");
    if fields.is_none() && bytes.is_none() && law == "constant" {
        return Ok(None);
    }
    let (fields, bytes) = (fields.unwrap_or(FIELDS_DEFAULT), bytes.unwrap_or(FIELD_BYTES_DEFAULT));
    if bytes.checked_mul(fields).is_none_or(|all| all > FIELD_BYTES_MAX) {
        return Err(wrong(file.refuse("fieldlength", "a size of which fieldcount make at most 1 GiB")));
    }
    if law != "constant" && least > bytes {
        return Err(wrong(file.refuse("minfieldlength", "at most fieldlength")));
    }
    let length = match law {
        "constant" => Length::Constant(bytes),
        "uniform" => Length::Uniform(least, bytes),
        "zipfian" => Length::zipfian(least, bytes),
        "histogram" => {
            let path = file.text("fieldlengthhistogram").unwrap_or("hist.txt");
            let table = Histogram::open(path).map_err(|cause| WorkloadError::Lengths { name: name.into(), cause })?;
            Length::Histogram(table)
        }
        _ => return Err(wrong(file.refuse("fieldlengthdistribution", "one of constant, uniform, zipfian, histogram"))),
    };
    Ok(Some(ValueSize::of_fields(fields, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Workload, WorkloadError> {
        Workload::parse("mine", text, &[])
    }

    fn shares(of: &[(Kind, f64)]) -> Mix {
        Mix::new(Kind::ALL.map(|kind| of.iter().find(|(k, _)| *k == kind).map_or(0.0, |(_, share)| *share)))
    }

    #[test]
    fn the_built_in_workloads_are_those_of_ycsb() {
        let open = |name| Workload::open(name, &[]).expect(name);
        assert_eq!(open("a").mix, shares(&[(Kind::Read, 0.5), (Kind::Update, 0.5)]));
        assert_eq!(open("B").mix, shares(&[(Kind::Read, 0.95), (Kind::Update, 0.05)]));
        assert_eq!(open("c").mix, Mix::only(Kind::Read));
        assert_eq!(open("d").mix, shares(&[(Kind::Read, 0.95), (Kind::Insert, 0.05)]));
        assert_eq!(open("d").distribution, Distribution::Latest);
        assert!(open("d").mix.has(Kind::Insert) && !open("a").mix.has(Kind::Insert));
        assert_eq!(open("f").mix, shares(&[(Kind::Read, 0.5), (Kind::Rmw, 0.5)]));
        assert!(open("a").ignored.is_empty());
        assert!(matches!(Workload::open("e", &[]), Err(WorkloadError::Scan(_))));
        assert!(matches!(Workload::open("g", &[]), Err(WorkloadError::Unknown { .. })));
    }

    #[test]
    fn a_custom_file_brings_its_figures() {
        let text = "recordcount=7\noperationcount=9\nfieldlength=50\nreadproportion=1\ninsertorder=hashed\ndb.batchsize=1\n\
                    threadcount=3\ntarget=500\nmaxexecutiontime=20\n";
        let workload = parse(text).expect("it parses");
        assert_eq!((workload.records, workload.operations, workload.threads), (Some(7), Some(9), Some(3)));
        assert_eq!((workload.rate, workload.seconds), (Some(500), Some(20)));
        assert_eq!(workload.values.expect("it has some").max(), 500);
        assert_eq!(workload.distribution, Distribution::Uniform);
        assert_eq!(workload.ignored, ["db.batchsize"]);
        assert!(matches!(parse("recordcount=7"), Err(WorkloadError::Empty(_))));
        assert!(matches!(parse("readproportion=2"), Err(WorkloadError::Property { .. })));
        for wrong in [
            "requestdistribution=normal",
            "multigetsize=0",
            "hotspotdatafraction=2",
            "zipfiantheta=0",
            "fieldlengthdistribution=odd",
            "fieldlengthdistribution=uniform\nfieldlength=10\nminfieldlength=11",
            "fieldcount=99999999999\nfieldlength=99999999999",
            "fieldlengthdistribution=histogram\nfieldlengthhistogram=/nonexistent",
        ] {
            assert!(parse(&format!("readproportion=1\n{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn properties_of_the_command_line_stand_over_the_file() {
        let over = [("readproportion".to_owned(), "0".to_owned()), ("counteraddproportion".into(), "1".into())];
        let over =
            [&over[..], &[("updateproportion".into(), "0".into()), ("requestdistribution".into(), "hotspot".into())]].concat();
        let workload = Workload::open("a", &over).expect("it parses");
        assert_eq!((workload.mix, workload.distribution), (Mix::only(Kind::Add), Distribution::Hotspot));
    }
}
