//! A thread's completion queue and its endpoints.

use super::completion_queue::CompletionQueue;
use super::device::Hardware;
use super::endpoint::{Endpoint, Parts, Posted, endpoint_of};
use super::events::Alarm;
use super::failure::failed;
use super::open;
use super::post::Scratch;
use super::slots::Slots;
use crate::fabric::{
    Completion, EndpointId, EndpointSpec, Event, FabricError, FabricKind, Opened, PeerInfo, Port, PortSpec, PostError, Staging,
    Wake, Waker, WorkRequest,
};
use crate::limits::MESSAGE_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::time::Duration;

/// A port of a device.
pub(super) struct VerbsPort {
    // Endpoints go before the queue that they complete into.
    endpoints: Slots<Box<Endpoint>>,
    pub(super) queue: CompletionQueue,
    hardware: Arc<Hardware>,
    spec: PortSpec,
    /// Completions that all endpoints together may have outstanding.
    pub(super) reserved: u32,
    /// What was found while closing or falling asleep; the next poll begins with it.
    pending: Vec<Completion>,
    scratch: Scratch,
    waker: Waker,
    /// What the device says of this port by itself.
    alarm: Arc<Alarm>,
    offences: u64,
}

impl VerbsPort {
    pub(super) fn new(hardware: &Arc<Hardware>, spec: PortSpec) -> Result<Self, FabricError> {
        if spec.completions > hardware.completions_max {
            return Err(FabricError::Limit {
                what: "completions of one port",
                asked: spec.completions.into(),
                limit: hardware.completions_max.into(),
            });
        }
        let queue = CompletionQueue::new(&hardware.context, spec.completions.max(1))?;
        let waker = Waker::new().map_err(|e| failed("eventfd", e, ""))?;
        let alarm = Arc::new(Alarm::new(waker.clone()));
        hardware.ears.add(queue.queue().address(), &alarm);
        Ok(Self {
            endpoints: Slots::new(),
            queue,
            hardware: Arc::clone(hardware),
            spec,
            reserved: 0,
            pending: Vec::new(),
            scratch: Scratch::default(),
            waker,
            alarm,
            offences: 0,
        })
    }

    /// Refuses depths that would let completions be lost, before anything is made.
    fn admit(&self, sends: u32, receives: u32) -> Result<(), FabricError> {
        let limit = |what, asked: u64, limit: u32| Err(FabricError::Limit { what, asked, limit: limit.into() });
        let depth = sends.max(receives);
        if depth > self.hardware.queue_depth_max {
            return limit("work requests of one endpoint", depth.into(), self.hardware.queue_depth_max);
        }
        let total = u64::from(self.reserved) + u64::from(sends) + u64::from(receives);
        if total > u64::from(self.spec.completions) {
            return limit("completions outstanding on one port", total, self.spec.completions);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, parts: Parts) -> Result<EndpointId, FabricError> {
        let ids_used_up = FabricError::Limit { what: "endpoints ever opened on one port", asked: 1, limit: 0 };
        let Some(id) = self.endpoints.next_id() else { return Err(ids_used_up) };
        self.scratch.reserve(parts.send_depth as usize);
        let endpoint = Endpoint::new(id, parts).map_err(|e| failed("ibv_post_recv", e, ""))?;
        self.reserved += endpoint.reserved();
        self.endpoints.insert(Box::new(endpoint));
        Ok(id)
    }

    fn find(&mut self, endpoint: EndpointId, what: &str) -> Result<&mut Endpoint, FabricError> {
        let absent =
            || FabricError::Unsupported { kind: FabricKind::Verbs, what: format!("{what} {endpoint:?}, which does not exist") };
        Ok(self.endpoints.get_mut(endpoint).ok_or_else(absent)?)
    }

    /// Moves everything in the completion queue to `pending`. A queue holds at most its size, so this ends even
    /// if peers go on sending.
    fn drain(&mut self) {
        let mut left = self.spec.completions.max(1);
        while left > 0 {
            let batch = self.queue.poll();
            if batch.is_empty() {
                return;
            }
            left = left.saturating_sub(u32::try_from(batch.len()).unwrap_or(u32::MAX));
            for wc in batch {
                if let Some(endpoint) = self.endpoints.get_mut(endpoint_of(wc.wr_id)) {
                    endpoint.completed(wc, &mut self.pending);
                    self.offences += endpoint.take_offence();
                }
            }
        }
    }

    /// Ends an endpoint's queue pair and all its work.
    fn abandon(&mut self, id: EndpointId) {
        self.drain();
        if let Some(endpoint) = self.endpoints.get_mut(id) {
            let number = endpoint.number();
            endpoint.destroy_pair();
            number.into_iter().for_each(|number| self.alarm.forget(number));
        }
        // What it had completed is out of the queue before its share of the queue is given to others.
        self.drain();
        if let Some(endpoint) = self.endpoints.get_mut(id) {
            endpoint.flush(&mut self.pending);
        }
    }

    /// What the device has said by itself.
    #[cold]
    fn heed(&mut self) {
        let causes = self.alarm.hear();
        for id in self.endpoints.ids() {
            let Some(endpoint) = self.endpoints.get_mut(id) else { continue };
            let named = endpoint.number().is_some_and(|number| causes.pairs.contains(&number));
            if causes.queue || named {
                endpoint.break_down(&mut self.pending);
            }
            // Completions are lost: those that come would not tell of all work.
            if causes.queue {
                self.abandon(id);
            }
        }
    }
}

impl Port for VerbsPort {
    fn open(&mut self, spec: &EndpointSpec) -> Result<Opened, FabricError> {
        self.admit(spec.send_depth, spec.recv_depth)?;
        self.hardware.gid_now()?;
        let parts = open::endpoint(&self.hardware, self.queue.queue(), spec)?;
        let info = PeerInfo::Verbs(parts.local.peer(&self.hardware, parts.pair.number()));
        let staging = parts.staging.as_ref().map(|s| Staging { view: s.view().clone(), remote: s.remote() });
        Ok(Opened { endpoint: self.add(parts)?, info, staging })
    }

    fn connect(&mut self, endpoint: EndpointId, peer: &PeerInfo) -> Result<(), FabricError> {
        let hardware = Arc::clone(&self.hardware);
        self.find(endpoint, "connecting")?.connect(&hardware, peer)
    }

    fn loopback(&mut self, send_depth: u32) -> Result<EndpointId, FabricError> {
        self.admit(send_depth, 0)?;
        let parts = open::loopback(&self.hardware, self.queue.queue(), send_depth)?;
        let itself = PeerInfo::Verbs(parts.local.peer(&self.hardware, parts.pair.number()));
        let endpoint = self.add(parts)?;
        if let Err(error) = self.connect(endpoint, &itself) {
            self.close(endpoint);
            return Err(error);
        }
        Ok(endpoint)
    }

    fn room(&self, endpoint: EndpointId) -> usize {
        self.endpoints.get(endpoint).map_or(0, |e| e.room())
    }

    fn post(&mut self, endpoint: EndpointId, chain: &mut Vec<WorkRequest<'_>>) -> Result<(), PostError> {
        let found = self.endpoints.get_mut(endpoint).ok_or(PostError::Unknown)?;
        match found.post(chain, &mut self.scratch, self.hardware.message_bytes_max, &mut self.pending)? {
            Posted::All => {}
            Posted::Part => {
                found.break_down(&mut self.pending);
                self.abandon(endpoint);
            }
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Completion>) -> usize {
        let before = out.len();
        if self.alarm.is_raised() {
            self.heed();
        }
        out.append(&mut self.pending);
        for wc in self.queue.poll() {
            if let Some(endpoint) = self.endpoints.get_mut(endpoint_of(wc.wr_id)) {
                endpoint.completed(wc, out);
                self.offences += endpoint.take_offence();
            }
        }
        out.len() - before
    }

    fn take_message(&mut self, endpoint: EndpointId, slot: u32, into: &mut [u8; MESSAGE_BYTES]) -> Result<usize, FabricError> {
        let absent = || FabricError::Unsupported {
            kind: FabricKind::Verbs,
            what: format!("taking a message from slot {slot} of {endpoint:?}, which holds none"),
        };
        let found = self.endpoints.get_mut(endpoint).ok_or_else(absent)?;
        found.take_message(slot, into, &mut self.pending).ok_or_else(absent)
    }

    fn sleep(&mut self, timeout: Duration) -> Result<Wake, FabricError> {
        if !self.pending.is_empty() {
            return Ok(Wake::Ready);
        }
        self.queue.arm()?;
        // What came before the arming makes no event.
        self.drain();
        if !self.pending.is_empty() {
            return Ok(Wake::Ready);
        }
        let limit = Timespec::try_from(timeout).ok();
        let mut fds = [PollFd::new(&self.waker, PollFlags::IN), PollFd::from_borrowed_fd(self.queue.fd(), PollFlags::IN)];
        let ready = match poll(&mut fds, limit.as_ref()) {
            Ok(count) => count,
            // A signal: the caller looks around and sleeps again.
            Err(rustix::io::Errno::INTR) => return Ok(Wake::Ready),
            Err(error) => return Err(failed("poll of a completion channel", error.into(), "")),
        };
        let [woken, completed] = fds.map(|fd| !fd.revents().is_empty());
        if completed {
            self.queue.take_events();
        }
        if woken {
            self.waker.clear();
            return Ok(Wake::Woken);
        }
        Ok(if ready > 0 { Wake::Ready } else { Wake::TimedOut })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn offences(&self) -> u64 {
        self.offences
    }

    fn close(&mut self, endpoint: EndpointId) {
        let Some(found) = self.endpoints.get_mut(endpoint) else { return };
        found.begin_close();
        // Of what was found earlier, only the end of its work is still of use.
        self.pending.retain(|c| c.endpoint != endpoint || matches!(c.event, Event::Done { .. }));
        self.abandon(endpoint);
        if let Some(closed) = self.endpoints.remove(endpoint) {
            self.reserved -= closed.reserved();
        }
    }
}

impl Drop for VerbsPort {
    fn drop(&mut self) {
        for endpoint in self.endpoints.ids() {
            self.close(endpoint);
        }
        self.hardware.ears.remove(self.queue.queue().address());
    }
}
