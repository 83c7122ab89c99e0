//! What this machine has: values are checked against it before anything is mapped.

use std::fs;

/// The machine, or the container, as the server finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Cores that exist.
    pub cores: u32,
    /// Bytes of memory: the machine's, or the control group's limit if that is less.
    pub memory_bytes: u64,
    /// Bytes that can be had now without swapping.
    pub available_bytes: u64,
    /// Free hugepages of 2 MiB.
    pub hugepages_free: u64,
    /// Hugepages of 2 MiB in the pool.
    pub hugepages_total: u64,
}

impl Machine {
    /// Looks around. What the kernel does not tell counts as unlimited.
    #[must_use]
    pub fn look() -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let cores = fs::read_to_string("/sys/devices/system/cpu/present").ok().and_then(|list| last_core(&list));
        let there = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let machine = Self { cores: cores.map_or(there, |last| last.saturating_add(1)), ..Self::of_meminfo(&text) };
        let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        machine.within(group_limits(&group))
    }

    /// From the text of `/proc/meminfo`.
    fn of_meminfo(text: &str) -> Self {
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        };
        let bytes = |name| number(name).map_or(u64::MAX, |kib| kib.saturating_mul(1024));
        let two_mebibytes = number("Hugepagesize") == Some(2048);
        let pages = |name| if two_mebibytes { number(name).unwrap_or(0) } else { 0 };
        Self {
            cores: 1,
            memory_bytes: bytes("MemTotal"),
            available_bytes: bytes("MemAvailable"),
            hugepages_free: pages("HugePages_Free"),
            hugepages_total: pages("HugePages_Total"),
        }
    }

    /// No more than a control group allows.
    fn within(self, limits: impl Iterator<Item = (u64, u64)>) -> Self {
        limits.fold(self, |machine, (limit, used)| Self {
            memory_bytes: machine.memory_bytes.min(limit),
            available_bytes: machine.available_bytes.min(limit.saturating_sub(used)),
            ..machine
        })
    }
}

/// The last of a list such as `0-3,8-11`.
fn last_core(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// Limit and use of this process's group (version 2) and of those above it.
fn group_limits(membership: &str) -> impl Iterator<Item = (u64, u64)> {
    let path = membership.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).chain([path.len()]).collect();
    ends.into_iter().filter_map(move |end| {
        let directory = format!("/sys/fs/cgroup{}", &path[..end]);
        let number = |file: &str| fs::read_to_string(format!("{directory}/{file}")).ok()?.trim().parse::<u64>().ok();
        Some((number("memory.max")?, number("memory.current")?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_and_a_silent_kernel_limits_nothing() {
        let text = "MemTotal:  2048 kB\nMemAvailable: 1024 kB\nHugePages_Total: 9\nHugePages_Free:  7\nHugepagesize: 2048 kB\n";
        let machine = Machine::of_meminfo(text);
        assert_eq!((machine.memory_bytes, machine.available_bytes), (2 << 20, 1 << 20));
        assert_eq!((machine.hugepages_free, machine.hugepages_total), (7, 9));
        assert_eq!(Machine::of_meminfo("").memory_bytes, u64::MAX);
        assert_eq!(Machine::of_meminfo("HugePages_Free: 7\nHugepagesize: 1048576 kB").hugepages_free, 0);
    }

    #[test]
    fn a_control_group_lowers_what_there_is() {
        let machine = Machine::of_meminfo("MemTotal: 4096 kB\nMemAvailable: 4096 kB");
        let inside = machine.within([(1 << 20, 3 << 18), (8 << 20, 0)].into_iter());
        assert_eq!((inside.memory_bytes, inside.available_bytes), (1 << 20, 1 << 18));
    }

    #[test]
    fn cores_are_counted_to_the_last() {
        assert_eq!(last_core("0-3,8-11\n"), Some(11));
        assert_eq!(last_core("0\n"), Some(0));
        assert_eq!(last_core(""), None);
    }
}
