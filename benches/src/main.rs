//! Load generator of Sidewire: YCSB's workloads, with the raw fabric and other stores beside every figure.
//!
//! ```text
//!   cli       flags                         workload, properties    what a run does, in YCSB's words
//!   fabric    raw verbs beside operations   mix, distribution, ttl, value_size
//!   connections  sessions, more and more
//!   load      records, readers meanwhile    key_chooser, key_format which record, its key
//!   run       phases: warm-up, measured     value                   self-describing values
//!   replay    the requests of a trace       preset                  shapes of production
//!   compare   rounds over several stores    acked, numbering        which records exist, across processes
//!     └ settings → bench: a store that is opened, loaded, warmed up, measured
//!         └ force   threads of this process, or processes that work together
//!             └ drive   one thread = one session; closed or pipelined loop, at a rate (pacer) or as fast as it goes
//!                 └ target   the store under load: Sidewire, Redis, memcached, LMDB, nothing
//!   recorder, failure, server_cost, baseline, sweep → report → table, JSON, csv, page, expectations; beside: several
//! ```

mod acked;
mod baseline;
mod bench;
mod beside;
mod cli;
mod compare;
mod connect;
mod connections;
mod csv;
mod distribution;
mod drive;
mod environment;
mod expect;
mod fabric;
mod failure;
mod force;
mod key_chooser;
mod key_format;
mod load;
mod mix;
mod numbering;
mod output;
mod pacer;
mod page;
mod preset;
mod progress;
mod properties;
mod recorder;
mod replay;
mod report;
mod run;
mod server_cost;
mod settings;
mod sweep;
mod table;
mod target;
mod ttl;
mod value;
mod value_size;
mod workload;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use connect::Stop;
use output::Verdict;
use report::Report;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
    let verdict = run(&cli.command);
    match verdict {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Unmet) => ExitCode::from(1),
        Ok(Verdict::Failed) => ExitCode::from(3),
        Err(stop) => {
            eprintln!("kv-bench: {stop}");
            ExitCode::from(if matches!(stop, Stop::Usage(_)) { 2 } else { 3 })
        }
    }
}

fn run(command: &Command) -> Result<Verdict, Stop> {
    if let Command::Run(args) = command
        && args.part.is_some()
    {
        return run::part(args).map(|()| Verdict::Good);
    }
    let report = match command {
        Command::Report(args) => return beside::command(args),
        _ => command.common().map_or(Ok(()), output::prepare).and_then(|()| measure(command)),
    };
    match (report?, command.common()) {
        (Some(report), Some(common)) => output::publish(&report, common),
        _ => Ok(Verdict::Good),
    }
}

fn measure(command: &Command) -> Result<Option<Report>, Stop> {
    match command {
        Command::Fabric(args) => fabric::command(args),
        Command::Connections(args) => connections::command(args),
        Command::Load(args) => load::command(args),
        Command::Run(args) => run::command(args),
        Command::Compare(args) => compare::command(args),
        Command::Replay(args) => replay::command(args),
        Command::Report(_) => return Ok(None),
    }
    .map(Some)
}
