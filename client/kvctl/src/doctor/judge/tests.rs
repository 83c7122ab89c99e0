//! Machines that were made up, each with one trouble that users of RDMA know. A doctor that overlooks it, or blames
//! something else, fails here.

use super::fake::{Ask, Machine};
use crate::doctor::facts::Survey;
use crate::doctor::finding::Level::{Fault, Note, Ok, Warning};
use sidewire::FabricKind::{Shm, Verbs};

const V2: &str = "RoCE v2";
const V1: &str = "IB/RoCE v1";
const TABLE: &[(u32, &str, &str)] =
    &[(0, "fe80::1", V1), (1, "fe80::1", V2), (2, "::ffff:10.0.0.1", V1), (7, "::ffff:10.0.0.1", V2)];

fn good() -> Machine {
    let machine = Machine::new();
    machine.device("mlx5_0", TABLE);
    machine
}

fn at(address: &'static str) -> Ask<'static> {
    Ask { address: Some(address), ..Ask::default() }
}

#[test]
fn nothing_is_said_against_a_good_machine() {
    let told = good().asked(at("10.0.0.1"), |_| {});
    assert_eq!((told.bad(), told.chosen()), (vec![], Some(("mlx5_0", Some(7)))));
    assert!(told.text("choice").contains("its GID table carries 10.0.0.1"), "{}", told.text("choice"));
    let none = Machine::new().told(Ask::default());
    assert_eq!((none.bad(), none.level("device.none"), none.chosen()), (vec![], Some(Note), None));
    assert!(none.text("device.none").contains("modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0"));
    assert_eq!(Machine::new().told(Ask { fabric: Some(Verbs), ..Ask::default() }).level("device.none"), Some(Fault));
    assert_eq!(good().told(Ask { fabric: Some(Shm), ..Ask::default() }).level("choice.shm"), Some(Ok));
}

#[test]
fn the_gid_is_the_one_that_verbs_would_use() {
    for (table, index, code) in [
        (&[(0, "fe80::1", V2), (3, "::ffff:10.0.0.1", V2)][..], Some(3), None),
        (&[(0, "::ffff:10.0.0.1", V1), (255, "::ffff:10.0.0.1", V2)], Some(255), None),
        (&[(4, "fd00::1", V2)], Some(4), None),
        (&[(0, "fe80::1", V2)], Some(0), Some("gid.link-local")),
        (&[(0, "::ffff:10.0.0.1", V1)], Some(0), Some("gid.v1")),
        (&[], None, Some("choice.none")),
    ] {
        let machine = Machine::new();
        machine.device("mlx5_0", table);
        let told = machine.asked(Ask::default(), |_| {});
        assert_eq!(told.chosen().and_then(|(_, index)| index), index, "{table:?}");
        assert_eq!(told.bad(), code.into_iter().collect::<Vec<_>>(), "{table:?}");
    }
    let told = good().asked(at("10.0.0.2"), |_| {});
    assert_eq!((told.chosen(), told.level("choice.none")), (None, Some(Warning)));
    let text = told.text("choice.none");
    assert!(text.contains("does not carry 10.0.0.2, only fe80::1"), "{text}");
    assert!(text.contains("listen on 10.0.0.1; or: ip address add 10.0.0.2/24 dev eth0"), "{text}");
}

#[test]
fn a_device_that_is_named_is_insisted_on() {
    let named = |name| Ask { device: Some(name), ..Ask::default() };
    let typo = good().asked(named("mlx5_1"), |_| {});
    assert_eq!(typo.level("choice.none"), Some(Fault));
    assert!(typo.text("choice.none").contains("there is no device mlx5_1; name one of: mlx5_0"));
    let machine = good();
    machine.port("mlx5_0", "1: DOWN", "Ethernet");
    let told = machine.told(named("mlx5_0"));
    assert_eq!((told.level("port.down"), told.level("choice.none")), (Some(Fault), Some(Fault)));
    assert!(told.text("port.down").contains("ip link set dev eth0 up"), "{}", told.text("port.down"));
    assert_eq!(machine.told(Ask::default()).level("port.down"), Some(Warning));
    machine.port("mlx5_0", "2: INIT", "InfiniBand");
    assert!(machine.told(Ask::default()).text("port.down").contains("opensm"));
}

#[test]
fn kinds_of_devices_that_cannot_work_are_named() {
    let machine = good();
    machine.file("sys/class/infiniband/mlx5_0/node_type", "4: RNIC\n");
    let told = machine.told(Ask::default());
    assert_eq!((told.level("device.iwarp"), told.chosen()), (Some(Warning), None));
    let told = good().asked(Ask::default(), |device| device.table.as_mut().unwrap().atomics = false);
    assert_eq!((told.level("device.no-atomics"), told.chosen()), (Some(Warning), None));
    let told = good().asked(Ask::default(), |device| device.table.as_mut().unwrap().initiator_depth = 1);
    assert_eq!((told.level("device.read-depth"), told.chosen().is_some()), (Some(Warning), true));
    let machine = good();
    machine.port("mlx5_0", "4: ACTIVE", "InfiniBand");
    assert_eq!(machine.asked(at("10.0.0.9"), |_| {}).level("choice.none"), Some(Warning));
    let ask = Ask { device: Some("mlx5_0"), ..at("10.0.0.9") };
    let told = machine.asked(ask, |_| {});
    assert_eq!((told.bad(), told.level("port.infiniband")), (vec![], Some(Note)));
}

#[test]
fn a_closed_device_is_passed_over_and_the_open_one_used() {
    for (closed, open) in [("a", "b"), ("b", "a")] {
        let machine = Machine::new();
        machine.device("a", TABLE).device("b", TABLE);
        let number = if closed == "a" { 0 } else { 1 };
        machine.remove(&format!("dev/infiniband/uverbs{number}"));
        let told = machine.told(at("10.0.0.1"));
        assert_eq!((told.chosen(), told.bad()), (Some((open, Some(7))), vec!["device.not-given"]));
        assert!(told.text("device.not-given").contains(&format!("docker run --device /dev/infiniband/uverbs{number}")));
    }
    let told = good().changed(Ask::default(), |facts| facts.devices[0].file.trouble = Some(("Permission denied".into(), 13)));
    assert_eq!((told.level("device.closed"), told.chosen()), (Some(Warning), None));
    assert!(told.text("device.closed").contains("chmod 0666 /dev/infiniband/uverbs0"));
    let told = good().changed(Ask::default(), |facts| facts.survey = Survey::Devices(vec![]));
    assert_eq!(told.level("device.no-provider"), Some(Warning));
    let machine = good();
    machine.remove("sys/class/infiniband_verbs").remove("sys/module/ib_uverbs");
    let told = machine.failed(Ask { fabric: Some(Verbs), ..Ask::default() }, "the kernel has no RDMA support loaded");
    assert_eq!((told.level("uverbs.missing"), told.level("kernel.uverbs")), (Some(Fault), Some(Fault)));
}

#[test]
fn the_mtu_is_shown_and_a_small_one_is_told_of() {
    let with = |mtu| good().asked(Ask::default(), |device| device.table.as_mut().unwrap().ports[0].mtu_bytes = mtu);
    assert_eq!([4096, 1024, 256].map(|mtu| with(mtu).level("port.mtu")), [None, Some(Note), Some(Warning)]);
    assert!(with(1024).text("port.mtu").contains("ip link set dev eth0 mtu 4200"));
    assert_eq!(with(1024).choice.unwrap().mtu_bytes, 1024);
}

#[test]
fn locked_memory_is_judged_for_shells_and_for_services() {
    let machine = good();
    let ask = Ask { memory_bytes: Some(1 << 30), ..Ask::default() };
    machine.memlock("65536", "65536");
    assert_eq!(
        (machine.told(ask).level("memlock.low"), machine.told(Ask::default()).level("memlock.low")),
        (Some(Fault), Some(Warning))
    );
    assert!(machine.told(ask).text("memlock.low").contains("limits.conf"));
    machine.memlock("1073741823", "unlimited");
    assert!(machine.told(ask).text("memlock.low").contains("ulimit -l unlimited"));
    machine.memlock("1073741824", "unlimited");
    assert_eq!(machine.told(ask).bad(), Vec::<&str>::new());
    machine.memlock("65536", "65536").file("proc/self/status", "CapEff:\t0000000000004000\n");
    assert_eq!(machine.told(ask).level("memlock"), Some(Ok));
    machine.file("proc/1/limits", "Max locked memory  8388608  8388608  bytes\n");
    let told = machine.told(ask);
    assert_eq!(told.bad(), ["memlock.service-low"]);
    assert!(told.text("memlock.service-low").contains("LimitMEMLOCK=infinity"));
    let unit = "etc/systemd/system/kv-server.service";
    for (text, is_low) in [("", true), ("LimitMEMLOCK=64K", true), ("LimitMEMLOCK=2G", false), ("LimitMEMLOCK=infinity", false)] {
        machine.file(unit, &format!("[Service]\n{text}\n"));
        assert_eq!(machine.told(ask).level("memlock.service-low").is_some(), is_low, "{text}");
    }
    // Nothing is pinned without a device.
    let none = Machine::new();
    none.memlock("65536", "65536");
    assert_eq!(none.told(ask).level("memlock.low"), Some(Note));
}

#[test]
fn hugepages_are_judged_by_size_and_node() {
    let ask = Ask { memory_bytes: Some(1 << 30), ..Ask::default() };
    let machine = Machine::new();
    assert_eq!(machine.told(ask).level("hugepages"), Some(Ok));
    machine.hugepages("sys/kernel/mm/hugepages", 2048, 600, 511);
    assert!(machine.told(ask).text("hugepages.short").contains("sysctl -w vm.nr_hugepages=601"));
    machine.hugepages("sys/kernel/mm/hugepages", 2048, 0, 0).hugepages("sys/kernel/mm/hugepages", 1_048_576, 4, 4);
    let told = machine.told(ask);
    assert_eq!((told.level("hugepages.none"), told.level("hugepages.other"), told.bad()), (Some(Note), Some(Note), vec![]));
    machine.hugepages("sys/kernel/mm/hugepages", 2048, 600, 600);
    machine.hugepages("sys/devices/system/node/node0/hugepages", 2048, 590, 590);
    machine.hugepages("sys/devices/system/node/node1/hugepages", 2048, 10, 10);
    let told = machine.told(ask);
    assert_eq!(told.bad(), ["hugepages.node-short"]);
    let mend = "echo 512 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
    assert!(told.text("hugepages.node-short").contains(mend), "{}", told.text("hugepages.node-short"));
    machine.file("proc/sys/kernel/numa_balancing", "1\n");
    assert_eq!(machine.told(ask).level("numa.balancing"), Some(Warning));
    machine.file("proc/self/cgroup", "0::/pod/kv\n").file("sys/fs/cgroup/pod/hugetlb.2MB.max", "0\n");
    assert_eq!(machine.told(ask).level("hugepages.group"), Some(Warning));
}

#[test]
fn memory_and_dev_shm_are_those_of_the_container() {
    let ask = Ask { memory_bytes: Some(2 << 30), ..Ask::default() };
    let machine = Machine::new();
    assert_eq!((machine.told(ask).level("memory"), machine.told(ask).level("dev-shm")), (Some(Ok), Some(Ok)));
    machine.file("proc/self/cgroup", "0::/pod/kv\n");
    machine.file("sys/fs/cgroup/pod/memory.max", "1073741824\n").file("sys/fs/cgroup/pod/memory.current", "4096\n");
    machine.file("sys/fs/cgroup/pod/kv/memory.max", "max\n");
    machine.file("proc/mounts", "shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0\n").file(".dockerenv", "");
    let told = machine.told(ask);
    assert!(told.text("memory.short").contains("/sys/fs/cgroup/pod"), "{}", told.text("memory.short"));
    assert_eq!(
        (told.level("memory.short"), told.level("dev-shm.small"), told.level("kernel.container")),
        (Some(Fault), Some(Note), Some(Note))
    );
    // The pool of hugepages was set aside before: what fits there does.
    assert_eq!(machine.told(Ask::default()).level("memory"), Some(Ok));
    machine.hugepages("sys/kernel/mm/hugepages", 2048, 0, 0);
    assert_eq!(machine.told(Ask::default()).level("memory.short"), Some(Warning));
    let told = machine.changed(ask, |facts| facts.memory.memfd_trouble = Some("Operation not permitted".into()));
    assert_eq!(told.level("memfd"), Some(Fault));
}

#[test]
fn modules_and_namespaces_are_told() {
    let verbs = Ask { fabric: Some(Verbs), ..Ask::default() };
    let machine = Machine::new();
    assert_eq!(machine.told(verbs).level("soft-roce"), Some(Ok));
    machine.file("proc/sys/kernel/modules_disabled", "1\n");
    assert_eq!(machine.told(verbs).level("soft-roce.closed"), Some(Warning));
    machine.file("lib/modules/6.1.0/modules.dep", "kernel/fs/ext4.ko:\n");
    assert!(machine.told(verbs).text("soft-roce.absent").contains("linux-modules-extra-6.1.0"));
    machine.remove("lib");
    assert_eq!(machine.told(verbs).level("soft-roce.unknown"), Some(Warning));
    machine.file("sys/module/ib_core/parameters/netns_mode", "N\n");
    assert_eq!(machine.told(verbs).level("namespace.exclusive"), Some(Fault));
    assert!(machine.told(verbs).text("namespace.exclusive").contains("rdma dev set DEVICE netns"));
    let machine = good();
    machine.file("sys/module/ib_core/parameters/netns_mode", "Y\n").remove("sys/class/net/eth0");
    let told = machine.told(Ask::default());
    assert_eq!((told.level("namespace.shared"), told.level("gid.elsewhere")), (Some(Ok), Some(Warning)));
    let told = machine.changed(Ask::default(), |facts| facts.kernel.other_namespace = true);
    assert_eq!(told.level("namespace.soft-roce"), Some(Warning));
}
