//! counter and seq.

use crate::command::{Kvctl, version_of};
use serde_json::json;
use sidewire_tests::Server;

#[test]
fn counters_count() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    let absent = "kvctl: there is no counter `c`; make it with `kvctl counter create`, or add with --create";
    kvctl.refuses(&["counter", "add", "c"], 1, absent);
    kvctl.refuses(&["counter", "get", "c"], 1, "kvctl: `c` is not there");
    kvctl.refuses(&["counter", "del", "c"], 1, "kvctl: `c` is not there");
    kvctl.prints(&["counter", "create", "c", "-7"], "-7\n");
    kvctl.refuses(&["counter", "create", "c"], 1, "kvctl: `c` exists");
    kvctl.prints(&["counter", "add", "c"], "-6\n");
    kvctl.prints(&["counter", "add", "c", "10"], "4\n");
    kvctl.prints(&["counter", "add", "c", "-5"], "-1\n");
    kvctl.prints(&["counter", "add", "c", "1", "--exactly-once"], "0\n");
    kvctl.prints(&["counter", "get", "c"], "0\n");
    kvctl.prints(&["exists", "c"], "counter\n");
    assert_eq!(kvctl.json(&["counter", "add", "c", "5"]), json!({ "key": "c", "counter": 5 }));
    kvctl.prints(&["counter", "add", "fresh", "3", "--create"], "3\n");
    kvctl.prints(&["counter", "del", "c"], "deleted\n");
    kvctl.refuses(&["counter", "get", "c"], 1, "kvctl: `c` is not there");
}

#[test]
fn what_is_no_counter_is_told_and_left_alone() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    version_of(&kvctl.answer(&["put", "v", "text"]));
    let wrong = "kvctl: the key holds a value, not a counter; use the calls for values";
    kvctl.refuses(&["counter", "add", "v"], 1, wrong);
    kvctl.refuses(&["counter", "get", "v"], 1, wrong);
    kvctl.refuses(&["counter", "del", "v"], 1, "kvctl: `v` is a value, not a counter; `kvctl del` deletes any kind");
    kvctl.refuses(&["counter", "create", "v"], 1, wrong);
    kvctl.prints(&["get", "v"], "text");
    kvctl.prints(&["counter", "create", "c"], "0\n");
    kvctl.refuses(&["get", "c"], 1, "kvctl: the key holds a counter, not a value; use the calls for counters");
    kvctl.refuses(&["put", "c", "x"], 1, "kvctl: the key holds a counter, not a value; use the calls for counters");
    kvctl.prints(&["counter", "get", "c"], "0\n");
}

#[test]
fn sequences_hand_out_each_number_once() {
    let server = Server::start();
    let kvctl = Kvctl::of(&server);
    kvctl.refuses(&["seq", "next", "s"], 1, "kvctl: there is no sequence `s`; make it with `kvctl seq create`");
    kvctl.prints(&["seq", "create", "s", "1000"], "1000\n");
    kvctl.refuses(&["seq", "create", "s"], 1, "kvctl: `s` exists");
    let numbers: Vec<i64> = (0..3).map(|_| kvctl.answer(&["seq", "next", "s"]).trim_end().parse().unwrap()).collect();
    assert!(numbers[0] >= 1000 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}
