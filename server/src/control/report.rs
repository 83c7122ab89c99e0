//! Info: the server described for people and tools.

use super::Core;
use crate::metrics::WorkerMetrics;
use crate::pools::PoolFigures;
use sidewire_common::clock::BootInstant;
use sidewire_common::fabric::FabricInfo;
use sidewire_common::host;
use sidewire_proto::v1::{ClientReport, FabricReport, InfoReply, PoolReport, RefusalReport, WorkerReport};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Everything, as it is now.
pub(super) fn info(core: &Core) -> InfoReply {
    let store = &core.store;
    let settings = store.settings();
    let pools = store.pools().report();
    let all = core.workers.metrics();
    let sum = |figure: fn(&WorkerMetrics) -> i64| all.iter().map(|m| figure(m)).sum::<i64>().max(0) as u64;
    let (clients, clients_swept) = clients(core);
    InfoReply {
        version: env!("CARGO_PKG_VERSION").into(),
        incarnation: store.incarnation().0,
        uptime_ms: core.started.elapsed().as_millis() as u64,
        pid: std::process::id(),
        fabric: Some(fabric(store.fabric().info(), &core.fabric_reason)),
        index: Some(pool(&pools.index)),
        heap: Some(pool(&pools.heap)),
        memory_limit_bytes: settings.memory_bytes,
        pages: pools.pages.into(),
        cells_in_use: store.cells().in_use().into(),
        cell_count: store.cells().count().into(),
        keys: sum(|m| m.keys.load(Relaxed)),
        record_bytes: sum(|m| m.record_bytes.load(Relaxed)),
        segments: sum(|m| m.segments.load(Relaxed)),
        splits: sum(|m| m.splits.load(Relaxed) as i64),
        workers: all.iter().enumerate().map(|(worker, m)| self::worker(worker, m)).collect(),
        clients,
        layout_epoch: store.epochs().current(),
        lease_ms: settings.lease.as_millis() as u64,
        clients_swept,
        requests_refused: sum(|m| m.refused.load(Relaxed) as i64),
        expired: sum(|m| m.expired.load(Relaxed) as i64),
        resident_bytes: host::resident_bytes("self"),
        refusals: store.refusals().told().map(|(cause, count)| RefusalReport { cause: cause.into(), count }).collect(),
    }
}

fn fabric(info: &FabricInfo, reason: &str) -> FabricReport {
    FabricReport {
        kind: info.kind.to_string(),
        reason: reason.into(),
        device: info.device.clone(),
        port: info.port.into(),
        gid: info.gid.clone(),
        gid_index: info.gid_index,
        link_layer: info.link_layer.clone(),
        mtu_bytes: info.mtu_bytes,
        atomics: info.atomics.to_string(),
        read_depth: info.read_depth,
        inline_bytes: info.inline_bytes,
    }
}

fn pool(figures: &PoolFigures) -> PoolReport {
    PoolReport {
        chunks: figures.chunks,
        chunk_bytes: figures.chunk_bytes,
        used_bytes: figures.used_bytes,
        reserved_bytes: figures.reserved_bytes,
    }
}

fn worker(worker: usize, metrics: &Arc<WorkerMetrics>) -> WorkerReport {
    WorkerReport {
        worker: worker as u32,
        cpu_ns: metrics.cpu().as_nanos() as u64,
        requests: metrics.requests.load(Relaxed),
        wakeups: metrics.wakeups.load(Relaxed),
        connections: metrics.connections.load(Relaxed).max(0) as u32,
    }
}

fn clients(core: &Core) -> (Vec<ClientReport>, u64) {
    let now = BootInstant::now();
    let table = core.shared().table.lock();
    let clients = table.clients().map(|(id, client)| {
        let stats = &client.stats;
        let retries = [stats.retries_torn, stats.retries_stale, stats.retries_moved, stats.retries_pending];
        ClientReport {
            client_id: id.name_bytes().to_vec(),
            host: client.told.host.clone(),
            pid: client.told.pid,
            program: client.told.program.clone(),
            holder_id: client.holder,
            sessions: client.sessions.count(),
            lease_left_ms: client.lease_left(now).as_millis() as u64,
            layout_epoch: client.epoch,
            gets: stats.gets,
            reads: stats.reads,
            location_hits: stats.location_hits,
            adds: stats.adds,
            locks: stats.locks,
            retries: retries.into_iter().fold(0, u64::wrapping_add),
        }
    });
    let mut clients: Vec<ClientReport> = clients.collect();
    clients.sort_by_key(|client| client.holder_id);
    (clients, table.swept())
}
