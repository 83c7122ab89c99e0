//! Messages of the control plane. Input: which message 1 byte · the message as it travels.

use prost::Message;
use sidewire_common::fabric::PeerInfo;
use sidewire_common::limits::CHUNKS_MAX;
use sidewire_proto::convert::{self, ConvertError, RegionUse, UsedRegion};
use sidewire_proto::v1;

/// Names of all fields that a refusal may name.
const FIELDS: [&str; 12] = [
    "client_id",
    "region.use",
    "region.chunk",
    "region.bytes",
    "regions.chunk",
    "regions",
    "peer.lid",
    "peer.gid",
    "peer.responder_depth",
    "peer.initiator_depth",
    "peer.socket",
    "peer.token",
];
/// Bytes of an error's text: it travels in a header.
const TEXT_BYTES_MAX: usize = 1024;

/// Feeds the conversion; true when all of the message was accepted.
///
/// # Panics
/// When what was accepted does not come back as it was, or a refusal names no field.
pub fn run(bytes: &[u8]) -> bool {
    let Some((which, wire)) = bytes.split_first() else { return false };
    match which % 4 {
        0 => v1::AttachRequest::decode(wire).is_ok_and(|m| client(&m.client_id)),
        1 => v1::OpenEndpointRequest::decode(wire).is_ok_and(|m| peer(m.peer) & client(&m.client_id)),
        2 => v1::AttachReply::decode(wire).is_ok_and(|m| peer(m.link) & regions(m.regions)),
        _ => v1::OpenEndpointReply::decode(wire).is_ok_and(|m| peer(m.peer) & m.staging.is_none_or(region)),
    }
}

fn refused(error: &ConvertError) -> bool {
    assert!(FIELDS.contains(&error.field), "{error} names no field");
    assert!(error.to_string().len() <= TEXT_BYTES_MAX, "an error of {} bytes", error.to_string().len());
    assert!(!error.expected.is_empty());
    false
}

fn client(bytes: &[u8]) -> bool {
    match convert::client_id(bytes) {
        Ok(client) => {
            assert!(client.to_bytes()[..] == *bytes && client.0 != 0);
            true
        }
        Err(error) => refused(&error),
    }
}

fn peer(wire: Option<v1::Peer>) -> bool {
    match convert::peer(wire.clone()) {
        Ok(info) => {
            if let PeerInfo::Shm(ticket) = &info {
                assert!(ticket.socket.len() <= 100 && ticket.socket.bytes().all(|byte| byte.is_ascii_graphic()));
            }
            let again = convert::peer_to_wire(&info);
            assert_eq!(again.as_ref().and_then(|p| p.kind.as_ref()), wire.as_ref().and_then(|p| p.kind.as_ref()));
            true
        }
        Err(error) => refused(&error),
    }
}

fn region(wire: v1::Region) -> bool {
    match UsedRegion::try_from(wire) {
        Ok(used) => {
            is_sound(&used);
            assert_eq!(v1::Region::from(used), wire);
            true
        }
        Err(error) => refused(&error),
    }
}

fn is_sound(used: &UsedRegion) {
    let region = used.region;
    assert!(u32::from(used.chunk) < CHUNKS_MAX && region.bytes > 0);
    assert!(region.base.addr.checked_add(region.bytes).is_some());
    assert_eq!(region.atomic, used.used_for == RegionUse::Cells);
    for (offset, bytes) in [(0, region.bytes), (region.bytes, 0), (region.bytes - 1, 1)] {
        assert!(region.at(offset, bytes).is_some(), "a place within");
    }
    for (offset, bytes) in [(0, region.bytes + 1), (region.bytes, 1), (u64::MAX, 2), (u64::MAX - 7, 8), (1, u64::MAX)] {
        assert!(region.at(offset, bytes).is_none(), "{offset} and {bytes} lie outside of {region:?}");
    }
}

fn regions(wire: Vec<v1::Region>) -> bool {
    match convert::regions(wire.clone()) {
        Ok(used) => {
            used.iter().for_each(is_sound);
            assert_eq!(used.iter().map(|&used| v1::Region::from(used)).collect::<Vec<_>>(), wire);
            let mut chunks: Vec<u16> = used
                .iter()
                .filter(|used| matches!(used.used_for, RegionUse::Index | RegionUse::Heap))
                .map(|used| used.chunk)
                .collect();
            let count = chunks.len();
            chunks.sort_unstable();
            chunks.dedup();
            assert_eq!(chunks.len(), count, "a chunk twice");
            true
        }
        Err(error) => refused(&error),
    }
}
