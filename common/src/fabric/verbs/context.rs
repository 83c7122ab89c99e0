//! An opened device and its protection domains. They end when their last user is dropped.

use super::failure::{check, failed};
use crate::fabric::FabricError;
use rdma_sys::{
    ibv_alloc_pd, ibv_close_device, ibv_context, ibv_dealloc_pd, ibv_device, ibv_device_attr, ibv_open_device, ibv_pd,
    ibv_port_attr, ibv_query_device, ibv_query_port,
};
use rustix::fs::OFlags;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// An opened device.
pub(super) struct Context {
    raw: NonNull<ibv_context>,
    name: String,
}

// SAFETY: libibverbs locks its contexts itself (its calls are thread-safe), and nothing here depends on the
// thread that opened it.
unsafe impl Send for Context {}
// SAFETY: as above; `&Context` only gives out the pointer for such calls.
unsafe impl Sync for Context {}

impl Context {
    /// Opens `device`.
    ///
    /// # Safety
    /// `device` is an entry of a device list that has not been freed.
    pub(super) unsafe fn open(device: NonNull<ibv_device>, name: String) -> Result<Self, FabricError> {
        // SAFETY: the caller vouches for the device.
        let raw = unsafe { ibv_open_device(device.as_ptr()) };
        let Some(raw) = NonNull::new(raw) else {
            let hint = "check the permissions of /dev/infiniband/uverbs*";
            return Err(failed(format!("ibv_open_device {name}"), io::Error::last_os_error(), hint));
        };
        Ok(Self { raw, name })
    }

    pub(super) fn raw(&self) -> *mut ibv_context {
        self.raw.as_ptr()
    }

    /// The device's name, such as `rxe0`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What the device can do.
    pub(super) fn attributes(&self) -> Result<ibv_device_attr, FabricError> {
        // SAFETY: plain integers and arrays of them; zero is a value of each.
        let mut attributes: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open while `self` lives; `attributes` is exclusive and of the type that is filled.
        let code = unsafe { ibv_query_device(self.raw(), &raw mut attributes) };
        check(code).map_err(|e| failed(format!("ibv_query_device {}", self.name), e, ""))?;
        Ok(attributes)
    }

    /// What port `number` is like now.
    pub(super) fn port(&self, number: u8) -> Result<ibv_port_attr, FabricError> {
        // SAFETY: plain integers; zero is a value of each.
        let mut attributes: ibv_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open; the symbol fills a prefix of `ibv_port_attr` (its compatible form), and
        // the rest stays the zeroes it was given.
        let code = unsafe { ibv_query_port(self.raw(), number, (&raw mut attributes).cast()) };
        check(code).map_err(|e| failed(format!("ibv_query_port {} port {number}", self.name), e, ""))?;
        Ok(attributes)
    }
}

impl Context {
    /// The descriptor that becomes readable with an asynchronous event.
    pub(super) fn events_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open while `self` lives.
        let fd = unsafe { (*self.raw()).async_fd };
        // SAFETY: the context owns the descriptor and closes it only when it is closed, after this borrow.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Makes taking an event return at once when there is none.
    pub(super) fn unblock_events(&self) -> Result<(), FabricError> {
        unblock(self.events_fd(), "asynchronous events")
    }
}

/// Sets `O_NONBLOCK`.
pub(super) fn unblock(fd: BorrowedFd<'_>, what: &str) -> Result<(), FabricError> {
    let flags = rustix::fs::fcntl_getfl(fd).map_err(|e| failed(format!("F_GETFL of {what}"), e.into(), ""))?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).map_err(|e| failed(format!("F_SETFL of {what}"), e.into(), ""))
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed only here; everything made from it holds an `Arc` of `self`, so
        // nothing of it is left.
        let code = unsafe { ibv_close_device(self.raw()) };
        if let Err(error) = check(code) {
            tracing::error!(device = self.name, %error, "the device could not be closed");
        }
    }
}

/// A protection domain.
pub(super) struct ProtectionDomain {
    raw: NonNull<ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: as for `Context`: libibverbs' calls on domains are thread-safe.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new one.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, FabricError> {
        // SAFETY: the context is open while the `Arc` lives.
        let raw = unsafe { ibv_alloc_pd(context.raw()) };
        let raw = NonNull::new(raw).ok_or_else(|| failed("ibv_alloc_pd", io::Error::last_os_error(), ""))?;
        Ok(Self { raw, context: Arc::clone(context) })
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed only here; regions and queue pairs of it hold an `Arc` of `self`.
        let code = unsafe { ibv_dealloc_pd(self.raw()) };
        if let Err(error) = check(code) {
            tracing::error!(device = self.context.name(), %error, "a protection domain could not be freed");
        }
    }
}
