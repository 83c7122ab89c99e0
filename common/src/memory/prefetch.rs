//! A hint to the CPU that bytes will be touched soon.

/// Asks for the cache line at `pointer`, which may be any address: a hint never faults and changes nothing.
#[inline]
pub(super) fn prefetch(pointer: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 is a hint: it reads nothing that the program could see and raises no fault, whatever the address
    // (Intel SDM, volume 2, PREFETCHh).
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: PRFM is a hint and raises no fault, whatever the address (Arm ARM, C6.2, PRFM); it touches no register.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = pointer;
}
