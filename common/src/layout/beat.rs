//! Heartbeats: Send/Recv between a client process and a server.
//!
//! Client to server, tag 2, 128 bytes: tag 1 · zero 3 · map epoch reached 4 · client id 16 · incarnation 8 · number 8 · layout epoch
//! reached 8 · Get statistics, eleven words.
//! Server to client, tag 3, 64 bytes: tag 1 · verdict 1 · zero 6 · incarnation 8 · number answered 8 (0: unasked,
//! something changed) · layout epoch 8 · shard clock in ms 8 · its error in ms 4 · zero 4 · lease in ms 8 ·
//! map epoch 4 · member 4. A map epoch or member of 0 is none.

use super::wire::{put, u32_at, u64_at, u128_at};
use crate::id::{ClientId, Incarnation};

/// Bytes of a client's beat.
pub const BEAT_BYTES: usize = 48 + STATS_WORDS * 8;
/// Bytes of a server's answer.
pub const ANSWER_BYTES: usize = 64;
const BEAT_TAG: u8 = 2;
const ANSWER_TAG: u8 = 3;
const STATS_WORDS: usize = 10;
const _: () = assert!(BEAT_BYTES == 128);

/// What a client process counted since it attached: the server cannot see Gets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GetStats {
    /// Gets that ended, found or not.
    pub gets: u64,
    /// Reads posted for them.
    pub reads: u64,
    /// Gets answered from a cached location by one Read.
    pub location_hits: u64,
    /// Retries since a record was torn or of another life.
    pub retries_torn: u64,
    /// Retries since a record was superseded or deleted.
    pub retries_stale: u64,
    /// Retries since a segment had moved.
    pub retries_moved: u64,
    /// Retries since a record was pending.
    pub retries_pending: u64,
    /// Counter adds.
    pub adds: u64,
    /// Lock acquisitions.
    pub locks: u64,
    /// Results thrown away because the lease had run out.
    pub lease_discards: u64,
}

impl GetStats {
    fn words(&self) -> [u64; STATS_WORDS] {
        [
            self.gets,
            self.reads,
            self.location_hits,
            self.retries_torn,
            self.retries_stale,
            self.retries_moved,
            self.retries_pending,
            self.adds,
            self.locks,
            self.lease_discards,
        ]
    }

    fn from_words(w: [u64; STATS_WORDS]) -> Self {
        Self {
            gets: w[0],
            reads: w[1],
            location_hits: w[2],
            retries_torn: w[3],
            retries_stale: w[4],
            retries_moved: w[5],
            retries_pending: w[6],
            adds: w[7],
            locks: w[8],
            lease_discards: w[9],
        }
    }

    /// Field by field sum, wrapping (figures of a peer are its word only).
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (a, b) = (self.words(), other.words());
        Self::from_words(std::array::from_fn(|i| a[i].wrapping_add(b[i])))
    }
}

/// A client's beat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Who.
    pub client: ClientId,
    /// The life it attached to.
    pub incarnation: Incarnation,
    /// Its number, from 1.
    pub number: u64,
    /// Layout epoch it has reached: nothing older is in flight or cached.
    pub layout_epoch: u64,
    /// Epoch of the cluster map by which its operations begin from now on; 0 = it has none.
    pub map_epoch: u32,
    /// Its counts so far.
    pub stats: GetStats,
}

/// What the server makes of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Verdict {
    /// Its lease is renewed.
    Alive = 1,
    /// It was swept, or is not known: attach anew under a new id.
    Unknown = 2,
    /// The server is stopping.
    Stopping = 3,
}

/// A server's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What it makes of the client.
    pub verdict: Verdict,
    /// Its life.
    pub incarnation: Incarnation,
    /// The beat that is answered; 0 when nothing was asked and something changed.
    pub number: u64,
    /// Current layout epoch.
    pub layout_epoch: u64,
    /// The shard clock, ms.
    pub clock_ms: u64,
    /// How far the clock may be off, ms.
    pub clock_error_ms: u32,
    /// Lease, ms, from the sending of the answered beat.
    pub lease_ms: u64,
    /// Epoch of the server's cluster map; 0 = it runs alone.
    pub map_epoch: u32,
    /// Which member of the cluster grants the lease; 0 = it runs alone.
    pub member: u32,
}

/// Why bytes are no beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed heartbeat: {0}")]
pub struct BeatError(pub &'static str);

impl Beat {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BEAT_BYTES] {
        let mut bytes = [0; BEAT_BYTES];
        bytes[0] = BEAT_TAG;
        put(&mut bytes, 4, &self.map_epoch.to_le_bytes());
        put(&mut bytes, 8, &self.client.to_bytes());
        put(&mut bytes, 24, &self.incarnation.0.to_le_bytes());
        put(&mut bytes, 32, &self.number.to_le_bytes());
        put(&mut bytes, 40, &self.layout_epoch.to_le_bytes());
        for (at, word) in self.stats.words().iter().enumerate() {
            put(&mut bytes, 48 + at * 8, &word.to_le_bytes());
        }
        bytes
    }

    /// Reads a beat.
    ///
    /// # Errors
    /// When length, tag or reserved bytes are wrong, or the number is 0.
    pub fn decode(bytes: &[u8]) -> Result<Self, BeatError> {
        if bytes.len() != BEAT_BYTES || bytes[0] != BEAT_TAG {
            return Err(BeatError("not a beat"));
        }
        if bytes[1..4] != [0; 3] {
            return Err(BeatError("reserved bytes"));
        }
        let number = u64_at(bytes, 32);
        if number == 0 {
            return Err(BeatError("number 0"));
        }
        Ok(Self {
            client: ClientId(u128_at(bytes, 8)),
            incarnation: Incarnation(u64_at(bytes, 24)),
            number,
            layout_epoch: u64_at(bytes, 40),
            map_epoch: u32_at(bytes, 4),
            stats: GetStats::from_words(std::array::from_fn(|i| u64_at(bytes, 48 + i * 8))),
        })
    }
}

impl Answer {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[0] = ANSWER_TAG;
        bytes[1] = self.verdict as u8;
        put(&mut bytes, 8, &self.incarnation.0.to_le_bytes());
        put(&mut bytes, 16, &self.number.to_le_bytes());
        put(&mut bytes, 24, &self.layout_epoch.to_le_bytes());
        put(&mut bytes, 32, &self.clock_ms.to_le_bytes());
        put(&mut bytes, 40, &self.clock_error_ms.to_le_bytes());
        put(&mut bytes, 48, &self.lease_ms.to_le_bytes());
        put(&mut bytes, 56, &self.map_epoch.to_le_bytes());
        put(&mut bytes, 60, &self.member.to_le_bytes());
        bytes
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// When length, tag, verdict or reserved bytes are wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, BeatError> {
        if bytes.len() != ANSWER_BYTES || bytes[0] != ANSWER_TAG {
            return Err(BeatError("not an answer"));
        }
        let verdict = match bytes[1] {
            1 => Verdict::Alive,
            2 => Verdict::Unknown,
            3 => Verdict::Stopping,
            _ => return Err(BeatError("unknown verdict")),
        };
        if bytes[2..8] != [0; 6] || u32_at(bytes, 44) != 0 {
            return Err(BeatError("reserved bytes"));
        }
        Ok(Self {
            verdict,
            incarnation: Incarnation(u64_at(bytes, 8)),
            number: u64_at(bytes, 16),
            layout_epoch: u64_at(bytes, 24),
            clock_ms: u64_at(bytes, 32),
            clock_error_ms: u32_at(bytes, 40),
            lease_ms: u64_at(bytes, 48),
            map_epoch: u32_at(bytes, 56),
            member: u32_at(bytes, 60),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn beats_and_answers_come_back() {
        let stats = GetStats { gets: 5, reads: 9, lease_discards: 1, ..GetStats::default() };
        let beat =
            Beat { client: ClientId(1 << 100 | 7), incarnation: Incarnation(3), number: 4, layout_epoch: 2, map_epoch: 8, stats };
        assert_eq!(Beat::decode(&beat.encode()), Ok(beat));
        let answer = Answer {
            verdict: Verdict::Alive,
            incarnation: Incarnation(3),
            number: 4,
            layout_epoch: 2,
            clock_ms: 99,
            clock_error_ms: 1,
            lease_ms: 3000,
            map_epoch: 9,
            member: 6,
        };
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..140)) {
            let _ = (Beat::decode(&bytes), Answer::decode(&bytes));
        }
    }
}
