//! A port's GID table, and which entry of it is used.

use std::net::{IpAddr, Ipv6Addr};

/// How packets to a GID are framed; later variants are preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Framing {
    /// InfiniBand, or RoCE v1 on Ethernet.
    Native,
    /// RoCE v2: UDP.
    RoceV2,
}

/// An entry that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidEntry {
    /// Its place in the table.
    pub index: u32,
    /// The GID.
    pub gid: [u8; 16],
    /// How packets to it are framed.
    pub framing: Framing,
}

/// The GID that carries an IP address.
#[must_use]
pub fn of_address(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A GID in its usual notation.
#[must_use]
pub fn text(gid: &[u8; 16]) -> String {
    Ipv6Addr::from(*gid).to_string()
}

/// Whether it holds on its own link only.
#[must_use]
pub fn is_link_local(gid: &[u8; 16]) -> bool {
    Ipv6Addr::from(*gid).is_unicast_link_local()
}

/// The entry that carries `gid`, RoCE v2 before v1.
#[must_use]
pub fn carrying(entries: &[GidEntry], gid: &[u8; 16]) -> Option<GidEntry> {
    entries.iter().filter(|entry| entry.gid == *gid).max_by_key(|entry| entry.framing).copied()
}

/// The entry to use when no address was named; of equals the first.
#[must_use]
pub fn best(entries: &[GidEntry]) -> Option<GidEntry> {
    entries.iter().rev().max_by_key(|entry| rank(entry)).copied()
}

/// IPv4 addresses before other global ones, link-local ones last; within each RoCE v2 before v1.
fn rank(entry: &GidEntry) -> (u8, Framing) {
    let scope = match Ipv6Addr::from(entry.gid).to_ipv4_mapped() {
        Some(_) => 2,
        None if is_link_local(&entry.gid) => 0,
        None => 1,
    };
    (scope, entry.framing)
}

#[cfg(test)]
mod tests {
    use super::Framing::{Native, RoceV2};
    use super::*;

    fn table(addresses: &[(&str, Framing)]) -> Vec<GidEntry> {
        let entry = |(index, (address, framing)): (usize, &(&str, Framing))| GidEntry {
            // Gaps, as real tables have them.
            index: 3 * index as u32,
            gid: of_address(address.parse().unwrap()),
            framing: *framing,
        };
        addresses.iter().enumerate().map(entry).collect()
    }

    fn best_index(addresses: &[(&str, Framing)]) -> Option<u32> {
        best(&table(addresses)).map(|entry| entry.index)
    }

    #[test]
    fn a_routable_v2_address_is_preferred() {
        assert_eq!(best_index(&[("fe80::1", RoceV2), ("10.0.0.1", RoceV2)]), Some(3));
        assert_eq!(best_index(&[("10.0.0.1", Native), ("10.0.0.1", RoceV2)]), Some(3));
        assert_eq!(best_index(&[("fd00::1", RoceV2), ("10.0.0.1", RoceV2)]), Some(3));
        assert_eq!(best_index(&[("fe80::1", RoceV2), ("fd00::1", Native)]), Some(3));
        assert_eq!(best_index(&[("fd00::1", RoceV2)]), Some(0));
        assert_eq!(best_index(&[("fe80::1", Native), ("fe80::1", RoceV2)]), Some(3));
        assert_eq!(best_index(&[("10.0.0.1", RoceV2), ("10.0.0.2", RoceV2)]), Some(0));
        assert_eq!(best_index(&[]), None);
        let long: Vec<_> = (0..85).map(|_| ("fe80::1", RoceV2)).chain([("10.0.0.1", RoceV2)]).collect();
        assert_eq!(best_index(&long), Some(255));
    }

    #[test]
    fn an_address_is_found_in_its_best_framing() {
        let entries = table(&[("10.0.0.1", RoceV2), ("10.0.0.1", Native), ("10.0.0.2", Native)]);
        let index = |address: &str| carrying(&entries, &of_address(address.parse().unwrap())).map(|entry| entry.index);
        assert_eq!((index("10.0.0.1"), index("10.0.0.2"), index("10.0.0.3")), (Some(0), Some(6), None));
    }

    #[test]
    fn an_ipv4_address_is_a_mapped_gid() {
        assert_eq!(text(&of_address("10.0.0.1".parse().unwrap())), "::ffff:10.0.0.1");
    }
}
