//! `kv-bench fabric`: the raw verbs, with the operations built on them beside each, or alone as perftest has them.

mod alone;
mod ends;
mod operations;
mod responder;

use crate::cli::FabricArgs;
use crate::connect::Stop;
use crate::report::Report;

/// Runs the command.
pub fn command(args: &FabricArgs) -> Result<Report, Stop> {
    if args.alone { alone::command(args) } else { operations::command(args) }
}
