//! End-to-end tests over real processes: the server program itself, clients in threads and processes of their own,
//! on shared memory or on real verbs.
//!
//! ```text
//!   setting    what the environment says: fabric, device, address, scale
//!   programs   where the programs under test are; builds them when they are missing or old
//!   server     a server process: start, pause, kill, stop, start again
//!   child      a client process: the test executable started again for one role
//!   intruder   a client without the library, to do what the library never does
//!   stamped    values that prove whole, of their key, and of one version
//! ```
//!
//! Tests run over `shm` as they are; `SIDEWIRE_TEST_FABRIC=verbs`, `SIDEWIRE_TEST_DEVICE` and `SIDEWIRE_TEST_ADDR`
//! choose a device. `SIDEWIRE_BIN_DIR` names the programs' folder. `SIDEWIRE_TEST_SCALE` (percent) makes loops
//! shorter or longer; 100 unless set, 10 on verbs.
//!
//! # Which test fails when an invariant is broken
//!
//! Each mutation was made once, seen to fail the test named, and taken back.
//!
//! | invariant | test | a mutation that it catches |
//! | --- | --- | --- |

pub mod child;
pub mod intruder;
pub mod programs;
pub mod server;
pub mod setting;
pub mod stamped;

pub use child::Child;
pub use server::Server;
pub use setting::scale;
