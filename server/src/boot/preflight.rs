//! What would fail later, or end in SIGBUS, is refused now, with the command that mends it.

use crate::config::{Config, Machine};
use rustix::process::{Resource, getrlimit};
use sidewire_common::fabric::{FabricError, FabricKind};
use sidewire_common::layout::counter_cell::CELL_BYTES;
use sidewire_common::memory::HugepageMode;
use sidewire_common::units::format_bytes;

const HUGEPAGE_BYTES: u64 = 2 << 20;
/// `CAP_IPC_LOCK` in `capabilities(7)`.
const CAP_IPC_LOCK: u32 = 14;

/// Too little of something.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// Memory.
    #[error(
        "memory: {} are needed for pools and cells, {} are available here; lower --memory or --cells, or free memory (see `free -h`)",
        format_bytes(*needed), format_bytes(*available)
    )]
    Memory {
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// Hugepages.
    #[error(
        "hugepages: {needed} of 2 MiB are needed for {}, {free} are free; \
         run `echo {suggest} > /proc/sys/vm/nr_hugepages` as root, or use --hugepages auto", format_bytes(*memory_bytes)
    )]
    Hugepages {
        /// For this much memory.
        memory_bytes: u64,
        /// Pages needed.
        needed: u64,
        /// Pages free.
        free: u64,
        /// A pool that would do.
        suggest: u64,
    },
}

/// Checks what `config` needs against `machine`, and locked memory if a NIC will pin it.
pub(super) fn check(config: &Config, machine: &Machine, fabric: FabricKind) -> Result<(), super::BootError> {
    check_memory(config, machine)?;
    if fabric == FabricKind::Verbs {
        check_memlock(needed_bytes(config))?;
    }
    Ok(())
}

fn needed_bytes(config: &Config) -> u64 {
    config.memory_bytes.saturating_add(u64::from(config.cells) * CELL_BYTES as u64)
}

fn check_memory(config: &Config, machine: &Machine) -> Result<(), Shortage> {
    let pages = config.memory_bytes.div_ceil(HUGEPAGE_BYTES);
    let enough_hugepages = machine.hugepages_free >= pages;
    if config.hugepages == HugepageMode::Require && !enough_hugepages {
        let suggest = machine.hugepages_total + (pages - machine.hugepages_free);
        let (memory_bytes, free) = (config.memory_bytes, machine.hugepages_free);
        return Err(Shortage::Hugepages { memory_bytes, needed: pages, free, suggest });
    }
    // Hugepages were set aside already; what comes out of their pool is not asked of the rest.
    let from_pool = enough_hugepages && config.hugepages != HugepageMode::Off;
    let all = needed_bytes(config);
    let needed = if from_pool { all - config.memory_bytes } else { all };
    if needed > machine.available_bytes {
        return Err(Shortage::Memory { needed, available: machine.available_bytes });
    }
    Ok(())
}

fn check_memlock(needed: u64) -> Result<(), FabricError> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    if may_lock_all(&status) || needed <= limit { Ok(()) } else { Err(FabricError::Memlock { needed, limit }) }
}

/// Whether the effective capabilities in the text of `/proc/self/status` include `CAP_IPC_LOCK`.
fn may_lock_all(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    effective & (1 << CAP_IPC_LOCK) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Given;

    const MACHINE: Machine =
        Machine { cores: 2, memory_bytes: 8 << 30, available_bytes: 4 << 30, hugepages_free: 100, hugepages_total: 300 };

    fn config(text: &str) -> Config {
        Config::check(&Given::parse(text).unwrap(), &Given::default(), "", &MACHINE).unwrap()
    }

    #[test]
    fn memory_that_is_not_there_now_is_refused_with_both_figures() {
        assert_eq!(check_memory(&config("memory = '3GiB'"), &MACHINE), Ok(()));
        let cells = 65536 * CELL_BYTES as u64;
        let shortage = Shortage::Memory { needed: (5 << 30) + cells, available: 4 << 30 };
        assert_eq!(check_memory(&config("memory = '5GiB'"), &MACHINE), Err(shortage));
    }

    #[test]
    fn hugepages_count_for_themselves() {
        let plenty = Machine { hugepages_free: 4096, ..MACHINE };
        assert_eq!(check_memory(&config("memory = '5GiB'"), &plenty), Ok(()));
        assert!(check_memory(&config("memory = '5GiB'\nhugepages = 'off'"), &plenty).is_err());
        let wanted = config("memory = '1GiB'\nhugepages = 'require'");
        assert_eq!(check_memory(&wanted, &plenty), Ok(()));
        let refusal = check_memory(&wanted, &MACHINE).unwrap_err();
        assert_eq!(refusal, Shortage::Hugepages { memory_bytes: 1 << 30, needed: 512, free: 100, suggest: 712 });
        assert!(refusal.to_string().contains("echo 712 > /proc/sys/vm/nr_hugepages"));
    }

    #[test]
    fn the_capability_to_lock_is_found() {
        assert!(may_lock_all("Name: x\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_lock_all("CapEff:\t0000000000003fff\n"));
        assert!(!may_lock_all(""));
    }
}
