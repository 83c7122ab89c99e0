//! Wrong command lines, input that can never be stored, and a server that is not there: a clear sentence each.

use crate::command::Kvctl;
use sidewire_tests::Server;
use std::net::TcpListener;

#[test]
fn wrong_command_lines() {
    // No server is asked.
    let kvctl = Kvctl::at("127.0.0.1:1");
    for (arguments, words) in [
        (&["frob"][..], "unrecognized subcommand 'frob'"),
        (&["get"], "<KEY>"),
        (&["get", "k", "--frob"], "unexpected argument '--frob' found"),
        (&["put", "k", "v", "--ttl", "10"], "unknown unit ``"),
        (&["put", "k", "v", "--ttl", "0s"], "must be more than zero"),
        (&["put", "k", "v", "--if-version", "x"], "invalid value 'x' for '--if-version <VERSION>'"),
        (&["put", "k", "v", "--if-absent", "--if-version", "1"], "cannot be used with"),
        (&["put", "k", "v", "--file", "f"], "cannot be used with"),
        (&["counter", "add", "k", "1.5"], "invalid value '1.5' for '[DELTA]'"),
        (&["counter", "frob", "k"], "unrecognized subcommand 'frob'"),
        (&["lock", "run", "k"], "<COMMAND>"),
        (&["lock", "run", "k", "--wait", "soon", "--", "true"], "`soon` does not begin with a number"),
        (&["scan", "--limit", "0"], "invalid value '0' for '--limit <COUNT>'"),
        (&["load", "f.csv", "--resume-from", "0"], "invalid value '0' for '--resume-from <LINE>'"),
        (&["load", "f", "--format", "xml"], "invalid value 'xml' for '--format <FORMAT>'"),
        (&["get", "k", "--fabric", "tcp"], "known are auto, verbs and shm"),
        (&["completions", "tcsh"], "invalid value 'tcsh'"),
    ] {
        let told = kvctl.run(arguments);
        assert_eq!((told.code, told.out.as_slice()), (Some(2), &b""[..]), "{arguments:?}");
        assert!(told.err.starts_with("error: ") && told.err.contains(words), "{arguments:?}: {}", told.err);
        let told = kvctl.run(&[&["--json"], arguments].concat());
        let error: serde_json::Value = serde_json::from_str(&told.err).unwrap_or_else(|e| panic!("{e}: {}", told.err));
        assert_eq!((told.code, &error["code"]), (Some(2), &serde_json::json!("usage")), "{arguments:?}");
    }
    kvctl.refuses(&["get", ""], 2, "kvctl: the key is empty; a key has 1 to 4096 bytes");
    kvctl.refuses(&["get", "--key-hex", "0g"], 2, "kvctl: `0g` is not hexadecimal: two digits a byte, for example 00ff");
    let help = kvctl.answer(&["put", "--help"]);
    assert!(help.contains("Examples:") && kvctl.answer(&["--version"]).starts_with("kvctl 0."), "{help}");
}

#[test]
fn keys_and_values_that_are_too_long_change_nothing() {
    let server = Server::builder().args(&["--value-max", "512KiB"]).start();
    let kvctl = Kvctl::of(&server);
    let longest = "k".repeat(4096);
    assert_eq!(kvctl.run(&["put", &longest, "v"]).code, Some(0));
    kvctl.prints(&["get", &longest], "v");
    let too_long = "k".repeat(4097);
    for arguments in [&["put", &too_long, "v"][..], &["get", &too_long], &["del", &too_long], &["counter", "create", &too_long]] {
        kvctl.refuses(arguments, 2, "kvctl: the key has 4097 bytes; a key has 1 to 4096 bytes");
    }
    let limit = 512 << 10;
    assert_eq!(kvctl.fed(&["put", "v", "-"], &vec![b'x'; limit]).code, Some(0));
    let told = kvctl.fed(&["put", "v", "-"], &vec![b'y'; limit + 1]);
    let refusal = "kvctl: the value has 524289 bytes, the server takes at most 524288; split it, or raise the server's \
                   --value-max (in a cluster --staging)\n";
    assert_eq!((told.code, told.err.as_str()), (Some(2), refusal));
    kvctl.prints(&["get", "v"], vec![b'x'; limit]);
    let told = kvctl.run(&["--json", "get", "missing"]);
    assert_eq!((told.code, told.err.as_str()), (Some(1), "{\"code\":\"not_found\",\"message\":\"`missing` is not there\"}\n"));
}

#[test]
fn a_server_that_is_not_there() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let kvctl = Kvctl::at(&address);
    for arguments in
        [&["get", "k"][..], &["put", "k", "v"], &["info"], &["scan"], &["dump"], &["lock", "run", "l", "--", "echo", "never"]]
    {
        let told = kvctl.run(arguments);
        assert_eq!((told.code, told.out.as_slice()), (Some(3), &b""[..]), "{arguments:?}");
        let advice = format!("is kv-server running at {address}? Name another with -s ADDR or SIDEWIRE_SERVER\n");
        assert!(
            told.err.starts_with("kvctl: cannot reach the server: ") && told.err.ends_with(&advice),
            "{arguments:?}: {}",
            told.err
        );
    }
    let told = Kvctl::at("no colon").run(&["get", "k"]);
    assert_eq!(told.code, Some(2), "{}", told.err);
}
