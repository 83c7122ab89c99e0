//! The configuration in force, as a file that means the same.

use super::{ClusterConfig, Config, Given, LogFormat};
use crate::worker::Pinning;
use sidewire_common::fabric::FabricChoice;
use sidewire_common::memory::HugepageMode;
use std::fmt::Write;
use std::time::Duration;

impl Config {
    /// TOML that, read again, is this configuration.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for field in Given::FIELDS {
            let value = self.text_of(field);
            let quoted = toml::Value::String(value).to_string();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{field} = {quoted}");
        }
        text
    }

    fn text_of(&self, field: &str) -> String {
        let auto = |count: Option<u32>| count.map_or_else(|| "auto".into(), |n| n.to_string());
        let auto_bytes = |bytes: Option<u64>| bytes.map_or_else(|| "auto".into(), exact_bytes);
        match field {
            "listen" => self.listen.to_string(),
            "fabric" => fabric(self.fabric).into(),
            "device" => self.device.clone().unwrap_or_default(),
            "memory" => exact_bytes(self.memory_bytes),
            "chunk" => auto_bytes(self.chunk_bytes),
            "workers" => auto(self.workers),
            "lease" => exact_duration(self.lease),
            "hugepages" => hugepages(self.hugepages).into(),
            "cells" => self.cells.to_string(),
            "value_max" => auto_bytes(self.value_max),
            "staging" => exact_bytes(self.staging_bytes),
            "staging_total" => auto_bytes(self.staging_total_bytes),
            "clients_max" => self.clients_max.to_string(),
            "spin" => exact_duration(self.spin),
            "pin" => pin(&self.pin),
            "log" => self.log.clone(),
            field if ClusterConfig::FIELDS.contains(&field) => self.cluster.text_of(field),
            "log_format" => if self.log_format == LogFormat::Json { "json" } else { "text" }.into(),
            other => unreachable!("field {other} has no text"),
        }
    }
}

fn fabric(choice: FabricChoice) -> &'static str {
    match choice {
        FabricChoice::Auto => "auto",
        FabricChoice::Verbs => "verbs",
        FabricChoice::Shm => "shm",
    }
}

fn hugepages(mode: HugepageMode) -> &'static str {
    match mode {
        HugepageMode::Auto => "auto",
        HugepageMode::Require => "require",
        HugepageMode::Off => "off",
    }
}

fn pin(pin: &Pinning) -> String {
    match pin {
        Pinning::Auto => "auto".into(),
        Pinning::Off => "off".into(),
        Pinning::Cores(cores) => cores.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}

/// The size in the largest unit that says it exactly.
fn exact_bytes(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes.trailing_zeros() >= *shift && bytes > 0);
    unit.map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// The time in the largest unit that says it exactly.
fn exact_duration(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.iter().find(|(_, scale)| nanos.is_multiple_of(*scale));
    unit.map_or_else(|| format!("{nanos}ns"), |(unit, scale)| format!("{}{unit}", nanos / scale))
}
