//! The Sidewire server daemon. Exit codes: 0 stopped as asked, 2 wrong flag or configuration, 3 the server failed.

use clap::Parser;
use kv_server::boot;
use kv_server::config::{CommandLine, Config, Machine};
use std::io::Write;
use std::process::ExitCode;

const WRONG_CONFIGURATION: u8 = 2;
const FAILED: u8 = 3;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let machine = Machine::look();
    let config = match Config::load(&line.given, line.config.as_deref(), &machine) {
        Ok(config) => config,
        Err(error) => return fail(&error, WRONG_CONFIGURATION),
    };
    if line.print_config {
        return print(&config.to_toml());
    }
    boot::trace::start(&config.log, config.log_format);
    boot::run(&config, &machine).unwrap_or_else(|error| fail(&error, FAILED))
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILED),
    }
}

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    // Nobody reads it if stderr is closed; the code tells all the same.
    let _ = writeln!(std::io::stderr(), "kv-server: {error}");
    ExitCode::from(code)
}
