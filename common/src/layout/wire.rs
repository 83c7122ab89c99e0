//! Fixed-offset little-endian fields of messages and headers.

/// Reads `N` bytes at `at`; the caller's header type has a fixed size, so `at` is in range by construction.
#[must_use]
#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// The 16-bit field at `at`.
#[must_use]
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

/// The 32-bit field at `at`.
#[must_use]
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// The 64-bit field at `at`.
#[must_use]
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// The 128-bit field at `at`.
#[must_use]
#[inline]
pub fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(array(bytes, at))
}

/// Writes `value` at `at`.
#[inline]
pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}
