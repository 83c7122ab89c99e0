//! Locked memory and open files, for this process and for a service.

use super::Purpose;
use crate::doctor::facts::Limits;
use crate::doctor::finding::Area::Memory as AREA;
use crate::doctor::finding::{Findings, Level};
use sidewire::FabricKind;
use sidewire_common::units::{format_bytes, parse_bytes};

/// Descriptors below which a server of a few hundred clients runs out.
const OPEN_FILES_FEW: u64 = 1024;

pub fn judge(limits: &Limits, purpose: &Purpose<'_>, has_device: bool, findings: &mut Findings) {
    let pins = has_device || purpose.fabric == Some(FabricKind::Verbs);
    let level = if pins { purpose.without_memory() } else { Level::Note };
    memlock(limits, purpose, level, pins, findings);
    services(limits, purpose, if pins { Level::Warning } else { Level::Note }, findings);
    let Some(files) = limits.open_files else { return };
    let what = format!("{files} open files at most");
    if files < OPEN_FILES_FEW {
        let means = "a server keeps several descriptors for each client and refuses more clients when they run out";
        findings.mend((AREA, Level::Warning, "open-files"), what, means, "ulimit -n 65536, or LimitNOFILE=65536 in the unit");
    } else {
        findings.ok(AREA, "open-files", what, "enough for clients by the hundred");
    }
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or("unlimited".into(), format_bytes)
}

fn memlock(limits: &Limits, purpose: &Purpose<'_>, level: Level, pins: bool, findings: &mut Findings) {
    let needed = purpose.memory_bytes;
    let what = format!("locked memory: {} for this process", shown(limits.memlock_bytes));
    if limits.may_lock_all {
        findings.ok(AREA, "memlock", format!("{what}, and CAP_IPC_LOCK lifts it"), "a NIC's registrations are not limited");
    } else if limits.memlock_bytes.is_none_or(|limit| limit >= needed) {
        findings.ok(AREA, "memlock", what, format!("a server of {} can be registered", format_bytes(needed)));
    } else {
        let means = match pins {
            true => format!(
                "a server of {} over verbs refuses to start: all it serves is registered, hugepages too",
                format_bytes(needed)
            ),
            false => "too little for a server over verbs; shared memory does not need it".into(),
        };
        let raise = match limits.memlock_hard_bytes {
            Some(hard) if hard < needed => {
                "as root: prlimit --memlock=unlimited --pid $$; for good: '* - memlock unlimited' in /etc/security/limits.conf"
            }
            _ => "ulimit -l unlimited",
        };
        findings.mend((AREA, level, "memlock.low"), what, means, format!("{raise}; in a container: --ulimit memlock=-1"));
    }
}

/// Units do not get what a login shell gets.
fn services(limits: &Limits, purpose: &Purpose<'_>, level: Level, findings: &mut Findings) {
    let needed = purpose.memory_bytes;
    let (what, limit) = match (&limits.unit, limits.first_process_memlock_bytes) {
        (Some(unit), _) if unit.memlock.is_some() => {
            let text = unit.memlock.as_deref().unwrap_or_default();
            (format!("{} has LimitMEMLOCK={text}", unit.path), unit_limit(text))
        }
        (Some(unit), first) => {
            let limit = first.flatten();
            (format!("{} does not set LimitMEMLOCK; services get {}", unit.path, shown(limit)), limit)
        }
        (None, Some(limit)) => {
            (format!("services get {} of locked memory unless their unit says otherwise", shown(limit)), limit)
        }
        (None, None) => return,
    };
    if limit.is_none_or(|limit| limit >= needed) {
        findings.ok(AREA, "memlock.service", what, format!("a service of {} can be registered", format_bytes(needed)));
        return;
    }
    let means = "limits of login shells (limits.conf, ulimit) do not reach services: over verbs the server refuses to start as \
                 one, unless it runs as root with CAP_IPC_LOCK";
    let mend = "systemctl edit kv-server, and write: [Service] LimitMEMLOCK=infinity; then systemctl restart kv-server";
    findings.mend((AREA, level, "memlock.service-low"), what, means, mend);
}

/// As systemd writes it: bytes with K, M, G, T, soft and hard apart by a colon, or `infinity`.
fn unit_limit(text: &str) -> Option<u64> {
    match text.split(':').next().unwrap_or(text) {
        "infinity" => None,
        // What systemd does not understand it ignores, and the default holds.
        size => Some(parse_bytes(size).unwrap_or(0)),
    }
}
