//! Each verb once, over the data plane, by the operation that uses it; each with a deadline and a finding of its own.

use super::finding::Area::Data;
use super::finding::{Findings, Level};
use sidewire::{Client, Error, Session, WriteOptions};
use std::time::{Duration, Instant};

/// Bytes of a short value: one packet.
const SHORT_BYTES: usize = 64;
/// Bytes of a long one: many packets of any MTU.
const LONG_BYTES: usize = 64 << 10;
/// What is left behind by a doctor who is killed goes away by itself after this.
const KEPT: Duration = Duration::from_secs(60);

/// Its code, what it is for people, and how it is tried.
type Step<'a> = (&'static str, &'static str, &'a dyn Fn() -> Result<(), Trouble>);

/// The verbs.
pub fn each_verb(client: &Client, session: &Session, (tag, limit): (&str, Duration), findings: &mut Findings) {
    let visit = Visit { session, limit, key: tag.to_owned() };
    let long = LONG_BYTES.min(usize::try_from(client.attachment().value_bytes_max).unwrap_or(LONG_BYTES));
    let steps: [Step<'_>; 6] = [
        ("data.write", "Write-with-Immediate and its ack (a Put)", &|| visit.put("value", SHORT_BYTES)),
        ("data.read", "Read (a Get)", &|| visit.read_back("value", SHORT_BYTES)),
        ("data.long", "a value of many packets, there and back", &|| {
            visit.put("long", long).and_then(|()| visit.read_back("long", long))
        }),
        ("data.fetch-add", "Fetch-and-Add (a counter)", &|| visit.count()),
        ("data.compare-swap", "Compare-and-Swap (a lock)", &|| visit.lock()),
        ("data.beat", "Send and Receive (a heartbeat)", &|| Ok(client.beat(limit)?)),
    ];
    for (code, verb, step) in steps {
        let started = Instant::now();
        match step() {
            Ok(()) => findings.ok(Data, code, format!("{verb}: {:.1?}", started.elapsed()), "it works from end to end"),
            Err(Trouble::Call(Error::LocksClosed { opens_in })) => {
                let means = "in the first lease of its life a server grants no locks; nothing is wrong";
                findings.note(Data, code, format!("{verb}: not yet, in {opens_in:.1?}"), means);
            }
            Err(trouble) => bad(code, verb, &trouble, findings),
        }
    }
    visit.clean_up(findings);
}

/// Why a verb did not do what it should.
enum Trouble {
    Call(Error),
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

fn bad(code: &'static str, verb: &str, trouble: &Trouble, findings: &mut Findings) {
    let (what, means, mend) = match trouble {
        Trouble::Wrong(seen) => (
            format!("{verb}: {seen}"),
            "the verb ended well and its result is wrong: do not use this path",
            "report it with the output of kvctl doctor --json; try another device with --device",
        ),
        Trouble::Call(error @ (Error::Deadline { .. } | Error::LeaseLapsed | Error::ServerGone { .. })) => (
            format!("{verb}: {error}"),
            "packets do not come through, or the server stands still",
            "open UDP port 4791 (RoCE v2) on both hosts; compare MTUs; look at the server: kvctl info, its log",
        ),
        Trouble::Call(error @ (Error::OutOfMemory { .. } | Error::OutOfCells { .. } | Error::IndexFull { .. } | Error::Busy)) => {
            (
                format!("{verb}: {error}"),
                "the path works, the server has no room",
                "kvctl info shows what is full; delete keys, or start the server with more --memory or --cells",
            )
        }
        Trouble::Call(error) => (
            format!("{verb}: {error}"),
            "this verb does not work on this path",
            "kvctl -vv doctor shows the last work requests; see the findings on devices",
        ),
    };
    findings.mend((Data, Level::Fault, code), what, means, mend);
}

struct Visit<'a> {
    session: &'a Session,
    limit: Duration,
    key: String,
}

impl Visit<'_> {
    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.key).into_bytes()
    }

    fn put(&self, name: &str, bytes: usize) -> Result<(), Trouble> {
        self.session.put_with(&self.key(name), &pattern(bytes), &WriteOptions::new().ttl(KEPT))?;
        Ok(())
    }

    fn read_back(&self, name: &str, bytes: usize) -> Result<(), Trouble> {
        match self.session.get(&self.key(name))? {
            Some(value) if *value == *pattern(bytes) => Ok(()),
            Some(value) => Err(Trouble::Wrong(format!("{} bytes that were never written", value.len()))),
            None => Err(Trouble::Wrong("the value that was just written is not there".into())),
        }
    }

    fn count(&self) -> Result<(), Trouble> {
        let key = self.key("counter");
        self.session.create_counter(&key, 0)?;
        match self.session.add(&key, 1)? {
            1 => Ok(()),
            other => Err(Trouble::Wrong(format!("0 and 1 are {other}"))),
        }
    }

    fn lock(&self) -> Result<(), Trouble> {
        let guard = self.session.lock(&self.key("lock"), self.limit)?;
        Ok(guard.unlock()?)
    }

    fn clean_up(&self, findings: &mut Findings) {
        let left: Vec<_> = ["value", "long", "counter", "lock"]
            .into_iter()
            .filter_map(|name| Some((name, self.session.delete(&self.key(name)).err()?)))
            .map(|(name, error)| format!("{}{name}: {error}", self.key))
            .collect();
        if left.is_empty() {
            findings.ok(Data, "data.clean", "what was written is deleted again", "nothing is left behind");
        } else {
            let what = format!("not deleted: {}", left.join("; "));
            let mend = format!("kvctl scan --prefix '{}' shows them, kvctl del KEY deletes one", self.key);
            findings.mend((Data, Level::Warning, "data.leftover"), what, "keys of this visit may be left", mend);
        }
    }
}

/// Bytes that no page of zeroes and no other length resembles.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ (bytes % 253) as u8).collect()
}
