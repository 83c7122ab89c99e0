//! Server addresses, as people write them.

use crate::error::Error;
use crate::resolver::RESOLVERS;
use sidewire_common::host;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

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

    /// This end's address towards it, if the name resolves and a route leads there.
    ///
    /// # Errors
    /// When the resolver has not answered within `limit`, or does not answer others.
    pub fn local_address(&self, limit: Duration) -> Result<Option<IpAddr>, Error> {
        if host::is_simulated() {
            // No resolver and no route of this machine leads into a simulated world.
            return Ok(None);
        }
        let gone = |reason| Error::ServerGone { server: self.host_port.clone(), reason };
        // A literal address needs no resolver.
        let remote = match self.host_port.parse::<SocketAddr>() {
            Ok(remote) => Some(remote),
            Err(_) => {
                let name = self.host_port.clone();
                let resolve = move || name.to_socket_addrs().ok().and_then(|mut found| found.next());
                RESOLVERS.ask(limit, resolve).map_err(|e| gone(e.to_string()))?
            }
        };
        Ok(remote.and_then(local_towards))
    }
}

/// The address from which the host would send to `remote`.
fn local_towards(remote: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if remote.is_ipv4() { [0u8; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Connecting a datagram socket sends nothing and waits for nothing; it only picks the route.
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|a| a.ip())
}

/// This host's address on the way to `server` (`host:port` or `kv://host:port`): the one whose device a client uses
/// unless another is named. `None` when the name does not resolve or no route leads there.
///
/// # Errors
/// When it is not a server's address, or the resolver has not answered within `limit`.
pub fn local_address_towards(server: &str, limit: Duration) -> Result<Option<IpAddr>, Error> {
    Address::parse(server)?.local_address(limit)
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
    }

    #[test]
    fn a_literal_address_asks_no_resolver() {
        // No time is left for one.
        for (text, local) in [("127.0.0.1:9", IpAddr::from([127, 0, 0, 1])), ("[::1]:9", [0, 0, 0, 0, 0, 0, 0, 1].into())] {
            assert_eq!(Address::parse(text).unwrap().local_address(Duration::ZERO).unwrap(), Some(local), "{text}");
        }
        let named = Address::parse("localhost:9").unwrap().local_address(Duration::ZERO);
        assert!(matches!(named, Err(Error::ServerGone { .. })), "{named:?}");
    }

    #[test]
    fn a_name_that_does_not_resolve_is_nobody_s() {
        let nobody = Address::parse("no-such-host.invalid:9").unwrap().local_address(Duration::from_secs(60));
        assert!(matches!(nobody, Ok(None)), "{nobody:?}");
    }

    #[cfg(feature = "sim")]
    #[test]
    fn a_simulated_world_asks_no_resolver() {
        use std::sync::Mutex;

        static TOLD: Mutex<Option<Result<Option<IpAddr>, Error>>> = Mutex::new(None);
        let world = sidewire_common::fabric::sim::World::new(1);
        let process = world.process("client");
        let ask = || {
            let named = Address::parse("localhost:9").unwrap().local_address(Duration::ZERO);
            *TOLD.lock().unwrap() = Some(named);
        };
        world.spawn(process, "main", ask);
        assert!(world.run(1_000_000, || TOLD.lock().unwrap().is_some()), "{:?}", world.threads());
        assert!(matches!(*TOLD.lock().unwrap(), Some(Ok(None))));
    }
}
