//! A store that does one thing after the other, written apart from the model, and the histories of its clients.

use super::super::{Call, Cell, Condition, Event, Outcome};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

struct Store {
    values: BTreeMap<String, (u64, u64)>,
    cells: BTreeMap<String, i64>,
    locks: BTreeMap<String, (bool, u64)>,
    version: u64,
}

impl Store {
    fn run(&mut self, call: &Call) -> Outcome {
        match call {
            Call::Get { key } => self.get(key),
            Call::MultiGet { keys } => Outcome::Each(keys.iter().map(|key| self.get(key)).collect()),
            Call::Exists { key } => Outcome::Found(self.values.contains_key(key)),
            Call::Put { key, stamp, condition, .. } => {
                if let Err(unmet) = self.judge(call, key, *condition) {
                    return unmet;
                }
                self.version += 3;
                self.values.insert(key.clone(), (*stamp, self.version));
                Outcome::Written { version: self.version }
            }
            Call::Delete { key, condition, .. } => {
                if let Err(unmet) = self.judge(call, key, *condition) {
                    return unmet;
                }
                self.values.remove(key).map_or(Outcome::Absent, |_| Outcome::Deleted)
            }
            Call::Create { key, initial, .. } => {
                let is_new = !self.cells.contains_key(key);
                self.cells.entry(key.clone()).or_insert(*initial);
                Outcome::Created(is_new)
            }
            Call::Add { key, delta } => self.cells.get_mut(key).map_or(Outcome::Absent, |cell| {
                *cell += delta;
                Outcome::Number(*cell)
            }),
            Call::Read { key } => self.cells.get(key).map_or(Outcome::Absent, |cell| Outcome::Number(*cell)),
            Call::Next { key } => self.cells.get_mut(key).map_or(Outcome::Absent, |cell| {
                *cell += 1;
                Outcome::Number(*cell - 1)
            }),
            _ => self.lock(call),
        }
    }

    fn get(&self, key: &str) -> Outcome {
        self.values.get(key).map_or(Outcome::Absent, |(stamp, version)| Outcome::Value { stamp: *stamp, version: *version })
    }

    fn judge(&self, call: &Call, key: &str, condition: Condition) -> Result<(), Outcome> {
        if let Some(fence) = call.fence()
            && self.locks.get(&fence.lock) != Some(&(true, fence.token))
        {
            return Err(Outcome::Fenced);
        }
        match (condition, self.values.get(key)) {
            (Condition::Absent, Some((_, version))) => Err(Outcome::Exists { version: *version }),
            (Condition::Version(wanted), Some((_, version))) if wanted != *version => {
                Err(Outcome::Mismatch { version: *version })
            }
            (Condition::Version(_), None) => Err(Outcome::Absent),
            _ => Ok(()),
        }
    }

    fn lock(&mut self, call: &Call) -> Outcome {
        match call {
            Call::TryLock { key } => {
                let (held, token) = self.locks.entry(key.clone()).or_insert((false, 100));
                if *held {
                    return Outcome::Busy;
                }
                *held = true;
                *token += 1;
                Outcome::Locked { token: *token }
            }
            Call::Unlock { key, token } => match self.locks.get_mut(key) {
                Some((held, current)) if *held && current == token => {
                    *held = false;
                    Outcome::Unlocked
                }
                _ => Outcome::Fenced,
            },
            Call::LockState { key } => {
                self.locks.get(key).map_or(Outcome::Absent, |(held, token)| Outcome::State { held: *held, token: *token })
            }
            other => panic!("{other:?}"),
        }
    }
}

/// How random histories look.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub calls: u64,
    pub keys: u64,
    pub clients: u32,
    /// How far a call's moments lie from the moment at which it takes effect; calls take effect every 10.
    pub spread: u64,
    /// One in so many calls never tells its outcome; 0: all do.
    pub doubt: u32,
}

/// What clients of the store did and saw, in the order in which it happened.
pub(super) fn history(seed: u64, shape: Shape) -> Vec<Event> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut store = Store { values: BTreeMap::new(), cells: BTreeMap::new(), locks: BTreeMap::new(), version: 100 };
    let mut events = Vec::new();
    for n in 0..shape.calls {
        let call = any_call(&mut random, &store, n, shape.keys);
        let moment = 1000 + n * 10;
        let invoked = moment - random.random_range(0..=shape.spread);
        let returned = moment + random.random_range(0..=shape.spread);
        let client = random.random_range(0..shape.clients);
        let doubtful = shape.doubt > 0 && random.random_range(0..shape.doubt) == 0;
        // One in doubt may have been lost on the way.
        if doubtful && random.random() {
            events.push(Event { client, invoked, returned: None, call, outcome: Outcome::Unknown });
            continue;
        }
        let outcome = store.run(&call);
        let (returned, outcome) = if doubtful { (None, Outcome::Unknown) } else { (Some(returned), outcome) };
        events.push(Event { client, invoked, returned, call, outcome });
    }
    events
}

fn any_call(random: &mut SmallRng, store: &Store, stamp: u64, keys: u64) -> Call {
    let number = random.random_range(0..keys);
    match number % 4 {
        0 | 1 => value_call(random, store, stamp, &format!("v{number}")),
        2 => cell_call(random, number),
        _ => lock_call(random, store, stamp, number),
    }
}

fn value_call(random: &mut SmallRng, store: &Store, stamp: u64, name: &str) -> Call {
    let key = name.to_owned();
    // A version that somebody may have read, or one of before.
    let version = store.values.get(name).map_or(1, |(_, version)| version - 3 * u64::from(random.random_range(0..4) == 0));
    match random.random_range(0..10) {
        0..3 => Call::Get { key },
        3 => Call::MultiGet { keys: vec![key, "v0".into()] },
        4 => Call::Exists { key },
        5 => Call::put(name, stamp),
        6 => Call::put_if(name, stamp, Condition::Absent),
        7 => Call::put_if(name, stamp, Condition::Version(version)),
        8 => Call::delete(name, Condition::None),
        _ => Call::delete(name, Condition::Version(version)),
    }
}

fn cell_call(random: &mut SmallRng, number: u64) -> Call {
    let (counter, sequence) = (format!("n{number}"), format!("s{number}"));
    match random.random_range(0..8) {
        0 => Call::Create { key: counter, cell: Cell::Counter, initial: 40 },
        1..4 => Call::Add { key: counter, delta: 1 },
        4 => Call::Read { key: counter },
        5 => Call::Create { key: sequence, cell: Cell::Sequence, initial: 7 },
        _ => Call::Next { key: sequence },
    }
}

fn lock_call(random: &mut SmallRng, store: &Store, stamp: u64, number: u64) -> Call {
    let (key, guarded) = (format!("{{{number}}}lock"), format!("{{{number}}}data"));
    let token = store.locks.get(&key).map_or(1, |(_, token)| token - u64::from(random.random_range(0..4) == 0));
    match random.random_range(0..8) {
        0 | 1 => Call::TryLock { key },
        2 => Call::Unlock { key, token },
        3 => Call::LockState { key },
        4 => Call::put_fenced(&guarded, stamp, &key, token),
        5 => Call::delete_fenced(&guarded, &key, token),
        _ => Call::Get { key: guarded },
    }
}
