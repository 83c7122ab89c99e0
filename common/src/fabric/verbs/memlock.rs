//! The limit of locked memory, checked before the kernel answers a bare ENOMEM.

use crate::fabric::FabricError;
use rustix::process::{Resource, getrlimit};

/// Bit of `CAP_IPC_LOCK` in the kernel's capability masks.
const CAP_IPC_LOCK_BIT: u32 = 14;

/// What the kernel counts for this process.
struct Account {
    pinned_bytes: u64,
    exempt: bool,
}

/// Refuses a registration of `bytes` bytes that the kernel would refuse. Every registration counts, hugepages
/// and second registrations of the same page as well.
pub(super) fn admit(bytes: usize) -> Result<(), FabricError> {
    let Some(limit) = getrlimit(Resource::Memlock).current else { return Ok(()) };
    let account = account();
    let needed = account.pinned_bytes.saturating_add(bytes as u64);
    if account.exempt || needed <= limit { Ok(()) } else { Err(FabricError::Memlock { needed, limit }) }
}

/// For errors of registrations that were admitted: the figures in force.
pub(super) fn hint() -> String {
    let account = account();
    let limit = getrlimit(Resource::Memlock).current.map_or_else(|| "unlimited".into(), |l| format!("{l} bytes"));
    format!("the locked-memory limit is {limit}, {} bytes are pinned now (`ulimit -l unlimited` raises it)", account.pinned_bytes)
}

/// The kernel looks at the capabilities of the thread that registers.
fn account() -> Account {
    parse(&std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default())
}

fn parse(status: &str) -> Account {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let pinned = field("VmPin:").and_then(|text| text.strip_suffix("kB")).and_then(|n| n.trim().parse::<u64>().ok());
    let capabilities = field("CapEff:").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    Account { pinned_bytes: pinned.unwrap_or(0) * 1024, exempt: capabilities & (1 << CAP_IPC_LOCK_BIT) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_account_is_read() {
        let account = parse("Name:\tx\nVmLck:\t       8 kB\nVmPin:\t      12 kB\nCapEff:\t0000000000004000\n");
        assert_eq!((account.pinned_bytes, account.exempt), (12 * 1024, true));
        assert!(!parse("CapEff:\t0000000000003fff\n").exempt);
    }
}
