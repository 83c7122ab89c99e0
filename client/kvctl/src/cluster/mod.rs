//! `kvctl cluster`
//!
//! ```text
//!   report  what a map comes to: shards by member, shards that lack copies        (pure)
//!   page    for people and programs
//! ```

mod page;
mod report;

use crate::cli::positive_duration;
use crate::context::Context;
use crate::failure::{Done, Failure, NOT_DONE, TROUBLE};
use crate::output::{Output, Style, note};
use clap::{Args, Subcommand};
use report::Report;
use serde_json::json;
use sidewire::v1::StatusReply;
use sidewire::v1::change_node_request::Change;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a cluster that moves is looked at.
const LOOK: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  kvctl cluster status
  kvctl --json cluster status | jq .lacking
  kvctl cluster map                        which member has which shard
  kvctl cluster add d                      wait until a server that was started as node d has its share
  kvctl cluster drain b && systemctl stop kv-server@b
  kvctl cluster undrain b
  kvctl cluster rebalance a=200 b=100      give a twice the share of b, and wait

Any server of the cluster can be asked (-s). A drained node keeps answering until its last shard is elsewhere.

Exit codes: 0 done, 1 not within --wait, 2 wrong command line, 3 no such node, no cluster, or trouble with it.";

/// The cluster: members, shards, and who takes part
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Cluster {
    #[command(subcommand)]
    action: Action,
}

#[derive(Args, Debug)]
struct Wait {
    /// Give up waiting after this long; what was begun goes on
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = positive_duration)]
    wait: Duration,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Members, their shards, and what is not as it should be
    Status,
    /// Every shard with its primary, backups and reign
    Map,
    /// Wait until a server that was started as NODE has its share of the shards
    Add {
        /// Its name
        node: String,
        #[command(flatten)]
        wait: Wait,
    },
    /// Hand all shards of a node to others, and wait until it is empty
    Drain {
        /// Its name
        node: String,
        #[command(flatten)]
        wait: Wait,
    },
    /// Let a drained node have shards again
    Undrain {
        /// Its name
        node: String,
    },
    /// Change nodes' weights, if any are given, and wait until all shards are where they should be
    Rebalance {
        /// Names and weights, 1 to 1000 each
        #[arg(value_name = "NODE=WEIGHT", value_parser = node_weight)]
        weights: Vec<(String, u32)>,
        #[command(flatten)]
        wait: Wait,
    },
}

fn node_weight(text: &str) -> Result<(String, u32), String> {
    let (node, weight) = text.split_once('=').ok_or("must be NODE=WEIGHT")?;
    let weight = weight.parse().map_err(|_| "the weight must be a whole number")?;
    Ok((node.into(), weight))
}

impl Cluster {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        match self.action {
            Action::Status => {
                let report = look(context)?;
                match output.style() {
                    Style::Text => output.bytes(page::status(&report).as_bytes()),
                    _ => output.line(page::status_json(&report)),
                }
            }
            Action::Map => {
                let report = look(context)?;
                match output.style() {
                    Style::Text => output.bytes(page::map(&report).as_bytes()),
                    _ => output.line(page::map_json(&report)),
                }
            }
            Action::Add { node, wait } => {
                let is_there = |r: &Report| r.settled && r.members.iter().any(|m| m.name == node && m.is_live);
                let missing =
                    format!("node {node} has not its share: was it started with --node {node} and this cluster's --etcd?");
                until(context, wait.wait, is_there, &missing)?;
                done(output, &node, "added")
            }
            Action::Drain { node, wait } => {
                context.any_admin()?.change_node(&node, Change::Draining(true))?;
                let is_empty = |r: &Report| r.members.iter().filter(|m| m.name == node).all(|m| m.holds() == 0);
                until(context, wait.wait, is_empty, &format!("node {node} still has shards: is there room at the others?"))?;
                done(output, &node, "drained")
            }
            Action::Undrain { node } => {
                context.any_admin()?.change_node(&node, Change::Draining(false))?;
                done(output, &node, "undrained")
            }
            Action::Rebalance { weights, wait } => {
                for (node, weight) in weights {
                    context.any_admin()?.change_node(&node, Change::Weight(weight))?;
                }
                until(context, wait.wait, |r: &Report| r.settled, "shards are still moving")?;
                output.reply("balanced", &json!({ "balanced": true }))
            }
        }
    }
}

fn done(output: &mut Output, node: &str, what: &str) -> Done {
    output.reply(format_args!("{node} {what}"), &json!({ "node": node, "done": what }))
}

fn look(context: &Context) -> Done<Report> {
    let status: StatusReply = context.any_admin()?.cluster_status()?;
    Report::of(&status).map_err(|error| Failure::new(TROUBLE, "map", error))
}

/// Looks until it is so; says on standard error how far it is, unless JSON is wanted.
fn until(context: &Context, limit: Duration, is_so: impl Fn(&Report) -> bool, otherwise: &str) -> Done {
    let began = Instant::now();
    let mut told = usize::MAX;
    loop {
        let report = look(context)?;
        if is_so(&report) {
            return Ok(());
        }
        if began.elapsed() >= limit {
            return Err(Failure::new(NOT_DONE, "not_yet", otherwise));
        }
        if report.moving != told && !context.globals().json {
            told = report.moving;
            note(format_args!("{told} shards on their way"));
        }
        sleep(LOOK);
    }
}
