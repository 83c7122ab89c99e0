//! Values of flags.

use std::time::Duration;

use sidewire_common::fabric::FabricKind;
use sidewire_common::units::{parse_bytes, parse_duration};

use super::{FabricWish, SweepRates, Warmup};

/// A size: `64`, `1KiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// A time: `10s`, `500ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// `1000`, `1_000`, `100k`, `5M`: counts are decimal.
pub fn count(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let (digits, scale) = match plain.as_bytes().last() {
        Some(b'k' | b'K') => (&plain[..plain.len() - 1], 1_000),
        Some(b'm' | b'M') => (&plain[..plain.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&plain[..plain.len() - 1], 1_000_000_000),
        _ => (plain.as_str(), 1),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a count; write 1000, 100k or 5M"))?;
    match number.checked_mul(scale) {
        Some(0) => Err("a count is at least 1".into()),
        Some(count) => Ok(count),
        None => Err(format!("`{text}` is too large")),
    }
}

/// What runs before the measured window.
pub fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "sweep" {
        return Ok(Warmup::Sweep);
    }
    if text == "0" || text == "off" {
        return Ok(Warmup::Time(Duration::ZERO));
    }
    // `5m` is five minutes; `5M` is five million operations.
    if text.ends_with(['k', 'K', 'M', 'g', 'G']) || text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return count(text).map(Warmup::Operations);
    }
    duration(text).map(Warmup::Time)
}

/// A count of entries, or `off`.
pub fn location_cache(text: &str) -> Result<u64, String> {
    if text == "off" || text == "0" { Ok(0) } else { count(text) }
}

/// `on` or `off`.
pub fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".into()),
    }
}

/// An exponent of Zipf's law.
pub fn theta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if theta > 0.0 && theta < 10.0 => Ok(theta),
        _ => Err("write a number above 0 and below 10".into()),
    }
}

/// A fabric's name.
pub fn fabric(text: &str) -> Result<FabricWish, String> {
    match text {
        "auto" => Ok(FabricWish(None)),
        "verbs" => Ok(FabricWish(Some(FabricKind::Verbs))),
        "shm" => Ok(FabricWish(Some(FabricKind::Shm))),
        _ => Err("write auto, verbs or shm".into()),
    }
}

/// A number of operations per second.
pub fn rate(text: &str) -> Result<f64, String> {
    count(text).map(|rate| rate as f64).map_err(|error| error.replace("a count", "a rate"))
}

/// How many times faster than a trace's own clock.
pub fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed <= 1e6 => Ok(speed),
        _ => Err("write a number above 0".into()),
    }
}

/// `auto`, or rates with commas between them.
pub fn sweep(text: &str) -> Result<SweepRates, String> {
    if text == "auto" {
        return Ok(SweepRates::Auto);
    }
    let mut rates = text.split(',').map(|one| rate(one.trim())).collect::<Result<Vec<_>, _>>()?;
    rates.sort_by(f64::total_cmp);
    Ok(SweepRates::These(rates))
}

/// `name=value`.
pub fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().into(), value.trim().into())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

/// `2/4`: this process among those that work together.
pub fn part(text: &str) -> Result<(u16, u16), String> {
    let pair = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    pair.filter(|(index, of): &(u16, u16)| index < of).ok_or_else(|| "write INDEX/COUNT".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        super::super::Cli::command().debug_assert();
    }

    #[test]
    fn counts_and_warm_ups_read_as_written() {
        assert_eq!((count("5M"), count("100k"), count("1_000")), (Ok(5_000_000), Ok(100_000), Ok(1_000)));
        assert!(count("0").is_err() && count("").is_err() && count("-1").is_err() && count("many").is_err());
        assert_eq!(warmup("5m"), Ok(Warmup::Time(Duration::from_secs(300))));
        assert_eq!(warmup("5M"), Ok(Warmup::Operations(5_000_000)));
        assert_eq!((warmup("sweep"), warmup("0")), (Ok(Warmup::Sweep), Ok(Warmup::Time(Duration::ZERO))));
        assert_eq!((location_cache("off"), location_cache("4k")), (Ok(0), Ok(4_000)));
    }

    #[test]
    fn rates_properties_and_parts_read_as_written() {
        assert_eq!((rate("50k"), rate("1M")), (Ok(50_000.0), Ok(1_000_000.0)));
        assert_eq!(sweep("auto"), Ok(SweepRates::Auto));
        assert_eq!(sweep("20k, 5k"), Ok(SweepRates::These(vec![5_000.0, 20_000.0])));
        assert!(sweep("").is_err() && sweep("5k,,").is_err() && rate("0").is_err());
        assert_eq!(property("fieldcount = 1"), Ok(("fieldcount".into(), "1".into())));
        assert!(property("fieldcount").is_err() && property("=1").is_err());
        assert_eq!(part("1/2"), Ok((1, 2)));
        assert!(part("2/2").is_err() && part("1").is_err());
    }
}
