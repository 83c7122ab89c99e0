//! From wire messages to strict types: each field checked once, at the border.

use crate::v1;
use sidewire_common::fabric::{PeerInfo, RemoteAddr, RemoteRegion, ShmTicket, VerbsPeer};
use sidewire_common::id::ClientId;
use sidewire_common::limits::CHUNKS_MAX;
use std::collections::HashSet;

/// A field of a message that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` is {value}: {expected}")]
pub struct ConvertError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub expected: &'static str,
}

impl ConvertError {
    /// Characters of a value that are told: it is a peer's word, and the error travels back in a header.
    pub const VALUE_CHARS_MAX: usize = 120;

    /// A field whose value may be of any length.
    #[must_use]
    pub fn new(field: &'static str, value: impl ToString, expected: &'static str) -> Self {
        let mut value = value.to_string();
        if let Some((end, _)) = value.char_indices().nth(Self::VALUE_CHARS_MAX) {
            value.truncate(end);
            value.push('…');
        }
        Self { field, value, expected }
    }
}

fn refuse<T>(field: &'static str, value: impl ToString, expected: &'static str) -> Result<T, ConvertError> {
    Err(ConvertError::new(field, value, expected))
}

/// A client's id.
///
/// # Errors
/// When it has not 16 bytes or is all zeroes.
pub fn client_id(bytes: &[u8]) -> Result<ClientId, ConvertError> {
    match <[u8; 16]>::try_from(bytes) {
        Ok([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) => refuse("client_id", "all zeroes", "16 random bytes"),
        Ok(bytes) => Ok(ClientId::from_bytes(bytes)),
        Err(_) => refuse("client_id", format!("{} bytes long", bytes.len()), "16 random bytes"),
    }
}

/// What a region is used for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RegionUse {
    /// Segments and directories.
    Index,
    /// Records.
    Heap,
    /// Counters and locks.
    Cells,
    /// A connection's staging ring.
    Staging,
}

/// A region of the server with its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedRegion {
    /// Its use.
    pub used_for: RegionUse,
    /// Its chunk number, 0 unless it is index or heap.
    pub chunk: u16,
    /// Where it is.
    pub region: RemoteRegion,
}

impl TryFrom<v1::Region> for UsedRegion {
    type Error = ConvertError;

    fn try_from(wire: v1::Region) -> Result<Self, ConvertError> {
        let used_for = match wire.r#use() {
            v1::region::Use::Index => RegionUse::Index,
            v1::region::Use::Heap => RegionUse::Heap,
            v1::region::Use::Cells => RegionUse::Cells,
            v1::region::Use::Staging => RegionUse::Staging,
            v1::region::Use::Unspecified => return refuse("region.use", wire.r#use, "1 to 4"),
        };
        if wire.chunk >= CHUNKS_MAX {
            return refuse("region.chunk", wire.chunk, "below 2^14");
        }
        if wire.bytes == 0 || wire.addr.checked_add(wire.bytes).is_none() {
            return refuse("region.bytes", wire.bytes, "at least 1, and not past the end of the address space");
        }
        let base = RemoteAddr { addr: wire.addr, rkey: wire.rkey };
        let region = RemoteRegion { base, bytes: wire.bytes, atomic: used_for == RegionUse::Cells };
        Ok(Self { used_for, chunk: wire.chunk as u16, region })
    }
}

impl From<UsedRegion> for v1::Region {
    fn from(region: UsedRegion) -> Self {
        let used_for = match region.used_for {
            RegionUse::Index => v1::region::Use::Index,
            RegionUse::Heap => v1::region::Use::Heap,
            RegionUse::Cells => v1::region::Use::Cells,
            RegionUse::Staging => v1::region::Use::Staging,
        };
        let RemoteAddr { addr, rkey } = region.region.base;
        Self { r#use: used_for.into(), chunk: region.chunk.into(), addr, rkey, bytes: region.region.bytes }
    }
}

/// A list of pool regions: no chunk twice.
///
/// # Errors
/// When one of them is refused, a chunk stands twice, or there is no index chunk.
pub fn regions(wire: Vec<v1::Region>) -> Result<Vec<UsedRegion>, ConvertError> {
    let regions = wire.into_iter().map(UsedRegion::try_from).collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashSet::new();
    for region in regions.iter().filter(|r| matches!(r.used_for, RegionUse::Index | RegionUse::Heap)) {
        if !seen.insert(region.chunk) {
            return refuse("regions.chunk", region.chunk, "each chunk once");
        }
    }
    if !regions.iter().any(|r| r.used_for == RegionUse::Index) {
        return refuse("regions", "without an index chunk", "at least one index chunk");
    }
    Ok(regions)
}

/// A peer's side of the handshake; none at all means that its provider needs nothing.
///
/// # Errors
/// When a fixed-length field has another length. What the numbers may be is the fabric's to say.
pub fn peer(wire: Option<v1::Peer>) -> Result<PeerInfo, ConvertError> {
    match wire.and_then(|p| p.kind) {
        None => Ok(PeerInfo::Unneeded),
        Some(v1::peer::Kind::Verbs(p)) => {
            let small = |field, value: u32| u8::try_from(value).or_else(|_| refuse(field, value, "at most 255"));
            Ok(PeerInfo::Verbs(VerbsPeer {
                qpn: p.qpn,
                psn: p.psn,
                lid: u16::try_from(p.lid).or_else(|_| refuse("peer.lid", p.lid, "at most 65535"))?,
                gid: fixed("peer.gid", &p.gid)?,
                mtu_bytes: p.mtu_bytes,
                responder_depth: small("peer.responder_depth", p.responder_depth)?,
                initiator_depth: small("peer.initiator_depth", p.initiator_depth)?,
            }))
        }
        Some(v1::peer::Kind::Shm(p)) => {
            let plain = !p.socket.is_empty() && p.socket.len() <= 100 && p.socket.bytes().all(|b| b.is_ascii_graphic());
            if !plain {
                return refuse("peer.socket", format!("{:?}", p.socket), "1 to 100 printable ASCII characters");
            }
            Ok(PeerInfo::Shm(ShmTicket { token: fixed("peer.token", &p.token)?, socket: p.socket }))
        }
    }
}

fn fixed(field: &'static str, bytes: &[u8]) -> Result<[u8; 16], ConvertError> {
    bytes.try_into().or_else(|_| refuse(field, format!("{} bytes long", bytes.len()), "16 bytes"))
}

/// The wire form of a peer's side.
#[must_use]
pub fn peer_to_wire(peer: &PeerInfo) -> Option<v1::Peer> {
    let kind = match peer {
        PeerInfo::Unneeded => return None,
        PeerInfo::Verbs(p) => v1::peer::Kind::Verbs(v1::VerbsPeer {
            qpn: p.qpn,
            psn: p.psn,
            lid: p.lid.into(),
            gid: p.gid.to_vec(),
            mtu_bytes: p.mtu_bytes,
            responder_depth: p.responder_depth.into(),
            initiator_depth: p.initiator_depth.into(),
        }),
        PeerInfo::Shm(p) => v1::peer::Kind::Shm(v1::ShmTicket { socket: p.socket.clone(), token: p.token.to_vec() }),
    };
    Some(v1::Peer { kind: Some(kind) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_come_back() {
        let verbs = PeerInfo::Verbs(VerbsPeer {
            qpn: 17,
            psn: 9,
            lid: 0,
            gid: [1; 16],
            mtu_bytes: 1024,
            responder_depth: 16,
            initiator_depth: 16,
        });
        let shm = PeerInfo::Shm(ShmTicket { socket: "sidewire-1".into(), token: [7; 16] });
        for info in [verbs, shm, PeerInfo::Unneeded] {
            assert_eq!(peer(peer_to_wire(&info)), Ok(info));
        }
    }

    #[test]
    fn each_wrong_field_is_named() {
        let ticket = |socket: &str, token: Vec<u8>| {
            let kind = Some(v1::peer::Kind::Shm(v1::ShmTicket { socket: socket.into(), token }));
            peer(Some(v1::Peer { kind })).unwrap_err().field
        };
        assert_eq!(ticket("", vec![0; 16]), "peer.socket");
        assert_eq!(ticket("x", vec![0; 15]), "peer.token");
        assert_eq!(client_id(&[1; 15]).unwrap_err().field, "client_id");
        assert_eq!(client_id(&[0; 16]).unwrap_err().field, "client_id");
        let region = v1::Region { r#use: 1, chunk: 0, addr: u64::MAX, rkey: 0, bytes: 2 };
        assert_eq!(UsedRegion::try_from(region).unwrap_err().field, "region.bytes");
        assert_eq!(regions(vec![]).unwrap_err().field, "regions");
        let region = v1::Region { r#use: 1, chunk: 3, addr: 0, rkey: 0, bytes: 2 };
        assert_eq!(regions(vec![region, region]).unwrap_err().field, "regions.chunk");
    }
}
