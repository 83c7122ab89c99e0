//! The report for people.

use std::fmt::{self, Display, Formatter};

use crate::connections;
use crate::report::{Growth, Parameters, Report, Window};
use crate::sweep::Sweep;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.heading(f)?;
        if let Some(window) = &self.window {
            window.fmt(f)?;
        }
        if let Some(sweep) = &self.sweep {
            sweep.fmt(f)?;
        }
        if let Some(trace) = self.trace {
            for (count, what) in
                [(trace.malformed, "lines are none of a trace"), (trace.too_long, "requests are longer than the store takes")]
            {
                if count > 0 {
                    writeln!(f, "LEFT OUT: {} {what}", group(count))?;
                }
            }
        }
        self.comparison(f)?;
        connections::table(f, &self.connections)?;
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
        if self.compare.is_empty() {
            write!(f, "server {}", environment.server)?;
            if environment.workers > 0 {
                write!(f, " ({} workers)", environment.workers)?;
            }
            write!(f, ", fabric {}", environment.fabric)?;
            if !environment.pages.is_empty() {
                write!(f, ", pages {}", environment.pages)?;
            }
            write!(f, "; ")?;
        }
        if !environment.device.is_empty() {
            write!(f, "device {}, mtu {}; ", environment.device, environment.mtu)?;
        }
        writeln!(f, "{} x {}, {}", environment.cpus, environment.cpu, environment.kernel)?;
        writeln!(f)
    }

    fn comparison(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.compare.is_empty() {
            return Ok(());
        }
        let head = ["store", "per second", "p50", "p99", "p99.9", "server CPU", "client CPU"];
        write!(f, "{:<17}{:<11}{:>13}{:>11}{:>11}{:>11}", head[0], "operation", head[1], head[2], head[3], head[4])?;
        writeln!(f, "{:>12}{:>12}", head[5], head[6])?;
        for one in &self.compare {
            for (kind, latency) in &one.latency_ns {
                let rate = one.throughput_ops * latency.count as f64 / one.operations.max(1) as f64;
                let p50 = one.p50_ns.get(kind).copied().unwrap_or_default();
                write!(f, "{:<17}{kind:<11}{:>13}{:>11}", one.name, group(rate as u64), time(p50))?;
                write!(f, "{:>11}{:>11}", time(latency.p99), time(latency.p999))?;
                let server = one.server_cpu_ns_per_op.map_or_else(|| "-".into(), |ns| format!("{ns:.1} ns"));
                writeln!(f, "{server:>12}{:>12}", format!("{:.0} ns", one.client_cpu_ns_per_op))?;
            }
            if one.failed > 0 {
                writeln!(f, "{:<17}FAILED {}", one.name, group(one.failed))?;
            }
        }
        writeln!(f, "(medians of {} interleaved rounds)", self.compare[0].rounds_ops.len())?;
        let first = &self.compare[0].name;
        for (other, ratios) in &self.compare_ratio {
            for (figure, ratio) in ratios {
                writeln!(f, "ratio {first} / {other:<16} {figure:<22} {ratio:.3}")?;
            }
        }
        Ok(())
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
            write!(f, "{:>11}{:>11}{:>14}", time(figure.p999), time(figure.max), group(figure.rate_ops as u64))?;
            let bytes = figure.bytes_per_s.map_or_else(String::new, |bytes| format!("{:>11.1} MB/s", bytes / 1e6));
            writeln!(f, "{bytes}")?;
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
        if self.key_bytes > 0 {
            write!(f, "keys {} B, values {}", self.key_bytes, values.join(", "))?;
            if let Some(max) = self.value_bytes_max {
                write!(f, " (at most {max} B)")?;
            }
            write!(f, ", ")?;
        }
        if let Some(distribution) = self.distribution {
            write!(f, "{}", format!("{distribution:?}").to_lowercase())?;
            if let Some(theta) = self.theta {
                write!(f, " {theta}")?;
            }
            write!(f, ", ")?;
        }
        if let Some(count) = self.queue_pairs {
            write!(f, "{count} queue pairs, ")?;
        }
        write!(f, "{} threads", self.threads)?;
        if let Some(readers) = self.readers {
            write!(f, ", {readers} readers")?;
        }
        if let Some(clients) = self.clients {
            write!(f, " in each of {clients} processes")?;
        }
        write!(f, ", pipeline {}", self.pipeline)?;
        if let (Some(rate), Some(arrival)) = (self.rate, self.arrival) {
            let arrival = format!("{arrival:?}").to_lowercase();
            write!(f, ", open loop at {}/s ({arrival}), latency from the intended start", group(rate as u64))?;
        }
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
        writeln!(f, "{:<10}{:>12}{:>13}{:>11}{:>11}{:>11}{:>11}", head[0], head[1], head[2], head[3], head[4], head[5], head[6])?;
        for (kind, latency) in &self.latency_ns {
            let rate = latency.count as f64 / self.elapsed_s.max(f64::MIN_POSITIVE);
            write!(f, "{kind:<10}{:>12}{:>13}{:>11}", group(latency.count), group(rate as u64), time(latency.p50))?;
            writeln!(f, "{:>11}{:>11}{:>11}", time(latency.p99), time(latency.p999), time(latency.max))?;
        }
        if let (Some(reads), Some(hits)) = (self.reads_per_get, self.location_hit_rate) {
            writeln!(f, "Reads per Get {reads:.4}, {:.2} % of Gets from a cached location", hits * 100.0)?;
        }
        let server = self.server_cpu_ns_per_op.map_or_else(|| "unknown".into(), |ns| format!("{ns:.1} ns"));
        writeln!(f, "CPU per operation: server's workers {server}, client's threads {:.0} ns", self.client_cpu_ns_per_op)?;
        if self.reads_per_get.is_some() {
            let retries = &self.retries;
            write!(f, "retries: torn {}, stale {}, ", group(retries.torn), group(retries.stale))?;
            writeln!(f, "moved {}, pending {}", group(retries.moved), group(retries.pending))?;
        }
        if self.misses > 0 {
            writeln!(f, "{} records were not there any more or not yet, which is no failure here", group(self.misses))?;
        }
        for (kind, failure) in &self.failures {
            writeln!(f, "FAILED {kind}: {}, the first: {}", group(failure.count), failure.first)?;
        }
        if let Some(why) = &self.gave_up {
            writeln!(f, "GAVE UP, these figures are of a part: {why}")?;
        }
        Ok(())
    }
}

impl Display for Sweep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let head = ["offered/s", "achieved/s", "p50", "p99", "p99.9", "max"];
        writeln!(f, "{:>13}{:>13}{:>11}{:>11}{:>11}{:>11}", head[0], head[1], head[2], head[3], head[4], head[5])?;
        for step in &self.steps {
            let latency = &step.latency_ns;
            let failed = if step.failed > 0 { format!("  FAILED {}", group(step.failed)) } else { String::new() };
            write!(f, "{:>13}{:>13}", group(step.offered_ops as u64), group(step.achieved_ops as u64))?;
            write!(f, "{:>11}{:>11}{:>11}", time(latency.p50), time(latency.p99), time(latency.p999))?;
            writeln!(f, "{:>11}{failed}", time(latency.max))?;
        }
        match self.knee_ops {
            Some(knee) => writeln!(f, "knee: {} per second", group(knee as u64)),
            None => writeln!(f, "knee: below the lowest rate"),
        }
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
pub fn group(number: u64) -> String {
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
pub fn time(ns: u64) -> String {
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
