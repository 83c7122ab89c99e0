//! Golden bytes of every layout, and where keys lie.
//!
//! What could break: a change that seems harmless (another order of fields, another seed, another hash) and makes
//! every record of a running cluster unreadable, or moves keys. Each file in `golden/` was written once; a layout
//! that differs from it needs a new `LAYOUT_VERSION`, not new files. `SIDEWIRE_TEST_BLESS=1` writes files that are
//! missing, never those that are there.

use sidewire_common::cluster::placement::place;
use sidewire_common::cluster::{Assignment, MemberId};
use sidewire_common::id::{ClientId, Incarnation};
use sidewire_common::key::KeyHash;
use sidewire_common::layout::ack::{self, Ack, Outcome};
use sidewire_common::layout::beat::{ANSWER_BYTES, Answer, BEAT_BYTES, Beat, GetStats, Verdict};
use sidewire_common::layout::bucket::BucketHeader;
use sidewire_common::layout::cell_reference::CellReference;
use sidewire_common::layout::counter_cell;
use sidewire_common::layout::descriptor::Descriptor;
use sidewire_common::layout::digest;
use sidewire_common::layout::directory::DirectoryEntry;
use sidewire_common::layout::location::{Location, Place};
use sidewire_common::layout::lock_word::LockWord;
use sidewire_common::layout::packed::next_at;
use sidewire_common::layout::record::{self, Fields, Kind, State, Version};
use sidewire_common::layout::request::{Condition, Operation, Request, immediate};
use std::fmt::Write;
use std::path::Path;

/// Compares with the golden file, line by line.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if !path.exists() && std::env::var_os("SIDEWIRE_TEST_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let pinned = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for (line, (pinned, now)) in pinned.lines().zip(text.lines()).enumerate() {
        assert_eq!(pinned, now, "{name}, line {}: the bytes have changed", line + 1);
    }
    assert_eq!(pinned.lines().count(), text.lines().count(), "{name}");
}

fn hex(name: &str, bytes: &[u8]) -> String {
    let mut text = format!("{name}\n");
    for (row, chunk) in bytes.chunks(16).enumerate() {
        write!(text, "  {:4}", row * 16).unwrap();
        for byte in chunk {
            write!(text, " {byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn word(name: &str, word: u64) -> String {
    format!("{name}  {word:016x}\n")
}

const PLACE: Place = Place { chunk: 0x123, unit: 0x2_345_678 };
const VERSION: Version = Version::from_raw(0x0007_0000_1234_5678);

#[test]
fn records() {
    let image = |key: &[u8], value: &[u8], kind, expiry_ms, replaces| {
        let mut image = vec![0; record::record_bytes(key.len(), value.len())];
        record::encode(&mut image, PLACE, Fields { version: VERSION, expiry_ms, kind, key, value }, replaces);
        image
    };
    let mut text = hex("value", &image(b"key", b"the value", Kind::Value, 0, None));
    text += &hex("empty value, expiry", &image(b"k", b"", Kind::Value, 0x0102_0304_0506, Some(VERSION)));
    let reference = CellReference { index: 0x0102, generation: 3 }.encode();
    text += &hex("counter", &image(b"visits", &reference, Kind::Counter, 0, None));
    text += &hex("sequence", &image(b"next", &reference, Kind::Sequence, 0, None));
    text += &hex("lock", &image(b"{tag}.lock", &reference, Kind::Lock, 0, None));
    let fields = Fields { version: VERSION, expiry_ms: 0, kind: Kind::Value, key: b"key", value: &[] };
    let sum = digest::digest(b"the value", PLACE);
    text += &hex("front of a value under its digest", &record::encode_front(PLACE, fields, 9, sum, None));
    text += &word("pending, insert", State::Pending { replaces: None }.raw());
    text += &word("pending, update", State::Pending { replaces: Some(VERSION) }.raw());
    text += &word("live", State::Live(VERSION).raw());
    let successor = Location::new(0xabc, 200, PLACE).successor_tag();
    text += &word("superseded", State::Superseded { successor }.raw());
    text += &word("deleted", State::Deleted(VERSION).raw());
    text += &word("version of reign 5, counter 77", Version::new(5, 77).raw());
    golden("record.txt", &text);
}

#[test]
fn index() {
    let header = BucketHeader::new(0xab40_0000, 10);
    let mut text = word("bucket of prefix ab4, depth 10", header.raw());
    text += &word("with overflow 3", header.with_overflow(3).raw());
    text += &word("moved", header.moved().raw());
    text += &word("location of 200 bytes", Location::new(0xabc, 200, PLACE).raw());
    text += &word("location of a long record", Location::new(0xabc, 1 << 20, PLACE).raw());
    text += &word("directory entry", DirectoryEntry::new(PLACE, 13).raw());
    let descriptor = Descriptor { incarnation: Incarnation(0x0123_4567_89ab_cdef), directory_bits: 12, directories: PLACE };
    text += &hex("descriptor", &descriptor.encode());
    golden("index.txt", &text);
}

/// Two requests behind one immediate.
fn packed() -> String {
    let delete = |sequence, key_len| Request { key_len, ..Request::new(Operation::Delete, sequence) };
    let mut bytes = Vec::new();
    for request in [delete(254, 3), delete(255, 2)] {
        bytes.resize(next_at(bytes.len()), 0);
        bytes.extend(request.encode());
        bytes.resize(bytes.len() + usize::from(request.key_len), b'k');
    }
    hex("two deletes, packed", &bytes)
}

#[test]
fn messages() {
    let request = Request {
        condition: Condition::Version(VERSION),
        resolved_below: 0x0102_0304,
        ttl_ms: 0x0506_0708,
        fence_token: 0x090a_0b0c,
        key_len: 0x0d0e & 0xfff,
        fence_key_len: 9,
        value_len: 0x1_2345,
        ..Request::new(Operation::Put, 0x1122_3344_5566)
    };
    let mut text = hex("request: fenced conditional put", &request.encode());
    let add = Request { argument: -2, key_len: 5, ..Request::new(Operation::Add, 7) };
    text += &hex("request: add of -2", &add.encode());
    let reserve = Request { argument: 64 << 20, key_len: 5, ttl_ms: 7, ..Request::new(Operation::Reserve, 8) };
    text += &hex("request: reserve 64 MiB", &reserve.encode());
    let chunk = Request { argument: 8, value_len: 0x1_2345, ..Request::new(Operation::Chunk, 9) };
    text += &hex("request: chunk", &chunk.encode());
    let commit = Request { argument: 8, key_len: 5, ttl_ms: 7, ..Request::new(Operation::Commit, 10) };
    text += &hex("request: commit", &commit.encode());
    text += &word("immediate of unit 0x3456, sequence 0x789", immediate(0x3456, 0x789).into());
    let acks = [
        Ack { sequence: 0x0102_0304, outcome: Outcome::Done, detail: 0, figures: [VERSION.raw(), 0xaabb] },
        Ack { sequence: 9, outcome: Outcome::Refused, detail: 6, figures: [5000, 4096] },
    ];
    let mut bytes = [0; ack::MESSAGE_BYTES_MAX];
    let length = ack::encode(&acks, &mut bytes);
    text += &hex("two acks", &bytes[..length]);
    text += &packed();
    for outcome in 1..=16 {
        assert!(Outcome::from_raw(outcome).is_some());
        writeln!(text, "outcome {outcome} {:?}", Outcome::from_raw(outcome).unwrap()).unwrap();
    }
    golden("messages.txt", &text);
}

#[test]
fn heartbeats() {
    let stats = GetStats {
        gets: 1,
        reads: 2,
        location_hits: 3,
        retries_torn: 4,
        retries_stale: 5,
        retries_moved: 6,
        retries_pending: 7,
        adds: 8,
        locks: 9,
        lease_discards: 10,
    };
    let (client, incarnation) = (ClientId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10), Incarnation(0x1122_3344_5566_7788));
    let beat: [u8; BEAT_BYTES] = Beat { client, incarnation, number: 5, layout_epoch: 6, map_epoch: 0x2122_2324, stats }.encode();
    let answer = Answer {
        verdict: Verdict::Unknown,
        incarnation,
        number: 5,
        layout_epoch: 7,
        clock_ms: 0x0102_0304_0506,
        clock_error_ms: 1,
        lease_ms: 3000,
        map_epoch: 0x3132_3334,
        member: 0x4142_4344,
    };
    let answer: [u8; ANSWER_BYTES] = answer.encode();
    golden("beat.txt", &(hex("beat", &beat) + &hex("answer", &answer)));
}

#[test]
fn cells() {
    let mut text = word("lock free after token 41", LockWord::free(41).raw());
    let held = LockWord::free(41).acquired_by(0xabcde).unwrap();
    text += &word("lock held by abcde", held.raw());
    text += &word("lock retired", held.retired().raw());
    text += &word("counter -1", -1_i64 as u64);
    text += &word("counter 5, frozen", counter_cell::frozen(5));
    text += &word("counter -5, frozen", counter_cell::frozen(-5));
    text += &hex("reference", &CellReference { index: 0x0102_0304, generation: 0x0506_0708 }.encode());
    golden("cells.txt", &text);
}

/// A hash that moves a key is data loss.
#[test]
fn placement_of_a_hundred_keys() {
    let mut text = String::from("key shard directory(12) bucket fingerprint\n");
    for n in 0..100_u32 {
        let key = match n % 4 {
            0 => format!("user:{n}"),
            1 => format!("{{tenant:{}}}.row:{n}", n % 7),
            2 => format!("{n:0width$}", width = (n as usize * 41) % 400 + 1),
            _ => format!("k{{}}{n}"),
        };
        let hash = KeyHash::of(key.as_bytes(), 0x5eed_0000 + u64::from(n / 50));
        let short = if key.len() > 24 { format!("{}..({})", &key[..8], key.len()) } else { key };
        writeln!(text, "{short} {} {} {} {:03x}", hash.shard(), hash.directory_index(12), hash.home_bucket(), hash.fingerprint())
            .unwrap();
    }
    golden("placement.txt", &text);
}

/// Holders of all shards, sixteen a line; who comes later takes over from those before.
#[test]
fn shards_lie_where_they_lay() {
    let mut text = String::new();
    for replicas in 1..=3 {
        let mut shards = vec![Assignment::default(); 256];
        for weights in [&[100][..], &[100, 100], &[100, 100, 100], &[100, 100, 50, 200]] {
            let members = (1..).map(MemberId).zip(weights.iter().copied()).collect();
            let placed = place(&shards, &members, replicas);
            writeln!(text, "copies {replicas} weights {weights:?}").unwrap();
            for row in placed.chunks(16) {
                let names = row.iter().map(|all| all.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join("-"));
                writeln!(text, "  {}", names.collect::<Vec<_>>().join(" ")).unwrap();
            }
            shards = placed.into_iter().map(|in_sync| Assignment { reign: 1, in_sync, ..Assignment::default() }).collect();
        }
    }
    golden("shards.txt", &text);
}
