//! `kvctl doctor`
//!
//! ```text
//!   facts   what is there: sysfs, procfs, what libibverbs says       (root: a directory may stand for the machine)
//!   judge   from facts to findings: what it means, what mends it     (pure)
//!   server  the control plane, and the way to the data plane
//!   data    each verb once
//!   page    findings for people and programs
//! ```

mod data;
mod facts;
mod finding;
mod judge;
mod page;
mod server;

use crate::cli::Fabric;
use crate::context::Context;
use crate::failure::{Done, Failure, TROUBLE};
use crate::output::Output;
use clap::Args;
use facts::Root;
use finding::{Findings, Level};
use judge::Purpose;
use sidewire::local_address_towards;
use sidewire_common::fabric::selection::Wanted;
use sidewire_common::units::parse_bytes;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Memory of a server that is started without `--memory`.
const MEMORY_DEFAULT: u64 = 1 << 30;

const EXAMPLES: &str = "\
Examples:
  kvctl doctor                                   this machine
  kvctl doctor --address 10.0.0.5 --memory 64GiB --fabric verbs
                                                 as the host of a server
  kvctl doctor -s 10.0.0.5:7400                  and the way to a server, each verb once
  kvctl doctor --json | jq '.findings[] | select(.level == \"fault\")'

Each finding is ok, a note, a warning or a FAULT; what is not ok says what it means and which command mends it.
Without a server (-s or SIDEWIRE_SERVER) only this machine is looked at. With one, three keys that begin with
sidewire.doctor are written and deleted again.

Exit codes:
  0  no fault; there may be warnings
  2  wrong command line
  3  a fault";

/// Look for what keeps Sidewire from working here, and say what mends it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// The address that a server here would listen on: its device and GID are looked for.
    /// With a server: this machine's address on the way to it, unless set
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Memory of a server here, 1GiB unless set: is there enough, with hugepages and locked memory?
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Look at a copy of another machine's /sys, /proc, /dev and /etc instead of this machine
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl Doctor {
    pub fn run(self, context: &Context, output: &mut Output) -> Done<ExitCode> {
        if let Some(root) = &self.root
            && !root.is_dir()
        {
            return Err(Failure::usage(format!("--root {} is not a directory", root.display())));
        }
        // A copy of a machine cannot reach anybody.
        let server =
            context.globals().servers().first().copied().filter(|_| context.globals().names_server() && self.root.is_none());
        let limit = context.globals().timeout;
        let towards = server.map(|server| local_address_towards(server, limit)).transpose()?.flatten();
        let facts = facts::gather(&Root::new(self.root.as_deref()));
        let mut findings = Findings::default();
        let visits = server.map_or_else(Vec::new, |_| server::control(context, &mut findings));
        let fabric = match context.globals().fabric {
            Some(Fabric::Only(kind)) => Some(kind),
            _ => visits.first().and_then(|visit| visit.info.fabric.as_ref()?.kind.parse().ok()),
        };
        let wanted = Wanted {
            device: context.globals().device.as_deref(),
            address: self.address.or(towards),
            address_may_differ: self.address.is_none(),
        };
        let memory_bytes = self.memory.unwrap_or(MEMORY_DEFAULT);
        let purpose = Purpose { wanted, fabric, memory_bytes, memory_is_given: self.memory.is_some() };
        let choice = judge::machine(&facts, &purpose, &mut findings);
        for visit in &visits {
            server::way(visit, context, &mut findings);
        }
        page::print(&facts, choice.as_ref(), &findings, output)?;
        Ok(if findings.count(Level::Fault) == 0 { ExitCode::SUCCESS } else { ExitCode::from(TROUBLE) })
    }
}
