//! Every format gives the same bytes, the right line numbers, and goes on after a bad line.

use super::columns::Choice;
use super::entry::{Content, Entries, Problem};
use super::input::{Input, Position};
use super::{csv, jsonl, tsv};
use std::io::Cursor;

fn input(bytes: &[u8]) -> Input {
    Input { reader: Box::new(Cursor::new(bytes.to_vec())), position: Position::default(), bytes: None, name: "f".into() }
}

/// `line key=value`, or `line! reason`.
fn told(entries: Entries) -> Vec<String> {
    entries
        .map(|entry| match entry {
            Ok(entry) => {
                let content = match entry.content {
                    Content::Value(bytes) => crate::escape::escape(&bytes),
                    other => format!("{other:?}"),
                };
                let ttl = entry.ttl.map_or(String::new(), |ttl| format!(" {ttl:?}"));
                format!("{} {}={content}{ttl}", entry.line, crate::escape::escape(&entry.key))
            }
            Err(Problem::Line { line, reason }) => format!("{line}! {reason}"),
            Err(Problem::File(failure)) => format!("file! {}", failure.message),
        })
        .collect()
}

fn bare() -> Choice {
    Choice { no_header: true, ..Choice::default() }
}

fn jsonl_of(bytes: &[u8]) -> Vec<String> {
    told(jsonl::entries(input(bytes), jsonl::Names { key: "key".into(), value: "value".into() }))
}

#[test]
fn csv_quotes_line_breaks_and_line_numbers() {
    let file = b"key,value\na,1\n\"b,b\",\"two\nlines\"\n\n\nc\nd,\"\"\ne,\"say \"\"hi\"\"\"\nf,\xff";
    let expected = ["2 a=1", "3 b,b=two\\nlines", "7! 1 field instead of 2", "8 d=", "9 e=say \"hi\"", "10 f=\\xff"];
    assert_eq!(told(csv::entries(input(file), &Choice::default()).unwrap()), expected);
    assert_eq!(told(csv::entries(input(b"a,1\r\nb,2\r\n\"c\n\",3"), &bare()).unwrap()), ["1 a=1", "2 b=2", "3 c\\n=3"]);
    let unclosed = "2! a quote of this record is not closed before the end of the file";
    assert_eq!(told(csv::entries(input(b"a,1\nb,\"2\nc,3\n"), &bare()).unwrap()), ["1 a=1", unclosed]);
    let long = [b"a,".to_vec(), vec![b'x'; 100_000], b"\n\r\nb,5\" disk\n".to_vec()].concat();
    let told_long = told(csv::entries(input(&long), &bare()).unwrap());
    assert_eq!((told_long[0].len(), told_long[1].as_str()), (100_004, "3 b=5\" disk"));
    assert_eq!(told(csv::entries(input(b""), &Choice::default()).unwrap()), Vec::<String>::new());
}

#[test]
fn tsv_escapes_and_raw() {
    let file = b"key\tvalue\r\na\tx\\ty\\n\\\\\\xff\n\nb\tC:\\users\nc\n\td\n";
    let told_of = |raw| told(tsv::entries(input(file), &Choice::default(), raw).unwrap());
    let unknown = "4! `\\u` is no escape; known are \\\\ \\t \\n \\r \\xHH; with --raw a backslash means itself";
    assert_eq!(told_of(false), ["2 a=x\\ty\\n\\\\\\xff", unknown, "5! 1 field instead of 2", "6 =d"]);
    assert_eq!(told_of(true)[1], "4 b=C:\\\\users");
}

#[test]
fn jsonl_kinds_base64_and_bad_lines() {
    let file = br#"{"key":"a","value":"1\n"}
{"key_base64":"/wA=","value_base64":"","expires_in_ms":1500}
{"key":"n","value":{"x": [1.10]}}
{"key":"c","counter":-4}
{"key":"s","sequence":9}
{"key":"a","value":null}
{"key":"a"}
{"value":"a"}
not json
{"key":"a","value":"b","counter":"words"}
{"key_base64":"*","value":""}"#;
    let told = jsonl_of(file);
    assert_eq!(told[..5], ["1 a=1\\n", "2 \\xff\\x00= 1.5s", "3 n={\"x\": [1.10]}", "4 c=Counter(-4)", "5 s=Sequence(9)"]);
    assert_eq!(told[5..8], ["6! field `value` is null", "7! no field `value`", "8! no field `key`"]);
    assert!(told[8].starts_with("9! expected ") && told[8].ends_with(" at column 2"), "{}", told[8]);
    assert_eq!(told[9], "10 a=b");
    assert!(told[10].starts_with("11! field `key_base64`: not base64"), "{}", told[10]);
}
