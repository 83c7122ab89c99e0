//! Logs go to stderr; stdout has one line for scripts.

use crate::config::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Crates below the control plane, whose details are about bytes of HTTP/2 and not about this server.
const NOISY: &str = "h2=info,hyper=info,hyper_util=info,tower=info,tonic=info";

/// A bare level is about this server; a list is taken as it is written.
fn directives(filter: &str) -> String {
    let bare = !filter.contains(['=', ',']);
    if bare && matches!(filter, "debug" | "trace") { format!("{filter},{NOISY}") } else { filter.to_owned() }
}

/// Starts logging. A panic becomes a log line too, with its place.
pub fn start(filter: &str, format: LogFormat) {
    let builder = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(directives(filter))).with_writer(std::io::stderr);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_is_about_this_server() {
        assert_eq!(directives("info"), "info");
        assert!(directives("debug").starts_with("debug,h2=info"));
        assert_eq!(directives("debug,h2=trace"), "debug,h2=trace");
        assert!(EnvFilter::try_new(directives("trace")).is_ok());
    }
}
