//! The GID table of a port. Indexes move when addresses come and go, so they are looked up again at every connect.

use super::context::Context;
use rdma_sys::{ibv_gid, ibv_query_gid};
use std::net::{IpAddr, Ipv6Addr};

/// `sgid_index` of an address handle has eight bits.
const INDEXES_MAX: u32 = 256;

/// How packets to a GID are framed; later variants are preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Framing {
    /// InfiniBand, or RoCE v1 on Ethernet.
    Native,
    /// RoCE v2: UDP.
    RoceV2,
}

/// An entry that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GidEntry {
    pub(super) index: u32,
    pub(super) gid: [u8; 16],
    pub(super) framing: Framing,
}

/// The GID that carries an IP address.
pub(super) fn of_address(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A GID in its usual notation.
pub(super) fn text(gid: &[u8; 16]) -> String {
    Ipv6Addr::from(*gid).to_string()
}

/// The entry of `port` that carries `gid`, RoCE v2 before v1. It is probably at index `first`.
pub(super) fn find(context: &Context, port: u8, table_len: u32, gid: &[u8; 16], first: u32) -> Option<GidEntry> {
    let wanted = |entry: &GidEntry| entry.gid == *gid;
    let likely = entry(context, port, first).filter(wanted).filter(|e| e.framing == Framing::RoceV2);
    likely.or_else(|| entries(context, port, table_len).into_iter().filter(wanted).max_by_key(|e| e.framing))
}

/// The entry of `port` to use when no address was named.
pub(super) fn best(context: &Context, port: u8, table_len: u32) -> Option<GidEntry> {
    entries(context, port, table_len).into_iter().rev().max_by_key(rank)
}

/// IPv4 addresses before other global ones, link-local ones last; within each RoCE v2 before v1.
fn rank(entry: &GidEntry) -> (u8, Framing) {
    let address = Ipv6Addr::from(entry.gid);
    let scope = match address.to_ipv4_mapped() {
        Some(_) => 2,
        None if address.is_unicast_link_local() => 0,
        None => 1,
    };
    (scope, entry.framing)
}

/// All entries in use.
fn entries(context: &Context, port: u8, table_len: u32) -> Vec<GidEntry> {
    (0..table_len.min(INDEXES_MAX)).filter_map(|index| entry(context, port, index)).collect()
}

/// The entry at `index`, if it is in use.
fn entry(context: &Context, port: u8, index: u32) -> Option<GidEntry> {
    let gid = query(context, port, index)?;
    let framing = framing(context.name(), port, index)?;
    Some(GidEntry { index, gid, framing })
}

fn query(context: &Context, port: u8, index: u32) -> Option<[u8; 16]> {
    let mut gid = ibv_gid { raw: [0; 16] };
    // SAFETY: the context is open; `gid` is exclusive and of the type that is filled.
    let code = unsafe { ibv_query_gid(context.raw(), port, index.cast_signed(), &raw mut gid) };
    // SAFETY: every sixteen bytes are a `raw`, and all were initialised above.
    let raw = unsafe { gid.raw };
    (code == 0 && raw != [0; 16]).then_some(raw)
}

/// The kernel answers EINVAL for an empty entry. A kernel too old to know types knows only v1.
fn framing(device: &str, port: u8, index: u32) -> Option<Framing> {
    let path = format!("/sys/class/infiniband/{device}/ports/{port}/gid_attrs/types/{index}");
    match std::fs::read_to_string(path) {
        Ok(kind) if kind.trim() == "RoCE v2" => Some(Framing::RoceV2),
        Ok(_) => Some(Framing::Native),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Framing::Native),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(address: &str, framing: Framing) -> GidEntry {
        GidEntry { index: 0, gid: of_address(address.parse().unwrap()), framing }
    }

    #[test]
    fn a_routable_v2_address_is_preferred() {
        let v4 = rank(&entry("10.0.0.1", Framing::RoceV2));
        assert!(v4 > rank(&entry("10.0.0.1", Framing::Native)));
        assert!(v4 > rank(&entry("fd00::1", Framing::RoceV2)));
        assert!(rank(&entry("fd00::1", Framing::Native)) > rank(&entry("fe80::1", Framing::RoceV2)));
    }

    #[test]
    fn an_ipv4_address_is_a_mapped_gid() {
        assert_eq!(text(&of_address("10.0.0.1".parse().unwrap())), "::ffff:10.0.0.1");
    }
}
