//! The tree's own rules.
//!
//! What could break: unsafe code outside the two places where it is proved, a layer that reaches into another, a
//! file that grows a second job, a leftover marker, a path of somebody's machine. Each rule reads every file.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Lines of the longest file that has one job.
const LINES_MAX: usize = 600;
/// What the top level holds besides dot files.
const TOP_LEVEL: [&str; 17] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "Makefile",
    "README.md",
    "benches",
    "client",
    "clippy.toml",
    "common",
    "deny.toml",
    "deploy",
    "proto",
    "rustfmt.toml",
    "server",
    "tests",
];
/// Where unsafe code may stand: each has its proof.
const UNSAFE: [&str; 3] = ["common/src/memory/", "common/src/fabric/verbs/", "common/src/fabric/shm/"];
/// Where tokio may stand: control plane, programs, the asynchronous handle, and tests.
const TOKIO: [&str; 14] = [
    "proto/",
    "server/src/boot.rs",
    "server/src/boot/",
    "server/src/cluster/etcd",
    "server/src/control/",
    "server/src/main.rs",
    "server/src/shutdown.rs",
    "server/tests/",
    "client/src/async_client",
    "client/src/control",
    "client/src/admin.rs",
    "client/kvctl/",
    "benches/",
    "tests/",
];
/// Where tonic may stand: the same without the asynchronous handle.
const TONIC: [&str; 10] = [
    "proto/",
    "server/src/boot.rs",
    "server/src/control/",
    "server/tests/",
    "client/src/control",
    "client/src/admin.rs",
    "client/src/error.rs",
    "client/src/sim.rs",
    "client/kvctl/",
    "tests/",
];
const NAMES_OF_NOTHING: [&str; 5] = ["util", "helpers", "misc", "types", "manager"];
const THIS_FILE: &str = "tests/tests/tidy.rs";

struct Source {
    /// From the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_under(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    /// Its lines with their numbers, comments left out.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn is_ours(name: &str) -> bool {
    name != "target" && name != ".git"
}

/// Every text file of the tree but what cargo writes.
fn sources() -> Vec<Source> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if !is_ours(&name) || name == "Cargo.lock" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                let path = entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push(Source { path, text });
            }
        }
    }
    assert!(found.iter().any(|s| s.path == THIS_FILE), "the tree was not found");
    found
}

/// Fails with every line that `breaks` the rule.
fn check(rule: &str, of: impl Fn(&Source) -> bool, breaks: impl Fn(&str) -> bool) {
    let mut all = String::new();
    for source in sources().iter().filter(|source| source.path != THIS_FILE && of(source)) {
        for (line, text) in source.code().filter(|(_, text)| breaks(text)) {
            writeln!(all, "{}:{line}: {}", source.path, text.trim()).unwrap();
        }
    }
    assert!(all.is_empty(), "{rule}:\n{all}");
}

/// Whether `word` stands in `line` by itself.
fn names(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

/// A path of a crate or module: `word::`, or `use word`.
fn uses(line: &str, crate_name: &str) -> bool {
    names(line, crate_name) && (line.contains(&format!("{crate_name}::")) || line.contains(&format!("use {crate_name}")))
}

#[test]
fn unsafe_code_stands_where_it_is_proved() {
    check("unsafe outside of memory and the providers", |s| s.is_rust() && !s.is_under(&UNSAFE), |line| names(line, "unsafe"));
}

#[test]
fn one_folder_names_rdma_sys() {
    let elsewhere = |s: &Source| s.is_rust() && !s.is_under(&["common/src/fabric/verbs/"]);
    check("rdma-sys outside of verbs/", elsewhere, |line| names(line, "rdma_sys"));
}

#[test]
fn the_data_path_knows_no_runtime() {
    check("tokio outside of the control plane", |s| s.is_rust() && !s.is_under(&TOKIO), |line| uses(line, "tokio"));
    check("tonic outside of the control plane", |s| s.is_rust() && !s.is_under(&TONIC), |line| uses(line, "tonic"));
}

#[test]
fn server_and_client_do_not_know_each_other() {
    check("the server imports the client", |s| s.is_rust() && s.is_under(&["server/"]), |line| uses(line, "sidewire"));
    check("the client imports the server", |s| s.is_rust() && s.is_under(&["client/"]), |line| uses(line, "kv_server"));
    let manifest = |of: &'static str| move |s: &Source| s.path == of;
    check("the server needs the client", manifest("server/Cargo.toml"), |line| {
        line.starts_with("sidewire.") || line.starts_with("sidewire ")
    });
    check("the client needs the server", manifest("client/Cargo.toml"), |line| line.starts_with("kv-server"));
}

#[test]
fn layouts_and_placement_are_pure() {
    let pure = |s: &Source| s.is_rust() && s.is_under(&["common/src/layout/", "common/src/cluster/"]);
    check("fabric in layout or cluster", pure, |line| names(line, "fabric"));
    check("I/O in layout or cluster", pure, |line| line.contains("std::fs") || line.contains("std::net"));
}

#[test]
fn no_file_is_called_after_nothing() {
    for source in sources() {
        let path = Path::new(&source.path);
        for part in path.with_extension("").iter().map(|part| part.to_str().unwrap()) {
            assert!(!NAMES_OF_NOTHING.contains(&part), "{}: `{part}` says nothing of what it holds", source.path);
        }
    }
}

#[test]
fn nothing_is_left_to_be_done_in_the_code() {
    let markers = ["todo!", "unimplemented!", "dbg!"];
    check("a leftover macro", Source::is_rust, |line| markers.iter().any(|marker| line.contains(marker)));
    for source in sources().iter().filter(|s| s.path != THIS_FILE) {
        for marker in ["TODO", "FIXME", "XXX"] {
            let at = source.text.lines().position(|line| names(line, marker));
            assert_eq!(at, None, "{}: {marker}", source.path);
        }
    }
}

#[test]
fn a_file_has_one_job() {
    for source in sources().iter().filter(|s| s.is_rust()) {
        let lines = source.text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines, {LINES_MAX} are the most", source.path);
    }
}

/// A web address whose host has a dot: packages come by name, through whatever client the machine has.
fn names_a_host(line: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        line.match_indices(scheme).any(|(at, _)| {
            let host = line[at + scheme.len()..].split(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).next();
            host.is_some_and(|h| h.contains('.') && h.starts_with(|c: char| c.is_ascii_alphabetic()))
        })
    })
}

#[test]
fn nothing_names_somebodys_machine() {
    let paths = ["/home/", "/root/", "/work/", "/Users/"];
    for source in sources().iter().filter(|s| s.path != THIS_FILE) {
        for (at, line) in source.text.lines().enumerate() {
            let found = paths.iter().find(|word| {
                // `${root}/work/` and `target/work/` are relative.
                line.match_indices(**word)
                    .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "}.*_-".contains(c)))
            });
            assert_eq!(found, None, "{}:{}: {line}", source.path, at + 1);
            // The licence is quoted as it is.
            assert!(source.path == "LICENSE" || !names_a_host(line), "{}:{}: {line}", source.path, at + 1);
        }
    }
}

#[test]
fn the_top_level_holds_what_it_should() {
    for entry in std::fs::read_dir(root()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        assert!(name.starts_with('.') || !is_ours(&name) || TOP_LEVEL.contains(&&*name), "`{name}` at the top level");
    }
}

#[test]
fn what_is_skipped_says_why() {
    check("#[ignore] without a reason", Source::is_rust, |line| line.contains("#[ignore]"));
}
