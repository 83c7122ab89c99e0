//! A long value in parts: each lies in a buffer of its own, behind room for the header of the request that carries it.

use sidewire_common::layout::request::HEADER_BYTES;
use sidewire_common::limits::CHUNK_REQUEST_BYTES;
use sidewire_common::memory::{Buffer, Buffers, BuffersError};

/// The parts of one value.
pub(crate) struct Parts {
    value_len: usize,
    part_bytes: usize,
    /// `None` while the fabric has it.
    parts: Vec<Option<Buffer>>,
}

impl Parts {
    /// Copies a value into buffers, for a server whose requests carry at most `request_value_max` bytes of value.
    ///
    /// # Errors
    /// When there are not enough buffers.
    pub fn cut(value: &[u8], request_value_max: usize, buffers: &mut Buffers) -> Result<Self, BuffersError> {
        let part_bytes = request_value_max.clamp(1, CHUNK_REQUEST_BYTES - HEADER_BYTES);
        let part = |bytes: &[u8]| {
            let mut buffer = buffers.take(HEADER_BYTES + bytes.len())?;
            buffer.bytes_mut()[HEADER_BYTES..HEADER_BYTES + bytes.len()].copy_from_slice(bytes);
            Ok(Some(buffer))
        };
        let parts = value.chunks(part_bytes).map(part).collect::<Result<Vec<_>, BuffersError>>()?;
        Ok(Self { value_len: value.len(), part_bytes, parts })
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// How many parts there are.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Bytes of one part.
    pub fn bytes_of(&self, index: usize) -> usize {
        self.part_bytes.min(self.value_len - index * self.part_bytes)
    }

    /// Takes a part for sending it.
    pub fn take(&mut self, index: usize) -> Option<Buffer> {
        self.parts.get_mut(index)?.take()
    }

    /// It comes back.
    pub fn put_back(&mut self, index: usize, buffer: Buffer) {
        if let Some(part) = self.parts.get_mut(index) {
            *part = Some(buffer);
        }
    }

    /// Whether the fabric has none of them.
    pub fn are_back(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }

    /// The whole value, if all parts are back.
    pub fn value(&self) -> Option<Vec<u8>> {
        let mut value = Vec::with_capacity(self.value_len);
        for (index, part) in self.parts.iter().enumerate() {
            value.extend_from_slice(&part.as_ref()?.bytes()[HEADER_BYTES..HEADER_BYTES + self.bytes_of(index)]);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidewire_common::fabric::shm;
    use std::sync::Arc;

    #[test]
    fn a_value_comes_back_from_its_parts() {
        let mut buffers = Buffers::new(Arc::new(shm::Guest::new()));
        for length in [1_usize, 99, 100, 101, 250, 300] {
            let value: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let mut parts = Parts::cut(&value, 100, &mut buffers).unwrap();
            assert_eq!((parts.count(), parts.value_len()), (length.div_ceil(100), length));
            assert_eq!((0..parts.count()).map(|index| parts.bytes_of(index)).sum::<usize>(), length);
            assert_eq!(parts.value().as_ref(), Some(&value));
            let part = parts.take(0).unwrap();
            assert!(!parts.are_back() && parts.take(0).is_none() && parts.value().is_none());
            parts.put_back(0, part);
            assert!(parts.are_back());
        }
    }
}
