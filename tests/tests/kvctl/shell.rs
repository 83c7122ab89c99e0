//! shell from a pipe: one line in, one line out, on and on after errors.

use crate::command::Kvctl;
use sidewire_tests::Server;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn every_command_gets_one_line() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let script = "# a comment\n\nput a 'two words'\nget a\nput b \"x\\ty\\x00\\n\"\nget b\nget missing\nexists missing\nfrob\n\
                  counter create c 4\ncounter add c x\ncounter add c\nget c\nput 'open\ndel a\ndel a\nscan --prefix b --values\n\
                  load x.csv\nlock run l -- true\nlock try l\nexists b";
    let told = kvctl.fed(&["shell"], script.as_bytes());
    let out = String::from_utf8(told.out).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("version ") && lines[2].starts_with("version "), "{out}");
    assert_eq!(lines[1], "two words");
    assert_eq!(lines[3..6], ["x\\ty\\x00\\n", "error: `missing` is not there", "no"]);
    assert!(lines[6].starts_with("error: unrecognized subcommand 'frob'"), "{}", lines[6]);
    assert_eq!(lines[7], "4");
    assert_eq!(lines[8], "error: invalid value 'x' for '[DELTA]': invalid digit found in string");
    assert_eq!(lines[9], "5");
    assert_eq!(lines[10], "error: the key holds a counter, not a value; use the calls for counters");
    assert_eq!(lines[11..15], ["error: the quote ' is not closed", "deleted", "error: `a` is not there", "b\tx\\ty\\x00\\n"]);
    assert_eq!(lines[15], "error: load is no command of the shell; run `kvctl load`");
    assert_eq!(lines[16], "error: lock run is no command of the shell; run `kvctl lock run`");
    assert!(lines[17].starts_with("free (token "), "{out}");
    assert_eq!(lines[18..], ["value"]);
    assert_eq!((told.code, told.err.as_str()), (Some(2), "kvctl: 9 of 21 lines failed\n"));
}

#[test]
fn exit_codes_and_json() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    assert_eq!(kvctl.fed(&["shell"], b"put a 1\nquit\nget missing\n").code, Some(0));
    assert_eq!(kvctl.fed(&["shell"], b"get missing\nput a 1\n").code, Some(1));
    let told = kvctl.fed(&["--json", "shell"], b"counter create n 1\nget missing\n");
    let expected = "{\"counter\":1,\"key\":\"n\"}\n{\"error\":{\"code\":\"not_found\",\"message\":\"`missing` is not there\"}}\n";
    assert_eq!((told.code, String::from_utf8(told.out).unwrap().as_str(), told.err.as_str()), (Some(1), expected, ""));
}

#[test]
fn a_program_can_talk_to_it() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let mut child = kvctl.command(&["shell"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |line: &str| {
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        answer
    };
    // Each answer is there before the next question.
    assert_eq!(ask("counter create n"), "0\n");
    for expected in 1..=20 {
        assert_eq!(ask("counter add n"), format!("{expected}\n"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}
