//! Operations that are submitted now and polled later.

use crate::value::Value;
use crate::write::{Write, WriteOptions};

/// An operation to be submitted.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Reads a value.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// Stores a value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Conditions and more.
        options: WriteOptions<'a>,
    },
    /// Deletes whatever the key holds.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Conditions and more.
        options: WriteOptions<'a>,
    },
    /// Adds to a counter.
    Add {
        /// The key.
        key: &'a [u8],
        /// What is added.
        delta: i64,
    },
}

/// Names a submitted operation within its session; never used again there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct OperationId(pub u64);

/// What a submitted operation brought.
#[derive(Debug)]
pub enum Outcome {
    /// Of a Get: the value, if there is one.
    Value(Option<Value>),
    /// Of a Put or Delete.
    Write(Write),
    /// Of an Add: the counter after it.
    Sum(i64),
}
