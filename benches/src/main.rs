//! Load generator of Sidewire: YCSB's workloads, with the raw fabric beside every figure.
//!
//! ```text
//!   cli       flags                         workload, properties    what a run does
//!   fabric    raw verbs beside operations   key_chooser, key_format which record, its key
//!   load      records, readers meanwhile    value                   self-describing values
//!   run       phases: warm-up, measured     acked                   which records exist
//!     └ drive   one thread = one session; closed or pipelined loop, all begin together
//!         └ target   the store under load
//!   recorder, failure, server_cost, baseline → report → table, JSON, expectations
//! ```

mod acked;
mod baseline;
mod cli;
mod connect;
mod drive;
mod environment;
mod expect;
mod fabric;
mod failure;
mod key_chooser;
mod key_format;
mod load;
mod output;
mod progress;
mod properties;
mod recorder;
mod report;
mod run;
mod server_cost;
mod table;
mod target;
mod value;
mod workload;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use connect::Stop;
use output::Verdict;

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
    let common = command.common();
    output::prepare(common)?;
    let report = match command {
        Command::Fabric(args) => fabric::command(args),
        Command::Load(args) => load::command(args),
        Command::Run(args) => run::command(args),
    };
    output::publish(&report?, common)
}
