//! Looking ahead: requests that came together are known before the first of them is carried out. What each will touch is
//! asked for early, so that the worker waits for memory once for all of them rather than twice for each.
//!
//! All of it is a hint. Bytes of a ring are read here as they are, checked by nobody, and looked at anew when the
//! request's turn comes.

use super::poll_loop::Worker;
use super::staging::Message;
use sidewire_common::fabric::{Completion, Event};
use sidewire_common::key::KeyHash;
use sidewire_common::limits::MESSAGE_CREDITS;

/// Most requests looked at in one turn: what they touch stays in the nearest cache until it is used.
const AHEAD_MAX: usize = MESSAGE_CREDITS as usize;

impl Worker {
    /// Asks for what the requests of these completions will touch: first the bucket of each key, then the record that a
    /// slot there names. One request alone is not worth it.
    pub(super) fn look_ahead(&mut self, completions: &[Completion]) {
        let mut ahead = std::mem::take(&mut self.scratch.ahead);
        ahead.clear();
        let seed = self.store.hash_seed();
        for completion in completions {
            let Event::Written { imm, bytes } = completion.event else { continue };
            let Some(connection) = self.connections.writers.get(&completion.endpoint) else { continue };
            let Ok(message) = Message::new(&connection.ring, imm, bytes) else { continue };
            let alone = completions.len() == 1;
            for key in message.keys_ahead(&connection.ring, alone).take(AHEAD_MAX - ahead.len()) {
                self.scratch.key.resize(key.len(), 0);
                if connection.ring.copy_out(key.start, &mut self.scratch.key).is_ok() {
                    ahead.push(KeyHash::of(&self.scratch.key, seed));
                }
            }
        }
        ahead.retain(|&hash| self.index.owns(hash));
        ahead.iter().for_each(|&hash| self.index.fetch_bucket(&mut self.memory, hash));
        ahead.iter().for_each(|&hash| self.index.fetch_record(&mut self.memory, hash));
        self.scratch.ahead = ahead;
    }
}
