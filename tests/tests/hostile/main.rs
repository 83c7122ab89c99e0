//! A client that attaches like any other and then keeps no rule.
//!
//! What could break: a malformed request, heartbeat, call or ring crashes the server, costs somebody else a connection,
//! a value or a lease, leaves something behind, or is not counted. Each test has a neighbour that works all the while
//! and checks every answer; at the end the server's gauges must be where they were, and its log short.

mod beats;
mod control;
mod floods;
mod long;
mod memory;
mod packed;
mod requests;
mod scene;
