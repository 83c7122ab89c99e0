//! Finding the device, port and GID to use, and refusing what cannot work by its name.

use super::context::{Context, ProtectionDomain};
use super::device_list::{DeviceList, Listed};
use super::events::{Ears, Events};
use super::gid::{self, Framing, GidEntry};
use crate::fabric::FabricError;
use crate::limits::READ_DEPTH;
use rdma_sys::{ibv_atomic_cap, ibv_device_attr, ibv_mtu, ibv_port_attr, ibv_port_state, ibv_transport_type};
use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::Arc;

/// `link_layer` of an Ethernet port: an anonymous `enum` in `verbs.h`, which the bindings lack.
const LINK_LAYER_ETHERNET: u8 = 2;

/// An opened device, the port and GID in use, and what bounds its queues.
pub(super) struct Hardware {
    /// Ends its thread when it is dropped.
    _events: Events,
    /// The ports that hear of asynchronous events.
    pub(super) ears: Arc<Ears>,
    pub(super) context: Arc<Context>,
    /// The domain of everything peers may read.
    pub(super) tenant: Arc<ProtectionDomain>,
    pub(super) port: u8,
    pub(super) ethernet: bool,
    pub(super) lid: u16,
    pub(super) mtu_bytes: u32,
    /// Zero on an InfiniBand port without a table.
    pub(super) gid: [u8; 16],
    /// Where the GID was when the device was opened: where to look first.
    gid_index: u32,
    gid_table_len: u32,
    pub(super) completions_max: u32,
    pub(super) queue_depth_max: u32,
    pub(super) initiator_depth: u8,
    pub(super) responder_depth: u8,
    /// Longest message of any verb, bytes.
    pub(super) message_bytes_max: u32,
}

impl Hardware {
    /// The entry of the GID in use, looked up now.
    pub(super) fn gid_now(&self) -> Result<GidEntry, FabricError> {
        if !self.ethernet && self.gid == [0; 16] {
            return Ok(GidEntry { index: 0, gid: self.gid, framing: Framing::Native });
        }
        gid::find(&self.context, self.port, self.gid_table_len, &self.gid, self.gid_index).ok_or_else(|| FabricError::NoDevice {
            reason: format!("{} port {} no longer carries {}", self.context.name(), self.port, gid::text(&self.gid)),
        })
    }

    /// Opens the device `name`, or the first that carries `address`, or the first with an active port.
    pub(super) fn find(name: Option<&str>, address: Option<IpAddr>) -> Result<Self, FabricError> {
        let address = address.filter(|a| !a.is_unspecified());
        let list = DeviceList::read()?;
        let mut refused = Vec::new();
        for device in list.devices() {
            if name.is_some_and(|wanted| wanted != device.name) {
                refused.push(format!("{} is not it", device.name));
                continue;
            }
            match Self::try_device(&device, name.is_some(), address) {
                Ok(hardware) => return Ok(hardware),
                Err(reason) => refused.push(format!("{} {reason}", device.name)),
            }
        }
        let wanted = match (name, address) {
            (Some(name), Some(address)) => format!("{name} with {address}"),
            (Some(name), None) => name.to_owned(),
            (None, Some(address)) => format!("a device that carries {address}"),
            (None, None) => "a device with an active port".into(),
        };
        let seen = if refused.is_empty() { "this host has no device".into() } else { refused.join(", ") };
        Err(FabricError::NoDevice { reason: format!("looked for {wanted}; {seen}") })
    }

    fn try_device(device: &Listed<'_>, named: bool, address: Option<IpAddr>) -> Result<Self, String> {
        if device.transport() == ibv_transport_type::IBV_TRANSPORT_IWARP {
            return Err("is an iWARP device: it has no Write-with-Immediate, no atomics and no connecting by hand".into());
        }
        let context = device.open().map_err(|e| format!("cannot be opened ({e})"))?;
        let context = Arc::new(context);
        let attributes = context.attributes().map_err(|e| e.to_string())?;
        if attributes.atomic_cap == ibv_atomic_cap::IBV_ATOMIC_NONE {
            return Err("has no atomics, which counters and locks need".into());
        }
        let mut why = Vec::new();
        for port in 1..=attributes.phys_port_cnt {
            match Self::try_port(&context, &attributes, port, named, address) {
                Ok(hardware) => return Ok(hardware),
                Err(reason) => why.push(format!("port {port} {reason}")),
            }
        }
        Err(format!("has no port that would do ({})", why.join(", ")))
    }

    fn try_port(
        context: &Arc<Context>,
        attributes: &ibv_device_attr,
        port: u8,
        named: bool,
        address: Option<IpAddr>,
    ) -> Result<Self, String> {
        let state = context.port(port).map_err(|e| e.to_string())?;
        if state.state != ibv_port_state::IBV_PORT_ACTIVE {
            return Err("is not active".into());
        }
        let ethernet = state.link_layer == LINK_LAYER_ETHERNET;
        let gid_table_len = u32::try_from(state.gid_tbl_len).unwrap_or(0);
        let entry = match address {
            // A named InfiniBand port is reached by its LID, whatever address the control plane has.
            Some(_) if named && !ethernet => gid::best(context, port, gid_table_len),
            Some(address) => {
                let found = gid::find(context, port, gid_table_len, &gid::of_address(address), 0);
                Some(found.ok_or_else(|| format!("does not carry {address}"))?)
            }
            None => gid::best(context, port, gid_table_len),
        };
        if ethernet && entry.is_none() {
            return Err("has no GID: give its interface an address".into());
        }
        Self::assemble(context, attributes, &state, port, entry).map_err(|e| e.to_string())
    }

    fn assemble(
        context: &Arc<Context>,
        attributes: &ibv_device_attr,
        state: &ibv_port_attr,
        port: u8,
        entry: Option<GidEntry>,
    ) -> Result<Self, FabricError> {
        let ears = Arc::new(Ears::default());
        Ok(Self {
            _events: Events::start(context, &ears)?,
            ears,
            context: Arc::clone(context),
            tenant: Arc::new(ProtectionDomain::new(context)?),
            port,
            ethernet: state.link_layer == LINK_LAYER_ETHERNET,
            lid: state.lid,
            mtu_bytes: mtu_bytes(state.active_mtu),
            gid: entry.map_or([0; 16], |e| e.gid),
            gid_index: entry.map_or(0, |e| e.index),
            gid_table_len: u32::try_from(state.gid_tbl_len).unwrap_or(0),
            completions_max: bound(attributes.max_cqe),
            queue_depth_max: bound(attributes.max_qp_wr),
            initiator_depth: read_depth(attributes.max_qp_init_rd_atom),
            responder_depth: read_depth(attributes.max_qp_rd_atom),
            message_bytes_max: state.max_msg_sz,
        })
    }
}

fn bound(value: c_int) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// Reads and atomics at once: what the device can, at most what an endpoint may have in flight, never 0
/// (with 0 a posted read is accepted and never completes).
fn read_depth(device: c_int) -> u8 {
    u8::try_from(bound(device).clamp(1, READ_DEPTH)).unwrap_or(u8::MAX)
}

fn mtu_bytes(mtu: ibv_mtu::Type) -> u32 {
    128 << mtu.clamp(ibv_mtu::IBV_MTU_256, ibv_mtu::IBV_MTU_4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_never_zero_and_mtus_are_powers_of_two() {
        assert_eq!((read_depth(0), read_depth(-1), read_depth(16), read_depth(100_000)), (1, 1, 16, 128));
        assert_eq!((mtu_bytes(1), mtu_bytes(3), mtu_bytes(5), mtu_bytes(9)), (256, 1024, 4096, 4096));
    }
}
