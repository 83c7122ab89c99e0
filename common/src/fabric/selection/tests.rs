//! Tables as hosts have them, good and bad.

use super::super::gid_table::{Framing, of_address};
use super::*;

struct Fake {
    name: &'static str,
    iwarp: bool,
    table: Result<DeviceTable, &'static str>,
}

impl Candidate for Fake {
    type Opened = &'static str;
    fn name(&self) -> &str {
        self.name
    }
    fn is_iwarp(&self) -> bool {
        self.iwarp
    }
    fn open(&self) -> Result<(&'static str, DeviceTable), String> {
        assert!(!self.iwarp, "an iWARP device is refused unopened");
        self.table.clone().map(|table| (self.name, table)).map_err(Into::into)
    }
}

fn port(number: u8, addresses: &[&str]) -> PortTable {
    let entry = |(index, address): (usize, &&str)| GidEntry {
        index: index as u32,
        gid: of_address(address.parse().unwrap()),
        framing: Framing::RoceV2,
    };
    let gids = addresses.iter().enumerate().map(entry).collect();
    PortTable { number, active: true, ethernet: true, mtu_bytes: 1024, gids }
}

fn device(name: &'static str, ports: Vec<PortTable>) -> Fake {
    let table = DeviceTable { atomics: true, initiator_depth: 16, responder_depth: 16, ports };
    Fake { name, iwarp: false, table: Ok(table) }
}

fn told(candidates: Vec<Fake>, name: Option<&str>, address: Option<&str>) -> String {
    let wanted = Wanted { device: name, address: address.map(|a| a.parse().unwrap()), address_may_differ: false };
    let list = |refused: &[Refused]| refused.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match choose(candidates, wanted) {
        Ok(chosen) => {
            assert_eq!(chosen.opened, chosen.device);
            let gid = chosen.gid.map_or("none".into(), |entry| gid_table::text(&entry.gid));
            format!("{} port {} {gid} [{}]", chosen.device, chosen.port().number, list(&chosen.passed_over))
        }
        Err(refused) => list(&refused),
    }
}

#[test]
fn the_first_device_that_carries_the_address_is_chosen() {
    let both =
        || vec![device("a", vec![port(1, &["10.0.0.1"])]), device("b", vec![port(1, &[]), port(2, &["fe80::1", "10.0.0.2"])])];
    let passed = "a has no port that would do (port 1 does not carry 10.0.0.2, only ::ffff:10.0.0.1)";
    assert_eq!(told(both(), None, Some("10.0.0.2")), format!("b port 2 ::ffff:10.0.0.2 [{passed}]"));
    assert_eq!(told(both(), None, Some("0.0.0.0")), "a port 1 ::ffff:10.0.0.1 []");
    assert_eq!(told(both(), Some("b"), None), "b port 2 ::ffff:10.0.0.2 [a is not it]");
    let neither = "a is not it, b has no port that would do (port 1 does not carry 10.0.0.1: its GID table is empty, \
                   port 2 does not carry 10.0.0.1, only fe80::1, ::ffff:10.0.0.2)";
    assert_eq!(told(both(), Some("b"), Some("10.0.0.1")), neither);
    assert_eq!(told(vec![], None, None), "");
}

#[test]
fn what_cannot_work_is_passed_over_by_its_name() {
    let iwarp = Fake { name: "siw0", iwarp: true, table: Err("never asked") };
    let closed = Fake { name: "closed", iwarp: false, table: Err("permission denied") };
    let mut weak = device("weak", vec![port(1, &["10.0.0.1"])]);
    weak.table.as_mut().unwrap().atomics = false;
    let down = device("down", vec![PortTable { active: false, ..port(1, &["10.0.0.1"]) }]);
    let bare = device("bare", vec![port(1, &[])]);
    let good = device("good", vec![port(1, &["10.0.0.1"])]);
    let answer = told(vec![iwarp, closed, weak, down, bare, good], None, None);
    let expected = "good port 1 ::ffff:10.0.0.1 [\
        siw0 is an iWARP device: it has no Write-with-Immediate, no atomics and no connecting by hand, \
        closed cannot be opened (permission denied), weak has no atomics, which counters and locks need, \
        down has no port that would do (port 1 is not active), \
        bare has no port that would do (port 1 has no GID: give its interface an address)]";
    assert_eq!(answer, expected);
}

#[test]
fn an_infiniband_port_is_taken_by_name_or_without_an_address() {
    let ib = || vec![device("mlx5_0", vec![PortTable { ethernet: false, ..port(1, &["fe80::2"]) }])];
    assert_eq!(told(ib(), Some("mlx5_0"), Some("10.0.0.1")), "mlx5_0 port 1 fe80::2 []");
    assert_eq!(told(ib(), None, None), "mlx5_0 port 1 fe80::2 []");
    assert!(told(ib(), None, Some("10.0.0.1")).contains("does not carry 10.0.0.1"));
    let bare = vec![device("mlx5_0", vec![PortTable { ethernet: false, ..port(1, &[]) }])];
    assert_eq!(told(bare, None, None), "mlx5_0 port 1 none []");
}

#[test]
fn a_path_takes_the_smaller_of_both_ends() {
    assert_eq!((path_mtu(1024, 4096), path_mtu(4096, 2048)), (1024, 2048));
    assert_eq!((path_depth(16, 4), path_depth(0, 16)), (4, 1));
}

#[test]
fn a_client_s_named_device_may_lack_the_address_of_its_control_plane() {
    let chosen = |name, may| {
        let address = Some("192.168.0.9".parse().unwrap());
        let wanted = Wanted { device: name, address, address_may_differ: may };
        choose(vec![device("a", vec![port(1, &["fe80::1", "10.0.0.1"])])], wanted).map(|chosen| chosen.gid.unwrap().index).ok()
    };
    assert_eq!((chosen(Some("a"), true), chosen(Some("a"), false), chosen(None, true)), (Some(1), None, None));
}
