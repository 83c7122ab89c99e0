//! The devices of this host, before one is opened.

use super::context::Context;
use super::failure::failed;
use crate::fabric::FabricError;
use rdma_sys::{ibv_device, ibv_free_device_list, ibv_get_device_list, ibv_get_device_name, ibv_transport_type};
use std::ffi::{CStr, c_int};
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The devices of this host.
pub(super) struct DeviceList {
    raw: NonNull<*mut ibv_device>,
    len: usize,
}

impl DeviceList {
    /// Those that are there now.
    pub(super) fn read() -> Result<Self, FabricError> {
        let mut count: c_int = 0;
        // SAFETY: `count` is exclusive and of the type that is filled.
        let raw = unsafe { ibv_get_device_list(&raw mut count) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw, len: usize::try_from(count).unwrap_or(0) }),
            None => {
                let error = io::Error::last_os_error();
                if error.raw_os_error() == Some(rustix::io::Errno::NOSYS.raw_os_error()) {
                    let reason = "the kernel has no RDMA support loaded (module ib_uverbs)".into();
                    return Err(FabricError::NoDevice { reason });
                }
                Err(failed("ibv_get_device_list", error, ""))
            }
        }
    }

    /// Each of them.
    pub(super) fn devices(&self) -> impl Iterator<Item = Listed<'_>> {
        (0..self.len).map(|index| self.device(index))
    }

    fn device(&self, index: usize) -> Listed<'_> {
        assert!(index < self.len);
        // SAFETY: the list has `len` entries and `index` is below that (asserted).
        let place = unsafe { self.raw.add(index) };
        // SAFETY: an initialised entry of the list, which lives as long as `self`.
        let device = unsafe { place.read() };
        let raw = NonNull::new(device).expect("entries below the list's length are devices");
        // SAFETY: an entry of a living list.
        let name = unsafe { ibv_get_device_name(raw.as_ptr()) };
        // SAFETY: the name is a terminated string inside the device, which lives as long as the list.
        let name = unsafe { CStr::from_ptr(name) };
        Listed { raw, name: name.to_string_lossy().into_owned(), _list: PhantomData }
    }
}

/// A device of a living list.
pub(super) struct Listed<'a> {
    raw: NonNull<ibv_device>,
    pub(super) name: String,
    _list: PhantomData<&'a DeviceList>,
}

impl Listed<'_> {
    /// `enum ibv_transport_type`.
    pub(super) fn transport(&self) -> ibv_transport_type::Type {
        // SAFETY: the list that holds the device is borrowed for as long as `self` lives.
        unsafe { (*self.raw.as_ptr()).transport_type }
    }

    /// Opens it.
    pub(super) fn open_context(&self) -> Result<Context, FabricError> {
        // SAFETY: as above.
        unsafe { Context::open(self.raw, self.name.clone()) }
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: returned by `ibv_get_device_list`, freed only here; opened contexts keep their devices.
        unsafe { ibv_free_device_list(self.raw.as_ptr()) };
    }
}
