//! A completion queue with its channel: polling, arming, sleeping.

use super::context::{Context, unblock};
use super::failure::{check, failed};
use crate::fabric::FabricError;
use rdma_sys::{
    ibv_ack_cq_events, ibv_comp_channel, ibv_cq, ibv_create_comp_channel, ibv_create_cq, ibv_destroy_comp_channel,
    ibv_destroy_cq, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq, ibv_wc,
};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

/// Completions fetched at once.
const BATCH: usize = 32;

/// The channel that tells of completions while a thread sleeps.
struct Channel {
    raw: NonNull<ibv_comp_channel>,
    context: Arc<Context>,
}

impl Channel {
    fn new(context: &Arc<Context>) -> Result<Self, FabricError> {
        // SAFETY: the context is open while the `Arc` lives.
        let raw = unsafe { ibv_create_comp_channel(context.raw()) };
        let raw = NonNull::new(raw).ok_or_else(|| failed("ibv_create_comp_channel", io::Error::last_os_error(), ""))?;
        let channel = Self { raw, context: Arc::clone(context) };
        unblock(channel.fd(), "a completion channel")?;
        Ok(channel)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives as long as `self`.
        let fd = unsafe { (*self.raw.as_ptr()).fd };
        // SAFETY: the channel owns the descriptor and closes it only when it is destroyed, after this borrow.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed only here; the one queue that uses it holds it and goes first.
        let code = unsafe { ibv_destroy_comp_channel(self.raw.as_ptr()) };
        if let Err(error) = check(code) {
            tracing::error!(device = self.context.name(), %error, "a completion channel could not be destroyed");
        }
    }
}

/// The queue itself. Queue pairs hold an `Rc` of it, so it outlives them. Not `Send`.
pub(super) struct Queue {
    raw: NonNull<ibv_cq>,
    channel: Channel,
}

impl Queue {
    pub(super) fn raw(&self) -> *mut ibv_cq {
        self.raw.as_ptr()
    }

    /// Its address, which names it in asynchronous events.
    pub(super) fn address(&self) -> usize {
        self.raw() as usize
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by `CompletionQueue::new`, destroyed only here, after every queue pair on it (each holds
        // an `Rc`); all its events were acknowledged when they were taken, so this does not wait.
        let code = unsafe { ibv_destroy_cq(self.raw()) };
        if let Err(error) = check(code) {
            tracing::error!(device = self.channel.context.name(), %error, "a completion queue could not be destroyed");
        }
    }
}

/// What one thread polls.
pub(super) struct CompletionQueue {
    queue: Rc<Queue>,
    batch: Box<[ibv_wc; BATCH]>,
    /// An event may be waiting in the channel, or come at any time.
    armed: bool,
}

impl CompletionQueue {
    /// A queue for at least `completions` completions.
    pub(super) fn new(context: &Arc<Context>, completions: u32) -> Result<Self, FabricError> {
        let channel = Channel::new(context)?;
        let entries = c_int::try_from(completions).unwrap_or(c_int::MAX);
        // SAFETY: context and channel are alive; no completion vector but 0 is assumed, and every device has that.
        let raw = unsafe { ibv_create_cq(context.raw(), entries, null_mut(), channel.raw.as_ptr(), 0) };
        let Some(raw) = NonNull::new(raw) else {
            return Err(failed(format!("ibv_create_cq of {completions} entries"), io::Error::last_os_error(), ""));
        };
        // SAFETY: plain integers and a union of them; zero is a value of each.
        let batch = Box::new(unsafe { std::mem::zeroed::<[ibv_wc; BATCH]>() });
        Ok(Self { queue: Rc::new(Queue { raw, channel }), batch, armed: false })
    }

    pub(super) fn queue(&self) -> &Rc<Queue> {
        &self.queue
    }

    /// Fetches completions that are there, at most a batch.
    #[inline]
    pub(super) fn poll(&mut self) -> &[ibv_wc] {
        const ENTRIES: c_int = BATCH as c_int;
        // SAFETY: the queue is alive, and the batch has room for `ENTRIES` completions.
        let count = unsafe { ibv_poll_cq(self.queue.raw(), ENTRIES, self.batch.as_mut_ptr()) };
        match usize::try_from(count) {
            Ok(count) => &self.batch[..count.min(BATCH)],
            Err(_) => {
                tracing::error!(count, "a completion queue cannot be polled");
                &[]
            }
        }
    }

    /// Asks for an event when the next completion arrives. What arrived before makes none: poll once more.
    pub(super) fn arm(&mut self) -> Result<(), FabricError> {
        if self.armed {
            self.take_events();
        }
        // SAFETY: the queue is alive. Zero: every completion counts, not solicited ones only.
        let code = unsafe { ibv_req_notify_cq(self.queue.raw(), 0) };
        check(code).map_err(|e| failed("ibv_req_notify_cq", e, ""))?;
        self.armed = true;
        Ok(())
    }

    /// Takes and acknowledges the events in the channel.
    pub(super) fn take_events(&mut self) {
        let mut queue: *mut ibv_cq = null_mut();
        let mut user: *mut c_void = null_mut();
        loop {
            // SAFETY: the channel is alive, and both places are exclusive and of the type that is filled. The
            // descriptor does not block, so this returns.
            let code = unsafe { ibv_get_cq_event(self.queue.channel.raw.as_ptr(), &raw mut queue, &raw mut user) };
            if code != 0 {
                return;
            }
            self.armed = false;
            // SAFETY: the channel serves this queue only, and exactly one event of it was taken.
            unsafe { ibv_ack_cq_events(queue, 1) };
        }
    }

    /// The descriptor that becomes readable with an event.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.queue.channel.fd()
    }
}
