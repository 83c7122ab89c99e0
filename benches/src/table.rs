//! The report for people.

use std::fmt::{self, Display, Formatter};

use crate::report::{Growth, Parameters, Report, Window};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.heading(f)?;
        if let Some(window) = &self.window {
            window.fmt(f)?;
        }
        if let Some(growth) = &self.growth {
            growth.fmt(f)?;
        }
        if let Some(versus) = &self.get_vs_put {
            let (get, put) = (versus.cpu_ns_per_get, versus.cpu_ns_per_put);
            writeln!(f, "server CPU per Get vs per Put: {get:.2} ns vs {put:.0} ns = {:.3} %", versus.percent)?;
            let scaled = if versus.puts < versus.gets { ": a sample, scaled" } else { "" };
            writeln!(f, "  ({} Gets in the measured window, then {} Puts{scaled})", group(versus.gets), group(versus.puts))?;
        }
        self.baseline(f)?;
        if self.environment.debug_build {
            writeln!(f, "note: a debug build of kv-bench; its figures say little")?;
        }
        Ok(())
    }
}

impl Report {
    fn heading(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let environment = &self.environment;
        writeln!(f, "kv-bench {}: {}", self.command, self.workload)?;
        write!(f, "server {} ({} workers), fabric {}", environment.server, environment.workers, environment.fabric)?;
        if !environment.device.is_empty() {
            write!(f, ", device {}, mtu {}", environment.device, environment.mtu)?;
        }
        writeln!(f, ", pages {}; {} x {}, {}", environment.pages, environment.cpus, environment.cpu, environment.kernel)?;
        writeln!(f)
    }

    fn baseline(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.raw.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let head = ["operation", "p50", "p99", "p99.9", "max", "per second"];
        writeln!(f, "{:<24}{:>11}{:>11}{:>11}{:>11}{:>14}", head[0], head[1], head[2], head[3], head[4], head[5])?;
        for (name, figure) in &self.raw {
            write!(f, "{name:<24}{:>11}{:>11}", time(figure.p50), time(figure.p99))?;
            writeln!(f, "{:>11}{:>11}{:>14}", time(figure.p999), time(figure.max), group(figure.rate_ops as u64))?;
        }
        if !self.ratio.is_empty() {
            writeln!(f)?;
        }
        for (name, ratio) in &self.ratio {
            writeln!(f, "ratio {name:<34} {ratio:.2}")?;
        }
        if let Some(timer) = self.timer_ns {
            writeln!(f, "the clock's own {timer} ns are in all latencies, and taken off both sides of a ratio")?;
        }
        Ok(())
    }
}

impl Display for Parameters {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "workload {name}, ")?;
        }
        if let Some(records) = self.records {
            write!(f, "{} records, ", group(records))?;
        }
        let values: Vec<_> = self.value_bytes.iter().map(|bytes| format!("{bytes} B")).collect();
        write!(f, "keys {} B, values {}, ", self.key_bytes, values.join(", "))?;
        if let Some(distribution) = self.distribution {
            write!(f, "{}", format!("{distribution:?}").to_lowercase())?;
            if let Some(theta) = self.theta {
                write!(f, " {theta}")?;
            }
            write!(f, ", ")?;
        }
        write!(f, "{} threads", self.threads)?;
        if let Some(readers) = self.readers {
            write!(f, ", {readers} readers")?;
        }
        write!(f, ", pipeline {}", self.pipeline)?;
        if let Some(warmup) = &self.warmup {
            write!(f, ", warm-up {warmup}")?;
        }
        if !self.verify {
            write!(f, ", values not checked")?;
        }
        Ok(())
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (operations, rate) = (group(self.operations), group(self.throughput_ops as u64));
        writeln!(f, "{operations} operations in {:.2} s: {rate} per second", self.elapsed_s)?;
        let head = ["", "count", "per second", "p50", "p99", "p99.9", "max"];
        writeln!(f, "{:<8}{:>14}{:>13}{:>11}{:>11}{:>11}{:>11}", head[0], head[1], head[2], head[3], head[4], head[5], head[6])?;
        for (kind, latency) in &self.latency_ns {
            let rate = latency.count as f64 / self.elapsed_s.max(f64::MIN_POSITIVE);
            write!(f, "{kind:<8}{:>14}{:>13}{:>11}", group(latency.count), group(rate as u64), time(latency.p50))?;
            writeln!(f, "{:>11}{:>11}{:>11}", time(latency.p99), time(latency.p999), time(latency.max))?;
        }
        if let (Some(reads), Some(hits)) = (self.reads_per_get, self.location_hit_rate) {
            writeln!(f, "Reads per Get {reads:.4}, {:.2} % of Gets from a cached location", hits * 100.0)?;
        }
        let server = self.server_cpu_ns_per_op.map_or_else(|| "unknown".into(), |ns| format!("{ns:.1} ns"));
        writeln!(f, "CPU per operation: server's workers {server}, client's threads {:.0} ns", self.client_cpu_ns_per_op)?;
        let retries = &self.retries;
        write!(f, "retries: torn {}, stale {}, ", group(retries.torn), group(retries.stale))?;
        writeln!(f, "moved {}, pending {}", group(retries.moved), group(retries.pending))?;
        for (kind, failure) in &self.failures {
            writeln!(f, "FAILED {kind}: {}, the first: {}", group(failure.count), failure.first)?;
        }
        if let Some(why) = &self.gave_up {
            writeln!(f, "GAVE UP, these figures are of a part: {why}")?;
        }
        Ok(())
    }
}

impl Display for Growth {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys (before: {}), ", group(self.keys), group(self.keys_before))?;
        writeln!(f, "{} segments after {} splits", group(self.segments), group(self.splits))?;
        write!(f, "index {:.1} B per key, ", self.index_bytes_per_key)?;
        writeln!(f, "heap {:.1} B per key, {:.1} % over its records", self.heap_bytes_per_key, self.heap_overhead * 100.0)
    }
}

/// Digits in groups of three.
fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Nanoseconds with the unit that suits them.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            (group(0), group(999), group(1_000), group(1_234_567)),
            ("0".into(), "999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!((time(700), time(12_345), time(25_000_000)), ("700 ns".into(), "12.3 us".into(), "25.0 ms".into()));
    }
}
