//! Histories of real processes: each writes JSON lines, two a call, and all are merged afterwards.
//!
//! ```text
//!   {"Begin":{"number":7,"client":2,"life":91,"at":1000,"call":{"Get":{"key":"a"}}}}
//!   {"End":{"number":7,"life":91,"at":1400,"outcome":"Absent"}}
//! ```
//!
//! A line goes out in one write before the call is made, and one after, so that of a killed process all is known but the
//! outcome of its last calls. `at` is `CLOCK_MONOTONIC`, which all processes of a machine share, in nanoseconds.

use super::event::{Call, Event, Outcome};
use super::lives::Lived;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, BufRead, Write};

/// Now, as the lines tell it.
#[must_use]
pub fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[derive(Serialize, Deserialize)]
enum Line {
    Begin { number: u64, client: u32, life: u64, at: u64, call: Call },
    End { number: u64, life: u64, at: u64, outcome: Outcome },
}

/// Writes one client's lines.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    client: u32,
    next: u64,
    line: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// For this client. `to` should not buffer: what is not written when the process is killed never happened.
    pub const fn new(to: W, client: u32) -> Self {
        Self { to, client, next: 0, line: Vec::new() }
    }

    /// A call begins, while the server is in this life. Returns its number.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub fn begin(&mut self, life: u64, call: Call) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        self.write(&Line::Begin { number, client: self.client, life, at: now(), call })?;
        Ok(number)
    }

    /// A call has ended, while the server is in this life.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub fn end(&mut self, number: u64, life: u64, outcome: Outcome) -> io::Result<()> {
        let at = now();
        self.write(&Line::End { number, life, at, outcome })
    }

    /// Something is noticed now that has happened since `from`, while the server was in this life.
    ///
    /// # Errors
    /// When the lines cannot be written.
    pub fn noticed(&mut self, life: u64, from: u64, call: Call) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        self.write(&Line::Begin { number, client: self.client, life, at: from, call })?;
        self.end(number, life, Outcome::Noted)
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.to.write_all(&self.line)
    }
}

/// Reads one client's lines. A last line that is cut short is what a killed process leaves; it is left out.
///
/// # Errors
/// When a line cannot be read, or does not fit those before it.
pub fn read(from: impl BufRead) -> io::Result<Vec<Lived>> {
    let (mut events, mut open) = (Vec::new(), HashMap::new());
    let mut lines = from.split(b'\n').peekable();
    while let Some(line) = lines.next() {
        let line = match serde_json::from_slice(&line?) {
            Ok(line) => line,
            Err(error) if error.is_eof() && lines.peek().is_none() => break,
            Err(error) => return Err(error.into()),
        };
        match line {
            Line::Begin { number, client, life, at, call } => {
                open.insert(number, events.len());
                let event = Event { client, invoked: at, returned: None, call, outcome: Outcome::Unknown };
                events.push(Lived { event, life, until: None });
            }
            Line::End { number, life, at, outcome } => {
                let Some(lived) = open.remove(&number).and_then(|place: usize| events.get_mut(place)) else {
                    return Err(io::Error::other(format!("call {number} ends and was not begun")));
                };
                lived.event.returned = Some(at);
                lived.event.outcome = outcome;
                lived.until = Some(life);
            }
        }
    }
    Ok(events)
}
