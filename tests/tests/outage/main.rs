//! Connections that break under load, and what comes after.
//!
//! What could break: a session that is good for nothing after one error; a call that waits for a dead link beyond its
//! deadline, or ends in nothing typed; a write that is done twice, or lost although it was acknowledged; a part that is
//! never opened again (the server's own way to its cells is one); a client or server that spins on a fault that lasts.
//! Each test prints how long recovery took.

mod broken_pair;
mod killed;
mod link;
mod load;

use sidewire_tests::child;

#[test]
fn child() {
    child::run(&[("pipelines", killed::pipelines)]);
}
