//! Logs go to stderr; stdout has one line for scripts.

use crate::config::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging. A panic becomes a log line too, with its place.
pub fn start(filter: &str, format: LogFormat) {
    let builder = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let reason = panic.payload_as_str().unwrap_or("no reason given");
        tracing::error!(thread = thread.name(), place, reason, "internal error");
    }));
}
