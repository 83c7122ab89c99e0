//! The GID table of an opened port. Indexes move when addresses come and go, so they are looked up again at every connect.

use super::context::Context;
use crate::fabric::gid_table::{self, Framing, GidEntry};
use rdma_sys::{ibv_gid, ibv_query_gid};

/// `sgid_index` of an address handle has eight bits.
const INDEXES_MAX: u32 = 256;

/// The entry of `port` that carries `gid`, RoCE v2 before v1. It is probably at index `first`.
pub(super) fn find(context: &Context, port: u8, table_len: u32, gid: &[u8; 16], first: u32) -> Option<GidEntry> {
    let likely = entry(context, port, first).filter(|e| e.gid == *gid && e.framing == Framing::RoceV2);
    likely.or_else(|| gid_table::carrying(&entries(context, port, table_len), gid))
}

/// All entries in use.
pub(super) fn entries(context: &Context, port: u8, table_len: u32) -> Vec<GidEntry> {
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
