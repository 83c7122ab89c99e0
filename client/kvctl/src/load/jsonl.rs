//! One JSON object a line, as `dump` writes it or with fields of any name.

use super::entry::{Content, Entries, Entry, Problem};
use super::input::{Input, Lines};
use crate::json_bytes;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;

/// Names of the fields that hold key and value.
#[derive(Clone, Debug)]
pub struct Names {
    /// The key's.
    pub key: String,
    /// The value's.
    pub value: String,
}

/// The records of a jsonl file.
pub fn entries(input: Input, names: Names) -> Entries {
    let mut lines = Lines::new(input.reader, input.name);
    Box::new(std::iter::from_fn(move || {
        lines.next().map(|line| {
            let (number, bytes) = line?;
            entry(number, bytes, &names).map_err(|reason| Problem::line(number, reason))
        })
    }))
}

type Object<'a> = HashMap<String, &'a RawValue>;

fn entry(line: u64, bytes: &[u8], names: &Names) -> Result<Entry, String> {
    let object: Object<'_> = serde_json::from_slice(bytes).map_err(|error| reason(&error))?;
    let key = bytes_of(&object, &names.key)?.ok_or_else(|| missing(&names.key))?;
    let content = match bytes_of(&object, &names.value)? {
        Some(value) => Content::Value(value),
        None => match (number(&object, "counter")?, number(&object, "sequence")?) {
            (Some(counter), None) => Content::Counter(counter),
            (None, Some(sequence)) => Content::Sequence(sequence),
            (None, None) => return Err(missing(&names.value)),
            (Some(_), Some(_)) => return Err("both `counter` and `sequence`".into()),
        },
    };
    let ttl = number::<u64>(&object, "expires_in_ms")?.map(Duration::from_millis);
    Ok(Entry { line, key, content, ttl })
}

fn missing(name: &str) -> String {
    format!("no field `{name}`")
}

/// A string's bytes, decoded base64, or any other JSON as it is written.
fn bytes_of(object: &Object<'_>, name: &str) -> Result<Option<Vec<u8>>, String> {
    if let Some(raw) = object.get(&format!("{name}_base64")) {
        let text: String = parse(raw, name)?;
        return json_bytes::decode(&text).map(Some).map_err(|error| format!("field `{name}_base64`: {error}"));
    }
    let Some(raw) = object.get(name) else { return Ok(None) };
    match raw.get().as_bytes().first() {
        Some(b'"') => parse::<String>(raw, name).map(|text| Some(text.into_bytes())),
        Some(b'n') => Err(format!("field `{name}` is null")),
        _ => Ok(Some(raw.get().as_bytes().to_vec())),
    }
}

fn number<T: DeserializeOwned>(object: &Object<'_>, name: &str) -> Result<Option<T>, String> {
    object.get(name).map(|raw| parse(raw, name)).transpose()
}

fn parse<T: DeserializeOwned>(raw: &RawValue, name: &str) -> Result<T, String> {
    serde_json::from_str(raw.get()).map_err(|error| format!("field `{name}`: {}", reason(&error)))
}

/// The parser's words without its line number, which is always 1.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line ") {
        Some((words, _)) => format!("{words} at column {}", error.column()),
        None => text,
    }
}
