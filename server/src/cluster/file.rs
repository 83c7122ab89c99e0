//! A map that stands in a file: shards by weight over a fixed set of servers, one copy each.
//!
//! Every server reads the same file and computes the same placement; nothing ever moves.
//!
//! ```toml
//! name = "demo"
//! hash_seed = 7          # optional: from the name otherwise
//! [[server]]
//! name = "a"
//! address = "10.0.0.1:7400"
//! weight = 100           # optional
//! ```

use serde::Deserialize;
use sidewire_common::cluster::placement::place;
use sidewire_common::cluster::{Assignment, ClusterMap, MapError, Member, MemberId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Weight of a server that names none.
pub const WEIGHT_DEFAULT: u32 = 100;

/// Why a map file is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the map file {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML of this form.
    #[error("map file {}: {reason}", path.display())]
    Parse {
        /// Which.
        path: PathBuf,
        /// Where and what, over several lines.
        reason: String,
    },
    /// A value cannot be accepted.
    #[error("map file {}: {error}", path.display())]
    Map {
        /// Which.
        path: PathBuf,
        /// What.
        error: MapError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    hash_seed: Option<u64>,
    #[serde(default = "one")]
    replicas: u32,
    #[serde(default)]
    server: Vec<Server>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: String,
    address: String,
    #[serde(default = "weight")]
    weight: u32,
}

fn one() -> u32 {
    1
}

fn weight() -> u32 {
    WEIGHT_DEFAULT
}

/// Reads the map and finds the node `node` in it.
///
/// # Errors
/// When the file cannot be read or something in it cannot be accepted.
pub fn read(path: &Path, node: &str) -> Result<(ClusterMap, MemberId), FileError> {
    let named = || path.to_owned();
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Read { path: named(), source })?;
    let text: Text =
        toml::from_str(&text).map_err(|e| FileError::Parse { path: named(), reason: e.to_string().trim_end().to_owned() })?;
    of(text, node).map_err(|error| FileError::Map { path: named(), error })
}

fn of(text: Text, node: &str) -> Result<(ClusterMap, MemberId), MapError> {
    let refuse = |field, value: String, expected| Err(MapError { field, value, expected });
    if text.replicas != 1 {
        return refuse("replicas", text.replicas.to_string(), "1: several copies need etcd, since somebody has to fail over");
    }
    let names: BTreeSet<&str> = text.server.iter().map(|server| server.name.as_str()).collect();
    if names.len() != text.server.len() || names.is_empty() {
        return refuse("server", format!("{} entries", text.server.len()), "at least one, each name once");
    }
    let seed = text.hash_seed.unwrap_or_else(|| xxh3_64(text.name.as_bytes()));
    let mut map = ClusterMap::new(text.name, seed, 1);
    for server in text.server {
        let Server { name, address, weight } = server;
        map.members.insert(MemberId(map.next_member), Member { name, address, incarnation: None, weight, draining: false });
        map.next_member += 1;
    }
    let weights: BTreeMap<MemberId, u32> = map.members.iter().map(|(&id, member)| (id, member.weight)).collect();
    let placed = place(&map.shards, &weights, 1);
    map.shards = placed.into_iter().map(|in_sync| Assignment { reign: 1, in_sync, ..Assignment::default() }).collect();
    map.check()?;
    match map.members.iter().find(|(_, member)| member.name == node) {
        Some((&id, _)) => Ok((map, id)),
        None => refuse("node", format!("{node:?}"), "the name of a server in the file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, node: &str) -> Result<(ClusterMap, MemberId), MapError> {
        of(toml::from_str(text).unwrap(), node)
    }

    const TWO: &str = "name='demo'\n[[server]]\nname='a'\naddress='h:1'\n[[server]]\nname='b'\naddress='h:2'\nweight=300\n";

    #[test]
    fn all_nodes_see_the_same_map() {
        let (of_a, a) = parse(TWO, "a").unwrap();
        let (of_b, b) = parse(TWO, "b").unwrap();
        assert_eq!((a, b, &of_a), (MemberId(1), MemberId(2), &of_b));
        assert_eq!(of_a.shards.iter().filter(|s| s.primary() == Some(a)).count(), 64);
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(parse(TWO, "c").unwrap_err().field, "node");
        assert_eq!(parse("name='demo'", "a").unwrap_err().field, "server");
        assert_eq!(parse(&TWO.replace("'b'", "'a'"), "a").unwrap_err().field, "server");
        assert_eq!(parse(&TWO.replace("'demo'", "'De mo'"), "a").unwrap_err().field, "name");
        assert_eq!(parse(&TWO.replace("300", "0"), "a").unwrap_err().field, "member.weight");
        assert_eq!(parse(&format!("replicas=2\n{TWO}"), "a").unwrap_err().field, "replicas");
    }
}
