//! One page that needs nothing else: plots as SVG, tables, the environment. No script, no resource from elsewhere.

mod plot;
mod plots;
mod tables;

use serde_json::Value;

use plot::escape;
use plots::Named;

const STYLE: &str = include_str!("style.css");

/// The page of one report.
pub fn of_one(report: &Value) -> String {
    let text = |path: &str| report.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let title = format!("kv-bench {} {}", text("/command"), text("/workload/name"));
    let mut body = format!("<h1>{}</h1>{}", escape(title.trim()), summary(report));
    body += &tables::failures(report);
    body += &drawings(&[Named { name: String::new(), json: report }]);
    for part in [tables::operations, tables::comparison, tables::costs, tables::raw, tables::environment] {
        body += &part(report);
    }
    whole(title.trim(), &body)
}

/// The page of several reports beside each other; `table` is their comparison as text.
pub fn of_several(reports: &[(String, Value)], table: &str) -> String {
    let named: Vec<_> = reports.iter().map(|(name, json)| Named { name: name.clone(), json }).collect();
    let mut body = format!("<h1>kv-bench: {} runs</h1><pre class=\"scroll\">{}</pre>", reports.len(), escape(table));
    body += &drawings(&named);
    for (name, json) in reports {
        body += &format!("<h1>{}</h1>{}{}", escape(name), tables::failures(json), tables::operations(json));
        body += &(tables::comparison(json) + &tables::costs(json) + &tables::raw(json) + &tables::environment(json));
    }
    whole("kv-bench: several runs", &body)
}

fn summary(report: &Value) -> String {
    let figure = |path: &str| report.pointer(path).and_then(Value::as_f64);
    let (Some(rate), Some(elapsed)) = (figure("/throughput_ops"), figure("/elapsed_s")) else { return String::new() };
    let rate = crate::table::group(rate as u64);
    let pace = figure("/workload/rate").map_or_else(
        || "closed loop".to_owned(),
        |rate| format!("open loop at {} per second, latency from the intended start", crate::table::group(rate as u64)),
    );
    format!("<p>{rate} operations per second over {elapsed:.1} s, {pace}.</p>")
}

fn drawings(reports: &[Named<'_>]) -> String {
    let mut out = String::new();
    for (heading, plot) in [
        ("Latency", plots::latency(reports)),
        ("Throughput over time", plots::course(reports)),
        ("Rate sweep", plots::sweep(reports)),
    ] {
        if let Some(plot) = plot {
            out += &format!("<h2>{heading}</h2>{}", plot.svg());
        }
    }
    out
}

fn whole(title: &str, body: &str) -> String {
    let head = "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head>{head}<title>{}</title><style>{STYLE}</style></head><body>{body}</body></html>\n",
        escape(title)
    )
}
