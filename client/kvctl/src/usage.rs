//! What clap says of a wrong command line, as our errors say things.

use crate::failure::Failure;
use clap::error::ErrorKind;

/// The complaint without its prefix; `short`: its first paragraph on one line.
pub fn sentence(error: &clap::Error, short: bool) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    if !short {
        return text.to_owned();
    }
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// Whether this is an answer, such as help, and no complaint.
pub fn is_answer(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

/// A complaint as a failure with one line.
pub fn failure(error: &clap::Error) -> Failure {
    Failure::usage(sentence(error, true))
}
