//! Finding the device, port and GID to use, and refusing what cannot work by its name.

use super::context::{Context, ProtectionDomain};
use super::device_list::{DeviceList, Listed};
use super::events::{Ears, Events};
use super::gid;
use crate::fabric::FabricError;
use crate::fabric::gid_table::{self, Framing, GidEntry};
use crate::fabric::selection::{Candidate, DeviceTable, PortTable, Refused, Wanted, choose};
use crate::limits::READ_DEPTH;
use rdma_sys::{ibv_atomic_cap, ibv_device_attr, ibv_mtu, ibv_port_attr, ibv_port_state, ibv_transport_type};
use std::ffi::c_int;
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
            reason: format!("{} port {} no longer carries {}", self.context.name(), self.port, gid_table::text(&self.gid)),
        })
    }

    /// Opens the first device that is what is wanted.
    pub(super) fn find(wanted: Wanted<'_>) -> Result<Self, FabricError> {
        let list = DeviceList::read()?;
        let chosen = choose(list.devices(), wanted).map_err(|refused| none_fits(wanted, &refused))?;
        for passed_over in &chosen.passed_over {
            tracing::info!(device = passed_over.device, reason = %passed_over.reason, "an RDMA device is not used");
        }
        let OpenedDevice { context, attributes, ports } = &chosen.opened;
        Self::assemble(context, attributes, &ports[chosen.port_index], chosen.port().number, chosen.gid)
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
            gid_table_len: table_len(state),
            completions_max: bound(attributes.max_cqe),
            queue_depth_max: bound(attributes.max_qp_wr),
            initiator_depth: read_depth(attributes.max_qp_init_rd_atom),
            responder_depth: read_depth(attributes.max_qp_rd_atom),
            message_bytes_max: state.max_msg_sz,
        })
    }
}

fn none_fits(wanted: Wanted<'_>, refused: &[Refused]) -> FabricError {
    let wanted = match (wanted.device, wanted.address.filter(|a| !a.is_unspecified())) {
        (Some(name), Some(address)) => format!("{name} with {address}"),
        (Some(name), None) => name.to_owned(),
        (None, Some(address)) => format!("a device that carries {address}"),
        (None, None) => "a device with an active port".into(),
    };
    let seen = refused.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let seen = if seen.is_empty() { "this host has no device".into() } else { seen };
    FabricError::NoDevice { reason: format!("looked for {wanted}; {seen}") }
}

/// An opened device with what was asked of it.
pub(super) struct OpenedDevice {
    context: Arc<Context>,
    attributes: ibv_device_attr,
    ports: Vec<ibv_port_attr>,
}

impl Candidate for Listed<'_> {
    type Opened = OpenedDevice;

    fn name(&self) -> &str {
        &self.name
    }

    fn is_iwarp(&self) -> bool {
        self.transport() == ibv_transport_type::IBV_TRANSPORT_IWARP
    }

    fn open(&self) -> Result<(OpenedDevice, DeviceTable), String> {
        let context = self.open_context().map_err(|e| e.to_string())?;
        let attributes = context.attributes().map_err(|e| e.to_string())?;
        let numbers = 1..=attributes.phys_port_cnt;
        let ports =
            numbers.clone().map(|number| context.port(number)).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let tables = numbers.zip(&ports).map(|(number, port)| port_table(&context, number, port)).collect();
        let table = DeviceTable {
            atomics: attributes.atomic_cap != ibv_atomic_cap::IBV_ATOMIC_NONE,
            initiator_depth: bound(attributes.max_qp_init_rd_atom),
            responder_depth: bound(attributes.max_qp_rd_atom),
            ports: tables,
        };
        Ok((OpenedDevice { context: Arc::new(context), attributes, ports }, table))
    }
}

fn port_table(context: &Context, number: u8, port: &ibv_port_attr) -> PortTable {
    let active = port.state == ibv_port_state::IBV_PORT_ACTIVE;
    PortTable {
        number,
        active,
        ethernet: port.link_layer == LINK_LAYER_ETHERNET,
        mtu_bytes: mtu_bytes(port.active_mtu),
        gids: if active { gid::entries(context, number, table_len(port)) } else { Vec::new() },
    }
}

fn table_len(port: &ibv_port_attr) -> u32 {
    u32::try_from(port.gid_tbl_len).unwrap_or(0)
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
