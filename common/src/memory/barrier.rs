//! The barrier of rdma-core's `util/udma_barrier.h`.

use std::sync::atomic::{Ordering, fence};

/// Orders all earlier stores before all later ones as a device sees them.
///
/// A NIC reads cacheable memory. On x86 stores become visible in order, so keeping the compiler from
/// reordering is enough (`udma_to_device_barrier` is a compiler barrier there). On Arm a release store
/// orders only inside the inner shareable domain; rdma-core uses `dmb oshst`, and so do we.
#[inline]
pub fn to_device_barrier() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: `dmb oshst` touches no register and no memory; it only orders stores.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    fence(Ordering::Release);
    #[cfg(feature = "sim")]
    crate::fabric::sim::barrier();
}
