//! Server addresses, as people write them.

use crate::error::Error;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    host_port: String,
}

impl Address {
    /// From `host:port` or `kv://host:port`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| Err(Error::Address { address: text.into(), reason: reason.into() });
        let bare = text.trim();
        let bare = match bare.split_once("://") {
            Some(("kv", rest)) => rest.trim_end_matches('/'),
            Some((scheme, _)) => return refuse(&format!("the scheme `{scheme}` is not known")),
            None => bare,
        };
        let Some((host, port)) = bare.rsplit_once(':') else { return refuse("the port is missing") };
        if host.is_empty() {
            return refuse("the host is missing");
        }
        if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
            return refuse("an IPv6 address stands in brackets");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]%".contains(c);
        if !host.chars().all(plain) {
            return refuse("the host has a character that no host has");
        }
        match port.parse::<u16>() {
            Ok(0) | Err(_) => refuse("the port is not a number from 1 to 65535"),
            Ok(_) => Ok(Self { host_port: bare.into() }),
        }
    }

    /// `host:port`.
    pub fn as_str(&self) -> &str {
        &self.host_port
    }

    /// This end's address towards it, if the name resolves.
    pub fn local_address(&self) -> Option<IpAddr> {
        let remote = self.host_port.to_socket_addrs().ok()?.next()?;
        let any: IpAddr = if remote.is_ipv4() { [0u8; 4].into() } else { [0u16; 8].into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        // Connecting a datagram socket sends nothing; it only picks the route.
        socket.connect(remote).ok()?;
        socket.local_addr().ok().map(|a| a.ip())
    }
}

/// This host's address on the way to `server` (`host:port` or `kv://host:port`): the one whose device a client uses
/// unless another is named. `None` when the name does not resolve or no route leads there.
///
/// # Errors
/// When it is not a server's address.
pub fn local_address_towards(server: &str) -> Result<Option<IpAddr>, Error> {
    Ok(Address::parse(server)?.local_address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood_or_refused_by_name() {
        for good in ["127.0.0.1:7400", "kv://host-1.example:1", "[::1]:7400", "kv://localhost:65535/"] {
            assert!(Address::parse(good).is_ok(), "{good}");
        }
        assert_eq!(Address::parse("kv://a:1/").unwrap().as_str(), "a:1");
        for bad in ["", "host", ":7400", "host:0", "host:x", "host:65536", "http://host:1", "::1:7400", "ho st:1", "a/b:1"] {
            assert!(matches!(Address::parse(bad), Err(Error::Address { .. })), "{bad}");
        }
        assert_eq!(Address::parse("127.0.0.1:9").unwrap().local_address(), Some([127, 0, 0, 1].into()));
    }
}
