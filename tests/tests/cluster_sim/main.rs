//! Three servers of the real code in a simulated world, and their clients, while servers die, stand still or are cut off.
//!
//! ```text
//!   cargo test --test cluster_sim                              so many schedules as fit into a test run
//!   SEED=17 cargo test --test cluster_sim replay -- --nocapture    one of them; SIM_LOG=1 with all that is logged
//!   make soak SUITE=cluster_sim SCHEDULES=1000                 many, on all cores
//! ```

#[path = "../sim/cells.rs"]
mod cells;
#[allow(dead_code, reason = "schedules of one server use more of it")]
#[path = "../sim/client.rs"]
mod client;
mod cluster;
mod etcd;
mod growth;
#[allow(dead_code, reason = "schedules of one server use more of it")]
#[path = "../sim/keys.rs"]
mod keys;
mod run;
#[allow(dead_code, reason = "schedules of one server use more of it")]
#[path = "../sim/values.rs"]
mod values;

use run::{Figures, Plan, run};
use sidewire_tests::schedules;

/// Schedules of one test run.
const SCHEDULES: u64 = 100;
/// Schedules that are run twice, unless one is named.
const REPLAYED: u64 = 2;

fn check(seed: u64) -> Figures {
    let plan = Plan::of(seed);
    schedules::attempt(|| run(&plan))
        .unwrap_or_else(|error| panic!("{plan}{error}\n\nagain: SEED={seed} cargo test --test cluster_sim replay"))
}

#[test]
fn schedules_are_linearizable() {
    schedules::explore_some(SCHEDULES, check);
}

#[test]
#[ignore = "runs until it is stopped"]
fn soak() {
    schedules::soak(check);
}

#[test]
#[ignore = "a table, which takes minutes"]
fn growth() {
    growth::table();
}

#[test]
fn replay() {
    schedules::replay(REPLAYED, Plan::of, run);
}
