//! Traces in the published seven-column format: timestamp in seconds, key, key size, value size, client, operation, TTL
//! in seconds (0 = for ever); plain or compressed with zstd.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::time::Duration;

use crate::mix::Kind;
use crate::preset::kind;

/// What a file begins with that zstd has compressed.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Memory that a compressed trace may ask for, as a power of two: the published ones were compressed with long windows.
const WINDOW_LOG_MAX: u32 = 31;
/// Longer lines are no lines of a trace.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// One request of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Seconds on the trace's clock.
    pub second: u64,
    /// The key, made as long as the trace says it was.
    pub key: Vec<u8>,
    /// Bytes of the value.
    pub value_bytes: usize,
    /// What is asked for.
    pub kind: Kind,
    /// How long the value stays.
    pub ttl: Option<Duration>,
}

/// Reads a trace line by line.
pub struct Trace {
    from: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    /// Lines that were none of a trace.
    pub malformed: u64,
}

impl Trace {
    /// Opens a file, whichever of the two it is.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let mut file = File::open(path)?;
        let mut magic = Vec::new();
        file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut magic)?;
        let is_compressed = magic == ZSTD;
        let whole = Cursor::new(magic).chain(file);
        if !is_compressed {
            return Ok(Self::of(BufReader::with_capacity(1 << 18, whole)));
        }
        let mut decoder = zstd::Decoder::new(whole)?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Self::of(BufReader::with_capacity(1 << 18, decoder)))
    }

    fn of(from: impl BufRead + Send + 'static) -> Self {
        Self { from: Box::new(from), line: Vec::new(), malformed: 0 }
    }

    /// The next request; lines that are none are counted and left out.
    pub fn next(&mut self) -> std::io::Result<Option<Entry>> {
        loop {
            self.line.clear();
            if self.from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            match std::str::from_utf8(&self.line).ok().map(str::trim_end) {
                Some("") => {}
                Some(line) => match parse(line) {
                    Some(entry) => return Ok(Some(entry)),
                    None => self.malformed += 1,
                },
                None => self.malformed += 1,
            }
        }
    }
}

fn parse(line: &str) -> Option<Entry> {
    // The key is whatever stands between the first comma and the five columns at the end.
    let (second, rest) = line.split_once(',')?;
    let mut columns = rest.rsplitn(6, ',');
    let [ttl, operation, _client, value_bytes, key_bytes, key] = std::array::from_fn(|_| columns.next());
    let key_bytes: usize = key_bytes?.trim().parse().ok()?;
    let mut key = key?.as_bytes().to_vec();
    if key.is_empty() || key_bytes > 1 << 12 {
        return None;
    }
    // Anonymizing shortened some keys.
    key.resize(key.len().max(key_bytes), b'.');
    let ttl = ttl?.trim().parse::<u64>().ok()?;
    Some(Entry {
        second: second.trim().parse().ok()?,
        key,
        value_bytes: value_bytes?.trim().parse().ok()?,
        kind: kind(operation?.trim())?,
        ttl: (ttl > 0).then(|| Duration::from_secs(ttl)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n\n0,yDqF:3q:1AJrrJ1nnCJKKrnGx1A,27,27,5,set,600\nnonsense\n\
                        7,with,comma,20,0,5,incr,0\n8,k,1,1,1,flush,0\n";

    fn all(mut trace: Trace) -> (Vec<Entry>, u64) {
        let mut entries = Vec::new();
        while let Some(entry) = trace.next().expect("it can be read") {
            entries.push(entry);
        }
        (entries, trace.malformed)
    }

    #[test]
    fn a_trace_reads_the_same_plain_and_compressed() {
        let folder = std::env::temp_dir().join(format!("kv-bench-trace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (plain, packed) = (folder.join("plain"), folder.join("packed"));
        std::fs::write(&plain, TEXT).expect("it can be written");
        std::fs::write(&packed, zstd::encode_all(TEXT.as_bytes(), 3).expect("it can be packed")).expect("it can be written");
        let [one, two] = [&plain, &packed].map(|path| all(Trace::open(path).expect("it opens")));
        std::fs::remove_dir_all(&folder).expect("it is ours");
        assert_eq!(one, two);
        let (entries, malformed) = one;
        assert_eq!((entries.len(), malformed), (3, 2));
        assert_eq!((entries[0].kind, entries[0].key.len(), entries[0].value_bytes), (Kind::Read, 17, 213));
        assert_eq!((entries[1].kind, entries[1].ttl), (Kind::Update, Some(Duration::from_secs(600))));
        assert_eq!((entries[2].kind, entries[2].key.as_slice(), entries[2].second), (Kind::Add, &b"with,comma.........."[..], 7));
    }
}
