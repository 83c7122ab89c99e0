//! The calls, one after the other.

use crate::client::Caller;
use rand::Rng;
use sidewire::{LockGuard, Version, WriteOptions};
use sidewire_tests::history::file::now;
use sidewire_tests::history::{Call, Cell, Condition, Fence, observed};
use std::time::Duration;

/// Keys of values; the last is always large.
pub const VALUES: [&str; 5] = ["v0", "v1", "v2", "v3", "large"];
const LARGE: &str = "large";
const COUNTERS: [&str; 2] = ["counted", "made-anew"];
const SEQUENCE: &str = "numbers";
const LOCK: &str = "{guarded}.lock";
const GUARDED: &str = "{guarded}.data";
const FLEETING: [&str; 2] = ["t0", "t1"];
/// Longest time for which a fleeting value lasts.
const TTL_MS_MAX: u64 = 1500;
/// Longest time for which a lock is held.
const HOLD_MS_MAX: u64 = 30;

/// Bytes of a value for `key`.
pub fn bytes(caller: &mut Caller, key: &str, stamp: u64) -> Vec<u8> {
    let length = if key == LARGE { caller.random.random_range(30_000..100_000) } else { caller.random.random_range(16..900) };
    observed::value(key, stamp, length)
}

/// A key of a value.
pub fn any_value_key(caller: &mut Caller) -> &'static str {
    // Small ones more often: a large one costs time, and shows nothing sooner.
    VALUES[caller.random.random_range(0..VALUES.len() * 3) % (VALUES.len() * 3 - 2) % VALUES.len()]
}

/// One call at random.
pub fn any(caller: &mut Caller) {
    match caller.random.random_range(0..20) {
        0..5 => get(caller),
        5 => multi_get(caller),
        6 => exists(caller),
        7..10 => put(caller),
        10 => delete(caller),
        11..14 => conditional(caller),
        14..16 => count(caller),
        16 => number(caller),
        17 => fleeting(caller),
        18 => late(caller),
        _ => lock(caller),
    }
}

fn get(caller: &mut Caller) {
    let key = any_value_key(caller);
    let _ = caller.call(Call::Get { key: key.into() }, |s| s.get(key.as_bytes()), |got| observed::got(key, got));
}

fn multi_get(caller: &mut Caller) {
    let keys = VALUES[..4].iter().chain(&FLEETING);
    let call = Call::MultiGet { keys: keys.clone().map(ToString::to_string).collect() };
    let names: Vec<&str> = keys.copied().collect();
    let each = |results: &Vec<_>| {
        let each = names.iter().zip(results).map(|(key, result)| observed::got(key, result));
        sidewire_tests::history::Outcome::Each(each.collect())
    };
    caller.call(call, |s| s.multi_get(&names), each);
}

fn exists(caller: &mut Caller) {
    let key = any_value_key(caller);
    let _ = caller.call(Call::Exists { key: key.into() }, |s| s.exists(key.as_bytes()), observed::found);
}

fn put(caller: &mut Caller) {
    let (key, stamp) = (any_value_key(caller), caller.stamp());
    let value = bytes(caller, key, stamp);
    let put = |s: &sidewire::Session| s.put_with(key.as_bytes(), &value, &WriteOptions::new());
    let _ = caller.call(Call::put(key, stamp), put, observed::put);
}

fn delete(caller: &mut Caller) {
    let key = any_value_key(caller);
    let delete = |s: &sidewire::Session| s.delete_with(key.as_bytes(), &WriteOptions::new());
    let _ = caller.call(Call::delete(key, Condition::None), delete, observed::deleted);
}

/// A write under a condition that may hold: the version that was just read, or absence.
fn conditional(caller: &mut Caller) {
    let (key, stamp) = (VALUES[caller.random.random_range(0..4)], caller.stamp());
    let value = bytes(caller, key, stamp);
    let got = caller.call(Call::Get { key: key.into() }, |s| s.get(key.as_bytes()), |got| observed::got(key, got));
    let read: Option<Version> = got.ok().flatten().map(|value| value.version());
    let condition = read.map_or(Condition::Absent, |version| Condition::Version(version.raw()));
    let options = read.map_or(WriteOptions::new().if_absent(), |version| WriteOptions::new().if_version(version));
    if read.is_some() && caller.random.random_range(0..3) == 0 {
        let delete = |s: &sidewire::Session| s.delete_with(key.as_bytes(), &options);
        let _ = caller.call(Call::delete(key, condition), delete, observed::deleted);
    } else {
        let put = |s: &sidewire::Session| s.put_with(key.as_bytes(), &value, &options);
        let _ = caller.call(Call::put_if(key, stamp, condition), put, observed::put);
    }
}

fn count(caller: &mut Caller) {
    let key = COUNTERS[caller.random.random_range(0..2)];
    let add = Call::Add { key: key.into(), delta: 1 };
    match caller.random.random_range(0..10) {
        0 => drop(caller.call(Call::Read { key: key.into() }, |s| s.counter(key.as_bytes()), observed::counted)),
        1 if key == COUNTERS[1] => {
            let delete = |s: &sidewire::Session| s.delete_with(key.as_bytes(), &WriteOptions::new());
            let _ = caller.call(Call::delete(key, Condition::None), delete, observed::deleted);
        }
        1..4 => drop(caller.call(add, |s| s.add_exactly_once(key.as_bytes(), 1), observed::number)),
        _ => {
            let sum = caller.call(add, |s| s.add(key.as_bytes(), 1), observed::number);
            if matches!(sum, Err(sidewire::Error::NotFound)) {
                let create = Call::Create { key: key.into(), cell: Cell::Counter, initial: 0 };
                let _ = caller.call(create, |s| s.create_counter(key.as_bytes(), 0), observed::created);
            }
        }
    }
}

fn number(caller: &mut Caller) {
    let next = Call::Next { key: SEQUENCE.into() };
    let number = caller.call(next, |s| s.next(SEQUENCE.as_bytes()), observed::number);
    if matches!(number, Err(sidewire::Error::NotFound)) {
        let create = Call::Create { key: SEQUENCE.into(), cell: Cell::Sequence, initial: 1 };
        let _ = caller.call(create, |s| s.create_sequence(SEQUENCE.as_bytes(), 1), observed::created);
    }
}

/// A value that goes away by itself.
fn fleeting(caller: &mut Caller) {
    let key = FLEETING[caller.random.random_range(0..2)];
    if caller.random.random_range(0..3) > 0 {
        return drop(caller.call(Call::Get { key: key.into() }, |s| s.get(key.as_bytes()), |got| observed::got(key, got)));
    }
    let (stamp, ttl) = (caller.stamp(), Duration::from_millis(caller.random.random_range(1..TTL_MS_MAX)));
    let value = bytes(caller, key, stamp);
    let put = |s: &sidewire::Session| s.put_with(key.as_bytes(), &value, &WriteOptions::new().ttl(ttl));
    let nanos = u64::try_from(ttl.as_nanos()).unwrap();
    let _ = caller.call(Call::put_for(key, stamp, nanos), put, observed::put);
}

/// Takes the lock, writes under it, gives it back; notes when it may have been lost meanwhile.
fn lock(caller: &mut Caller) {
    let life = caller.life();
    let Ok(Some(guard)) = caller.call(Call::TryLock { key: LOCK.into() }, |s| s.try_lock(LOCK.as_bytes()), observed::tried)
    else {
        let state = Call::LockState { key: LOCK.into() };
        return drop(caller.call(state, |s| s.lock_state(LOCK.as_bytes()), observed::lock_state));
    };
    let token = guard.token();
    let mut held_at = now();
    for _ in 0..caller.random.random_range(1..4) {
        held_at = if guard.is_held() { now() } else { held_at };
        fenced(caller, &guard);
        let pause = caller.random.random_range(0..HOLD_MS_MAX);
        std::thread::sleep(Duration::from_millis(pause));
    }
    let lost = Call::Lost { key: LOCK.into(), token };
    if guard.is_held() {
        held_at = now();
    } else {
        caller.noticed(life, held_at, lost.clone());
        fenced(caller, &guard);
    }
    let unlock = Call::Unlock { key: LOCK.into(), token };
    let unlocked = caller.call(unlock, |_| guard.unlock(), observed::unlocked);
    if unlocked.is_err() {
        caller.noticed(life, held_at, lost);
    }
    caller.late = Some((life, token));
}

/// A write under a lock that is not held any more, by somebody who does not know that.
fn late(caller: &mut Caller) {
    let Some((_, token)) = caller.late.filter(|(life, _)| *life == caller.life()) else { return fleeting(caller) };
    let stamp = caller.stamp();
    let value = bytes(caller, GUARDED, stamp);
    let options = WriteOptions::new().fence_raw(LOCK.as_bytes(), token);
    let call = Call::put_fenced(GUARDED, stamp, LOCK, token);
    let _ = caller.call(call, |s| s.put_with(GUARDED.as_bytes(), &value, &options), observed::put);
}

fn fenced(caller: &mut Caller, guard: &LockGuard) {
    let stamp = caller.stamp();
    let value = bytes(caller, GUARDED, stamp);
    let options = WriteOptions::new().fence(guard);
    if caller.random.random_range(0..5) == 0 {
        let fence = Some(Fence { lock: LOCK.into(), token: guard.token() });
        let call = Call::Delete { key: GUARDED.into(), condition: Condition::None, fence };
        let delete = |s: &sidewire::Session| s.delete_with(GUARDED.as_bytes(), &options);
        let _ = caller.call(call, delete, observed::deleted);
    } else {
        let call = Call::put_fenced(GUARDED, stamp, LOCK, guard.token());
        let _ = caller.call(call, |s| s.put_with(GUARDED.as_bytes(), &value, &options), observed::put);
    }
    let get = Call::Get { key: GUARDED.into() };
    let _ = caller.call(get, |s| s.get(GUARDED.as_bytes()), |got| observed::got(GUARDED, got));
}
