//! `kvctl` as its users meet it: what it prints, what it complains of, and its exit code.
//!
//! Every test starts a server of its own and runs the real program. A script must be able to rely on the bytes on
//! standard output and on the exit code, so both are compared whole.

mod command;
mod counters;
mod files;
mod locks;
mod refusals;
mod scans;
mod shell;
mod values;
