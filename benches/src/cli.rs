//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sidewire_common::fabric::FabricKind;
use sidewire_common::units::{parse_bytes, parse_duration};

use crate::expect::Expectation;
use crate::workload::Distribution;

const EXAMPLES: &str = "\
Examples:
  kv-bench load --records 1M --value-size 64
  kv-bench run --workload c --records 1M --duration 10s --warmup sweep --threads 2
  kv-bench run --workload a --load --operations 1M --pipeline 16 --json a.json
  kv-bench fabric --size 64 --size 1KiB --iterations 20000
  kv-bench run --workload c --expect 'reads_per_get<=1.05'

Exit codes: 0 all well, 1 an expectation was not met, 2 wrong usage, 3 operations failed or the server or fabric did.";

/// Load generator of Sidewire: YCSB's workloads, with the raw fabric beside every figure.
#[derive(Debug, Parser)]
#[command(name = "kv-bench", version, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the raw verbs on the library's own connections, and the operations built on them beside each
    Fabric(FabricArgs),
    /// Store the records that `run` works on
    Load(LoadArgs),
    /// Run a workload of YCSB on the records that `load` stored
    Run(RunArgs),
}

impl Command {
    /// The flags that all commands have.
    pub fn common(&self) -> &Common {
        match self {
            Self::Fabric(args) => &args.common,
            Self::Load(args) => &args.common,
            Self::Run(args) => &args.common,
        }
    }
}

/// Which server, and what is made of the figures.
#[derive(Debug, Args)]
pub struct Common {
    /// The server: host:port
    #[arg(short, long, env = "SIDEWIRE_SERVER", default_value = "127.0.0.1:7400", value_name = "ADDR")]
    pub server: String,
    /// Refuse any other fabric than this one
    #[arg(long, default_value = "auto", value_name = "auto|verbs|shm", value_parser = fabric)]
    pub fabric: FabricWish,
    /// The RDMA device to use [default: the one that carries the address towards the server]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// How long one operation may take
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "TIME")]
    pub deadline: Duration,
    /// How long an operation polls before it sleeps [default: the library's]
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub spin: Option<Duration>,
    /// Write the report as JSON; `-` is stdout, and the table goes to stderr then
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Exit with 1 unless this holds of a figure in the JSON report; may be given more than once
    #[arg(long, value_name = "FIGURE<=NUMBER")]
    pub expect: Vec<Expectation>,
}

/// `None` takes the fabric that the server runs.
#[derive(Debug, Clone, Copy)]
pub struct FabricWish(pub Option<FabricKind>);

/// What records look like, and who stores and asks for them.
#[derive(Debug, Args)]
pub struct Records {
    /// Records: the keys that exist when a run begins [default: the workload file's, else 100k]
    #[arg(long, value_parser = count, value_name = "COUNT")]
    pub records: Option<u64>,
    /// Bytes of a key
    #[arg(long, default_value = "16", value_parser = bytes, value_name = "SIZE")]
    pub key_size: u64,
    /// Bytes of a value [default: the workload file's, else 64]
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    pub value_size: Option<u64>,
    /// Threads, each with a session of its own
    #[arg(short, long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Entries of the cache of locations, or `off` [default: the library's]
    #[arg(long, value_parser = location_cache, value_name = "COUNT|off")]
    pub location_cache: Option<u64>,
    /// Check of every value that is read whose it is and that it is whole
    #[arg(long, default_value = "on", value_name = "on|off", value_parser = on_off, action = clap::ArgAction::Set)]
    pub verify: bool,
}

#[derive(Debug, Args)]
pub struct LoadArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub records: Records,
    /// Inserts that each thread keeps in flight
    #[arg(long, default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "COUNT")]
    pub pipeline: u16,
    /// Threads that read random stored records meanwhile; a record that is reported absent is a failure
    #[arg(long, default_value = "0", value_parser = clap::value_parser!(u16).range(0..=128), value_name = "COUNT")]
    pub readers: u16,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub records: Records,
    /// a, b, c, d, f of YCSB, or a property file as YCSB has them
    #[arg(short, long, value_name = "LETTER|FILE")]
    pub workload: String,
    /// Operations to measure, of all threads together [default: no limit if --duration is given, else the workload file's]
    #[arg(long, value_parser = count, value_name = "COUNT")]
    pub operations: Option<u64>,
    /// Time to measure [default: 10s if --operations is not given either]
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// What runs before the measured window: a time, a count of operations, or `sweep`: every record is read once
    #[arg(long, default_value = "1s", value_parser = warmup, value_name = "TIME|COUNT|sweep")]
    pub warmup: Warmup,
    /// Operations that each thread keeps in flight; 1 waits for each
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "COUNT")]
    pub pipeline: u16,
    /// How records are chosen [default: the workload file's]
    #[arg(long)]
    pub distribution: Option<Distribution>,
    /// Exponent of zipfian and latest [default: the workload file's, else 0.99]
    #[arg(long, value_parser = theta)]
    pub theta: Option<f64>,
    /// Store the records first
    #[arg(long)]
    pub load: bool,
    /// Leave out the measurement of the raw verbs after the run
    #[arg(long)]
    pub no_raw: bool,
}

#[derive(Debug, Args)]
pub struct FabricArgs {
    #[command(flatten)]
    pub common: Common,
    /// Bytes of a message or value; may be given more than once
    #[arg(long = "size", default_values = ["64"], value_parser = bytes, value_name = "SIZE")]
    pub sizes: Vec<u64>,
    /// Operations of each kind in each round
    #[arg(long, default_value = "20000", value_parser = count, value_name = "COUNT")]
    pub iterations: u64,
    /// Rounds; each measures every kind once, and the median round is reported
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u16).range(1..=999))]
    pub rounds: u16,
    /// Reads that one doorbell posts, for the rate
    #[arg(long, default_value = "16", value_parser = clap::value_parser!(u16).range(1..=128))]
    pub depth: u16,
}

/// What runs before the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    Time(Duration),
    Operations(u64),
    Sweep,
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// `1000`, `1_000`, `100k`, `5M`: counts are decimal.
fn count(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let (digits, scale) = match plain.as_bytes().last() {
        Some(b'k' | b'K') => (&plain[..plain.len() - 1], 1_000),
        Some(b'm' | b'M') => (&plain[..plain.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&plain[..plain.len() - 1], 1_000_000_000),
        _ => (plain.as_str(), 1),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a count; write 1000, 100k or 5M"))?;
    match number.checked_mul(scale) {
        Some(0) => Err("a count is at least 1".into()),
        Some(count) => Ok(count),
        None => Err(format!("`{text}` is too large")),
    }
}

fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "sweep" {
        return Ok(Warmup::Sweep);
    }
    if text == "0" || text == "off" {
        return Ok(Warmup::Time(Duration::ZERO));
    }
    // `5m` is five minutes; `5M` is five million operations.
    if text.ends_with(['k', 'K', 'M', 'g', 'G']) || text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return count(text).map(Warmup::Operations);
    }
    duration(text).map(Warmup::Time)
}

fn location_cache(text: &str) -> Result<u64, String> {
    if text == "off" || text == "0" { Ok(0) } else { count(text) }
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".into()),
    }
}

fn theta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if theta > 0.0 && theta < 10.0 => Ok(theta),
        _ => Err("write a number above 0 and below 10".into()),
    }
}

fn fabric(text: &str) -> Result<FabricWish, String> {
    match text {
        "auto" => Ok(FabricWish(None)),
        "verbs" => Ok(FabricWish(Some(FabricKind::Verbs))),
        "shm" => Ok(FabricWish(Some(FabricKind::Shm))),
        _ => Err("write auto, verbs or shm".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn counts_and_warm_ups_read_as_written() {
        assert_eq!((count("5M"), count("100k"), count("1_000")), (Ok(5_000_000), Ok(100_000), Ok(1_000)));
        assert!(count("0").is_err() && count("").is_err() && count("-1").is_err() && count("many").is_err());
        assert_eq!(warmup("5m"), Ok(Warmup::Time(Duration::from_secs(300))));
        assert_eq!(warmup("5M"), Ok(Warmup::Operations(5_000_000)));
        assert_eq!((warmup("sweep"), warmup("0")), (Ok(Warmup::Sweep), Ok(Warmup::Time(Duration::ZERO))));
        assert_eq!((location_cache("off"), location_cache("4k")), (Ok(0), Ok(4_000)));
    }
}
