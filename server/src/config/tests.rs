//! Each wrong value is refused by its field, its text, where it came from and what it may be.

use super::*;

const MACHINE: Machine =
    Machine { cores: 4, memory_bytes: 16 << 30, available_bytes: 12 << 30, hugepages_free: 0, hugepages_total: 0 };

fn with(file: &str, flags: &str) -> Result<Config, ConfigError> {
    Config::check(&Given::parse(flags).unwrap(), &Given::parse(file).unwrap(), "kv-server.toml", &MACHINE)
}

fn refusal(file: &str) -> String {
    with(file, "").unwrap_err().to_string()
}

#[test]
fn the_shipped_file_says_exactly_the_defaults() {
    let shipped = include_str!("../../../deploy/config/kv-server.toml");
    let given = Given::parse(shipped).unwrap();
    for field in Given::FIELDS {
        assert_eq!(given.of(field).map(String::as_str), Some(Given::default_of(field)), "{field}");
    }
    assert_eq!(with(shipped, "").unwrap(), with("", "").unwrap());
}

#[test]
fn each_line_of_the_shipped_file_has_its_comment() {
    let shipped = include_str!("../../../deploy/config/kv-server.toml");
    let mut commented = false;
    for line in shipped.lines() {
        let is_setting = line.contains('=') && !line.starts_with('#');
        assert!(!is_setting || commented, "no comment above `{line}`");
        commented = line.starts_with('#');
    }
}

#[test]
fn what_is_printed_means_the_same() {
    let unusual = "listen = '[::1]:0'\nfabric = 'verbs'\ndevice = 'rxe0'\nmemory = '6GiB'\nchunk = '66MiB'\nworkers = 3\n\
                   lease = '1500ms'\nhugepages = 'require'\ncells = 77\nstaging = '68KiB'\nstaging_total = '2GiB'\n\
                   clients_max = 9\nspin = '1us'\npin = '3,1'\nlog = 'warn,kv_server::lease=debug'\nlog_format = 'json'";
    let member = "etcd = 'https://h:1,https://[::1]:2'\ncluster = 'c-1'\nnode = 'n.2'\nreplicas = 3\nweight = 7\n\
                  advertise = '10.0.0.1:7400'\netcd_ca = 'a'\netcd_cert = 'b'\netcd_key = 'c'\netcd_user = 'd'\n\
                  etcd_password_file = 'e'";
    for text in ["", unusual, member, "map = 'm.toml'\nnode = 'a'"] {
        let config = with(text, "").unwrap();
        assert_eq!(with(&config.to_toml(), "").unwrap(), config);
    }
    assert_ne!(with(unusual, "").unwrap(), with("", "").unwrap());
}

#[test]
fn the_shipped_cluster_is_one() {
    let large = Machine { memory_bytes: 128 << 30, ..MACHINE };
    let files = [
        include_str!("../../../deploy/config/cluster/a.toml"),
        include_str!("../../../deploy/config/cluster/b.toml"),
        include_str!("../../../deploy/config/cluster/c.toml"),
    ];
    let read = |text| Config::check(&Given::default(), &Given::parse(text).unwrap(), "file", &large).unwrap();
    let [a, b, c] = files.map(read);
    assert_eq!([&a, &b, &c].map(|config| config.cluster.node.as_str()), ["a", "b", "c"]);
    assert!(a.listen != b.listen && b.listen != c.listen);
    for other in [b, c] {
        let node = a.cluster.node.clone();
        assert_eq!(a.cluster, ClusterConfig { node, ..other.cluster });
    }
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let config = with("lease = '10s'\ncells = 5", "lease = '20s'").unwrap();
    assert_eq!((config.lease, config.cells, config.clients_max), (Duration::from_secs(20), 5, 1000));
    assert!(refusal("lease = '1ms'").contains("(from kv-server.toml)"));
    assert!(with("", "clients_max = 0").unwrap_err().to_string().contains("(from --clients-max)"));
}

#[test]
fn each_wrong_value_is_named_with_its_limit() {
    let cases = [
        ("listen = 'nowhere'", "listen is `nowhere`", "ADDRESS:PORT"),
        ("listen = '127.0.0.1'", "listen is", "ADDRESS:PORT"),
        ("listen = '127.0.0.1:70000'", "listen is", "ADDRESS:PORT"),
        ("fabric = 'tcp'", "fabric is `tcp`", "auto, verbs and shm"),
        ("fabric = 'shm'\ndevice = 'mlx5_0'", "device is `mlx5_0`", "no meaning with fabric shm"),
        ("memory = '1MiB'", "memory is `1MiB`", "at least 32 MiB"),
        ("memory = '2TiB'", "memory is `2TiB`", "this machine has 16 GiB"),
        ("memory = 'lots'", "memory is `lots`", "begin with a number"),
        ("memory = '5 parsecs'", "memory is", "unknown unit `parsecs`"),
        ("memory = -1", "memory is `-1`", "begin with a number"),
        ("chunk = '1MiB'", "chunk is `1MiB`", "at least 8 MiB"),
        ("chunk = '8GiB'", "chunk is `8GiB`", "at most 4 GiB"),
        ("chunk = '9MiB'", "chunk is `9MiB`", "multiple of 2 MiB"),
        ("chunk = '1GiB'", "chunk is `1GiB`", "half of the memory of 1 GiB"),
        ("workers = 0", "workers is `0`", "between 1 and 64"),
        ("workers = 65", "workers is `65`", "between 1 and 64"),
        ("workers = 'many'", "workers is `many`", "between 1 and 64"),
        ("lease = '299ms'", "lease is `299ms`", "between 300ms and 600s"),
        ("lease = '11m'", "lease is `11m`", "between 300ms and 600s"),
        ("lease = 3", "lease is `3`", "unknown unit"),
        ("hugepages = 'yes'", "hugepages is `yes`", "auto, require, off"),
        ("cells = 0", "cells is `0`", "between 1 and 67108864"),
        ("cells = 99999999999", "cells is `99999999999`", "between 1 and 67108864"),
        ("staging = '1KiB'", "staging is `1KiB`", "at least 64 KiB"),
        ("staging = '1GiB'", "staging is `1GiB`", "at most 256 MiB"),
        ("staging = '65537'", "staging is `65537`", "multiple of 4 KiB"),
        ("staging_total = '64KiB'", "staging_total is `64KiB`", "at least 1 MiB"),
        ("clients_max = 1048575", "clients_max is `1048575`", "between 1 and 1048574"),
        ("spin = '2s'", "spin is `2s`", "between 0ns and 1s"),
        ("pin = '0,9'", "pin is `0,9`", "no core 9"),
        ("pin = 'left'", "pin is `left`", "list of cores"),
        ("etcd = 'h:1'\nnode = 'a'", "etcd is `h:1`", "http://HOST:PORT"),
        ("etcd = 'http://a:1,https://b:1'\nnode = 'a'", "etcd is", "1 to 16"),
        ("etcd = 'http://h:1'", "node is ``", "--node NAME"),
        ("node = 'a'", "node is `a`", "--etcd or --map"),
        ("node = 'A'\nmap = 'm'", "node is `A`", "a-z"),
        ("cluster = ''", "cluster is ``", "1 to 63"),
        ("etcd = 'http://h:1'\nmap = 'm'\nnode = 'a'", "map is `m`", "leave out --map or --etcd"),
        ("etcd = 'http://h:1'\nnode = 'a'\netcd_ca = 'f'", "etcd_ca is `f`", "https://"),
        ("etcd = 'https://h:1'\nnode = 'a'\netcd_cert = 'f'", "etcd_cert is `f`", "--etcd-key"),
        ("etcd = 'https://h:1'\nnode = 'a'\netcd_key = 'f'", "etcd_key is `f`", "--etcd-cert"),
        ("etcd = 'http://h:1'\nnode = 'a'\netcd_user = 'u'", "etcd_user is `u`", "--etcd-password-file"),
        ("etcd = 'http://h:1'\nnode = 'a'\netcd_password_file = 'p'", "etcd_password_file is `p`", "--etcd-user"),
        ("replicas = 4", "replicas is `4`", "between 1 and 3"),
        ("weight = 0", "weight is `0`", "between 1 and 1000"),
        ("advertise = '0.0.0.0:7400'", "advertise is `0.0.0.0:7400`", "others can reach"),
        ("log = 'loud'", "log is `loud`", "trace"),
        ("log = '=info'", "log is `=info`", "trace"),
        ("log_format = 'xml'", "log_format is `xml`", "text, json"),
    ];
    for (file, what, limit) in cases {
        let refusal = refusal(file);
        assert!(refusal.contains(what) && refusal.contains(limit), "{file}: {refusal}");
    }
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let reason = Given::parse("lease = '3s'\nleese = '3s'").unwrap_err();
    assert!(reason.contains("line 2") && reason.contains("leese") && reason.contains("lease"), "{reason}");
    assert!(Given::parse("lease = true").unwrap_err().contains("a string such as"));
}

#[test]
fn automatic_values_follow_the_machine() {
    let config = with("", "").unwrap();
    assert_eq!(config.worker_count(&MACHINE), 2);
    assert_eq!(config.worker_count(&Machine { cores: 1, ..MACHINE }), 1);
    assert_eq!(config.worker_count(&Machine { cores: 400, ..MACHINE }), WORKERS_AUTO_MAX);
    assert_eq!(config.staging_total(&MACHINE), 4 << 30);
}
