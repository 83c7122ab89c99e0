//! Limits of this process, and those that a service would get.

use super::root::Root;
use serde::Serialize;

/// `CAP_IPC_LOCK` in `capabilities(7)`.
const CAP_IPC_LOCK: u32 = 14;
/// Where units lie, the stronger ones first.
const UNIT_FOLDERS: [&str; 3] = ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];
const UNIT: &str = "kv-server.service";

/// Limits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Limits {
    /// Soft limit of locked memory, bytes; `None` is unlimited.
    pub memlock_bytes: Option<u64>,
    /// Hard limit of it.
    pub memlock_hard_bytes: Option<u64>,
    /// Whether this process may lock memory beyond it.
    pub may_lock_all: bool,
    /// Soft limit of open files; `None` is unlimited.
    pub open_files: Option<u64>,
    /// What the first process has, which services inherit unless their unit says otherwise.
    pub first_process_memlock_bytes: Option<Option<u64>>,
    /// `LimitMEMLOCK` of an installed unit of kv-server, as it is written, and whether there is a unit.
    pub unit: Option<Unit>,
}

/// An installed unit of kv-server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unit {
    pub path: String,
    pub memlock: Option<String>,
}

pub fn read(root: &Root) -> Limits {
    let own = root.text("proc/self/limits").unwrap_or_default();
    let (memlock_bytes, memlock_hard_bytes) = limit(&own, "Max locked memory").unwrap_or((Some(0), Some(0)));
    let first = root.text("proc/1/limits");
    Limits {
        memlock_bytes,
        memlock_hard_bytes,
        may_lock_all: may_lock_all(&root.text("proc/self/status").unwrap_or_default()),
        open_files: limit(&own, "Max open files").and_then(|(soft, _)| soft),
        first_process_memlock_bytes: first.and_then(|text| limit(&text, "Max locked memory")).map(|(soft, _)| soft),
        unit: unit(root),
    }
}

/// Soft and hard limit of this name in `/proc/PID/limits`.
fn limit(text: &str, name: &str) -> Option<(Option<u64>, Option<u64>)> {
    let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut next = || words.next().map(|word| word.parse().ok());
    Some((next()?, next()?))
}

fn may_lock_all(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    effective & (1 << CAP_IPC_LOCK) != 0
}

/// The unit in force with the last `LimitMEMLOCK` of its drop-ins.
fn unit(root: &Root) -> Option<Unit> {
    let folder = UNIT_FOLDERS.into_iter().find(|folder| root.exists(&format!("{folder}/{UNIT}")))?;
    let path = format!("{folder}/{UNIT}");
    let mut texts = vec![root.text(&path).unwrap_or_default()];
    for folder in UNIT_FOLDERS.iter().rev() {
        let drop_ins = format!("{folder}/{UNIT}.d");
        texts.extend(root.names(&drop_ins).iter().filter_map(|name| root.text(&format!("{drop_ins}/{name}"))));
    }
    let last = |text: &String| {
        let mut lines = text.lines().rev().filter_map(|line| line.trim().strip_prefix("LimitMEMLOCK="));
        lines.next().map(|value| value.trim().to_owned())
    };
    Some(Unit { path: format!("/{path}"), memlock: texts.iter().filter_map(last).next_back() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_what_is_unlimited() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max locked memory         8388608              unlimited            bytes\n\
                    Max open files            1024                 524288               files\n";
        assert_eq!(limit(text, "Max locked memory"), Some((Some(8 << 20), None)));
        assert_eq!(limit(text, "Max open files"), Some((Some(1024), Some(524_288))));
        assert_eq!(limit(text, "Max processes"), None);
    }

    #[test]
    fn the_last_drop_in_of_a_unit_holds() {
        let machine = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = machine.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let root = Root::new(Some(machine.path()));
        assert_eq!(unit(&root), None);
        write("usr/lib/systemd/system/kv-server.service", "[Service]\nExecStart=kv-server\n");
        assert_eq!(unit(&root).unwrap().memlock, None);
        write("usr/lib/systemd/system/kv-server.service.d/10.conf", "[Service]\nLimitMEMLOCK=64K\n");
        write("etc/systemd/system/kv-server.service.d/20.conf", "[Service]\nLimitMEMLOCK=infinity\n");
        assert_eq!(unit(&root).unwrap().memlock.as_deref(), Some("infinity"));
    }
}
