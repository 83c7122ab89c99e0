//! Calls on counters, sequences and locks.

use crate::client::Worker;
use rand::Rng;
use sidewire::{Error, LockGuard, WriteOptions};
use sidewire_common::fabric::sim::time;
use sidewire_common::host;
use sidewire_tests::history::lives::Lived;
use sidewire_tests::history::{Call, Cell, Event, Outcome, observed};
use std::time::Duration;

impl Worker {
    pub(super) fn count(&mut self) {
        let key = self.keys.counter(&mut self.rng);
        let bytes = key.clone().into_bytes();
        match self.rng.random_range(0..14) {
            0..5 => {
                let delta = self.rng.random_range(-9..100);
                let call = Call::Add { key, delta };
                let sum = self.note(call, |w| w.session.add(&bytes, delta), observed::number);
                self.in_range(&sum);
            }
            5..7 => {
                let call = Call::Add { key, delta: 1 };
                let sum = self.note(call, |w| w.session.add_exactly_once(&bytes, 1), observed::number);
                self.in_range(&sum);
            }
            7..9 => {
                let sum = self.note(Call::Read { key }, |w| w.session.counter(&bytes), observed::counted);
                self.in_range(&sum);
            }
            9 => self.delete(&key, None),
            10 | 11 => {
                let call = Call::Create { key, cell: Cell::Counter, initial: 5 };
                drop(self.note(call, |w| w.session.create_counter(&bytes, 5), observed::created));
            }
            12 => {
                let key = self.keys.sequence();
                let call = Call::Create { key: key.clone(), cell: Cell::Sequence, initial: 1 };
                drop(self.note(call, |w| w.session.create_sequence(key.as_bytes(), 1), observed::created));
            }
            _ => {
                let key = self.keys.sequence();
                drop(self.note(Call::Next { key: key.clone() }, |w| w.session.next(key.as_bytes()), observed::number));
            }
        }
    }

    /// Takes the lock, writes under it, gives it back.
    pub(super) fn locked(&mut self) {
        let key = self.keys.lock();
        let call = Call::TryLock { key: key.clone() };
        let (began, life, attached) = (time(), self.client.attachment().incarnation.0, self.client.stats().reattaches);
        let taken = self.note(call, |w| w.session.try_lock(key.as_bytes()), observed::tried);
        if self.client.stats().reattaches != attached {
            self.taken_as_another(&key, began, life);
        }
        let Ok(Some(guard)) = taken else { return };
        let (now, life) = (time(), self.client.attachment().incarnation.0);
        // From the moment at which the call was made it may have been lost again.
        let since = self.book.lock().calls.iter().rev().find(|c| c.event.client == self.number).map_or(now, |c| c.event.invoked);
        self.book.lock().held.insert((self.number, key.clone(), guard.token()), (since, life));
        for _ in 0..self.rng.random_range(0..3) {
            self.ask(&key, &guard);
            self.fenced(&key, &guard);
        }
        let token = guard.token();
        if self.rng.random_ratio(1, 10) {
            host::sleep(Duration::from_millis(self.rng.random_range(1..8)));
        }
        self.ask(&key, &guard);
        let mut guard = Some(guard);
        let call = Call::Unlock { key: key.clone(), token };
        let result = self.note(call, |_| guard.take().map_or(Ok(()), LockGuard::unlock), observed::unlocked);
        let mut book = self.book.lock();
        // With one server only who breaks a lock ends it, and is a call of the history.
        let is_broken = matches!(result, Err(Error::Fenced { .. })) && !self.asks_guards;
        if result.is_ok() || is_broken {
            book.held.remove(&(self.number, key, token));
        } else {
            book.lost(self.number, &key, token);
        }
    }

    /// What the guard says of itself must be so.
    fn ask(&self, key: &str, guard: &LockGuard) {
        let now = time();
        if self.asks_guards && guard.is_held() {
            self.book.lock().seen_held(self.number, key, guard.token(), now);
        }
    }

    /// The client has attached anew during a call: under its former identity, which is swept, it may have taken the lock.
    fn taken_as_another(&self, key: &str, invoked: u64, life: u64) {
        let until = Some(self.client.attachment().incarnation.0);
        let call = Call::TryLock { key: key.into() };
        let event = Event { client: self.number, invoked, returned: None, call, outcome: Outcome::Unknown };
        self.book.lock().calls.push(Lived { event, life, until });
    }

    fn fenced(&mut self, lock: &str, guard: &LockGuard) {
        let key = self.keys.guarded();
        let stamp = self.book.lock().stamp();
        let value = observed::value(&key, stamp, self.bytes());
        let call = Call::put_fenced(&key, stamp, lock, guard.token());
        let options = WriteOptions::new().fence(guard);
        drop(self.note(call, |w| w.session.put_with(key.as_bytes(), &value, &options), observed::put));
    }

    pub(super) fn lock_state(&mut self) {
        let key = self.keys.lock();
        if self.rng.random_ratio(1, 2) {
            let call = Call::BreakLock { key: key.clone() };
            drop(self.note(call, |w| w.session.break_lock(key.as_bytes()), observed::found));
            return;
        }
        let call = Call::LockState { key: key.clone() };
        drop(self.note(call, |w| w.session.lock_state(key.as_bytes()), observed::lock_state));
    }
}
