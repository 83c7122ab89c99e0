//! `kvctl scan`

use crate::context::Context;
use crate::escape::escape;
use crate::failure::Done;
use crate::item::{self, Content};
use crate::output::{Output, Style};
use clap::Args;
use sidewire::ScanItem;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

const EXAMPLES: &str = "\
Examples:
  kvctl scan
  kvctl scan --prefix user: --limit 20
  kvctl scan --prefix user: --values
  kvctl --json scan                      one object a line

Keys come in no order; one that is changed meanwhile may come twice. Bytes that are not text are
written as \\xHH, a tab as \\t, a newline as \\n, a backslash as \\\\. With --values a tab and the
value follow: of a counter or sequence its number, of a lock `held` or `free`.";

/// List keys, in no order
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Scan {
    /// Only keys that begin with this
    #[arg(short, long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// Values too
    #[arg(long)]
    values: bool,
    /// At most so many
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl Scan {
    pub fn run(self, context: &Context, output: &mut Output) -> Done {
        let items = context.fleet()?.scan(self.prefix.as_bytes(), self.values, self.limit.unwrap_or(0));
        let items = items.filter_map(|item| match item {
            Ok(item) if self.values => item::complete(context, item).transpose(),
            Ok(item) => Some(Ok(item)),
            Err(error) => Some(Err(error.into())),
        });
        if output.style() == Style::Line {
            let words = items.map(|item| Ok(self.words(&item?))).collect::<Done<Vec<_>>>()?;
            return output.line(words.join("\t"));
        }
        for item in items {
            let item = item?;
            if output.is_json() {
                output.line(item::json(&item, self.values))?;
            } else {
                output.line(self.words(&item))?;
            }
        }
        Ok(())
    }

    fn words(&self, item: &ScanItem) -> String {
        let mut words = escape(&item.key);
        if self.values {
            words.push('\t');
            words.push_str(&match item::content(item) {
                Content::Value(value) => escape(value),
                Content::Counter(number) | Content::Sequence(number) => number.to_string(),
                Content::Lock { held: true } => "held".into(),
                Content::Lock { held: false } => "free".into(),
            });
        }
        words
    }
}
