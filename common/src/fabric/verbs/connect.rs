//! What two ends must agree on: the peer's word, checked field by field, and the path that follows from it.

use super::device::Hardware;
use crate::fabric::gid_table as gid;
use crate::fabric::selection::{path_depth, path_mtu};
use crate::fabric::{FabricError, PeerInfo, VerbsPeer};
use rdma_sys::ibv_mtu;

/// Values of 24 bits: queue pair numbers and packet sequence numbers.
const BITS_24: u32 = (1 << 24) - 1;

/// This end of a connection, as the peer is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalEnd {
    pub(super) psn: u32,
    pub(super) initiator_depth: u8,
    pub(super) responder_depth: u8,
}

impl LocalEnd {
    /// A new one with a random starting packet sequence number.
    pub(super) fn new(initiator_depth: u8, responder_depth: u8) -> Self {
        Self { psn: rand::random::<u32>() & BITS_24, initiator_depth, responder_depth }
    }

    /// What the peer must know.
    pub(super) fn peer(&self, hardware: &Hardware, number: u32) -> VerbsPeer {
        VerbsPeer {
            qpn: number,
            psn: self.psn,
            lid: hardware.lid,
            gid: hardware.gid,
            mtu_bytes: hardware.mtu_bytes,
            responder_depth: self.responder_depth,
            initiator_depth: self.initiator_depth,
        }
    }
}

/// All that a queue pair needs to become ready.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) port: u8,
    pub(super) mtu: ibv_mtu::Type,
    pub(super) psn: u32,
    pub(super) peer_number: u32,
    pub(super) peer_psn: u32,
    pub(super) peer_lid: u16,
    pub(super) peer_gid: [u8; 16],
    pub(super) gid_index: u8,
    /// Whether packets carry a global route.
    pub(super) global: bool,
    pub(super) initiator_depth: u8,
    pub(super) responder_depth: u8,
}

impl Path {
    /// The path from `local` to `peer`.
    ///
    /// # Errors
    /// When a field of `peer` cannot be right, or this end's GID is gone.
    pub(super) fn new(hardware: &Hardware, local: &LocalEnd, peer: &PeerInfo) -> Result<Self, FabricError> {
        let PeerInfo::Verbs(peer) = peer else {
            let value = format!("{peer:?}");
            return Err(FabricError::Peer { field: "kind of endpoint", value, expected: "a queue pair".into() });
        };
        validate(peer, hardware.ethernet)?;
        let entry = hardware.gid_now()?;
        Ok(Self {
            port: hardware.port,
            mtu: mtu_code(path_mtu(hardware.mtu_bytes, peer.mtu_bytes)),
            psn: local.psn,
            peer_number: peer.qpn,
            peer_psn: peer.psn,
            peer_lid: peer.lid,
            peer_gid: peer.gid,
            gid_index: u8::try_from(entry.index).unwrap_or(u8::MAX),
            global: hardware.ethernet || peer.lid == 0,
            initiator_depth: path_depth(local.initiator_depth, peer.responder_depth),
            responder_depth: path_depth(local.responder_depth, peer.initiator_depth),
        })
    }

    /// What may mend a path that cannot be had.
    pub(super) fn hint(&self) -> String {
        let peer = gid::text(&self.peer_gid);
        format!(
            "the peer's GID {peer} must be reachable from GID index {}; `ip neigh` and `ping` show whether it is",
            self.gid_index
        )
    }
}

fn validate(peer: &VerbsPeer, ethernet: bool) -> Result<(), FabricError> {
    let refuse = |field, value: String, expected: &str| Err(FabricError::Peer { field, value, expected: expected.into() });
    if peer.qpn == 0 || peer.qpn > BITS_24 {
        return refuse("qpn", peer.qpn.to_string(), "a queue pair number is 1 to 16777215");
    }
    if peer.psn > BITS_24 {
        return refuse("psn", peer.psn.to_string(), "a packet sequence number has 24 bits");
    }
    if !matches!(peer.mtu_bytes, 256 | 512 | 1024 | 2048 | 4096) {
        return refuse("mtu_bytes", peer.mtu_bytes.to_string(), "a path MTU is 256, 512, 1024, 2048 or 4096");
    }
    if peer.gid == [0; 16] && (ethernet || peer.lid == 0) {
        return refuse("gid", gid::text(&peer.gid), "without a LID it says where the peer is, so it cannot be zero");
    }
    if peer.responder_depth == 0 {
        return refuse("responder_depth", "0".into(), "at least one read or atomic at once");
    }
    if peer.initiator_depth == 0 {
        return refuse("initiator_depth", "0".into(), "at least one read or atomic at once");
    }
    Ok(())
}

/// The code of a path MTU that is a power of two from 256 to 4096.
fn mtu_code(bytes: u32) -> ibv_mtu::Type {
    match bytes {
        0..512 => ibv_mtu::IBV_MTU_256,
        512..1024 => ibv_mtu::IBV_MTU_512,
        1024..2048 => ibv_mtu::IBV_MTU_1024,
        2048..4096 => ibv_mtu::IBV_MTU_2048,
        _ => ibv_mtu::IBV_MTU_4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> VerbsPeer {
        let gid = gid::of_address("10.0.0.1".parse().unwrap());
        VerbsPeer { qpn: 17, psn: 0xff_ffff, lid: 0, gid, mtu_bytes: 1024, responder_depth: 16, initiator_depth: 1 }
    }

    fn field(peer: &VerbsPeer) -> &'static str {
        match validate(peer, true) {
            Err(FabricError::Peer { field, .. }) => field,
            Ok(()) => "none",
            Err(_) => "another error",
        }
    }

    #[test]
    fn each_field_is_refused_by_its_name() {
        assert_eq!(field(&good()), "none");
        assert_eq!(field(&VerbsPeer { qpn: 0, ..good() }), "qpn");
        assert_eq!(field(&VerbsPeer { qpn: 1 << 24, ..good() }), "qpn");
        assert_eq!(field(&VerbsPeer { psn: 1 << 24, ..good() }), "psn");
        assert_eq!(field(&VerbsPeer { mtu_bytes: 1500, ..good() }), "mtu_bytes");
        assert_eq!(field(&VerbsPeer { gid: [0; 16], ..good() }), "gid");
        assert_eq!(field(&VerbsPeer { responder_depth: 0, ..good() }), "responder_depth");
        assert_eq!(field(&VerbsPeer { initiator_depth: 0, ..good() }), "initiator_depth");
    }

    #[test]
    fn an_infiniband_peer_needs_a_lid_or_a_gid() {
        let peer = VerbsPeer { gid: [0; 16], lid: 3, ..good() };
        assert!(validate(&peer, false).is_ok());
        assert!(validate(&VerbsPeer { lid: 0, ..peer }, false).is_err());
    }

    #[test]
    fn mtu_codes_are_those_of_the_specification() {
        assert_eq!([256, 512, 1024, 2048, 4096].map(mtu_code), [1, 2, 3, 4, 5]);
    }
}
