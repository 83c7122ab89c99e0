//! Sidewire.
fn main() {}
