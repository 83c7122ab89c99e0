//! Sizes and durations with units, as people write them: `256MiB`, `10s`.

use std::time::Duration;

/// Why a size or duration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number in front.
    #[error("`{0}` does not begin with a number")]
    NoNumber(String),
    /// A unit that is not known.
    #[error("unknown unit `{unit}` in `{text}`; use one of {known}")]
    UnknownUnit {
        /// What stood behind the number.
        unit: String,
        /// The whole text.
        text: String,
        /// The units that are known.
        known: &'static str,
    },
    /// Larger than 64 bits can say.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

const SIZES: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

const DURATIONS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

fn parse(text: &str, table: &[(&str, u64)], known: &'static str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim();
    let scale = table
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, scale)| *scale)
        .ok_or_else(|| UnitError::UnknownUnit { unit: unit.into(), text: text.into(), known });
    // The missing number is the plainer complaint, so it comes first.
    if number.is_empty() || number == "." {
        return Err(UnitError::NoNumber(text.into()));
    }
    let scale = scale?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(|| UnitError::TooLarge(text.into()));
    }
    let part: f64 = number.parse().map_err(|_| UnitError::NoNumber(text.into()))?;
    let product = part * scale as f64;
    if product >= u64::MAX as f64 {
        return Err(UnitError::TooLarge(text.into()));
    }
    Ok(product.round() as u64)
}

/// A size in bytes: `64`, `4KiB`, `256MiB`, `1.5GiB`, `2G` (binary), `100MB` (decimal).
///
/// # Errors
/// When the number or the unit cannot be understood, or the size exceeds 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    parse(text, SIZES, "B, KiB, MiB, GiB, TiB (or KB, MB, GB, TB)")
}

/// A duration: `250us`, `10ms`, `3s`, `5m`, `1h`, `2d`. A bare `0` is zero.
///
/// # Errors
/// When the number or the unit cannot be understood, or the duration exceeds 64 bits of nanoseconds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    parse(text, DURATIONS, "ns, us, ms, s, m, h, d").map(Duration::from_nanos)
}

/// `1536` → `1.5 KiB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const NAMES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < NAMES.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value.fract() < 0.05 { format!("{value:.0} {}", NAMES[unit]) } else { format!("{value:.1} {}", NAMES[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_read_as_written() {
        assert_eq!(parse_bytes("64"), Ok(64));
        assert_eq!(parse_bytes("256MiB"), Ok(256 << 20));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("2GB"), Ok(2_000_000_000));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert!(matches!(parse_bytes("lots"), Err(UnitError::NoNumber(_))));
        assert!(matches!(parse_bytes("5 lots"), Err(UnitError::UnknownUnit { .. })));
        assert!(matches!(parse_bytes("MiB"), Err(UnitError::NoNumber(_))));
        assert!(matches!(parse_bytes("99999999999TiB"), Err(UnitError::TooLarge(_))));
        assert!(matches!(parse_duration("10"), Err(UnitError::UnknownUnit { .. })));
        assert!(parse_duration("-1s").is_err());
    }
}
