//! What a request may touch, and the order in which its words move.

use super::endpoint::{Piece, Progress, QueuePair, Work};
use super::region::place;
use super::state::State;
use crate::fabric::{Access, RemoteAddr, Role, Status};

const LINE: usize = 64;
const WORD: usize = 8;

impl State {
    /// Checks rights and bounds, and plans the words.
    pub(super) fn admit(&mut self, number: u32, peer: u32, serial: u64) -> Result<(), Status> {
        let Some(pair) = self.pairs.get(&number) else { return Ok(()) };
        let Some(target) = self.pairs.get(&peer) else { return Ok(()) };
        let at = usize::try_from(serial.wrapping_sub(pair.first)).unwrap_or(usize::MAX);
        let Some(request) = pair.requests.get(at) else { return Ok(()) };
        let found = match &request.work {
            Work::Read { bytes, from, .. } => self.find(pair, target, *from, *bytes, false)?,
            Work::Write { data, to, .. } => self.find_ring(target, *to, data.len())?,
            Work::FetchAdd { at, .. } | Work::CompareSwap { at, .. } => self.find(pair, target, *at, WORD, true)?,
            Work::Send { .. } => (0, 0),
        };
        let bytes = match &request.work {
            Work::Read { bytes, .. } => *bytes,
            Work::Write { data, .. } => data.len(),
            _ => 0,
        };
        let pieces = self.plan(found.1, bytes);
        if let Some(request) = self.request(number, serial) {
            request.target = found;
            request.pieces = pieces;
            request.progress = Progress::Running;
        }
        Ok(())
    }

    fn find(
        &self,
        pair: &QueuePair,
        target: &QueuePair,
        at: RemoteAddr,
        bytes: usize,
        atomic: bool,
    ) -> Result<(u32, usize), Status> {
        let region = self.regions.get(&at.rkey).filter(|region| region.process == target.process);
        let region = region.filter(|region| region.access != Access::Local).ok_or(Status::RemoteAccess)?;
        let reads = pair.loopback || target.role == Role::ReadTarget;
        if !reads || (atomic && region.access != Access::RemoteReadAtomic) {
            return Err(Status::RemoteAccess);
        }
        place(region, at.rkey, at, bytes).map(|offset| (at.rkey, offset)).ok_or(Status::RemoteAccess)
    }

    fn find_ring(&self, target: &QueuePair, to: RemoteAddr, bytes: usize) -> Result<(u32, usize), Status> {
        if target.staging != Some(to.rkey) {
            return Err(Status::RemoteAccess);
        }
        let region = self.regions.get(&to.rkey).ok_or(Status::RemoteAccess)?;
        place(region, to.rkey, to, bytes).map(|offset| (to.rkey, offset)).ok_or(Status::RemoteAccess)
    }

    /// The words of a transfer: lines in random order, last one first in the list.
    fn plan(&mut self, offset: usize, bytes: usize) -> Vec<Piece> {
        let mut lines: Vec<Vec<Piece>> = Vec::new();
        let mut at = 0;
        while at < bytes {
            let place = offset + at;
            let piece = Piece { at, bytes: (WORD - place % WORD).min(bytes - at) };
            if at == 0 || place.is_multiple_of(LINE) {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push(piece);
            }
            at += piece.bytes;
        }
        self.dice.shuffle(&mut lines);
        lines.into_iter().flatten().collect()
    }
}
