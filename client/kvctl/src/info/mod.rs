//! `kvctl info`

mod text;

use crate::context::Context;
use crate::failure::Done;
use crate::output::{Output, Style, note};
use clap::Args;
use serde_json::{Value as Json, json};
use sidewire::FleetServer;
use sidewire::v1::{ClientReport, InfoReply, PoolReport, WorkerReport};

const EXAMPLES: &str = "\
Examples:
  kvctl info
  kvctl --json info | jq .keys
  kvctl -s 10.0.0.7:7400,10.0.0.8:7400 info        each member of their cluster

Reads per Get are what each client counts itself: the server does not see Gets.";

/// Show a server: fabric, memory, keys, workers, clients
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Info {}

impl Info {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let mut gone = None;
        for server in context.fleet()?.servers() {
            let info = match server.admin.info() {
                Ok(info) => info,
                // The others are told nevertheless.
                Err(error) if server.member.is_some() => {
                    note(format_args!("kvctl: {} ({}): {error}", server.name, server.address));
                    gone = Some(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match output.style() {
                Style::Json | Style::Line => output.line(member(server, json(&info)))?,
                Style::Text => output.bytes(text::page(&title(server), &info).as_bytes())?,
            }
        }
        gone.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// A server's address, and its node's name if it has one.
fn title(server: &FleetServer) -> String {
    match server.member {
        Some(id) => format!("{} ({}, member {id})", server.address, server.name),
        None => server.address.clone(),
    }
}

/// A member's report says whose it is.
fn member(server: &FleetServer, mut info: Json) -> Json {
    if let (Some(id), Some(fields)) = (server.member, info.as_object_mut()) {
        fields.insert("server".into(), json!(server.address));
        fields.insert("node".into(), json!(server.name));
        fields.insert("member".into(), json!(id.0));
    }
    info
}

/// Bytes in use for each key, index and records together.
fn bytes_per_key(info: &InfoReply) -> Option<f64> {
    let used: u64 = [&info.index, &info.heap].into_iter().flatten().map(|pool| pool.used_bytes).sum();
    (info.keys > 0).then(|| used as f64 / info.keys as f64)
}

fn reads_per_get(gets: u64, reads: u64) -> Option<f64> {
    (gets > 0).then(|| reads as f64 / gets as f64)
}

/// Gets and Reads of all clients that are attached now.
fn totals(info: &InfoReply) -> (u64, u64) {
    info.clients.iter().fold((0, 0), |(gets, reads): (u64, u64), client| {
        // Its own word: any number.
        (gets.saturating_add(client.gets), reads.saturating_add(client.reads))
    })
}

fn json(info: &InfoReply) -> Json {
    let (gets, reads) = totals(info);
    json!({
        "version": info.version,
        "incarnation": format!("{:016x}", info.incarnation),
        "uptime_ms": info.uptime_ms,
        "pid": info.pid,
        "fabric": fabric(info),
        "pages": info.pages,
        "memory_limit_bytes": info.memory_limit_bytes,
        "resident_bytes": info.resident_bytes,
        "index": info.index.as_ref().map(pool),
        "heap": info.heap.as_ref().map(pool),
        "segments": info.segments,
        "splits": info.splits,
        "keys": info.keys,
        "record_bytes": info.record_bytes,
        "bytes_per_key": bytes_per_key(info),
        "cells": { "in_use": info.cells_in_use, "count": info.cell_count },
        "expired": info.expired,
        "layout_epoch": info.layout_epoch,
        "lease_ms": info.lease_ms,
        "clients_swept": info.clients_swept,
        "requests_refused": info.requests_refused,
        "refusals": info.refusals.iter().map(|refusal| (refusal.cause.clone(), json!(refusal.count))).collect::<serde_json::Map<_, _>>(),
        "reads_per_get": reads_per_get(gets, reads),
        "workers": info.workers.iter().map(worker).collect::<Vec<_>>(),
        "clients": info.clients.iter().map(client).collect::<Vec<_>>(),
    })
}

fn fabric(info: &InfoReply) -> Json {
    let Some(fabric) = &info.fabric else { return Json::Null };
    json!({
        "kind": fabric.kind,
        "reason": fabric.reason,
        "device": fabric.device,
        "port": fabric.port,
        "gid": fabric.gid,
        "gid_index": fabric.gid_index,
        "link_layer": fabric.link_layer,
        "mtu_bytes": fabric.mtu_bytes,
        "atomics": fabric.atomics,
        "read_depth": fabric.read_depth,
        "inline_bytes": fabric.inline_bytes,
    })
}

fn pool(pool: &PoolReport) -> Json {
    json!({
        "chunks": pool.chunks,
        "chunk_bytes": pool.chunk_bytes,
        "used_bytes": pool.used_bytes,
        "reserved_bytes": pool.reserved_bytes,
    })
}

fn worker(worker: &WorkerReport) -> Json {
    json!({
        "worker": worker.worker,
        "cpu_ns": worker.cpu_ns,
        "requests": worker.requests,
        "wakeups": worker.wakeups,
        "connections": worker.connections,
    })
}

fn client(client: &ClientReport) -> Json {
    json!({
        "client_id": client.client_id.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "host": client.host,
        "pid": client.pid,
        "program": client.program,
        "holder_id": client.holder_id,
        "sessions": client.sessions,
        "lease_left_ms": client.lease_left_ms,
        "layout_epoch": client.layout_epoch,
        "gets": client.gets,
        "reads": client.reads,
        "reads_per_get": reads_per_get(client.gets, client.reads),
        "location_hits": client.location_hits,
        "adds": client.adds,
        "locks": client.locks,
        "retries": client.retries,
    })
}
