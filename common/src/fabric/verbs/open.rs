//! What each role is made of: rights, protection domain, queues and memory.

use super::completion_queue::Queue;
use super::connect::LocalEnd;
use super::context::ProtectionDomain;
use super::device::Hardware;
use super::endpoint::Parts;
use super::pinned::Pinned;
use super::post::{Kind, WORD_BYTES};
use super::queue_pair::{QueuePair, Shape};
use super::receive::{Mailbox, Receives};
use super::region::Rights;
use crate::fabric::{EndpointSpec, FabricError, Role};
use crate::limits::MESSAGE_BYTES;
use std::rc::Rc;
use std::sync::Arc;

/// What the verbs of a role are.
fn allowed(role: Role) -> &'static [Kind] {
    match role {
        Role::Reader => &[Kind::Read, Kind::FetchAdd, Kind::CompareSwap],
        Role::ReadTarget => &[],
        Role::Writer => &[Kind::Write, Kind::WriteImm],
        Role::WriteTarget { .. } | Role::Beat => &[Kind::Send],
    }
}

/// What peers may do through a queue pair of a role. Clients grant nothing.
fn rights(role: Role) -> Rights {
    match role {
        Role::Reader | Role::Writer | Role::Beat => Rights::Local,
        Role::ReadTarget => Rights::RemoteReadAtomic,
        Role::WriteTarget { .. } => Rights::RemoteWrite,
    }
}

/// The parts of an endpoint of `spec`.
pub(super) fn endpoint(hardware: &Hardware, queue: &Rc<Queue>, spec: &EndpointSpec) -> Result<Parts, FabricError> {
    let domain = match spec.role {
        // A guessed rkey opens only what lies in the queue pair's own domain, so staging rings lie alone in one.
        Role::WriteTarget { .. } => Arc::new(ProtectionDomain::new(&hardware.context)?),
        _ => Arc::clone(&hardware.tenant),
    };
    let staging = match spec.role {
        Role::WriteTarget { staging_bytes } => Some(Pinned::new(&domain, "staging ring", staging_bytes, Rights::RemoteWrite)?),
        _ => None,
    };
    let receives = match spec.role {
        Role::Reader | Role::ReadTarget => Receives::Nothing,
        Role::WriteTarget { .. } => Receives::Immediates(spec.recv_depth),
        Role::Writer | Role::Beat if spec.recv_depth == 0 => Receives::Nothing,
        Role::Writer | Role::Beat => Receives::Messages(Mailbox::new(&domain, spec.recv_depth)?),
    };
    let (initiator, responder) = match spec.role {
        Role::Reader => (hardware.initiator_depth, 1),
        Role::ReadTarget => (1, hardware.responder_depth),
        _ => (1, 1),
    };
    let local = LocalEnd::new(initiator, responder);
    assemble(hardware, queue, &domain, Plan { spec, receives, staging, local, rights: rights(spec.role) })
}

/// The parts of an endpoint that is connected to itself.
pub(super) fn loopback(hardware: &Hardware, queue: &Rc<Queue>, send_depth: u32) -> Result<Parts, FabricError> {
    let spec = EndpointSpec { role: Role::Reader, send_depth, recv_depth: 0 };
    let local = LocalEnd::new(hardware.initiator_depth, hardware.responder_depth);
    let plan = Plan { spec: &spec, receives: Receives::Nothing, staging: None, local, rights: Rights::RemoteReadAtomic };
    assemble(hardware, queue, &hardware.tenant, plan)
}

struct Plan<'a> {
    spec: &'a EndpointSpec,
    receives: Receives,
    staging: Option<Pinned>,
    local: LocalEnd,
    rights: Rights,
}

fn assemble(
    hardware: &Hardware,
    queue: &Rc<Queue>,
    domain: &Arc<ProtectionDomain>,
    plan: Plan<'_>,
) -> Result<Parts, FabricError> {
    let kinds = allowed(plan.spec.role);
    let send_depth = if kinds.is_empty() { 0 } else { plan.spec.send_depth };
    let shape = Shape {
        send_depth,
        recv_depth: plan.receives.depth(),
        inline: kinds.contains(&Kind::Send) || kinds.contains(&Kind::Write),
        rights: plan.rights,
        port: hardware.port,
    };
    let pair = QueuePair::new(domain, queue, &shape)?;
    let depth = send_depth as usize;
    let results = match kinds.contains(&Kind::FetchAdd) && depth > 0 {
        true => Some(Pinned::new(domain, "results of atomics", depth * WORD_BYTES as usize, Rights::Local)?),
        false => None,
    };
    let outbox = match kinds.contains(&Kind::Send) && depth > 0 && (pair.inline_bytes() as usize) < MESSAGE_BYTES {
        true => Some(Pinned::new(domain, "messages to send", depth * MESSAGE_BYTES, Rights::Local)?),
        false => None,
    };
    let Plan { receives, staging, local, .. } = plan;
    Ok(Parts { pair, local, allowed: kinds, send_depth, receives, results, outbox, staging })
}
