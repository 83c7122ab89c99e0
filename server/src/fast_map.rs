//! Maps on the way of each write.

/// A map whose keys no peer chooses, or chooses under a secret seed: a hash against crafted collisions, which the
/// standard one is, would be paid for nothing.
pub type FastMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
