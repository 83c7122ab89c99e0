//! End-to-end tests over real processes: the server program itself, clients in threads and processes of their own,
//! on shared memory or on real verbs.
//!
//! ```text
//!   setting    what the environment says: fabric, device, address, scale
//!   programs   where the programs under test are; builds them when they are missing or old
//!   etcd       an etcd of the tests' own: start, kill, start again
//!   server     a server process: start, pause, kill, stop, start again
//!   child      a client process: the test executable started again for one role
//!   freeze     single threads of a server, stopped
//!   gauges     what a server holds for its clients, what a process holds open
//!   history    what clients did and saw, and whether any order of it explains all
//!   cable      two devices of the lab and the link between them, to be cut
//!   intruder   a client without the library, to do what the library never does
//!   raw_shm    the same for the shm fabric alone: its door and its memory, in bytes
//!   relay      a way of TCP between two programs, to be cut
//!   fuzz       every decoder, with what must hold of its answers
//!   stalls     times for which the machine gave nobody any time
//!   schedules  seeds of a simulated world: run on all cores, and again
//!   stamped    values that prove whole, of their key, and of one version
//! ```
//!
//! Tests run over `shm` as they are; `SIDEWIRE_TEST_FABRIC=verbs`, `SIDEWIRE_TEST_DEVICE` and `SIDEWIRE_TEST_ADDR`
//! choose a device. `SIDEWIRE_BIN_DIR` names the programs' folder. `SIDEWIRE_TEST_SCALE` (percent) makes loops
//! shorter or longer; 100 unless set, 10 on verbs.
//!
//! # Which test fails when an invariant is broken
//!
//! Each mutation was made once, seen to fail the test named, and taken back; *not yet* says where that is still to be done.
//!
//! | invariant | test | a mutation that it catches |
//! | --- | --- | --- |
//! | 1, 4 an acked Put is seen, and nobody goes back | `torn_read` | a replaced or deleted record stays *live*; conditions of a version not judged (`basics`) |
//! | 2 no bytes that no Put wrote | `torn_read`, `growth` | the checksum, or the key, of a record is not looked at |
//! | 3 what exists is never absent | `growth` | a split segment is not marked *moved*; children are published before they are built |
//! | 5 an old segment never changes | `growth` | as 3 |
//! | 6 no remote party writes index or heap | `rights` | index and heap without their seal (the server then refuses to start) |
//! | 7, 9 a counter's sum is that of its acked adds | `counters` | a counter is deleted without being frozen; its cell serves another at once |
//! | 8 tokens rise, over restarts too | `locks` | a life's tokens begin at 0 |
//! | 1 to 4, 8, 9 side by side, under kills and stops | `chaos` | a client that goes on with what it had sent to the life before |
//! | 11 every call ends by its deadline | `frozen`, `deadlines`, `restart`, `outage` | each key of a multi_get waits as long as all before it; a connect or detach has a limit of its own |
//! | 11 what broke comes back by itself, and no call waits for it | `outage` | a call that has ended waits until the next endpoint was tried (a Get took 2.0 s of 1 s); *not yet*: a worker's way to its cells is opened again once only; a connection that breaks is opened at once for ever |
//! | 12 a hostile client harms itself only | `hostile`, `rights`, `fuzz` | an announced length is not compared with the header's |
//! | 13 what a dead client held comes back | `recovery`, `locks`, `restart` | the sweep frees no lock |
//! | 1 to 4, 9 on any schedule | `sim` | the tag of a state, or the checksum, is not compared; a record born live; state before slot on insert; absence from a cached record; *moved* never stored, or one write late (seed 185); a directory entry before its children; a cell serves another at once; a segment serves another at once (seed 199), or before a client that has an operation in flight lets it go (seed 4269); two live records on update (seed 127) |
//! | 7, 8, 9 on any schedule | `sim` | the CPU stores to a cell (seed 4416); a freeze repeated by Fetch-and-Add (seed 2492); what came when an attachment ended is thrown away (seed 2061: an add counted twice); a token of another session of the same client is taken for one's own (seed 5005290); an unlock without an answer is called fenced (seed 4004985) |
//! | 11 every call ends on any schedule | `sim` | a call that has ended waits until the next endpoint was tried (seed 394) |
//! | 10 an acked write is there after any fault | `cluster_sim` | the fault as it was before it was mended: a server that entered anew is read as the member that it was (seeds 83, 99, 126, 144: *nothing there*); a seat is given to another driver while a call looks there for its operation (seed 79: another key's value) |
//! | 10 the rules of replication | `replicas` | an ack before every copy has the write (six tests); a copy that told its position takes more from the reign before; a shorter log reigns; outcomes of writes are not kept at copies; a hand-over does not wait for clients; a primary lets a copy go before the map does; *not yet*: what a lagging copy lacks is not told to it |
//! | 10 nothing begins anew while a copy lives | `cluster_sim`, `etcd` | as before: a session spins on an idle driver (seed 3); servers whose leases ran out together enter as others (seed 22) |
//! | 11 a shard serves again, and a call reaches it | `cluster_sim`, `shards`, `etcd` | as before: an heir that is named late is not asked (seed 28); what has ended keeps an endpoint from being opened (`shards`); a lease that a new stream does not find is waited for (`etcd`) |
//! | 9 a write is carried out once, over the end of its primary | `failover`, `replicas` | as before: a server without a lease sweeps its clients and has the copies forget how their writes ended (*one value under two versions*, in each run of ten servers cut off) |
//! | 8 a guard that says it holds does | `failover`, `cluster_sim`, `replicas` | as before: a hand-over in vain gives locks new cells in the same reign (seen by 20 rounds of `failover`; with *Waver* as the only fault seeds 25 and 55) |
//! | the order of an update | `sim` | none: slot before state costs Reads, not answers, since a reader that meets *pending* in a slot reads again (3,600 schedules see no difference) |
//! | 11 a call waits for what it is about | `sim` | as before: a poll opens a connection on behalf of the call before (1 of 40,000 schedules); a call for which the server has no ring waits for an ack (`deadlines`) |
//! | expiry is a time, in a cluster too | unit tests of `kv-server`'s clock, `replicas` | as before: clocks compared in whole milliseconds overtake each other; a copy whose clock is behind is named |
//! | a late holder's writes are refused | `locks` | any token passes the fence |

pub mod cable;
pub mod child;
pub mod etcd;
pub mod freeze;
pub mod fuzz;
pub mod gauges;
pub mod history;
pub mod intruder;
pub mod programs;
pub mod raw_shm;
pub mod relay;
pub mod schedules;
pub mod server;
pub mod setting;
pub mod stalls;
pub mod stamped;

/// Whether the error is one that a caller of a lost server can act upon.
#[must_use]
pub const fn is_typed(error: &sidewire::Error) -> bool {
    use sidewire::Error;
    matches!(
        error,
        Error::Deadline { .. }
            | Error::Indeterminate { .. }
            | Error::LeaseLapsed
            | Error::ServerGone { .. }
            | Error::Control { .. }
            | Error::Busy
    )
}

pub use child::Child;
pub use freeze::Frozen;
pub use gauges::Gauges;
pub use server::Server;
pub use setting::scale;
