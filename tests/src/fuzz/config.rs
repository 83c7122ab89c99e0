//! The server's configuration file.

use kv_server::config::{Config, ConfigError, Given, Machine};
use sidewire_common::limits::{
    CHUNKS_MAX, CLIENTS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, STAGING_BYTES_MAX, STAGING_BYTES_MIN, WORKERS_MAX,
};
use std::net::SocketAddr;

/// What stands in such files.
pub const WORDS: &[&[u8]] = &[
    b"memory = '64MiB'\n",
    b"chunk = '8MiB'\n",
    b"workers = 3\n",
    b"lease = '10s'\n",
    b"staging = '64KiB'\n",
    b"staging_total = '1GiB'\n",
    b"clients_max = 9\n",
    b"cells = 77\n",
    b"spin = '1us'\n",
    b"pin = '0,3'\n",
    b"log = 'warn'\n",
    b"hugepages = 'off'\n",
    b"fabric = 'verbs'\n",
    b"device = ''\n",
    b"listen = '[::1]:0'\n",
    b"log_format = 'json'\n",
    b"auto",
    b"GiB",
    b"TiB",
    b"18446744073709551615",
    b"-1",
    b"1e300",
    b"0.5",
    b"0",
    b"\"\"\"",
    b"[a]\n",
    b"{}",
];

const MACHINE: Machine =
    Machine { cores: 4, memory_bytes: 16 << 30, available_bytes: 12 << 30, hugepages_free: 0, hugepages_total: 0 };

/// Feeds the file's parser and the check of every value.
///
/// # Panics
/// When a configuration is accepted that exceeds a limit, or does not survive being printed.
pub fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let given = match Given::parse(text) {
        Ok(given) => given,
        Err(reason) => {
            assert!(!reason.is_empty());
            return false;
        }
    };
    // Anything else would be looked up as a host's name.
    if given.listen.as_ref().is_some_and(|listen| listen.parse::<SocketAddr>().is_err()) {
        return false;
    }
    match Config::check(&Given::default(), &given, "fuzz.toml", &MACHINE) {
        Ok(config) => {
            is_within_limits(&config);
            let printed = Given::parse(&config.to_toml()).expect("what is printed is a file");
            let again = Config::check(&Given::default(), &printed, "printed", &MACHINE).expect("of the same meaning");
            assert_eq!(again, config);
            true
        }
        Err(ConfigError::Value { field, value, origin, expected }) => {
            assert!(!field.is_empty() && !expected.is_empty() && !origin.is_empty(), "{field} {value}");
            false
        }
        Err(other) => panic!("a value was refused as {other}"),
    }
}

fn is_within_limits(config: &Config) {
    assert!(config.memory_bytes <= MACHINE.memory_bytes);
    assert!((STAGING_BYTES_MIN as u64..=STAGING_BYTES_MAX as u64).contains(&config.staging_bytes));
    assert!((u128::from(LEASE_MS_MIN)..=u128::from(LEASE_MS_MAX)).contains(&config.lease.as_millis()));
    assert!((1..=WORKERS_MAX).contains(&config.worker_count(&MACHINE)));
    assert!((1..=CLIENTS_MAX).contains(&config.clients_max));
    assert!(config.staging_total(&MACHINE) >= config.staging_bytes);
    let settings = config.settings(&MACHINE);
    if let Some(chunk) = settings.chunk_bytes {
        assert!(chunk * 2 <= settings.memory_bytes && settings.memory_bytes / chunk <= u64::from(CHUNKS_MAX));
    }
    assert!(!config.log.is_empty());
}
