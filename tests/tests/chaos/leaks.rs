//! What may be left of it all: the keys.

use crate::lease;
use sidewire::{Admin, Kind};
use sidewire_tests::gauges::files;
use sidewire_tests::{Gauges, Server, setting};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What processes leave on a machine.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    files: BTreeMap<String, usize>,
    shared_memory: usize,
    children: usize,
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

impl Traces {
    /// Of this process, and of `/dev/shm`.
    fn now() -> Self {
        let own = std::process::id().to_string();
        let children = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&own)
        });
        Self { files: files("self"), shared_memory: entries("/dev/shm"), children: children.count() }
    }
}

/// How things are before anything has happened.
pub struct Before {
    traces: Traces,
    /// Descriptors of a server that nobody uses.
    files: BTreeMap<String, usize>,
}

impl Before {
    /// Measured by a server that is gone again: what a process opens once for its first client stays open.
    pub fn now() -> Self {
        let server = crate::server();
        let files = Gauges::at_rest(&server).files;
        drop(server);
        std::thread::sleep(Duration::from_millis(300));
        Self { traces: Traces::now(), files }
    }
}

/// Waits for a server that holds its keys and nothing else, stops it, and looks for what is left.
pub fn nothing_is_left(mut server: Server, before: &Before) {
    let until = Instant::now() + lease() * 4 + setting::patience(Duration::from_secs(3));
    loop {
        let admin = Admin::connect(server.address()).unwrap();
        let items: Vec<_> = admin.scan(b"", false, 0).unwrap().map(Result::unwrap).collect();
        drop(admin);
        let cells = items.iter().filter(|item| item.kind != Kind::Value).count() as u64;
        let files = before.files.clone();
        let wanted = Gauges { clients: 0, connections: 0, files, cells };
        let (now, keys) = (Gauges::of(&server), server.info().keys);
        if now == wanted && keys == items.len() as u64 {
            println!("left: {keys} keys and {now:?}");
            break;
        }
        assert!(Instant::now() < until, "{now:?} and {keys} keys, its {} keys explain {wanted:?}", items.len());
    }
    server.stop();
    drop(server);
    let until = Instant::now() + setting::patience(Duration::from_secs(3));
    while Traces::now() != before.traces {
        assert!(Instant::now() < until, "{:?}, it was {:?}", Traces::now(), before.traces);
        std::thread::sleep(Duration::from_millis(20));
    }
}
