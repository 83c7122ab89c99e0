//! The programs under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::SystemTime;

/// Folders whose sources make the programs, from the workspace's root.
const SOURCES: [&str; 7] = ["common/src", "proto", "server/src", "client", "benches/src", "benches/workloads", "benches/data"];
/// The programs.
const PROGRAMS: [&str; 3] = ["kv-server", "kvctl", "kv-bench"];

/// The path of one of the programs. Without `SIDEWIRE_BIN_DIR` it is built first when it is missing or older
/// than its sources, so that no test speaks of a program of yesterday.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os("SIDEWIRE_BIN_DIR") {
        return PathBuf::from(folder).join(name);
    }
    static BUILT: Once = Once::new();
    BUILT.call_once(build_if_old);
    target_folder().join(name)
}

/// The executable of a test is in `target/PROFILE/deps`.
fn target_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a process knows its executable");
    test.ancestors().nth(2).expect("tests lie in target/PROFILE/deps").to_owned()
}

fn build_if_old() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is in the workspace");
    let newest = SOURCES.iter().filter_map(|folder| newest_under(&root.join(folder))).max();
    let built = |name: &str| std::fs::metadata(target_folder().join(name)).and_then(|m| m.modified()).ok();
    if PROGRAMS.iter().map(|name| built(name)).min().flatten() > newest {
        return;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--quiet", "--workspace"]);
    cargo.args(PROGRAMS.iter().flat_map(|name| ["--bin", *name]));
    if target_folder().ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo can be started").success(), "the programs under test do not build");
}

fn newest_under(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    entries
        .filter_map(|entry| {
            let kind = entry.file_type().ok()?;
            if kind.is_dir() { newest_under(&entry.path()) } else { entry.metadata().ok()?.modified().ok() }
        })
        .max()
}
