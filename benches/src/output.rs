//! Where a report goes, and what it means for the exit code.

use std::io::Write;
use std::path::Path;

use crate::cli::Common;
use crate::connect::Stop;
use crate::report::Report;
use crate::{csv, page};

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
    for (flag, path) in files(common).into_iter().filter(|(_, path)| *path != Path::new("-")) {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|error| Stop::Usage(format!("{flag} {}: {error}", path.display())))?;
    }
    Ok(())
}

/// The files that are asked for, with their flags.
fn files(common: &Common) -> Vec<(&'static str, &Path)> {
    let all = [("--json", &common.json), ("--csv", &common.csv), ("--html", &common.html)];
    all.into_iter().filter_map(|(flag, path)| path.as_deref().map(|path| (flag, path))).collect()
}

/// Prints the table, writes JSON, CSV and the page, judges the expectations.
pub fn publish(report: &Report, common: &Common) -> Result<Verdict, Stop> {
    let value = serde_json::to_value(report).map_err(|error| Stop::Failed(format!("the report: {error}")))?;
    let takes_stdout = files(common).iter().any(|(_, path)| *path == Path::new("-"));
    if takes_stdout {
        write(&mut std::io::stderr(), &report.to_string())?;
    } else {
        print(&report.to_string())?;
    }
    for (flag, path) in files(common) {
        let text = match flag {
            "--csv" => csv::of(&value),
            "--html" => page::of_one(&value),
            _ => format!("{value:#}\n"),
        };
        write_file(flag, path, &text)?;
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

/// Writes to stdout.
pub fn print(text: &str) -> Result<(), Stop> {
    write(&mut std::io::stdout(), text)
}

/// Writes a file, or to stdout for `-`.
pub fn write_file(flag: &str, path: &Path, text: &str) -> Result<(), Stop> {
    if path == Path::new("-") {
        return print(text);
    }
    std::fs::write(path, text).map_err(|error| Stop::Failed(format!("{flag} {}: {error}", path.display())))
}

/// A reader that went away (`| head`) is no error.
fn write(to: &mut impl Write, text: &str) -> Result<(), Stop> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Stop::Failed(format!("the report: {error}"))),
        _ => Ok(()),
    }
}
