//! The command line.

mod parse;
mod run;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sidewire_common::fabric::FabricKind;

use crate::expect::Expectation;
use parse::{bytes, count, duration, fabric, on_off};
pub use run::{CompareArgs, LoadArgs, Records, ReplayArgs, RunArgs, SweepRates, Warmup};

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
  kv-bench run --preset twitter:6 --records 1M --load --duration 30s
  kv-bench replay cluster006.sort.zst --threads 2 --speed 100
  kv-bench run --workload a --rate-sweep auto --html a.html --json a.json
  kv-bench report before.json after.json --html both.html
  kv-bench fabric --size 64 --size 1KiB --iterations 20000
  kv-bench fabric --alone --fabric verbs --address 10.0.0.1 --size 64 --depth 128 --qps 4
  kv-bench connections --step 1,10,100,500
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
    /// Measure the raw verbs on the library's own connections, and the operations built on them beside each; or, with
    /// --alone, the verbs between two ends of this program, as perftest does
    Fabric(FabricArgs),
    /// Measure what a session of one process costs, in time and memory, as there are more and more of them
    Connections(ConnectionsArgs),
    /// Store the records that `run` works on
    Load(LoadArgs),
    /// Run a workload of YCSB on the records that `load` stored
    Run(RunArgs),
    /// Replay a trace in the seven-column format of the published cache traces
    Replay(ReplayArgs),
    /// Put reports that `--json` wrote beside each other
    Report(ReportArgs),
    /// Run the same workload on several stores in turn, in interleaved rounds, and put them beside each other
    Compare(CompareArgs),
}

impl Command {
    /// The flags that all commands have which measure.
    pub fn common(&self) -> Option<&Common> {
        Some(match self {
            Self::Fabric(args) => &args.common,
            Self::Connections(args) => &args.common,
            Self::Load(args) => &args.common,
            Self::Run(args) => &args.common,
            Self::Compare(args) => &args.run.common,
            Self::Replay(args) => &args.common,
            Self::Report(_) => return None,
        })
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
    /// Let writes that wait together share a message
    #[arg(long, default_value = "on", value_name = "on|off", value_parser = on_off, action = clap::ArgAction::Set)]
    pub pack: bool,
    /// Write the report as JSON; `-` is stdout, and the table goes to stderr then
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the figures as CSV; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write one page with plots and tables that needs nothing else; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Exit with 1 unless this holds of a figure in the JSON report; may be given more than once
    #[arg(long, value_name = "FIGURE<=NUMBER")]
    pub expect: Vec<Expectation>,
}

/// `None` takes the fabric that the server runs.
#[derive(Debug, Clone, Copy)]
pub struct FabricWish(pub Option<FabricKind>);

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Reports in JSON; ratios are to the first
    #[arg(required = true, value_name = "FILE.json")]
    pub reports: Vec<PathBuf>,
    /// Write one page with plots and tables that needs nothing else; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
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
    /// Without a server: read, write, send and atomics between two ends of this program, latency one at a time and
    /// bandwidth with --depth in flight on each of --qps queue pairs, as perftest measures them
    #[arg(long)]
    pub alone: bool,
    /// Queue pairs, with --alone
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64), value_name = "COUNT")]
    pub qps: u16,
    /// How both ends wait, with --alone
    #[arg(long, default_value = "poll", value_name = "poll|event")]
    pub wait: WaitMode,
    /// The address whose device is used, with --alone
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDR")]
    pub address: IpAddr,
}

#[derive(Debug, Args)]
pub struct ConnectionsArgs {
    #[command(flatten)]
    pub common: Common,
    /// Sessions to have open at each step, rising
    #[arg(long = "step", value_delimiter = ',', default_values = ["1", "10", "50", "100", "200", "500"], value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub steps: Vec<u32>,
    /// Gets at each step, each on the session after the one before
    #[arg(long, default_value = "20000", value_parser = count, value_name = "COUNT")]
    pub gets: u64,
}

/// How completions are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WaitMode {
    /// A busy loop.
    Poll,
    /// Sleep until the completion channel wakes.
    Event,
}
