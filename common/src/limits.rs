//! Every bound of the system with its unit, derived from each other and asserted against each other.

use crate::layout::{ack, record, request};

/// Longest key, bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// Default size of one staging ring (one per session and worker), bytes.
pub const STAGING_BYTES_DEFAULT: usize = 1 << 20;
/// Smallest staging ring that a server accepts in its configuration, bytes.
pub const STAGING_BYTES_MIN: usize = 64 << 10;
/// Largest staging ring that a server accepts in its configuration, bytes.
pub const STAGING_BYTES_MAX: usize = 256 << 20;
/// Longest value, whatever a server is told: what half of the largest ring holds, bytes.
pub const VALUE_BYTES_MAX: usize = value_bytes_max(STAGING_BYTES_MAX);
/// Default limit for values, bytes.
pub const VALUE_BYTES_DEFAULT: usize = 64 << 20;
/// Bytes of one request that carries a part of a long value: several fit the default ring, so that one is written while
/// another is taken out.
pub const CHUNK_REQUEST_BYTES: usize = 256 << 10;
/// Long values that one session may be writing to one worker at once.
pub const RESERVATIONS_MAX: usize = 4;
/// Requests a client may have unanswered on one write endpoint, which is the depth of the server's
/// receive queue for it and of the client's receive queue for acks.
pub const MESSAGE_CREDITS: u32 = 64;
/// Longest message of Send/Recv, bytes; receive buffers have this size.
pub const MESSAGE_BYTES: usize = 256;
/// One-sided operations that one read endpoint may have in flight.
pub const READ_DEPTH: u32 = 128;
/// Messages in flight each way on a heartbeat endpoint.
pub const BEAT_DEPTH: u32 = 16;
/// Sessions that one client process may hold against one server.
pub const SESSIONS_PER_CLIENT_MAX: u32 = 256;
/// Clients that one server admits; the width of a lock's holder field sets it.
pub const CLIENTS_MAX: u32 = (1 << 20) - 2;
/// Workers that one server may run.
pub const WORKERS_MAX: u32 = 64;
/// Chunks that one server may register: the width of the chunk field of a location.
pub const CHUNKS_MAX: u32 = 1 << 14;
/// Largest chunk, bytes: the width of the unit field of a location times the unit.
pub const CHUNK_BYTES_MAX: u64 = (1u64 << 26) * record::UNIT_BYTES as u64;
/// Default lease, milliseconds.
pub const LEASE_MS_DEFAULT: u64 = 3_000;
/// Shortest lease accepted, milliseconds.
pub const LEASE_MS_MIN: u64 = 300;
/// Longest lease accepted, milliseconds.
pub const LEASE_MS_MAX: u64 = 600_000;
/// Longest time to live of a key, milliseconds (ten years).
pub const TTL_MS_MAX: u64 = 10 * 365 * 86_400_000;
/// Default deadline of a client's call, milliseconds.
pub const DEADLINE_MS_DEFAULT: u64 = 5_000;

/// Longest value that fits a staging ring of `staging_bytes`: half the ring, bytes.
///
/// The other half leaves room for the header, the key and the fencing lock's key of that request, so that
/// one large write never needs the whole ring.
#[must_use]
pub const fn value_bytes_max(staging_bytes: usize) -> usize {
    staging_bytes / 2
}

const _: () = {
    let around = request::HEADER_BYTES + 2 * KEY_BYTES_MAX + 64;
    assert!(value_bytes_max(STAGING_BYTES_MIN) + around <= STAGING_BYTES_MIN);
    assert!(VALUE_BYTES_DEFAULT <= VALUE_BYTES_MAX && VALUE_BYTES_MAX <= u32::MAX as usize);
    assert!(ack::MESSAGE_BYTES_MAX <= MESSAGE_BYTES);
    assert!((STAGING_BYTES_MAX / record::UNIT_BYTES) as u64 <= request::RING_UNITS_MAX);
    // The immediate carries eight bits of the sequence: they must tell all unanswered requests apart.
    assert!(MESSAGE_CREDITS <= 128);
};
