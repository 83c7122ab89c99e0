//! What the library's answers mean in a history.

use super::event::Outcome;
use crate::stamped;
use sidewire::{Error, LockGuard, LockView, Unmet, Value, Version, Write};

/// The number under which values of `key` are stamped.
#[must_use]
pub fn key_number(key: &str) -> u64 {
    key.bytes().fold(key.len() as u64, |number, byte| stamped::mixed(number, u64::from(byte)))
}

/// The bytes of the value with this stamp.
#[must_use]
pub fn value(key: &str, stamp: u64, bytes: usize) -> Vec<u8> {
    stamped::stamp(key_number(key), stamp, bytes)
}

/// What an error says of the call: whether it may have been carried out.
#[must_use]
pub fn failed(error: &Error) -> Outcome {
    match error {
        Error::Indeterminate { .. } => Outcome::Unknown,
        Error::Fenced { .. } => Outcome::Fenced,
        Error::NotFound => Outcome::Absent,
        _ => Outcome::NotExecuted,
    }
}

fn told<T>(result: &Result<T, Error>, good: impl FnOnce(&T) -> Outcome) -> Outcome {
    result.as_ref().map_or_else(failed, good)
}

/// Bytes that were read from `key`.
#[must_use]
pub fn bytes(key: &str, value: &[u8], version: Version) -> Outcome {
    match stamped::version_of(value, key_number(key)) {
        Ok(stamp) => Outcome::Value { stamp, version: version.raw() },
        Err(torn) => Outcome::Torn(torn.0),
    }
}

/// Of a Get.
#[must_use]
pub fn got(key: &str, result: &Result<Option<Value>, Error>) -> Outcome {
    told(result, |value| value.as_ref().map_or(Outcome::Absent, |value| bytes(key, value, value.version())))
}

/// Of `exists` and `break_lock`.
#[must_use]
pub fn found(result: &Result<bool, Error>) -> Outcome {
    told(result, |found| Outcome::Found(*found))
}

/// Of a put, with or without condition.
#[must_use]
pub fn put(result: &Result<Write, Error>) -> Outcome {
    told(result, |write| match write {
        Write::Done(version) => Outcome::Written { version: version.raw() },
        Write::NotDone(unmet) => not_done(*unmet),
    })
}

/// Of a delete, with or without condition.
#[must_use]
pub fn deleted(result: &Result<Write, Error>) -> Outcome {
    told(result, |write| match write {
        Write::Done(_) => Outcome::Deleted,
        Write::NotDone(unmet) => not_done(*unmet),
    })
}

const fn not_done(unmet: Unmet) -> Outcome {
    match unmet {
        Unmet::Exists(version) => Outcome::Exists { version: version.raw() },
        Unmet::Mismatch(version) => Outcome::Mismatch { version: version.raw() },
        Unmet::NotFound => Outcome::Absent,
    }
}

/// Of `create_counter` and `create_sequence`.
#[must_use]
pub fn created(result: &Result<bool, Error>) -> Outcome {
    told(result, |created| Outcome::Created(*created))
}

/// Of `add` and `next`.
#[must_use]
pub fn number(result: &Result<i64, Error>) -> Outcome {
    told(result, |number| Outcome::Number(*number))
}

/// Of `counter`.
#[must_use]
pub fn counted(result: &Result<Option<i64>, Error>) -> Outcome {
    told(result, |value| value.map_or(Outcome::Absent, Outcome::Number))
}

/// Of `try_lock`. One that failed may have taken the lock, and gives it back later.
#[must_use]
pub fn tried(result: &Result<Option<LockGuard>, Error>) -> Outcome {
    match result {
        Ok(Some(guard)) => Outcome::Locked { token: guard.token() },
        Ok(None) => Outcome::Busy,
        Err(Error::LocksClosed { .. }) => Outcome::NotExecuted,
        Err(_) => Outcome::Unknown,
    }
}

/// Of `lock_state`.
#[must_use]
pub fn lock_state(result: &Result<Option<LockView>, Error>) -> Outcome {
    told(result, |view| view.map_or(Outcome::Absent, |view| Outcome::State { held: view.holder.is_some(), token: view.token }))
}

/// Of `unlock`. When the lease has lapsed the lock was lost, and nobody knows when; a late unlock goes on by itself.
#[must_use]
pub fn unlocked(result: &Result<(), Error>) -> Outcome {
    match result {
        Ok(()) => Outcome::Unlocked,
        Err(Error::Fenced { .. }) => Outcome::Fenced,
        Err(_) => Outcome::Unknown,
    }
}
