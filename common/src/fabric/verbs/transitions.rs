//! The states of a queue pair, RESET to INIT to RTR to RTS, and ERR.

use super::connect::Path;
use super::failure::{check, failed};
use super::queue_pair::{QueuePair, Shape};
use crate::fabric::FabricError;
use rdma_sys::{ibv_modify_qp, ibv_qp_attr, ibv_qp_attr_mask as Mask, ibv_qp_state};
use std::ffi::c_int;
use std::io;

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

/// A queue pair attribute block, all zero.
fn blank() -> ibv_qp_attr {
    // SAFETY: plain integers, arrays of them and a union of them; zero is a value of each.
    unsafe { std::mem::zeroed() }
}

impl QueuePair {
    /// RESET to INIT: receives can be posted.
    pub(super) fn initialise(&self, shape: &Shape) -> io::Result<()> {
        let mut attributes = blank();
        attributes.qp_state = ibv_qp_state::IBV_QPS_INIT;
        attributes.pkey_index = 0;
        attributes.port_num = shape.port;
        attributes.qp_access_flags = shape.rights.queue_pair_flags();
        let mask = Mask::IBV_QP_STATE | Mask::IBV_QP_PKEY_INDEX | Mask::IBV_QP_PORT | Mask::IBV_QP_ACCESS_FLAGS;
        self.modify(&mut attributes, mask)
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
        check(unsafe { ibv_modify_qp(self.raw(), &raw mut *attributes, mask) })
    }
}
