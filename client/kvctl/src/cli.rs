//! The command line: what holds for every command, and the list of commands.

use crate::{cluster, completions, counter, del, doctor, dump, exists, get, info, load, lock, put, scan, seq, shell};
use clap::{ArgAction, Args, Parser, Subcommand};
use sidewire_common::units;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use crate::escape;
use crate::failure::{Done, Failure};

/// The server when none is named.
const SERVER_DEFAULT: &str = "127.0.0.1:7400";
const EXAMPLES: &str = "\
Examples:
  kvctl put greeting 'hello world'
  kvctl get greeting
  kvctl counter create visits && kvctl counter add visits 5
  kvctl lock run nightly --wait 10s -- ./backup.sh
  kvctl load people.csv --key-column email --value-column name
  kvctl -s 10.0.0.7:7400 info
  kvctl doctor

Exit codes:
  0  done
  1  no such key, a condition that does not hold, lines that were refused
  2  wrong command line, or a key or value that can never be stored
  3  trouble with the server, the fabric or this machine
`lock run` passes on the exit code of its command.";

/// Command line of Sidewire, a key-value store whose clients read the server's memory themselves.
#[derive(Parser, Debug)]
#[command(name = "kvctl", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub globals: Globals,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Options of every command")]
pub struct Globals {
    /// The server, or some of a cluster's, as host:port with commas between them; 127.0.0.1:7400 unless set
    #[arg(short, long, global = true, env = "SIDEWIRE_SERVER", value_name = "ADDR", value_delimiter = ',')]
    server: Vec<String>,
    /// Results as JSON on standard output, errors as one JSON object on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Give up an operation after this long
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s", value_parser = positive_duration)]
    pub timeout: Duration,
    /// Insist on a fabric (verbs or shm) instead of taking the one the server runs
    #[arg(long, global = true, value_name = "FABRIC", value_parser = fabric)]
    pub fabric: Option<Fabric>,
    /// The RDMA device to use, for example rxe0 or mlx5_0
    #[arg(long, global = true, value_name = "NAME")]
    pub device: Option<String>,
    /// Log to standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

impl Globals {
    /// The servers to talk to.
    pub fn servers(&self) -> Vec<&str> {
        match &self.server[..] {
            [] => vec![SERVER_DEFAULT],
            named => named.iter().map(String::as_str).collect(),
        }
    }

    /// The same for people.
    pub fn server(&self) -> String {
        self.servers().join(",")
    }

    /// Whether the user named any.
    pub fn names_server(&self) -> bool {
        !self.server.is_empty()
    }
}

/// All commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    Put(put::Put),
    Get(get::Get),
    Del(del::Del),
    Exists(exists::Exists),
    Counter(counter::Counter),
    Seq(seq::Seq),
    Lock(lock::Lock),
    Scan(scan::Scan),
    Load(load::Load),
    Dump(dump::Dump),
    Info(info::Info),
    Cluster(cluster::Cluster),
    Doctor(doctor::Doctor),
    Shell(shell::Shell),
    Completions(completions::Completions),
}

/// A fabric that was asked for; `auto` takes the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// The one the server runs.
    Auto,
    /// This one or none.
    Only(sidewire::FabricKind),
}

fn fabric(text: &str) -> Result<Fabric, String> {
    match text {
        "auto" => Ok(Fabric::Auto),
        "verbs" => Ok(Fabric::Only(sidewire::FabricKind::Verbs)),
        "shm" => Ok(Fabric::Only(sidewire::FabricKind::Shm)),
        _ => Err("known are auto, verbs and shm".into()),
    }
}

/// A duration that is more than nothing.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be more than zero".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

/// A key on the command line.
#[derive(Args, Debug)]
pub struct Key {
    /// The key, 1 to 4096 bytes
    #[arg(value_name = "KEY")]
    key: OsString,
    /// KEY is written in hexadecimal, for keys that a command line cannot hold
    #[arg(long)]
    key_hex: bool,
}

impl Key {
    /// Its bytes.
    pub fn bytes(&self) -> Done<Vec<u8>> {
        let raw = self.key.as_bytes();
        let bytes = if self.key_hex {
            escape::parse_hex(raw).map_err(|_| {
                Failure::usage(format!("`{}` is not hexadecimal: two digits a byte, for example 00ff", escape::escape(raw)))
            })?
        } else {
            self.key.clone().into_vec()
        };
        sidewire_common::key::check(&bytes).map_err(Failure::usage)?;
        Ok(bytes)
    }
}
