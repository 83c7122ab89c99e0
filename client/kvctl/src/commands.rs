//! Every command by its name.

use crate::cli::Command;
use crate::context::Context;
use crate::failure::Done;
use crate::output::Output;
use std::process::ExitCode;

/// Carries out a command; the exit code is its own when it has one.
pub fn run(command: Command, context: &Context, output: &mut Output) -> Done<ExitCode> {
    match command {
        Command::Put(put) => put.run(context, output),
        Command::Get(get) => get.run(context, output),
        Command::Del(del) => del.run(context, output),
        Command::Exists(exists) => exists.run(context, output),
        Command::Counter(counter) => counter.run(context, output),
        Command::Seq(seq) => seq.run(context, output),
        Command::Scan(scan) => scan.run(context, output),
        Command::Load(load) => load.run(context, output),
        Command::Dump(dump) => dump.run(context, output),
        Command::Info(info) => info.run(context, output),
        Command::Cluster(cluster) => cluster.run(context, output),
        Command::Completions(completions) => completions.run(output),
        Command::Doctor(doctor) => return doctor.run(context, output),
        Command::Lock(lock) => return lock.run(context, output),
        Command::Shell(shell) => return shell.run(context, output),
    }
    .map(|()| ExitCode::SUCCESS)
}
