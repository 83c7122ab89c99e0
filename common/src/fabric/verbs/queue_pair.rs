//! A reliable-connected queue pair: made, connected, posted to, ended.

use super::completion_queue::Queue;
use super::connect::Path;
use super::context::ProtectionDomain;
use super::failure::{check, failed, returned};
use super::region::Rights;
use crate::fabric::FabricError;
use rdma_sys::{
    ibv_create_qp, ibv_destroy_qp, ibv_modify_qp, ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask as Mask,
    ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_wr, ibv_sge,
};
use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

/// Local acknowledgement timeout: 4.096 µs · 2^14, 67 ms.
const TIMEOUT: u8 = 14;
/// Never 7: Soft-RoCE does not count 7 down, and a dead peer would never be noticed.
const RETRY_COUNT: u8 = 6;
/// Never 7: that waits for ever.
const RNR_RETRY: u8 = 6;
/// 0.64 ms between attempts while the peer has no receive posted.
const MIN_RNR_TIMER: u8 = 12;
/// Routers that a packet may pass.
const HOP_LIMIT: u8 = 64;
/// Inline sizes that are asked for, until one is granted.
const INLINE_STEPS: [u32; 5] = [256, 128, 64, 32, 0];

/// What a queue pair is made for.
pub(super) struct Shape {
    pub(super) send_depth: u32,
    pub(super) recv_depth: u32,
    /// Whether inline data is of use.
    pub(super) inline: bool,
    pub(super) rights: Rights,
    pub(super) port: u8,
}

/// A queue pair. Not `Send`: the thread that posts also polls.
pub(super) struct QueuePair {
    raw: NonNull<ibv_qp>,
    number: u32,
    inline_bytes: u32,
    _queue: Rc<Queue>,
    _domain: Arc<ProtectionDomain>,
}

/// A queue pair attribute block, all zero.
fn blank() -> ibv_qp_attr {
    // SAFETY: plain integers, arrays of them and a union of them; zero is a value of each.
    unsafe { std::mem::zeroed() }
}

impl QueuePair {
    /// Makes one in the state INIT: receives can be posted, sends not yet.
    pub(super) fn new(domain: &Arc<ProtectionDomain>, queue: &Rc<Queue>, shape: &Shape) -> Result<Self, FabricError> {
        let mut pair = None;
        let steps = if shape.inline { &INLINE_STEPS[..] } else { &[0] };
        let mut refused = io::Error::other("no inline size was tried");
        for &inline in steps {
            match Self::create(domain, queue, shape, inline) {
                Ok(made) => {
                    pair = Some(made);
                    break;
                }
                Err(error) => refused = error,
            }
        }
        let pair = pair.ok_or_else(|| {
            failed(format!("ibv_create_qp of depth {} and {}", shape.send_depth, shape.recv_depth), refused, "")
        })?;
        let mut attributes = blank();
        attributes.qp_state = ibv_qp_state::IBV_QPS_INIT;
        attributes.pkey_index = 0;
        attributes.port_num = shape.port;
        attributes.qp_access_flags = shape.rights.queue_pair_flags();
        let mask = Mask::IBV_QP_STATE | Mask::IBV_QP_PKEY_INDEX | Mask::IBV_QP_PORT | Mask::IBV_QP_ACCESS_FLAGS;
        pair.modify(&mut attributes, mask).map_err(|e| failed("ibv_modify_qp to INIT", e, ""))?;
        Ok(pair)
    }

    fn create(domain: &Arc<ProtectionDomain>, queue: &Rc<Queue>, shape: &Shape, inline: u32) -> io::Result<Self> {
        // SAFETY: plain integers and null pointers; zero is a value of each.
        let mut init: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        init.send_cq = queue.raw();
        init.recv_cq = queue.raw();
        init.qp_type = ibv_qp_type::IBV_QPT_RC;
        init.sq_sig_all = 0;
        init.cap.max_send_wr = shape.send_depth.max(1);
        init.cap.max_recv_wr = shape.recv_depth.max(1);
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        init.cap.max_inline_data = inline;
        // SAFETY: domain and queue are alive, and `init` is exclusive; the result holds both for as long as it lives.
        let raw = unsafe { ibv_create_qp(domain.raw(), &raw mut init) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: a successful creation returned it; it is not freed before `destroy`.
        let number = unsafe { (*raw.as_ptr()).qp_num };
        // A device that grants more than was asked is not held to it.
        let inline_bytes = init.cap.max_inline_data.min(inline);
        Ok(Self { raw, number, inline_bytes, _queue: Rc::clone(queue), _domain: Arc::clone(domain) })
    }

    /// Its number, 24 bits.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Bytes that a post may carry inline.
    pub(super) fn inline_bytes(&self) -> u32 {
        self.inline_bytes
    }

    /// INIT to RTR to RTS.
    pub(super) fn connect(&self, path: &Path) -> Result<(), FabricError> {
        self.ready_to_receive(path).map_err(|e| failed("ibv_modify_qp to RTR", e, &path.hint()))?;
        self.ready_to_send(path).map_err(|e| failed("ibv_modify_qp to RTS", e, ""))
    }

    fn ready_to_receive(&self, path: &Path) -> io::Result<()> {
        let mut attributes = blank();
        attributes.qp_state = ibv_qp_state::IBV_QPS_RTR;
        attributes.path_mtu = path.mtu;
        attributes.dest_qp_num = path.peer_number;
        attributes.rq_psn = path.peer_psn;
        attributes.max_dest_rd_atomic = path.responder_depth;
        attributes.min_rnr_timer = MIN_RNR_TIMER;
        attributes.ah_attr.port_num = path.port;
        attributes.ah_attr.dlid = path.peer_lid;
        if path.global {
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.grh.dgid.raw = path.peer_gid;
            attributes.ah_attr.grh.sgid_index = path.gid_index;
            attributes.ah_attr.grh.hop_limit = HOP_LIMIT;
        }
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_AV
            | Mask::IBV_QP_PATH_MTU
            | Mask::IBV_QP_DEST_QPN
            | Mask::IBV_QP_RQ_PSN
            | Mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | Mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut attributes, mask)
    }

    fn ready_to_send(&self, path: &Path) -> io::Result<()> {
        let mut attributes = blank();
        attributes.qp_state = ibv_qp_state::IBV_QPS_RTS;
        attributes.sq_psn = path.psn;
        attributes.timeout = TIMEOUT;
        attributes.retry_cnt = RETRY_COUNT;
        attributes.rnr_retry = RNR_RETRY;
        attributes.max_rd_atomic = path.initiator_depth;
        let mask = Mask::IBV_QP_STATE
            | Mask::IBV_QP_SQ_PSN
            | Mask::IBV_QP_TIMEOUT
            | Mask::IBV_QP_RETRY_CNT
            | Mask::IBV_QP_RNR_RETRY
            | Mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut attributes, mask)
    }

    /// To ERR: what is posted flushes, and peers are refused.
    pub(super) fn to_error(&self) -> io::Result<()> {
        let mut attributes = blank();
        attributes.qp_state = ibv_qp_state::IBV_QPS_ERR;
        self.modify(&mut attributes, Mask::IBV_QP_STATE)
    }

    fn modify(&self, attributes: &mut ibv_qp_attr, mask: Mask) -> io::Result<()> {
        let mask = c_int::try_from(mask.0).unwrap_or(0);
        // SAFETY: the queue pair is alive; `attributes` is an initialised block of the type that is read.
        check(unsafe { ibv_modify_qp(self.raw.as_ptr(), &raw mut *attributes, mask) })
    }

    /// Posts a chain. On an error, says how many of its requests the device took.
    ///
    /// # Safety
    /// `chain` is not empty, its elements are linked in order by `next` (the last has null) and each `sg_list`
    /// points to `num_sge` living elements. The memory that they name, as far as it is ours, stays valid until
    /// the request's completion (inline: until the return).
    #[inline]
    pub(super) unsafe fn post_send(&self, chain: &mut [ibv_send_wr]) -> Result<(), (usize, io::Error)> {
        let mut bad: *mut ibv_send_wr = null_mut();
        let first = chain.as_mut_ptr();
        // SAFETY: the queue pair is alive; the caller vouches for the chain.
        let code = unsafe { ibv_post_send(self.raw.as_ptr(), first, &raw mut bad) };
        if code == 0 {
            return Ok(());
        }
        let bytes = (bad as usize).saturating_sub(first as usize);
        let taken = if bad.is_null() { 0 } else { bytes / size_of::<ibv_send_wr>() };
        Err((taken.min(chain.len()), returned(code)))
    }

    /// Posts one receive: into `segment`, or of zero length.
    ///
    /// # Safety
    /// The memory that `segment` names stays valid and registered until the receive completes or this queue
    /// pair is destroyed.
    #[inline]
    pub(super) unsafe fn post_recv(&self, wr_id: u64, segment: Option<ibv_sge>) -> io::Result<()> {
        let mut bad: *mut ibv_recv_wr = null_mut();
        let mut segment = segment;
        let num_sge = c_int::from(segment.is_some());
        let sg_list = segment.as_mut().map_or(null_mut(), |s| &raw mut *s);
        let mut request = ibv_recv_wr { wr_id, next: null_mut(), sg_list, num_sge };
        // SAFETY: the queue pair is alive; request and segment live until the return, and libibverbs copies both.
        check(unsafe { ibv_post_recv(self.raw.as_ptr(), &raw mut request, &raw mut bad) })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by `create`, destroyed only here, before the queue and the domain that `self` holds.
        let code = unsafe { ibv_destroy_qp(self.raw.as_ptr()) };
        if let Err(error) = check(code) {
            tracing::error!(number = self.number, %error, "a queue pair could not be destroyed");
        }
    }
}
