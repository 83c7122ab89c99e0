//! Shapes of production: workloads from published statistics of cache clusters (see `benches/data/README.md`).

use std::time::Duration;

use crate::distribution::{Distribution, Shape};
use crate::mix::{KINDS, Kind, Mix};
use crate::ttl::Ttls;
use crate::value_size::ValueSize;
use crate::workload::{MULTI_GET_DEFAULT, Workload};

const TWITTER: &str = include_str!("../data/twitter-2020mar.csv");
/// Exponents below this are no law but noise: keys are as good as uniform.
const THETA_MIN: f64 = 0.01;
const THETA_MAX: f64 = 9.0;

/// A workload, the length of its keys, and how long its values stay.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Mix, key choice, value length.
    pub workload: Workload,
    /// Bytes of keys.
    pub key_bytes: u64,
    /// How long values stay.
    pub ttls: Ttls,
}

/// Why there is no such preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PresetError {
    /// Not one of those there are.
    #[error("--preset {0}: write twitter:NN, with NN from 1 to 54")]
    Unknown(String),
    /// The statistics leave the cluster out.
    #[error("--preset {name}: {column} of this cluster was not published")]
    Unpublished {
        /// The preset.
        name: String,
        /// What is missing.
        column: &'static str,
    },
}

impl Preset {
    /// The preset of that name.
    pub fn open(name: &str) -> Result<Self, PresetError> {
        let unknown = || PresetError::Unknown(name.into());
        let number: u32 = name.strip_prefix("twitter:").and_then(|number| number.parse().ok()).ok_or_else(unknown)?;
        let row = format!("cluster{number}");
        let lines = TWITTER.lines().map(columns);
        let found = lines.into_iter().find(|columns| columns.first().is_some_and(|first| *first == row));
        Self::of(name, &found.ok_or_else(unknown)?)
    }

    /// From a row: cluster, miss ratio, category, key and value bytes, rate, frequency, one-hit wonders, compulsory
    /// misses, TTLs, two working sets, operations, exponent.
    fn of(name: &str, columns: &[String]) -> Result<Self, PresetError> {
        let missing = |column| PresetError::Unpublished { name: name.into(), column };
        let column = |at: usize| columns.get(at).map_or("", String::as_str);
        let key_bytes = column(3).parse().map_err(|_| missing("the key size"))?;
        let value_bytes = column(4).parse().map_err(|_| missing("the value size"))?;
        let mix = mix(column(12)).ok_or_else(|| missing("the mix of operations"))?;
        // Where no exponent is given, or next to none, keys are taken evenly.
        let theta = column(13).parse().ok().filter(|theta| (THETA_MIN..THETA_MAX).contains(theta));
        let workload = Workload {
            name: name.into(),
            mix,
            distribution: if theta.is_some() { Distribution::Zipfian } else { Distribution::Uniform },
            shape: Shape { theta: theta.unwrap_or(Shape::default().theta), ..Shape::default() },
            records: None,
            operations: None,
            threads: None,
            rate: None,
            seconds: None,
            values: Some(ValueSize::constant(value_bytes)),
            multi_get: MULTI_GET_DEFAULT,
            cells: [None, None],
            ignored: Vec::new(),
        };
        Ok(Self { workload, key_bytes, ttls: Ttls::weighted(&weights(column(9)).filter_map(time).collect::<Vec<_>>()) })
    }
}

/// The columns of a line; those in quotes may hold commas.
fn columns(line: &str) -> Vec<String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c => columns.last_mut().expect("there is always one").push(c),
        }
    }
    columns
}

/// `name:share` pairs, with spaces or commas between them.
fn weights(text: &str) -> impl Iterator<Item = (&str, f64)> {
    let pairs = text.split([',', ' ']).filter_map(|pair| pair.trim().split_once(':'));
    pairs.filter_map(|(name, share)| Some((name, share.parse().ok()?)))
}

fn mix(text: &str) -> Option<Mix> {
    let mut shares = [0.0; KINDS];
    for (name, share) in weights(text) {
        shares[kind(name)? as usize] += share;
    }
    (shares.iter().sum::<f64>() > 0.0).then(|| Mix::new(shares))
}

/// What stands for an operation of memcached.
pub fn kind(name: &str) -> Option<Kind> {
    match name {
        "get" | "gets" => Some(Kind::Read),
        "set" | "replace" | "append" | "prepend" => Some(Kind::Update),
        "add" => Some(Kind::Insert),
        "cas" => Some(Kind::Rmw),
        "incr" | "decr" => Some(Kind::Add),
        "delete" => Some(Kind::Delete),
        _ => None,
    }
}

/// `240s`, `1.8h`, `4d`, with its weight.
fn time((text, weight): (&str, f64)) -> Option<(Duration, f64)> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some((Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?, weight))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn every_published_cluster_is_a_workload() {
        for number in 1..=54 {
            let name = format!("twitter:{number}");
            match Preset::open(&name) {
                Ok(preset) => {
                    assert!(preset.key_bytes >= 10 && !preset.ttls.is_none(), "{name}");
                    assert!(preset.workload.values.is_some(), "{name}");
                }
                Err(error) => {
                    assert_eq!(number, 5, "{error}");
                    assert_eq!(error, PresetError::Unpublished { name, column: "the key size" });
                }
            }
        }
        for wrong in ["twitter:0", "twitter:55", "twitter:", "twitter:x", "meta:1", ""] {
            assert_eq!(Preset::open(wrong).err(), Some(PresetError::Unknown(wrong.into())));
        }
    }

    #[test]
    fn a_cluster_has_its_published_figures() {
        let preset = Preset::open("twitter:4").expect("it was published");
        assert_eq!((preset.key_bytes, preset.workload.values.as_ref().map(ValueSize::max)), (67, Some(2_439)));
        assert_eq!((preset.workload.distribution, preset.workload.shape.theta), (Distribution::Zipfian, 1.1004));
        let mut rng = SmallRng::seed_from_u64(1);
        let reads = (0..10_000).filter(|_| preset.workload.mix.next(&mut rng) == Kind::Read).count();
        assert!((9_200..9_400).contains(&reads), "{reads}");
        let minutes = (0..10_000).filter(|_| preset.ttls.next(&mut rng) == Some(Duration::from_secs(60))).count();
        assert!((3_800..4_300).contains(&minutes), "{minutes}");
        // incr and delete have kinds of their own; no exponent means even.
        let counting = Preset::open("twitter:23").expect("it was published");
        assert!(counting.workload.mix.has(Kind::Add) && counting.workload.mix.has(Kind::Delete));
        assert_eq!(Preset::open("twitter:10").expect("it was published").workload.distribution, Distribution::Uniform);
    }
}
