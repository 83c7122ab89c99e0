//! Several servers by a map in a file: each key goes to its primary, and what happens to one server is its own affair.
//!
//! What could break: a key that is written to one server and read from another, an operation that no route was made
//! for, one server that is gone or stands still and holds up calls to the others, a server with another map whose
//! refusal is not understood or is retried for ever.

mod calls;
mod scene;
mod trouble;
