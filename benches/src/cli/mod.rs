//! The command line.

mod parse;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sidewire_common::fabric::FabricKind;

use crate::expect::Expectation;
use parse::{bytes, count, duration, fabric};
pub use run::{CompareArgs, LoadArgs, Records, RunArgs, SweepRates, Warmup};

const EXAMPLES: &str = "\
Examples:
  kv-bench load --records 1M --value-size 64
  kv-bench run --workload c --records 1M --duration 10s --warmup sweep --threads 2
  kv-bench run --workload a --load --operations 1M --pipeline 16 --json a.json
  kv-bench run --workload workloads/workloada -p recordcount=1000000 -p requestdistribution=hotspot
  kv-bench run --workload b --rate 200k --arrival poisson --interim 1s --duration 30s
  kv-bench run --workload c --rate-sweep auto --threads 2
  kv-bench run --workload a --clients 4 --threads 2
  kv-bench run --workload c -p readproportion=0 -p counteraddproportion=0.9 -p lockproportion=0.1
  kv-bench compare --target kv://127.0.0.1:7400 --target redis+unix:///run/redis.sock --workload c --load
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
    /// Run the same workload on several stores in turn, in interleaved rounds, and put them beside each other
    Compare(CompareArgs),
}

impl Command {
    /// The flags that all commands have.
    pub fn common(&self) -> &Common {
        match self {
            Self::Fabric(args) => &args.common,
            Self::Load(args) => &args.common,
            Self::Run(args) => &args.common,
            Self::Compare(args) => &args.run.common,
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
