//! The tables of a report's page.

use std::fmt::Write;

use serde_json::Value;

use super::plot::escape;
use crate::table::{group, time};

/// A table; the first row is its head.
fn table(rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"scroll\"><table>");
    for (at, row) in rows.iter().enumerate() {
        let cell = if at == 0 { "th" } else { "td" };
        out += "<tr>";
        for text in row {
            // Writing into a string cannot fail.
            let _ = write!(out, "<{cell}>{}</{cell}>", escape(text));
        }
        out += "</tr>";
    }
    out + "</table></div>"
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn number(value: &Value, name: &str) -> Option<f64> {
    value.get(name).and_then(Value::as_f64)
}

fn times(of: &Value, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| number(of, name).map_or_else(|| "-".into(), |ns| time(ns as u64))).collect()
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Operations by kind.
pub fn operations(report: &Value) -> String {
    let mut rows = vec![head(&["operation", "count", "per second", "p50", "p90", "p99", "p99.9", "p99.99", "max"])];
    let elapsed = number(report, "elapsed_s").unwrap_or(0.0);
    for (kind, latency) in entries(report.get("latency_ns")) {
        let count = number(latency, "count").unwrap_or(0.0);
        let rate = if elapsed > 0.0 { count / elapsed } else { 0.0 };
        let figures = times(latency, &["p50", "p90", "p99", "p999", "p9999", "max"]);
        rows.push([vec![kind.clone(), group(count as u64), group(rate as u64)], figures].concat());
    }
    if rows.len() == 1 { String::new() } else { format!("<h2>Operations</h2>{}", table(&rows)) }
}

/// What they cost, Reads per Get, retries by cause.
pub fn costs(report: &Value) -> String {
    let mut rows = vec![head(&["figure", "value"])];
    let mut add = |name: &str, text: Option<String>| rows.extend(text.map(|text| vec![name.to_owned(), text]));
    let ns = |name: &str| number(report, name).map(|ns| format!("{ns:.1} ns"));
    add("server CPU per operation", ns("server_cpu_ns_per_op"));
    add("client CPU per operation", ns("client_cpu_ns_per_op"));
    add("Reads per Get", number(report, "reads_per_get").map(|reads| format!("{reads:.4}")));
    add("Gets from a cached location", number(report, "location_hit_rate").map(|share| format!("{:.2} %", share * 100.0)));
    add(
        "server CPU per Get / per Put",
        report.pointer("/get_vs_put/percent").and_then(Value::as_f64).map(|p| format!("{p:.3} %")),
    );
    for (cause, count) in entries(report.get("retries")) {
        add(&format!("retries: {}", cause.replace('_', " ")), count.as_f64().map(|count| group(count as u64)));
    }
    add(
        "absent, which is no failure here",
        number(report, "misses").filter(|misses| *misses > 0.0).map(|misses| group(misses as u64)),
    );
    if rows.len() == 1 { String::new() } else { format!("<h2>Cost and retries</h2>{}", table(&rows)) }
}

/// The raw verbs and the ratios to them.
pub fn raw(report: &Value) -> String {
    let mut rows = vec![head(&["raw verb or operation", "p50", "p99", "p99.9", "max", "per second"])];
    for (name, figure) in entries(report.get("raw")) {
        let rate = number(figure, "rate_ops").map_or_else(|| "-".into(), |rate| group(rate as u64));
        rows.push([vec![name.clone()], times(figure, &["p50", "p99", "p999", "max"]), vec![rate]].concat());
    }
    let mut ratios = vec![head(&["ratio", "value"])];
    for (name, ratio) in entries(report.get("ratio")) {
        ratios.push(vec![name.clone(), ratio.as_f64().map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))]);
    }
    let mut out = String::new();
    if rows.len() > 1 {
        out += &format!("<h2>The raw fabric</h2>{}", table(&rows));
    }
    if ratios.len() > 1 {
        out += &table(&ratios);
    }
    out
}

/// Stores that were compared.
pub fn comparison(report: &Value) -> String {
    let Some(stores) = report.get("compare").and_then(Value::as_array) else { return String::new() };
    let mut rows =
        vec![head(&["store", "operation", "per second", "p50", "p99", "p99.9", "server CPU", "client CPU", "version"])];
    for store in stores {
        let text = |name: &str| store.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let ns = |name: &str| number(store, name).map_or_else(|| "-".into(), |ns| format!("{ns:.1} ns"));
        let operations = number(store, "operations").unwrap_or(1.0).max(1.0);
        for (kind, latency) in entries(store.get("latency_ns")) {
            let rate = number(store, "throughput_ops").unwrap_or(0.0) * number(latency, "count").unwrap_or(0.0) / operations;
            let p50 = store.get("p50_ns").map_or_else(Vec::new, |p50| times(p50, &[kind]));
            let start = vec![text("name"), kind.clone(), group(rate as u64)];
            let cost = vec![ns("server_cpu_ns_per_op"), ns("client_cpu_ns_per_op"), text("version")];
            rows.push([start, p50, times(latency, &["p99", "p999"]), cost].concat());
        }
    }
    let mut ratios = vec![head(&["the first store over", "figure", "ratio"])];
    for (other, figures) in entries(report.get("compare_ratio")) {
        for (figure, ratio) in entries(Some(figures)) {
            ratios.push(vec![
                other.clone(),
                figure.clone(),
                ratio.as_f64().map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}")),
            ]);
        }
    }
    format!("<h2>Stores</h2>{}{}", table(&rows), table(&ratios))
}

/// What failed.
pub fn failures(report: &Value) -> String {
    let mut out = String::new();
    for (kind, failure) in entries(report.get("failures")) {
        let first = failure.get("first").and_then(Value::as_str).unwrap_or_default();
        let count = group(number(failure, "count").unwrap_or(0.0) as u64);
        let _ = write!(out, "<p class=\"bad\">{count} operations failed ({}): {}</p>", escape(kind), escape(first));
    }
    if let Some(why) = report.get("gave_up").and_then(Value::as_str) {
        let _ = write!(out, "<p class=\"bad\">given up: {}</p>", escape(why));
    }
    out
}

/// Machine, fabric and versions.
pub fn environment(report: &Value) -> String {
    let mut rows = vec![head(&["environment", ""])];
    for (name, value) in entries(report.get("environment")) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !text.is_empty() && text != "0" {
            rows.push(vec![name.replace('_', " ").replace("pages", "server memory (pages)"), text]);
        }
    }
    let mut parameters = vec![head(&["workload", ""])];
    for (name, value) in entries(report.get("workload")) {
        parameters.push(vec![name.replace('_', " "), value.as_str().map_or_else(|| value.to_string(), str::to_owned)]);
    }
    format!("<h2>Where and what</h2>{}{}", table(&rows), table(&parameters))
}
