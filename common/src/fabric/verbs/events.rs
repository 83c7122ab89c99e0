//! Asynchronous events: a thread that sleeps until the device has something to say, and tells the ports.
//!
//! Soft-RoCE says little and hardware more; nothing but the loss of completions depends on it.

use super::context::Context;
use super::failure::failed;
use crate::fabric::{FabricError, Waker};
use parking_lot::Mutex;
use rdma_sys::{ibv_ack_async_event, ibv_async_event, ibv_event_type as Kind, ibv_get_async_event, ibv_qp};
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Queue pairs of one port whose failure it has not heard of yet, at most; the oldest are kept.
const FAILED_PAIRS_MAX: usize = 4096;

/// What went wrong on one port.
#[derive(Default)]
pub(super) struct Causes {
    /// The completion queue has lost completions, or the device has failed.
    pub(super) queue: bool,
    /// Numbers of queue pairs that have failed.
    pub(super) pairs: Vec<u32>,
}

/// One port's ear.
pub(super) struct Alarm {
    raised: AtomicBool,
    causes: Mutex<Causes>,
    waker: Waker,
}

impl Alarm {
    pub(super) fn new(waker: Waker) -> Self {
        Self { raised: AtomicBool::new(false), causes: Mutex::default(), waker }
    }

    /// Whether there is something to hear.
    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// What happened since the last call.
    pub(super) fn hear(&self) -> Causes {
        self.raised.store(false, Ordering::Release);
        std::mem::take(&mut *self.causes.lock())
    }

    /// A queue pair is destroyed; its number may come again.
    pub(super) fn forget(&self, pair: u32) {
        self.causes.lock().pairs.retain(|&number| number != pair);
    }

    fn raise(&self, change: impl FnOnce(&mut Causes)) {
        change(&mut self.causes.lock());
        self.raised.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// The ports of a device, by the address of their completion queue.
#[derive(Default)]
pub(super) struct Ears(Mutex<Vec<(usize, Arc<Alarm>)>>);

impl Ears {
    pub(super) fn add(&self, queue: usize, alarm: &Arc<Alarm>) {
        self.0.lock().push((queue, Arc::clone(alarm)));
    }

    pub(super) fn remove(&self, queue: usize) {
        self.0.lock().retain(|(known, _)| *known != queue);
    }

    /// Tells the port of `queue`, or all of them.
    fn tell(&self, queue: Option<usize>, change: impl Fn(&mut Causes)) {
        for (known, alarm) in self.0.lock().iter() {
            if queue.is_none_or(|wanted| wanted == *known) {
                alarm.raise(&change);
            }
        }
    }
}

/// The thread. It ends when this is dropped.
pub(super) struct Events {
    stop: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Events {
    /// Starts it.
    pub(super) fn start(context: &Arc<Context>, ears: &Arc<Ears>) -> Result<Self, FabricError> {
        let stop = Waker::new().map_err(|e| failed("eventfd", e, ""))?;
        context.unblock_events()?;
        let (context, ears, told) = (Arc::clone(context), Arc::clone(ears), stop.clone());
        let thread = std::thread::Builder::new()
            .name("verbs-events".into())
            .spawn(move || listen(&context, &ears, &told))
            .map_err(|e| failed("starting the thread of asynchronous events", e, ""))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop.wake();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of asynchronous events panicked");
        }
    }
}

fn listen(context: &Context, ears: &Ears, stop: &Waker) {
    loop {
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(context.events_fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(device = context.name(), %error, "asynchronous events are no longer heard");
                return;
            }
        }
        let [stopped, readable] = fds.map(|fd| fd.revents());
        if !stopped.is_empty() {
            return;
        }
        if readable.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            tracing::error!(device = context.name(), "the device is gone");
            ears.tell(None, |causes| causes.queue = true);
            return;
        }
        if !readable.is_empty() {
            take(context, ears);
        }
    }
}

/// `struct ibv_async_event` with its kind as a number: a newer kernel may report kinds that the bindings' enum
/// lacks, and such a value must never exist as that enum.
#[repr(C)]
struct RawEvent {
    element: *mut c_void,
    kind: c_int,
}

const _: () = {
    assert!(size_of::<RawEvent>() == size_of::<ibv_async_event>() && align_of::<RawEvent>() == align_of::<ibv_async_event>());
    assert!(offset_of!(RawEvent, kind) == offset_of!(ibv_async_event, event_type));
};

/// Takes one event, if there is one, tells whom it concerns, and acknowledges it. What it names cannot be
/// destroyed before that.
fn take(context: &Context, ears: &Ears) {
    const CQ_ERR: c_int = Kind::IBV_EVENT_CQ_ERR as c_int;
    const QP_FATAL: c_int = Kind::IBV_EVENT_QP_FATAL as c_int;
    const QP_ACCESS_ERR: c_int = Kind::IBV_EVENT_QP_ACCESS_ERR as c_int;
    const DEVICE_FATAL: c_int = Kind::IBV_EVENT_DEVICE_FATAL as c_int;
    let mut event = RawEvent { element: null_mut(), kind: -1 };
    // SAFETY: the context is open, and the place is exclusive and has the layout that is filled (asserted above).
    // The descriptor does not block.
    let code = unsafe { ibv_get_async_event(context.raw(), (&raw mut event).cast()) };
    if code != 0 {
        return;
    }
    match event.kind {
        CQ_ERR => {
            tracing::error!(device = context.name(), "a completion queue lost completions");
            ears.tell(Some(event.element as usize), |causes| causes.queue = true);
        }
        // With QP_REQ_ERR between them.
        QP_FATAL..=QP_ACCESS_ERR => tell_of_pair(context, ears, event.element.cast(), event.kind),
        DEVICE_FATAL => {
            tracing::error!(device = context.name(), "the device failed");
            ears.tell(None, |causes| causes.queue = true);
        }
        kind => tracing::info!(device = context.name(), kind, "an asynchronous event (enum ibv_event_type)"),
    }
    // SAFETY: taken above, acknowledged once; the layout is that of the type (asserted above).
    unsafe { ibv_ack_async_event((&raw mut event).cast()) };
}

/// A peer can cause these as often as it connects, so they are no more than a debug line.
fn tell_of_pair(context: &Context, ears: &Ears, pair: *mut ibv_qp, kind: c_int) {
    // SAFETY: events of these kinds name a queue pair, which cannot be destroyed before they are acknowledged.
    let number = unsafe { (*pair).qp_num };
    // SAFETY: as above.
    let queue = unsafe { (*pair).send_cq } as usize;
    tracing::debug!(device = context.name(), queue_pair = number, kind, "a queue pair failed");
    ears.tell(Some(queue), |causes| {
        if causes.pairs.len() < FAILED_PAIRS_MAX {
            causes.pairs.push(number);
        }
    });
}
