//! Every operation of the library, once with everything that is allowed and once with what is not.
//!
//! What could break: a length at a border (a power of two, a 64-byte unit, a buffer, half a ring), a byte in a key that
//! means something somewhere, a condition judged wrongly, an error of the wrong type, an asynchronous twin that
//! differs from its sister.

mod conditions;
mod handle;
mod kinds;
mod lengths;
mod pipeline;
