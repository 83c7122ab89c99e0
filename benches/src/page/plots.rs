//! The plots of one report or of several in one drawing.

use serde_json::Value;

use super::plot::{Axis, Mark, Plot, Scale, Series};
use crate::table::group;

/// A report and what it is called among others.
pub struct Named<'a> {
    /// Empty when it is alone.
    pub name: String,
    /// The report.
    pub json: &'a Value,
}

fn pairs(value: &Value) -> Vec<(f64, f64)> {
    let pair = |pair: &Value| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?));
    value.as_array().into_iter().flatten().filter_map(pair).collect()
}

fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path).and_then(Value::as_f64)
}

fn called(report: &Named<'_>, what: &str) -> String {
    if report.name.is_empty() { what.into() } else { format!("{}: {what}", report.name) }
}

fn span(series: &[Series]) -> Option<(f64, f64)> {
    let values = || series.iter().flat_map(|series| series.points.iter().map(|(_, y)| *y));
    Some((values().reduce(f64::min)?, values().reduce(f64::max)?))
}

/// A power of ten of nanoseconds.
fn tick_time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let unit = units.into_iter().find(|(size, _)| ns >= *size);
    unit.map_or_else(|| format!("{ns:.0} ns"), |(size, name)| format!("{:.0} {name}", ns / size))
}

/// Medians of the raw verbs, as marks on an axis of times.
fn raw_times(reports: &[Named<'_>]) -> Vec<Mark> {
    let mut marks = Vec::new();
    for report in reports {
        for (verb, label) in [("read", "raw Read p50"), ("write_imm_ack", "raw Write-with-Immediate and ack p50")] {
            if let Some(at) = number(report.json, &format!("/raw/{verb}/p50")) {
                marks.push(Mark { name: called(report, label), at, upright: false });
            }
        }
    }
    marks
}

/// What the raw Read would make of as many threads, or of the processors there are.
fn raw_rates(reports: &[Named<'_>]) -> Vec<Mark> {
    let of = |report: &Named<'_>| {
        let threads = number(report.json, "/workload/threads")? * number(report.json, "/workload/clients").unwrap_or(1.0);
        let threads = threads.min(number(report.json, "/environment/cpus")?);
        let rate = number(report.json, "/raw/read_chain/rate_ops").or_else(|| number(report.json, "/raw/read/rate_ops"))?;
        Some(Mark { name: called(report, &format!("raw Reads of {threads} threads")), at: rate * threads, upright: false })
    };
    reports.iter().filter_map(of).collect()
}

/// Latency by percentile: the further right, the rarer.
pub fn latency(reports: &[Named<'_>]) -> Option<Plot> {
    let mut series = Vec::new();
    for report in reports {
        for (kind, curve) in report.json.get("percentiles_ns")?.as_object()? {
            // A quantile of 1 is the longest; it ends the curve where the one before it stood, twice as rare.
            let mut points: Vec<(f64, f64)> = pairs(curve).iter().map(|(at, ns)| ((1.0 - at).max(1e-9).recip(), *ns)).collect();
            let rarest = points.iter().map(|(x, _)| *x).filter(|x| *x < 1e8).reduce(f64::max).unwrap_or(1.0);
            points.iter_mut().filter(|(x, _)| *x >= 1e8).for_each(|(x, _)| *x = rarest * 2.0);
            series.push(Series { name: called(report, kind), points, colour: series.len(), dashed: false });
        }
    }
    let marks = raw_times(reports);
    let (low, high) = span(&series)?;
    let low = marks.iter().map(|mark| mark.at).fold(low, f64::min);
    let rarest = series.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x)).fold(1e3, f64::max);
    let names =
        [(1.0, "0"), (2.0, "50"), (10.0, "90"), (1e2, "99"), (1e3, "99.9"), (1e4, "99.99"), (1e5, "99.999"), (1e6, "99.9999")];
    let ticks = names.iter().filter(|(at, _)| *at <= rarest * 1.01).map(|(at, name)| (*at, (*name).to_owned())).collect();
    let x = Axis { label: "percentile", scale: Scale::Log, from: 1.0, to: rarest, ticks };
    let y = Axis::log("latency", low, high, tick_time);
    Some(Plot { title: "Latency by percentile".into(), x, y, series, marks })
}

/// Operations per second over time.
pub fn course(reports: &[Named<'_>]) -> Option<Plot> {
    let mut series = Vec::new();
    for report in reports {
        let points = pairs(report.json.get("course")?);
        let rate = |pair: &[(f64, f64)]| {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            // The last look comes directly after the one before it.
            (to - from > 0.02).then(|| (to, (after - before) / (to - from)))
        };
        let points: Vec<_> = points.windows(2).filter_map(rate).collect();
        series.push(Series { name: called(report, "operations per second"), points, colour: series.len(), dashed: false });
    }
    let (_, high) = span(&series)?;
    let marks = raw_rates(reports);
    let high = marks.iter().map(|mark| mark.at).fold(high, f64::max);
    let end = series.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x)).fold(0.0, f64::max);
    let x =
        Axis::linear("seconds", end, |seconds| format!("{seconds:.4}").trim_end_matches('0').trim_end_matches('.').to_owned());
    let y = Axis::linear("operations per second", high, |rate| group(rate as u64));
    Some(Plot { title: "Throughput over time".into(), x, y, series, marks })
}

/// Latency over the offered rate.
pub fn sweep(reports: &[Named<'_>]) -> Option<Plot> {
    let (mut series, mut marks) = (Vec::new(), raw_times(reports));
    for report in reports {
        let steps = report.json.pointer("/sweep/steps")?.as_array()?;
        for (figure, percentile, dashed) in [("p50", "p50", true), ("p99", "p99", false), ("p999", "p99.9", false)] {
            let point = |step: &Value| Some((step.get("offered_ops")?.as_f64()?, step.get(figure)?.as_f64()?));
            let points = steps.iter().filter_map(point).collect();
            series.push(Series { name: called(report, percentile), points, colour: series.len(), dashed });
        }
        if let Some(at) = number(report.json, "/sweep/knee_ops") {
            marks.push(Mark { name: called(report, "knee"), at, upright: true });
        }
    }
    let (low, high) = span(&series)?;
    let low = marks.iter().filter(|mark| !mark.upright).map(|mark| mark.at).fold(low, f64::min);
    let end = series.iter().flat_map(|series| series.points.iter().map(|(x, _)| *x)).fold(0.0, f64::max);
    let rates: Vec<Mark> =
        raw_rates(reports).into_iter().filter(|mark| mark.at <= end * 1.3).map(|mark| Mark { upright: true, ..mark }).collect();
    let end = rates.iter().map(|mark| mark.at).fold(end, f64::max);
    marks.extend(rates);
    let x = Axis::linear("offered operations per second", end, |rate| group(rate as u64));
    let y = Axis::log("latency from the intended start", low, high, tick_time);
    Some(Plot { title: "Rate sweep".into(), x, y, series, marks })
}
