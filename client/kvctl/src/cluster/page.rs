//! A cluster as people and programs read it.

use super::report::{MemberReport, Report};
use serde_json::{Value as Json, json};
use sidewire_common::cluster::MemberId;
use std::fmt::Write;

/// Shards named one by one; the rest are counted.
const NAMED_MAX: usize = 16;

/// The page of `status`. Writing to a string cannot fail.
pub fn status(report: &Report) -> String {
    let mut page = String::new();
    let map = &report.map;
    let _ = writeln!(page, "cluster    {}, map epoch {}, {} copies of each shard", map.name, map.epoch, map.replicas);
    let _ = writeln!(page, "told by    #{}, {}", report.told_by, lease(report));
    let _ = writeln!(page, "shards     {}", shards(report));
    let _ = writeln!(page, "lost       {} shards began anew because no copy was left", map.lost);
    let width = report.members.iter().map(|m| m.name.len() + 4).max().unwrap_or(4).max(6);
    let _ = writeln!(
        page,
        "\n{:<width$} {:>7} {:>7} {:>7} {:>6}  {:<14} address",
        "member", "primary", "backup", "syncing", "weight", "state"
    );
    for member in &report.members {
        let name = format!("{}{}", member.name, member.id);
        let (primaries, backups, syncing, weight) = (member.primaries, member.backups, member.syncing, member.weight);
        let state = state(member);
        let _ =
            writeln!(page, "{name:<width$} {primaries:>7} {backups:>7} {syncing:>7} {weight:>6}  {state:<14} {}", member.address);
    }
    page
}

fn lease(report: &Report) -> String {
    match report.lease_left_ms {
        _ if report.static_map => "a map that never changes".into(),
        0 => "ITS LEASE HAS RUN OUT: is etcd there?".into(),
        left => format!("whose lease runs for {:.1} s more", left as f64 / 1000.0),
    }
}

fn shards(report: &Report) -> String {
    let mut text = format!("{}", report.map.shards.len());
    if report.settled {
        text.push_str(", all where they should be");
    } else {
        let _ = write!(text, ", {} on their way", report.moving);
    }
    if !report.lacking.is_empty() {
        let named: Vec<String> = report.lacking.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        let more = if report.lacking.len() > NAMED_MAX { ", …" } else { "" };
        let _ = write!(text, "; {} LACK COPIES: {}{more}", report.lacking.len(), named.join(", "));
    }
    text
}

fn state(member: &MemberReport) -> String {
    let mut words = vec![if member.is_live { "live" } else { "GONE" }];
    if member.leads {
        words.push("leads");
    }
    if member.draining {
        words.push("drains");
    }
    words.join(" ")
}

/// The same for programs.
pub fn status_json(report: &Report) -> Json {
    let members = report.members.iter().map(|m| {
        json!({
            "id": m.id.0, "name": m.name, "address": m.address, "weight": m.weight, "live": m.is_live, "leads": m.leads,
            "draining": m.draining, "primary": m.primaries, "backup": m.backups, "syncing": m.syncing,
        })
    });
    json!({
        "cluster": report.map.name,
        "epoch": report.map.epoch,
        "replicas": report.map.replicas,
        "told_by": report.told_by,
        "lease_left_ms": report.lease_left_ms,
        "static": report.static_map,
        "settled": report.settled,
        "moving": report.moving,
        "lacking": report.lacking,
        "lost": report.map.lost,
        "members": members.collect::<Vec<_>>(),
    })
}

/// A line a shard.
pub fn map(report: &Report) -> String {
    let mut page = String::from("shard reign  copies, the primary first\n");
    for (shard, assignment) in report.map.shards.iter().enumerate() {
        let names = |ids: &[MemberId]| ids.iter().map(|&id| report.name(id)).collect::<Vec<_>>().join(" ");
        let _ = write!(page, "{shard:>5} {:>5}  {}", assignment.reign, names(&assignment.in_sync));
        if !assignment.syncing.is_empty() {
            let _ = write!(page, "  being filled: {}", names(&assignment.syncing));
        }
        if let Some(heir) = assignment.heir {
            let _ = write!(page, "  goes to {}", report.name(heir));
        }
        if let Some(former) = assignment.waits_for {
            let _ = write!(page, "  waits for clients of {}", report.name(former));
        }
        page.push('\n');
    }
    page
}

/// The same for programs.
pub fn map_json(report: &Report) -> Json {
    let ids = |ids: &[MemberId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let shards = report.map.shards.iter().enumerate().map(|(shard, s)| {
        json!({
            "shard": shard, "reign": s.reign, "in_sync": ids(&s.in_sync), "syncing": ids(&s.syncing),
            "heir": s.heir.map(|id| id.0), "waits_for": s.waits_for.map(|id| id.0),
        })
    });
    json!({ "epoch": report.map.epoch, "shards": shards.collect::<Vec<_>>() })
}
