//! Sidewire.
