//! A reliable-connected queue pair: made, posted to, destroyed.

use super::completion_queue::Queue;
use super::context::ProtectionDomain;
use super::failure::{check, failed, returned};
use super::region::Rights;
use crate::fabric::FabricError;
use rdma_sys::{
    ibv_create_qp, ibv_destroy_qp, ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_init_attr, ibv_qp_type, ibv_recv_wr, ibv_send_wr,
    ibv_sge,
};
use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

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
        pair.initialise(shape).map_err(|e| failed("ibv_modify_qp to INIT", e, ""))?;
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

    pub(super) fn raw(&self) -> *mut ibv_qp {
        self.raw.as_ptr()
    }

    /// Its number, 24 bits.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Bytes that a post may carry inline.
    pub(super) fn inline_bytes(&self) -> u32 {
        self.inline_bytes
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
        let code = unsafe { ibv_post_send(self.raw(), first, &raw mut bad) };
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
        check(unsafe { ibv_post_recv(self.raw(), &raw mut request, &raw mut bad) })
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
