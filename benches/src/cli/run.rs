//! The flags of `load`, `run` and `compare`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::Common;
use super::parse::{bytes, count, duration, location_cache, on_off, part, property, rate, speed, sweep, theta, warmup};
use crate::distribution::Distribution;
use crate::pacer::Arrival;
use crate::target::TargetUrl;

/// What records look like, and who stores and asks for them.
#[derive(Debug, Args)]
pub struct Records {
    /// Records: the keys that exist when a run begins [default: the workload file's, else 100k]
    #[arg(long, value_parser = count, value_name = "COUNT")]
    pub records: Option<u64>,
    /// Bytes of a key [default: the preset's, else 16]
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    pub key_size: Option<u64>,
    /// Bytes of a value [default: the workload file's, else 64]
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    pub value_size: Option<u64>,
    /// Threads, each with a session of its own [default: the workload file's, else 1]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// The store: kv://HOST:PORT, redis://HOST:PORT, redis+unix://SOCKET, memcached://HOST:PORT,
    /// memcached+unix://SOCKET, lmdb:FOLDER, or null: for the generator's own cost [default: kv:// at --server]
    #[arg(long = "target", value_name = "URL")]
    pub targets: Vec<TargetUrl>,
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
    #[arg(short, long, value_name = "LETTER|FILE", required_unless_present = "preset")]
    pub workload: Option<String>,
    /// The shape of a production cluster instead: key and value size, mix, TTLs and Zipf's exponent from published
    /// statistics; twitter:1 to twitter:54
    #[arg(long, value_name = "twitter:NN", conflicts_with = "workload")]
    pub preset: Option<String>,
    /// A property over those of the workload, named as YCSB names it; may be given more than once. Our own are
    /// counteraddproportion, lockproportion, multigetproportion, multigetsize, deleteproportion, countercount,
    /// lockcount and zipfiantheta
    #[arg(short = 'p', long = "property", value_parser = property, value_name = "NAME=VALUE")]
    pub properties: Vec<(String, String)>,
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
    /// Begin this many operations per second, however slow answers are (open loop); latency counts from the
    /// intended start [default: the workload file's `target`, else a closed loop]
    #[arg(long, value_parser = rate, value_name = "OPS/S")]
    pub rate: Option<f64>,
    /// How starts are spread over time
    #[arg(long, default_value = "poisson")]
    pub arrival: Arrival,
    /// After the run, measure these rates one after the other and find the knee: `auto` takes tenths of what the run
    /// reached, or write rates with commas between them
    #[arg(long, value_parser = sweep, value_name = "auto|RATE,RATE...")]
    pub rate_sweep: Option<SweepRates>,
    /// Time for each rate of a sweep
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "TIME")]
    pub sweep_time: Duration,
    /// Write a line to stderr each time this has passed
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub interim: Option<Duration>,
    /// Processes that work together, each with so many threads
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64), value_name = "COUNT")]
    pub clients: u16,
    /// Counters that are added to, where the mix adds [default: the workload file's `countercount`, else 256]
    #[arg(long, value_parser = count, value_name = "COUNT")]
    pub counters: Option<u64>,
    /// Locks that are taken, where the mix locks [default: the workload file's `lockcount`, else 256]
    #[arg(long, value_parser = count, value_name = "COUNT")]
    pub locks: Option<u64>,
    /// Values go away by themselves after this time; absent records are then no failure
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub ttl: Option<Duration>,
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
    /// This process among those that work together; set by `--clients`
    #[arg(long, hide = true, value_parser = part)]
    pub part: Option<(u16, u16)>,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub records: Records,
    /// The trace: lines of time, key, key size, value size, client, operation, TTL; plain or zstd
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,
    /// Keep the trace's own clock, so many times faster; latency counts from the intended start
    /// [default: as fast as it goes]
    #[arg(long, value_parser = speed, value_name = "FACTOR")]
    pub speed: Option<f64>,
    /// Requests to replay at most
    #[arg(long, value_parser = count, value_name = "COUNT")]
    pub operations: Option<u64>,
    /// Time to replay at most
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// Write a line to stderr each time this has passed
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub interim: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Rounds; each measures every target once, for --duration or --operations
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..=99))]
    pub rounds: u16,
}

/// What runs before the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    Time(Duration),
    Operations(u64),
    Sweep,
}

/// Which rates a sweep takes.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepRates {
    /// Tenths of what a closed loop reached, up to a little more than all.
    Auto,
    /// These, ascending.
    These(Vec<f64>),
}
