//! The report as CSV: one line for each operation, rate, store or raw verb.

use serde_json::Value;

const FIGURES: [&str; 8] = ["count", "mean", "p50", "p90", "p99", "p999", "p9999", "max"];

/// All lines.
pub fn of(report: &Value) -> String {
    let mut out = String::from("section,name,per_second,count,mean_ns,p50_ns,p90_ns,p99_ns,p999_ns,p9999_ns,max_ns\n");
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_f64);
    let elapsed = number(report, "elapsed_s").unwrap_or(0.0);
    for (kind, latency) in entries(report.get("latency_ns")) {
        let rate = number(latency, "count").filter(|_| elapsed > 0.0).map(|count| count / elapsed);
        line(&mut out, "operation", kind, rate, latency);
    }
    for step in report.pointer("/sweep/steps").and_then(Value::as_array).into_iter().flatten() {
        let offered = number(step, "offered_ops").unwrap_or(0.0);
        line(&mut out, "sweep", &format!("{offered:.0}/s"), number(step, "achieved_ops"), step);
    }
    for store in report.get("compare").and_then(Value::as_array).into_iter().flatten() {
        let name = store.get("name").and_then(Value::as_str).unwrap_or_default();
        let (rate, all) = (number(store, "throughput_ops").unwrap_or(0.0), number(store, "operations").unwrap_or(1.0).max(1.0));
        for (kind, latency) in entries(store.get("latency_ns")) {
            let rate = number(latency, "count").map(|count| rate * count / all);
            line(&mut out, "compare", &format!("{name} {kind}"), rate, latency);
        }
    }
    for (verb, figure) in entries(report.get("raw")) {
        line(&mut out, "raw", verb, number(figure, "rate_ops"), figure);
    }
    out
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Names hold no commas: they are kinds, verbs, rates and stores.
fn line(out: &mut String, section: &str, name: &str, rate: Option<f64>, figures: &Value) {
    let mut columns = vec![section.to_owned(), name.to_owned(), rate.map_or_else(String::new, |rate| format!("{rate:.1}"))];
    columns.extend(FIGURES.map(|figure| figures.get(figure).map_or_else(String::new, Value::to_string)));
    out.push_str(&columns.join(","));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_its_lines_and_all_columns() {
        let latency =
            serde_json::json!({"count": 10, "mean": 5.5, "p50": 5, "p90": 8, "p99": 9, "p999": 9, "p9999": 9, "max": 9});
        let report = serde_json::json!({
            "elapsed_s": 2.0,
            "latency_ns": {"read": latency},
            "sweep": {"steps": [{"offered_ops": 100.0, "achieved_ops": 99.5, "p50": 7}]},
            "compare": [{"name": "kv", "throughput_ops": 20.0, "operations": 10, "latency_ns": {"read": latency}}],
            "raw": {"read": {"p50": 4, "rate_ops": 1000.0}},
        });
        let csv = of(&report);
        let lines: Vec<_> = csv.lines().collect();
        assert!(lines.iter().all(|line| line.split(',').count() == 11), "{csv}");
        assert_eq!(lines[1], "operation,read,5.0,10,5.5,5,8,9,9,9,9");
        assert_eq!(lines[2], "sweep,100/s,99.5,,,7,,,,,");
        assert_eq!((lines[3], lines[4]), ("compare,kv read,20.0,10,5.5,5,8,9,9,9,9", "raw,read,1000.0,,,4,,,,,"));
    }
}
