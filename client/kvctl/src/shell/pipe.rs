//! The shell from a pipe: one line in, one line out.

use super::line::{self, Next};
use crate::context::Context;
use crate::failure::{Done, Failure, USAGE};
use crate::output::{Output, note};
use serde_json::json;
use std::io::{self, BufRead, Read};

/// Longest line, bytes: room for the longest value a server may take, with every byte escaped.
const LINE_BYTES_MAX: u64 = 1 << 30;

/// Reads commands to the end of standard input; gives the worst exit code.
pub fn run(context: &Context, output: &mut Output) -> Done<u8> {
    output.one_line_a_result();
    let mut input = io::stdin().lock();
    let mut bytes = Vec::new();
    let (mut number, mut failed, mut worst) = (0u64, 0u64, 0u8);
    while read_line(&mut input, &mut bytes)? {
        number += 1;
        match line::run(&bytes, true, context, output) {
            Ok(Next::Go) => {}
            Ok(Next::Blank) => continue,
            Ok(Next::Leave) => break,
            Err(failure) if failure.is_quiet() && failure.exit == 0 => return Err(failure),
            Err(failure) => {
                failed += 1;
                worst = worst.max(failure.exit);
                tell(&failure, output)?;
            }
        }
        output.finish()?;
    }
    if failed > 0 && !output.is_json() {
        note(format_args!("kvctl: {failed} of {number} lines failed"));
    }
    Ok(worst)
}

/// The next line without its break; false at the end.
fn read_line(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> Done<bool> {
    bytes.clear();
    let length = input.take(LINE_BYTES_MAX).read_until(b'\n', bytes);
    let length = length.map_err(|error| Failure::file("read", "standard input", &error))?;
    if length as u64 == LINE_BYTES_MAX {
        return Err(Failure::new(USAGE, "usage", "a line has no end within 1 GiB"));
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(length > 0)
}

fn tell(failure: &Failure, output: &mut Output) -> Done {
    if failure.is_quiet() {
        // The answer is told already.
        return Ok(());
    }
    let message = failure.message.replace('\n', " ");
    let json = json!({ "error": { "code": failure.code, "message": message } });
    output.reply(format_args!("error: {message}"), &json)
}
