//! `kv-bench report`: reports of runs beside each other.

use std::path::Path;

use serde_json::Value;

use crate::cli::ReportArgs;
use crate::connect::Stop;
use crate::output::{self, Verdict};
use crate::page;

/// What is compared, where a report has it.
const FIGURES: [&str; 6] =
    ["throughput_ops", "reads_per_get", "location_hit_rate", "server_cpu_ns_per_op", "client_cpu_ns_per_op", "failed"];
const PERCENTILES: [&str; 4] = ["p50", "p99", "p999", "max"];

/// Runs the command.
pub fn command(args: &ReportArgs) -> Result<Verdict, Stop> {
    let reports = args.reports.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let text = table(&reports);
    if let Some(path) = &args.html {
        let page = match reports.as_slice() {
            [(_, only)] => page::of_one(only),
            several => page::of_several(several, &text),
        };
        output::write_file("--html", path, &page)?;
    }
    output::print(&text)?;
    Ok(Verdict::Good)
}

fn open(path: &Path) -> Result<(String, Value), Stop> {
    let wrong = |error: &dyn std::fmt::Display| Stop::Usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if json.get("command").and_then(Value::as_str).is_none() {
        return Err(wrong(&"this is no report of kv-bench"));
    }
    Ok((path.file_stem().map_or_else(|| "report".into(), |name| name.to_string_lossy().into_owned()), json))
}

/// The names of all figures that any of the reports has, as paths into it.
fn figures(reports: &[(String, Value)]) -> Vec<String> {
    let mut paths: Vec<String> = FIGURES.iter().map(|name| format!("/{name}")).collect();
    for (section, percentiles) in [("latency_ns", &PERCENTILES[..]), ("raw", &PERCENTILES[..1])] {
        let mut kinds: Vec<&String> =
            reports.iter().filter_map(|(_, json)| json.get(section)?.as_object()).flat_map(|kinds| kinds.keys()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        paths.extend(kinds.iter().flat_map(|kind| percentiles.iter().map(move |p| format!("/{section}/{kind}/{p}"))));
    }
    paths.push("/sweep/knee_ops".into());
    paths.retain(|path| reports.iter().any(|(_, json)| json.pointer(path).is_some_and(Value::is_number)));
    paths
}

fn table(reports: &[(String, Value)]) -> String {
    let widths: Vec<usize> = reports.iter().map(|(name, _)| name.chars().count().max(14) + 2).collect();
    let mut out = format!("{:<36}", "figure");
    for ((name, _), width) in reports.iter().zip(&widths) {
        out += &format!("{name:>width$}");
    }
    for (name, _) in &reports[1..] {
        out += &format!("  {:>16}", format!("{name} / first"));
    }
    out.push('\n');
    for path in figures(reports) {
        out += &format!("{:<36}", path[1..].replace('/', "."));
        let values: Vec<_> = reports.iter().map(|(_, json)| json.pointer(&path).and_then(Value::as_f64)).collect();
        for (value, width) in values.iter().zip(&widths) {
            out += &format!("{:>width$}", value.map_or_else(|| "-".into(), plain));
        }
        for value in &values[1..] {
            let ratio = value.zip(values[0]).filter(|(_, first)| *first != 0.0).map(|(value, first)| value / first);
            out += &format!("  {:>16}", ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}")));
        }
        out.push('\n');
    }
    let places: Vec<_> = reports.iter().map(|(_, json)| place(json)).collect();
    if places.iter().any(|place| *place != places[0]) {
        out += "note: not from the same machine, fabric or versions; ratios compare those too\n";
    }
    out
}

/// What must be alike for figures to be compared.
fn place(json: &Value) -> Vec<Option<&Value>> {
    ["cpu", "cpus", "kernel", "fabric", "device", "mtu", "server_version", "kv_bench_version", "debug_build"]
        .iter()
        .map(|name| json.pointer(&format!("/environment/{name}")))
        .collect()
}

fn plain(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        crate::table::group(value as u64)
    } else {
        format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_each_other_with_their_ratio() {
        let one =
            serde_json::json!({"throughput_ops": 2_000.0, "latency_ns": {"read": {"p50": 500}}, "environment": {"cpu": "x"}});
        let two = serde_json::json!({"throughput_ops": 3_000.0, "latency_ns": {"read": {"p50": 400}, "add": {"p50": 9}}, "environment": {"cpu": "y"}});
        let text = table(&[("a".into(), one), ("b".into(), two)]);
        let line = |name: &str| {
            text.lines().find(|line| line.starts_with(name)).unwrap_or_default().split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(line("throughput_ops"), ["throughput_ops", "2,000", "3,000", "1.500"]);
        assert_eq!(line("latency_ns.read.p50"), ["latency_ns.read.p50", "500", "400", "0.800"]);
        assert_eq!(line("latency_ns.add.p50"), ["latency_ns.add.p50", "-", "9", "-"]);
        assert!(text.contains("not from the same machine") && !text.contains("reads_per_get"), "{text}");
    }
}
