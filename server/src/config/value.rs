//! One value: where it comes from, and the checks that turn its text into a type.

use super::{ConfigError, Given};
use sidewire_common::units::{format_bytes, parse_bytes, parse_duration};
use std::fmt::Display;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// A value as it was written.
pub(super) struct Said {
    field: &'static str,
    pub(super) text: String,
    origin: String,
}

impl Said {
    /// The flag's text, else the file's, else the default.
    pub(super) fn pick(field: &'static str, flags: &Given, file: &Given, file_name: &str) -> Self {
        let default = || (Given::default_of(field).to_owned(), "the default".to_owned());
        let (text, origin) = match (flags.of(field), file.of(field)) {
            (Some(text), _) => (text.clone(), format!("from --{}", field.replace('_', "-"))),
            (None, Some(text)) => (text.clone(), format!("from {file_name}")),
            (None, None) => default(),
        };
        Self { field, text, origin }
    }

    pub(super) fn refuse(&self, expected: impl Into<String>) -> ConfigError {
        let (value, origin) = (self.text.clone(), self.origin.clone());
        ConfigError::Value { field: self.field, value, origin, expected: expected.into() }
    }

    /// `None` for `auto`, else what `check` makes of it.
    pub(super) fn or_auto<T>(&self, check: impl FnOnce(&Self) -> Result<T, ConfigError>) -> Result<Option<T>, ConfigError> {
        if self.text == "auto" { Ok(None) } else { check(self).map(Some) }
    }

    pub(super) fn bytes(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let bytes = parse_bytes(&self.text).map_err(|e| self.refuse(e.to_string()))?;
        if bytes < least {
            return Err(self.refuse(format!("must be at least {}", format_bytes(least))));
        }
        if bytes > most {
            return Err(self.refuse(format!("must be at most {}", format_bytes(most))));
        }
        Ok(bytes)
    }

    pub(super) fn duration(&self, least: Duration, most: Duration) -> Result<Duration, ConfigError> {
        let duration = parse_duration(&self.text).map_err(|e| self.refuse(e.to_string()))?;
        if !(least..=most).contains(&duration) {
            return Err(self.refuse(format!("must be between {least:?} and {most:?}")));
        }
        Ok(duration)
    }

    pub(super) fn count(&self, least: u32, most: u32) -> Result<u32, ConfigError> {
        let count = self.text.trim().parse::<u64>().ok().and_then(|n| u32::try_from(n).ok());
        let count = count.filter(|n| (least..=most).contains(n));
        count.ok_or_else(|| self.refuse(format!("must be a whole number between {least} and {most}")))
    }

    pub(super) fn parsed<T: FromStr<Err: Display>>(&self) -> Result<T, ConfigError> {
        self.text.parse().map_err(|e: T::Err| self.refuse(e.to_string()))
    }

    pub(super) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let found = choices.iter().find(|(name, _)| *name == self.text).map(|(_, choice)| *choice);
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        found.ok_or_else(|| self.refuse(format!("must be one of {}", names.join(", "))))
    }

    pub(super) fn address(&self) -> Result<SocketAddr, ConfigError> {
        let expected = "must be ADDRESS:PORT, such as 127.0.0.1:7400 or [::1]:7400";
        if let Ok(address) = self.text.parse() {
            return Ok(address);
        }
        let found = self.text.to_socket_addrs().map_err(|e| self.refuse(format!("{expected} ({e})")))?.next();
        found.ok_or_else(|| self.refuse(expected))
    }

    /// `info`, or `warn,kv_server::lease=debug`.
    pub(super) fn log_filter(&self) -> Result<String, ConfigError> {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        let known = |part: &str| {
            let level = part.rsplit_once('=').map_or(part, |(target, level)| if target.is_empty() { "" } else { level });
            LEVELS.contains(&level.trim())
        };
        if !self.text.split(',').all(known) {
            let levels = LEVELS.join(", ");
            return Err(self.refuse(format!("must be one of {levels}, or a list such as warn,kv_server::lease=debug")));
        }
        Ok(self.text.clone())
    }
}
