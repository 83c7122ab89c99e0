//! What two ends tell each other over the control plane before they connect.

/// One end's side of the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerInfo {
    /// The provider needs nothing from this end.
    Unneeded,
    /// A queue pair in INIT.
    Verbs(VerbsPeer),
    /// A place where descriptors are handed over.
    Shm(ShmTicket),
}

/// A queue pair, as its peer must know it. Units as in `ibv_modify_qp(3)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerbsPeer {
    /// Queue pair number, 24 bits, never 0.
    pub qpn: u32,
    /// First packet sequence number it sends, 24 bits, random.
    pub psn: u32,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Global identifier; zero only on InfiniBand without GRH.
    pub gid: [u8; 16],
    /// Active path MTU of its port, bytes.
    pub mtu_bytes: u32,
    /// Reads and atomics that it answers at once.
    pub responder_depth: u8,
    /// Reads and atomics that it has in flight at once.
    pub initiator_depth: u8,
}

/// Where and how descriptors are handed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShmTicket {
    /// Name of a Unix socket in the abstract namespace, without the leading zero byte.
    pub socket: String,
    /// Proof that the holder was admitted; good for one hand-over.
    pub token: [u8; 16],
}
