//! Which store, as it is written: `kv://host:port`, `redis://host:port`, `redis+unix://socket`,
//! `memcached://host:port`, `memcached+unix://socket`, `lmdb:folder`, `null:`.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;

/// A store's name and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetUrl {
    /// Sidewire, at host:port.
    Kv(String),
    /// Redis, at the URL that its client takes.
    Redis(String),
    /// memcached, at the URL that its client takes.
    Memcached(String),
    /// LMDB, in a folder.
    Lmdb(PathBuf),
    /// A store that costs nothing: the generator's own cost.
    Null,
}

const WANTED: &str = "write kv://HOST:PORT, redis://HOST:PORT, redis+unix://SOCKET, memcached://HOST:PORT, memcached+unix://SOCKET, \
                      lmdb:FOLDER or null:";

impl FromStr for TargetUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| format!("`{text}`: {WANTED}"))?;
        let place = rest.strip_prefix("//").unwrap_or(rest);
        if place.is_empty() && scheme != "null" {
            return Err(format!("`{text}` names no place: {WANTED}"));
        }
        match scheme {
            "kv" => Ok(Self::Kv(place.into())),
            "redis" | "redis+unix" => Ok(Self::Redis(text.into())),
            "memcached" => Ok(Self::Memcached(format!("memcache://{place}"))),
            "memcached+unix" => Ok(Self::Memcached(format!("memcache+unix://{place}"))),
            "lmdb" => Ok(Self::Lmdb(place.into())),
            "null" => Ok(Self::Null),
            _ => Err(format!("`{text}`: {WANTED}")),
        }
    }
}

impl TargetUrl {
    /// What it is called in tables: the store and, of the local sockets, that it is one.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kv(_) => "kv",
            Self::Redis(url) if url.starts_with("redis+unix") => "redis+unix",
            Self::Redis(_) => "redis",
            Self::Memcached(url) if url.starts_with("memcache+unix") => "memcached+unix",
            Self::Memcached(_) => "memcached",
            Self::Lmdb(_) => "lmdb",
            Self::Null => "null",
        }
    }
}

impl Display for TargetUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kv(address) => write!(f, "kv://{address}"),
            Self::Redis(url) => f.write_str(url),
            Self::Memcached(url) => write!(f, "memcached{}", url.strip_prefix("memcache").unwrap_or(url)),
            Self::Lmdb(folder) => write!(f, "lmdb:{}", folder.display()),
            Self::Null => f.write_str("null:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_as_they_are_written() {
        for (text, name) in [
            ("kv://127.0.0.1:7400", "kv"),
            ("redis://127.0.0.1:6379", "redis"),
            ("redis+unix:///run/redis.sock", "redis+unix"),
            ("memcached://127.0.0.1:11211", "memcached"),
            ("memcached+unix:///run/memcached.sock", "memcached+unix"),
            ("lmdb:/var/tmp/lmdb", "lmdb"),
            ("null:", "null"),
        ] {
            let url: TargetUrl = text.parse().expect(text);
            assert_eq!((url.to_string().as_str(), url.name()), (text, name));
        }
        for wrong in ["", "kv", "kv://", "mysql://x:1", "lmdb:", "127.0.0.1:7400"] {
            assert!(wrong.parse::<TargetUrl>().is_err(), "{wrong}");
        }
    }
}
