//! What a client asked, when, and what came of it.

use serde::{Deserialize, Serialize};

/// One call of one client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Who called.
    pub client: u32,
    /// When, on any clock that all clients of the history share and that never goes back.
    pub invoked: u64,
    /// When it returned; `None`: never, it may take effect at any later time or not at all.
    pub returned: Option<u64>,
    /// What was asked.
    pub call: Call,
    /// What came of it.
    pub outcome: Outcome,
}

/// Under which condition a write is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Condition {
    /// Always.
    None,
    /// If the key holds nothing.
    Absent,
    /// If the key's version is this one.
    Version(u64),
}

/// The lock and the token that a write carries.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Fence {
    /// The lock's key.
    pub lock: String,
    /// The token.
    pub token: u64,
}

/// What lives in a cell and is created once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Cell {
    /// Counts.
    Counter,
    /// Hands out numbers: may skip, never repeats.
    Sequence,
}

/// A call. A written value is known by its stamp, which no other write of the history has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the library's calls")]
pub enum Call {
    Get {
        key: String,
    },
    /// Each key on its own: no promise ties them together.
    MultiGet {
        keys: Vec<String>,
    },
    Exists {
        key: String,
    },
    /// `ttl` is in the units of the history's clock.
    Put {
        key: String,
        stamp: u64,
        ttl: Option<u64>,
        condition: Condition,
        fence: Option<Fence>,
    },
    Delete {
        key: String,
        condition: Condition,
        fence: Option<Fence>,
    },
    Create {
        key: String,
        cell: Cell,
        initial: i64,
    },
    Add {
        key: String,
        delta: i64,
    },
    Read {
        key: String,
    },
    Next {
        key: String,
    },
    TryLock {
        key: String,
    },
    LockState {
        key: String,
    },
    Unlock {
        key: String,
        token: u64,
    },
    /// No call: from some moment of this event on, the holder of `token` may have lost the lock without a call of
    /// its own (its lease lapsed, its process was killed).
    Lost {
        key: String,
        token: u64,
    },
    BreakLock {
        key: String,
    },
}

impl Call {
    /// An unconditional put for ever.
    #[must_use]
    pub fn put(key: &str, stamp: u64) -> Self {
        Self::Put { key: key.into(), stamp, ttl: None, condition: Condition::None, fence: None }
    }

    /// A put under a condition.
    #[must_use]
    pub fn put_if(key: &str, stamp: u64, condition: Condition) -> Self {
        Self::Put { key: key.into(), stamp, ttl: None, condition, fence: None }
    }

    /// A put that goes away by itself.
    #[must_use]
    pub fn put_for(key: &str, stamp: u64, ttl: u64) -> Self {
        Self::Put { key: key.into(), stamp, ttl: Some(ttl), condition: Condition::None, fence: None }
    }

    /// A put that carries a lock's token.
    #[must_use]
    pub fn put_fenced(key: &str, stamp: u64, lock: &str, token: u64) -> Self {
        let fence = Some(Fence { lock: lock.into(), token });
        Self::Put { key: key.into(), stamp, ttl: None, condition: Condition::None, fence }
    }

    /// A delete under a condition.
    #[must_use]
    pub fn delete(key: &str, condition: Condition) -> Self {
        Self::Delete { key: key.into(), condition, fence: None }
    }

    /// A delete that carries a lock's token.
    #[must_use]
    pub fn delete_fenced(key: &str, lock: &str, token: u64) -> Self {
        Self::Delete { key: key.into(), condition: Condition::None, fence: Some(Fence { lock: lock.into(), token }) }
    }

    /// The keys it is about, the lock of a fence left out.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        match self {
            Self::MultiGet { keys } => keys,
            Self::Get { key }
            | Self::Exists { key }
            | Self::Put { key, .. }
            | Self::Delete { key, .. }
            | Self::Create { key, .. }
            | Self::Add { key, .. }
            | Self::Read { key }
            | Self::Next { key }
            | Self::TryLock { key }
            | Self::LockState { key }
            | Self::Unlock { key, .. }
            | Self::Lost { key, .. }
            | Self::BreakLock { key } => std::slice::from_ref(key),
        }
    }

    /// The lock and token it carries.
    #[must_use]
    pub const fn fence(&self) -> Option<&Fence> {
        match self {
            Self::Put { fence, .. } | Self::Delete { fence, .. } => fence.as_ref(),
            _ => None,
        }
    }

    /// The stamp that it writes.
    #[must_use]
    pub const fn stamp(&self) -> Option<u64> {
        match self {
            Self::Put { stamp, .. } => Some(*stamp),
            _ => None,
        }
    }

    /// Whether it changes nothing, whatever comes of it.
    #[must_use]
    pub const fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Get { .. } | Self::MultiGet { .. } | Self::Exists { .. } | Self::Read { .. } | Self::LockState { .. }
        )
    }
}

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of the library's answers")]
pub enum Outcome {
    /// Nobody can tell: it may have been carried out, or may be later.
    Unknown,
    /// A typed error that promises that nothing was changed. Of a read: nothing was learnt.
    NotExecuted,
    /// The stored bytes, whole and of this key.
    Value {
        stamp: u64,
        version: u64,
    },
    /// The bytes of a read are not those of any one write to this key.
    Torn(String),
    /// The key holds nothing.
    Absent,
    /// Of a read of several keys, in their order.
    Each(Vec<Self>),
    /// Whether the key holds anything; of `BreakLock`, whether there is such a lock.
    Found(bool),
    Written {
        version: u64,
    },
    Deleted,
    /// Not carried out: the key holds something, of this version.
    Exists {
        version: u64,
    },
    /// Not carried out: the key's version is this one.
    Mismatch {
        version: u64,
    },
    /// Of `Create`: whether it was this call.
    Created(bool),
    /// Of `Add`: the sum after it. Of `Read`: the value. Of `Next`: the number.
    Number(i64),
    Locked {
        token: u64,
    },
    /// Another holds the lock.
    Busy,
    State {
        held: bool,
        token: u64,
    },
    Unlocked,
    /// Not carried out: the lock is not held with that token.
    Fenced,
    /// Of `Lost`.
    Noted,
}

impl Outcome {
    /// Whether `call` can come to this.
    #[must_use]
    pub fn fits(&self, call: &Call) -> bool {
        match (call, self) {
            (_, Self::Unknown | Self::NotExecuted)
            | (Call::Get { .. }, Self::Value { .. } | Self::Torn(_) | Self::Absent)
            | (Call::Exists { .. } | Call::BreakLock { .. }, Self::Found(_))
            | (Call::Delete { condition: Condition::None | Condition::Version(_), .. }, Self::Deleted | Self::Absent)
            | (Call::Put { .. }, Self::Written { .. })
            | (Call::Put { condition: Condition::Absent, .. }, Self::Exists { .. })
            | (Call::Put { condition: Condition::Version(_), .. }, Self::Mismatch { .. } | Self::Absent)
            | (Call::Delete { condition: Condition::Version(_), .. }, Self::Mismatch { .. })
            | (Call::Create { .. }, Self::Created(_))
            | (Call::Add { .. } | Call::Read { .. } | Call::Next { .. }, Self::Number(_) | Self::Absent)
            | (Call::TryLock { .. }, Self::Locked { .. } | Self::Busy)
            | (Call::LockState { .. }, Self::State { .. } | Self::Absent)
            | (Call::Unlock { .. }, Self::Unlocked | Self::Fenced)
            | (Call::Lost { .. }, Self::Noted) => true,
            (Call::Put { fence: Some(_), .. } | Call::Delete { fence: Some(_), .. }, Self::Fenced) => true,
            (Call::MultiGet { keys }, Self::Each(each)) => {
                let get = Call::Get { key: String::new() };
                each.len() == keys.len() && each.iter().all(|one| one.fits(&get))
            }
            _ => false,
        }
    }
}
