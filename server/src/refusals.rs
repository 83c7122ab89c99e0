//! What peers were refused for: a count for each cause, and how often each is logged.
//!
//! The causes are a fixed set, so that no peer makes it grow.

use sidewire_common::layout::request::RequestField;
use sidewire_common::pace::Pace;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines logged for one cause in a second.
const LINES_PER_SECOND: u32 = 5;

macro_rules! causes {
    ($(#[doc = $doc:literal] $cause:ident = $name:literal,)+) => {
        /// Why a peer was refused.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Cause {
            $(#[doc = $doc] $cause,)+
        }

        impl Cause {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$cause),+];

            /// Its name for people and programs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name,)+
                }
            }
        }
    };
}

causes! {
    /// A request's magic.
    Magic = "request.magic",
    /// Its layout version.
    LayoutVersion = "request.layout_version",
    /// Its operation.
    Operation = "request.operation",
    /// Its condition.
    Condition = "request.condition",
    /// Its kind of record.
    Kind = "request.kind",
    /// Its key's length.
    KeyLength = "request.key_length",
    /// Its sequence, or the immediate's part of it.
    Sequence = "request.sequence",
    /// What it says is resolved.
    ResolvedBelow = "request.resolved_below",
    /// Its condition's version.
    ConditionVersion = "request.condition_version",
    /// Its time to live.
    Ttl = "request.ttl",
    /// Its fencing token.
    FenceToken = "request.fence_token",
    /// Its value's length.
    ValueLength = "request.value_length",
    /// Its fencing lock's key's length.
    FenceKeyLength = "request.fence_key_length",
    /// Its reserved bytes.
    Reserved = "request.reserved",
    /// Its argument.
    Argument = "request.argument",
    /// The place that an immediate names.
    RingUnit = "request.ring_unit",
    /// The length that an immediate announces.
    Length = "request.length",
    /// The shard of its fencing lock.
    FenceShard = "request.fence_shard",
    /// A sequence far above all that is open.
    Window = "request.window",
    /// A key of another worker's shard.
    Shard = "request.shard",
    /// More requests than credits.
    Credits = "request.credits",
    /// A message where immediates are received.
    Message = "request.message",
    /// Not a heartbeat.
    BeatMalformed = "beat.malformed",
    /// A heartbeat under another client's id.
    BeatClient = "beat.client",
    /// A heartbeat whose number does not rise.
    BeatNumber = "beat.number",
    /// A layout epoch that has not begun.
    BeatEpoch = "beat.epoch",
    /// A write where heartbeats are received.
    BeatWrite = "beat.write",
    /// An entry of replication.
    Replica = "replica.entry",
    /// A field of a message of the control plane.
    Field = "control.field",
    /// Its layout version, or a life of the server that is not this one.
    Life = "control.life",
    /// A client that is attached already.
    ClientExists = "control.client_exists",
    /// A client that is not attached.
    UnknownClient = "control.unknown_client",
    /// More of something than there may be.
    Limit = "control.limit",
    /// What the fabric refused of a peer.
    Peer = "control.peer",
    /// Rings, positions or sockets of the fabric that no honest peer leaves so.
    Fabric = "fabric.misbehaviour",
}

impl From<RequestField> for Cause {
    fn from(field: RequestField) -> Self {
        match field {
            RequestField::Magic => Self::Magic,
            RequestField::LayoutVersion => Self::LayoutVersion,
            RequestField::Operation => Self::Operation,
            RequestField::Condition => Self::Condition,
            RequestField::Kind => Self::Kind,
            RequestField::KeyLength => Self::KeyLength,
            RequestField::Sequence => Self::Sequence,
            RequestField::ResolvedBelow => Self::ResolvedBelow,
            RequestField::ConditionVersion => Self::ConditionVersion,
            RequestField::Ttl => Self::Ttl,
            RequestField::FenceToken => Self::FenceToken,
            RequestField::ValueLength => Self::ValueLength,
            RequestField::FenceKeyLength => Self::FenceKeyLength,
            RequestField::Reserved => Self::Reserved,
            RequestField::Argument => Self::Argument,
            RequestField::RingUnit => Self::RingUnit,
            RequestField::Length => Self::Length,
            RequestField::FenceShard => Self::FenceShard,
            RequestField::Requests => Self::Credits,
        }
    }
}

struct Tally {
    count: AtomicU64,
    pace: Pace,
}

/// The counts.
pub struct Refusals(Vec<Tally>);

impl Default for Refusals {
    fn default() -> Self {
        let tally = |_| Tally { count: AtomicU64::new(0), pace: Pace::new(LINES_PER_SECOND) };
        Self(Cause::ALL.iter().map(tally).collect())
    }
}

impl Refusals {
    /// Counts one. When it may be logged, how many of this cause were not logged before it.
    pub fn count(&self, cause: Cause) -> Option<u64> {
        let tally = &self.0[cause as usize];
        tally.count.fetch_add(1, Ordering::Relaxed);
        tally.pace.admit()
    }

    /// Counts some that were logged elsewhere.
    pub fn add(&self, cause: Cause, more: u64) {
        self.0[cause as usize].count.fetch_add(more, Ordering::Relaxed);
    }

    /// All that happened, by name.
    pub fn told(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.0.iter().map(|tally| tally.count.load(Ordering::Relaxed));
        Cause::ALL.iter().map(|cause| cause.name()).zip(counts).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_name_and_a_count_of_its_own() {
        let refusals = Refusals::default();
        let mut names = std::collections::HashSet::new();
        for (n, &cause) in Cause::ALL.iter().enumerate() {
            assert!(cause as usize == n && names.insert(cause.name()));
            refusals.add(cause, n as u64);
        }
        assert_eq!(refusals.told().map(|(_, count)| count).collect::<Vec<_>>(), (1..Cause::ALL.len() as u64).collect::<Vec<_>>());
        for raw in 0..=u8::MAX {
            let Some(field) = RequestField::from_raw(raw) else { continue };
            assert!(Cause::from(field).name().starts_with("request."));
        }
    }

    #[test]
    fn a_flood_is_counted_and_not_logged() {
        let refusals = Refusals::default();
        let logged = (0..1000).filter(|_| refusals.count(Cause::Magic).is_some()).count();
        assert!(logged < 100, "{logged} lines");
        assert_eq!(refusals.told().collect::<Vec<_>>(), [("request.magic", 1000)]);
    }
}
