//! Where a report goes, and what it means for the exit code.

use std::io::Write;
use std::path::Path;

use crate::cli::Common;
use crate::connect::Stop;
use crate::report::Report;

/// What a report comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All was done and all expectations hold.
    Good,
    /// An expectation does not hold.
    Unmet,
    /// Operations failed, or a thread gave up.
    Failed,
}

/// Finds out before a long run whether its report can be written.
pub fn prepare(common: &Common) -> Result<(), Stop> {
    let Some(path) = common.json.as_deref().filter(|path| *path != Path::new("-")) else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| Stop::Usage(format!("--json {}: {error}", path.display())))
}

/// Prints the table, writes the JSON, judges the expectations.
pub fn publish(report: &Report, common: &Common) -> Result<Verdict, Stop> {
    let value = serde_json::to_value(report).map_err(|error| Stop::Failed(format!("the report: {error}")))?;
    let json = format!("{value:#}\n");
    match common.json.as_deref() {
        Some(path) if path == Path::new("-") => {
            write(&mut std::io::stderr(), &report.to_string())?;
            write(&mut std::io::stdout(), &json)?;
        }
        Some(path) => {
            write(&mut std::io::stdout(), &report.to_string())?;
            std::fs::write(path, json).map_err(|error| Stop::Failed(format!("{}: {error}", path.display())))?;
        }
        None => write(&mut std::io::stdout(), &report.to_string())?,
    }
    let unmet: Vec<_> = common.expect.iter().filter_map(|expectation| expectation.unmet(&value)).collect();
    for text in &unmet {
        eprintln!("kv-bench: {text}");
    }
    Ok(match (report.complete, unmet.is_empty()) {
        (false, _) => Verdict::Failed,
        (true, false) => Verdict::Unmet,
        (true, true) => Verdict::Good,
    })
}

/// A reader that went away (`| head`) is no error.
fn write(to: &mut impl Write, text: &str) -> Result<(), Stop> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Stop::Failed(format!("the report: {error}"))),
        _ => Ok(()),
    }
}
