//! Two Soft-RoCE devices on the two ends of a veth pair, and the link between them, to be cut.
//!
//! Both ends are in one network namespace, where packets would take the loopback; rules of routing send what the devices
//! emit over the pair. TCP goes on over the loopback whatever happens to it. The near end is the client's, the far end
//! the server's. `SIDEWIRE_TEST_CABLE` (`v0:v1`) names a pair that tests may cut, which is never one that carries
//! anything else.

use crate::setting;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The far end's device and address; the near end's are those under test.
const FAR_DEVICE: &str = "rxe1";
const FAR_ADDRESS: &str = "10.0.0.2";
/// How long a device may take to see its address.
const SETTLE: Duration = Duration::from_secs(10);

/// One end.
#[derive(Clone, Debug)]
pub struct End {
    /// The interface.
    pub interface: String,
    /// The device on it.
    pub device: String,
    /// Its address.
    pub address: String,
    mac: String,
}

/// The link. What was changed is taken back when this is dropped.
#[derive(Debug)]
pub struct Cable {
    /// The client's end.
    pub near: End,
    /// The server's end.
    pub far: End,
}

/// Runs a tool, which must succeed.
#[track_caller]
fn run(line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("the lab has it");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a tool; that it has nothing to do is no mistake.
fn try_to(line: &str) {
    let mut words = line.split(' ');
    let _ = Command::new(words.next().expect("a program")).args(words).output();
}

impl End {
    fn of(interface: &str, device: &str, address: &str) -> Self {
        let mac = fs::read_to_string(format!("/sys/class/net/{interface}/address")).expect("the interface is there");
        Self { interface: interface.into(), device: device.into(), address: address.into(), mac: mac.trim().into() }
    }

    fn carries_its_address(&self) -> bool {
        let address = self.address.parse().expect("an address");
        let wanted = sidewire_common::fabric::gid_table::of_address(address);
        let at = format!("/sys/class/infiniband/{}/ports/1", self.device);
        let gids = fs::read_dir(format!("{at}/gids")).into_iter().flatten().filter_map(Result::ok);
        let mut read = gids.filter_map(|gid| fs::read_to_string(gid.path()).ok()?.trim().parse::<std::net::Ipv6Addr>().ok());
        read.any(|gid| gid.octets() == wanted)
    }
}

impl Cable {
    /// Takes the pair that may be cut; `None`, and says so, where there is none.
    ///
    /// # Panics
    /// When it cannot be set up.
    #[must_use]
    pub fn take() -> Option<Self> {
        let named = std::env::var("SIDEWIRE_TEST_CABLE").ok();
        let pair = named.as_deref().and_then(|pair| pair.split_once(':'));
        let (Some((near, far)), Some(device)) = (pair, setting::device()) else {
            println!("skipped: SIDEWIRE_TEST_CABLE names no pair of interfaces that may be cut");
            return None;
        };
        try_to(&format!("ip addr add {FAR_ADDRESS}/24 dev {far}"));
        try_to(&format!("rdma link add {FAR_DEVICE} type rxe netdev {far}"));
        let near = End::of(near, &device, &setting::address());
        let cable = Self { near, far: End::of(far, FAR_DEVICE, FAR_ADDRESS) };
        for name in [&cable.near.interface, &cable.far.interface, &"all".to_owned()] {
            for (key, value) in [("accept_local", "1"), ("rp_filter", "0"), ("arp_ignore", "1")] {
                fs::write(format!("/proc/sys/net/ipv4/conf/{name}/{key}"), value).expect("this is the lab");
            }
        }
        cable.route();
        let Self { near, far } = &cable;
        run(&format!("ip rule add pref 10 iif {} lookup local", near.interface));
        run(&format!("ip rule add pref 11 iif {} lookup local", far.interface));
        run(&format!("ip rule add pref 20 oif {} to {} lookup 102", near.interface, far.address));
        run(&format!("ip rule add pref 21 oif {} to {} lookup 101", far.interface, near.address));
        run("ip rule add pref 100 lookup local");
        run("ip rule del pref 0");
        cable.settle();
        Some(cable)
    }

    /// Routes and neighbours, which go when a link goes down.
    fn route(&self) {
        let Self { near, far } = self;
        run(&format!("ip route replace {}/32 dev {} src {} table 102", far.address, near.interface, near.address));
        run(&format!("ip route replace {}/32 dev {} src {} table 101", near.address, far.interface, far.address));
        run(&format!("ip neigh replace {} lladdr {} dev {} nud permanent", far.address, far.mac, near.interface));
        run(&format!("ip neigh replace {} lladdr {} dev {} nud permanent", near.address, near.mac, far.interface));
    }

    /// Waits until both devices are up and carry their addresses.
    ///
    /// # Panics
    /// When they do not in time.
    fn settle(&self) {
        let until = Instant::now() + SETTLE;
        let is_up = |end: &End| {
            let state = fs::read_to_string(format!("/sys/class/infiniband/{}/ports/1/state", end.device));
            state.is_ok_and(|state| state.contains("ACTIVE")) && end.carries_its_address()
        };
        while !(is_up(&self.near) && is_up(&self.far)) {
            assert!(Instant::now() < until, "{self:?} do not come up");
            sleep(Duration::from_millis(1));
        }
    }

    /// Takes an end's link down.
    pub fn cut(&self, end: &End) {
        run(&format!("ip link set dev {} down", end.interface));
    }

    /// Brings it up again, with what went with it.
    pub fn mend(&self, end: &End) {
        run(&format!("ip link set dev {} up", end.interface));
        self.route();
        self.settle();
    }

    /// Drops and delays what the near end sends, as `tc` says it: `loss 100%`, `delay 20ms`.
    pub fn impair(&self, how: &str) {
        try_to("modprobe sch_netem");
        run(&format!("tc qdisc replace dev {} root netem {how}", self.near.interface));
    }

    /// Drops and delays nothing any more.
    pub fn clear(&self) {
        try_to(&format!("tc qdisc del dev {} root", self.near.interface));
    }

    /// Takes an end's address away.
    pub fn unname(&self, end: &End) {
        run(&format!("ip addr del {}/24 dev {}", end.address, end.interface));
    }

    /// Gives it back behind another one, so that its GID has another place in the table.
    pub fn rename(&self, end: &End) {
        run(&format!("ip addr replace 10.0.7.{}/24 dev {}", end.address.rsplit('.').next().unwrap_or("9"), end.interface));
        run(&format!("ip addr add {}/24 dev {}", end.address, end.interface));
        self.route();
        self.settle();
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.clear();
        try_to("ip rule add pref 0 lookup local");
        for pref in [10, 11, 20, 21, 100] {
            try_to(&format!("ip rule del pref {pref}"));
        }
        try_to(&format!("ip addr replace {}/24 dev {}", self.near.address, self.near.interface));
        for end in [&self.near, &self.far] {
            try_to(&format!("ip addr del 10.0.7.{}/24 dev {}", end.address.rsplit('.').next().unwrap_or("9"), end.interface));
            try_to(&format!("ip link set dev {} up", end.interface));
        }
        try_to(&format!("ip neigh del {} dev {}", self.far.address, self.near.interface));
        try_to(&format!("ip neigh del {} dev {}", self.near.address, self.far.interface));
        try_to(&format!("rdma link delete {}", self.far.device));
        try_to(&format!("ip addr del {}/24 dev {}", self.far.address, self.far.interface));
    }
}
