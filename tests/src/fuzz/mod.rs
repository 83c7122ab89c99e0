//! What fuzzers feed: every decoder of bytes that a peer or a person wrote.
//!
//! A target takes any bytes and checks what must hold of the answer, not only that there is one: what was accepted
//! means the same when it is encoded again, lies within its limits, and a refusal names what it refuses. It returns
//! whether the bytes were accepted, so that a run can tell that it got past the first check.
//!
//! The same targets run under libFuzzer (`tests/fuzz`, `make fuzz`) and, for a bounded number of inputs, in
//! `cargo test` (`tests/tests/fuzz.rs`), both beginning with the inputs in `tests/fuzz/corpus`.

pub mod ack;
pub mod beat;
pub mod bucket;
pub mod config;
pub mod convert;
pub mod cut;
pub mod mutate;
pub mod record;
pub mod request;
pub mod ring;
pub mod segment;
pub mod shell;

/// One decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, that of its corpus too.
    pub name: &'static str,
    /// Feeds it; true when the bytes were accepted.
    pub run: fn(&[u8]) -> bool,
    /// Bytes that mean something to it; a mutation may be one of them.
    pub words: &'static [&'static [u8]],
    /// Longest input worth trying, bytes.
    pub bytes_max: usize,
    /// Inputs in a bounded run.
    pub inputs: u64,
}

const INPUTS: u64 = 100_000;

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "ack", run: ack::run, words: &[], bytes_max: 300, inputs: INPUTS },
    Target { name: "beat", run: beat::run, words: &[], bytes_max: 300, inputs: INPUTS },
    Target { name: "bucket", run: bucket::run, words: &[], bytes_max: 160, inputs: INPUTS },
    Target { name: "config", run: config::run, words: config::WORDS, bytes_max: 1_000, inputs: INPUTS },
    Target { name: "convert", run: convert::run, words: &[], bytes_max: 600, inputs: INPUTS },
    Target { name: "record", run: record::run, words: &[], bytes_max: 600, inputs: INPUTS },
    Target { name: "request", run: request::run, words: &[], bytes_max: 600, inputs: INPUTS },
    // Each input opens and closes an endpoint.
    Target { name: "ring", run: ring::run, words: &[], bytes_max: 400, inputs: INPUTS / 10 },
    Target { name: "segment", run: segment::run, words: &[], bytes_max: 9_300, inputs: INPUTS },
    Target { name: "shell", run: shell::run, words: shell::WORDS, bytes_max: 200, inputs: INPUTS },
];
