//! The page that `info` shows to people.

use super::{bytes_per_key, reads_per_get, totals};
use sidewire::v1::{FabricReport, InfoReply, PoolReport};
use sidewire_common::units::format_bytes;
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Lines of name and fact, aligned.
struct Page(String);

impl Page {
    fn fact(&mut self, name: &str, fact: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{name:<11}{fact}");
    }
}

/// The whole page.
pub fn page(server: &str, info: &InfoReply) -> String {
    let mut page = Page(String::new());
    page.fact("server", format_args!("{server}, version {}, process {}, up {}", info.version, info.pid, time(info.uptime_ms)));
    if let Some(fabric) = &info.fabric {
        describe(&mut page, fabric);
    }
    page.fact("pages", &info.pages);
    let (limit, resident) = (format_bytes(info.memory_limit_bytes), format_bytes(info.resident_bytes));
    page.fact("memory", format_args!("{limit} at most; {resident} of the process are resident"));
    for (name, report) in [("index", &info.index), ("heap", &info.heap)] {
        if let Some(report) = report {
            page.fact(name, pool(report));
        }
    }
    page.fact("segments", format_args!("{} after {} splits", info.segments, info.splits));
    let per_key = bytes_per_key(info).map_or(String::new(), |bytes| format!(", {bytes:.0} bytes in use a key"));
    page.fact("keys", format_args!("{}, {} of records{per_key}", info.keys, format_bytes(info.record_bytes)));
    page.fact("cells", format_args!("{} of {} in use", info.cells_in_use, info.cell_count));
    page.fact("expired", format_args!("{} keys", info.expired));
    page.fact("refused", refused(info));
    page.fact("lease", format_args!("{}, {} clients swept", time(info.lease_ms), info.clients_swept));
    workers(&mut page, info);
    clients(&mut page, info);
    page.0
}

/// `3 requests; request.magic 2, beat.number 1`
fn refused(info: &InfoReply) -> String {
    let causes: Vec<_> = info.refusals.iter().map(|refusal| format!("{} {}", refusal.cause, refusal.count)).collect();
    let listed = if causes.is_empty() { String::new() } else { format!("; {}", causes.join(", ")) };
    format!("{} requests{listed}", info.requests_refused)
}

fn describe(page: &mut Page, fabric: &FabricReport) {
    page.fact("fabric", format_args!("{} ({})", fabric.kind, fabric.reason));
    if !fabric.gid.is_empty() {
        page.fact(
            "device",
            format_args!("{} port {}, {}, MTU {}", fabric.device, fabric.port, fabric.link_layer, fabric.mtu_bytes),
        );
        page.fact("GID", format_args!("{} (index {})", fabric.gid, fabric.gid_index));
    }
    page.fact("atomics", &fabric.atomics);
}

fn pool(pool: &PoolReport) -> String {
    let used = format_bytes(pool.used_bytes);
    let reserved = format_bytes(pool.reserved_bytes);
    let chunks = if pool.chunks == 1 { "chunk" } else { "chunks" };
    format!("{used} in use of {reserved} ({} {chunks} of {})", pool.chunks, format_bytes(pool.chunk_bytes))
}

fn workers(page: &mut Page, info: &InfoReply) {
    let _ = writeln!(page.0, "\n{:<8}{:>12}{:>14}{:>12}{:>13}", "worker", "CPU time", "requests", "wakeups", "connections");
    for worker in &info.workers {
        let cpu = format!("{:.3} s", worker.cpu_ns as f64 / 1e9);
        let _ = writeln!(
            page.0,
            "{:<8}{cpu:>12}{:>14}{:>12}{:>13}",
            worker.worker, worker.requests, worker.wakeups, worker.connections
        );
    }
}

fn clients(page: &mut Page, info: &InfoReply) {
    if info.clients.is_empty() {
        let _ = writeln!(page.0, "\nno clients");
        return;
    }
    let _ = writeln!(
        page.0,
        "\n{:<8}{:<24}{:>9}{:>12}{:>10}{:>9}{:>9}{:>9}{:>12}",
        "client", "program", "sessions", "Gets", "Reads/Get", "adds", "locks", "retries", "lease left"
    );
    for client in &info.clients {
        let _ = writeln!(
            page.0,
            "{:<8}{:<24}{:>9}{:>12}{:>10}{:>9}{:>9}{:>9}{:>12}",
            client.holder_id,
            format!("{}@{} {}", client.program, client.host, client.pid),
            client.sessions,
            client.gets,
            ratio(client.gets, client.reads),
            client.adds,
            client.locks,
            client.retries,
            time(client.lease_left_ms),
        );
    }
    let (gets, reads) = totals(info);
    let _ = writeln!(page.0, "\nReads per Get, all clients: {}", ratio(gets, reads));
}

fn ratio(gets: u64, reads: u64) -> String {
    reads_per_get(gets, reads).map_or("-".into(), |ratio| format!("{ratio:.2}"))
}

/// `850 ms`, `12.3 s`, `5 min 3 s`, `2 d 4 h`.
fn time(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{:.1} s", ms as f64 / 1e3),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_read_well() {
        let told: Vec<_> = [850, 12_340, 303_000, 7_500_000, 187_200_000].into_iter().map(time).collect();
        assert_eq!(told, ["850 ms", "12.3 s", "5 min 3 s", "2 h 5 min", "2 d 4 h"]);
    }
}
