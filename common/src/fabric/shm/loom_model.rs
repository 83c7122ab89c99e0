//! The rings and the sleeper word under every order that the memory model allows (bounded by loom).
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p sidewire-common --no-default-features --release loom_model
//! ```
//!
//! It runs the code itself; only the shared words are loom's.

use super::bell::{PeerSleep, Sleeper};
use super::ring::{ImmediateReceiver, ImmediateSender, Words};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Notify};
use loom::thread;

/// Shared words, ordered as `View` orders them.
#[derive(Clone)]
struct Shared(Arc<Vec<AtomicU64>>);

impl Shared {
    fn new(words: usize) -> Self {
        Self(Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Words for Shared {
    fn load_acquire(&self, index: usize) -> u64 {
        let value = self.0[index].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        value
    }

    fn store_release(&self, index: usize, value: u64) {
        self.0[index].store(value, Ordering::Release);
    }

    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Entries arrive once, in order, with the bytes that they announce, over a whole lap and into the next; the
/// bytes are not overwritten before the entry that announced them was taken.
#[test]
fn entries_and_their_bytes_arrive() {
    explore(3, || {
        let (ring, taken, bytes) = (Shared::new(2), Shared::new(1), Shared::new(2));
        let mut sender = ImmediateSender::new(ring.clone(), taken.clone(), 2);
        let mut receiver = ImmediateReceiver::new(ring, taken, 2);
        let staged = bytes.clone();
        let producer = thread::spawn(move || {
            for entry in 0..3 {
                while !sender.credit.has(1).unwrap() {
                    thread::yield_now();
                }
                staged.0[entry % 2].store(100 + entry as u64, Ordering::Relaxed);
                sender.push(entry as u32, 8);
            }
        });
        for entry in 0..3 {
            loop {
                if let Some(arrived) = receiver.next() {
                    assert_eq!(arrived, (entry as u32, 8));
                    break;
                }
                thread::yield_now();
            }
            assert_eq!(bytes.0[entry % 2].load(Ordering::Relaxed), 100 + entry as u64);
            receiver.release();
        }
        producer.join().unwrap();
    });
}

/// A consumer that sleeps whenever it finds nothing gets every entry. A lost wake-up is a deadlock here.
#[test]
fn no_wake_up_is_lost() {
    explore(3, || {
        let (ring, taken, word) = (Shared::new(2), Shared::new(1), Shared::new(1));
        let mut sender = ImmediateSender::new(ring.clone(), taken.clone(), 2);
        let mut receiver = ImmediateReceiver::new(ring, taken, 2);
        let (mut sleeper, mut peer) = (Sleeper::new(word.clone()), PeerSleep::new(word));
        let bell = Arc::new(Notify::new());
        let rings = Arc::clone(&bell);
        let producer = thread::spawn(move || {
            for entry in 0..2 {
                sender.push(entry, 0);
                if peer.must_ring() {
                    rings.notify();
                }
            }
        });
        let mut expected = 0;
        while expected < 2 {
            if let Some((entry, _)) = receiver.next() {
                assert_eq!(entry, expected);
                expected += 1;
                continue;
            }
            sleeper.arm();
            Shared::full_fence();
            if !receiver.waits() {
                bell.wait();
            }
            sleeper.disarm();
        }
        producer.join().unwrap();
    });
}
