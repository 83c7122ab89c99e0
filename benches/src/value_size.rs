//! How long values are.

use std::path::Path;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::key_chooser::Zipf;

/// YCSB's constant of Zipf's law for lengths.
const THETA: f64 = 0.99;

/// Lengths of one field; a value has one or more.
#[derive(Debug, Clone)]
pub enum Length {
    /// Always this.
    Constant(u64),
    /// Each between these as often as any other.
    Uniform(u64, u64),
    /// The shortest most often.
    Zipfian(u64, Zipf),
    /// As often as a table says.
    Histogram(Histogram),
}

/// Lengths of values.
#[derive(Debug, Clone)]
pub struct ValueSize {
    fields: u64,
    length: Length,
}

/// A table of lengths: the first line `BlockSize` and bytes, then lines of a block's number and its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    block: u64,
    /// Sums of weights up to each block.
    sums: Vec<u64>,
}

/// Why a table of lengths was refused.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// It cannot be read.
    #[error("{path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// It says something else.
    #[error("{path}, line {line}: expected {wanted}")]
    Malformed {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What belongs there.
        wanted: &'static str,
    },
}

impl ValueSize {
    /// Values of one length.
    pub fn constant(bytes: u64) -> Self {
        Self { fields: 1, length: Length::Constant(bytes) }
    }

    /// Values of so many fields, each of a length of its own.
    pub fn of_fields(fields: u64, length: Length) -> Self {
        Self { fields: fields.max(1), length }
    }

    /// The next value's length.
    #[inline]
    pub fn next(&self, rng: &mut SmallRng) -> usize {
        match self.length {
            Length::Constant(bytes) => (self.fields * bytes) as usize,
            _ => (0..self.fields).map(|_| self.length.next(rng)).sum::<u64>() as usize,
        }
    }

    /// The longest value.
    pub fn max(&self) -> u64 {
        self.fields
            * match &self.length {
                Length::Constant(bytes) => *bytes,
                Length::Uniform(_, max) => *max,
                Length::Zipfian(min, zipf) => min + zipf.count() - 1,
                Length::Histogram(table) => table.block * table.sums.len() as u64,
            }
    }

    /// The length that a comparison with the raw fabric takes.
    pub fn typical(&self) -> u64 {
        self.fields
            * match &self.length {
                Length::Constant(bytes) => *bytes,
                Length::Uniform(min, max) => min + (max - min) / 2,
                Length::Zipfian(min, _) => *min,
                Length::Histogram(table) => table.median(),
            }
    }
}

impl Length {
    fn next(&self, rng: &mut SmallRng) -> u64 {
        match self {
            Self::Constant(bytes) => *bytes,
            Self::Uniform(min, max) => rng.random_range(*min..=*max),
            Self::Zipfian(min, zipf) => min + zipf.next(rng),
            Self::Histogram(table) => table.next(rng),
        }
    }

    /// Zipf's law between two lengths.
    pub fn zipfian(min: u64, max: u64) -> Self {
        Self::Zipfian(min, Zipf::new(max - min + 1, THETA))
    }
}

impl Histogram {
    /// Reads the file that YCSB's `fieldlengthhistogram` names.
    pub fn open(path: &str) -> Result<Self, HistogramError> {
        let text = std::fs::read_to_string(Path::new(path));
        let text = text.map_err(|cause| HistogramError::Unreadable { path: path.into(), cause })?;
        Self::parse(path, &text)
    }

    fn parse(path: &str, text: &str) -> Result<Self, HistogramError> {
        let malformed = |line, wanted| HistogramError::Malformed { path: path.into(), line, wanted };
        let mut lines = text.lines();
        let block = lines.next().and_then(|line| line.strip_prefix("BlockSize")).and_then(|rest| rest.trim().parse().ok());
        let block = block.filter(|block| *block > 0).ok_or_else(|| malformed(1, "`BlockSize` and a size"))?;
        let mut weights: Vec<u64> = Vec::new();
        for (index, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let pair = line.split_once('\t').or_else(|| line.split_once(' '));
            let pair = pair.and_then(|(at, weight)| Some((at.trim().parse::<usize>().ok()?, weight.trim().parse::<u64>().ok()?)));
            let (at, weight) =
                pair.filter(|(at, _)| *at < 1 << 20).ok_or_else(|| malformed(index + 2, "a block and its weight"))?;
            weights.resize(weights.len().max(at + 1), 0);
            weights[at] += weight;
        }
        let mut sum = 0u64;
        let sums: Vec<u64> = weights
            .iter()
            .map(|weight| {
                sum = sum.saturating_add(*weight);
                sum
            })
            .collect();
        if sum == 0 { Err(malformed(2, "a weight above 0")) } else { Ok(Self { block, sums }) }
    }

    fn at(&self, drawn: u64) -> u64 {
        (self.sums.partition_point(|sum| *sum <= drawn) as u64 + 1) * self.block
    }

    fn next(&self, rng: &mut SmallRng) -> u64 {
        self.at(rng.random_range(0..self.total()))
    }

    fn median(&self) -> u64 {
        self.at(self.total() / 2)
    }

    fn total(&self) -> u64 {
        self.sums.last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn draw(size: &ValueSize) -> Vec<usize> {
        let mut rng = SmallRng::seed_from_u64(2);
        (0..20_000).map(|_| size.next(&mut rng)).collect()
    }

    #[test]
    fn lengths_stay_in_their_bounds_and_follow_their_law() {
        assert!(draw(&ValueSize::of_fields(10, Length::Constant(100))).iter().all(|length| *length == 1_000));
        let uniform = ValueSize::of_fields(1, Length::Uniform(10, 19));
        let lengths = draw(&uniform);
        assert!((10..20).all(|length| (1_700..2_300).contains(&lengths.iter().filter(|l| **l == length).count())));
        assert_eq!((uniform.max(), uniform.typical()), (19, 14));
        let zipfian = ValueSize::of_fields(1, Length::zipfian(1, 100));
        let lengths = draw(&zipfian);
        let count = |length| lengths.iter().filter(|l| **l == length).count();
        assert!(count(1) > count(2) && count(2) > count(10) && lengths.iter().all(|l| (1..=100).contains(l)));
        assert_eq!(zipfian.max(), 100);
    }

    #[test]
    fn a_table_of_lengths_reads_as_ycsb_has_it() {
        let table = Histogram::parse("table", "BlockSize\t100\n0\t30\n2\t70\n").expect("it parses");
        let size = ValueSize::of_fields(1, Length::Histogram(table));
        let lengths = draw(&size);
        let short = lengths.iter().filter(|length| **length == 100).count();
        assert!((5_700..6_300).contains(&short) && lengths.iter().all(|length| [100, 300].contains(length)), "{short}");
        assert_eq!((size.max(), size.typical()), (300, 300));
        for wrong in ["", "BlockSize\t0\n0\t1", "BlockSize\t8\n", "BlockSize\t8\nx\t1", "Block\t8\n0\t1"] {
            assert!(Histogram::parse("table", wrong).is_err(), "{wrong:?}");
        }
        assert!(matches!(Histogram::open("/nonexistent"), Err(HistogramError::Unreadable { .. })));
    }
}
