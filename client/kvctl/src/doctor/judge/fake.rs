//! A machine that is a directory: device tables, limits and memory as a test wants them.

use super::{Choice, Purpose, machine};
use crate::doctor::facts::{Facts, Root, Survey, gather};
use crate::doctor::finding::{Findings, Level};
use sidewire::FabricKind;
use sidewire_common::fabric::Surveyed;
use sidewire_common::fabric::selection::{Candidate, Wanted};
use std::fs;
use tempfile::TempDir;

/// The machine.
pub struct Machine(TempDir);

/// What was asked of it.
#[derive(Clone, Copy, Default)]
pub struct Ask<'a> {
    pub device: Option<&'a str>,
    pub address: Option<&'a str>,
    pub fabric: Option<FabricKind>,
    pub memory_bytes: Option<u64>,
}

/// What was found.
pub struct Told {
    pub choice: Option<Choice>,
    pub findings: Findings,
}

impl Machine {
    /// One without devices, with enough of everything.
    pub fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.file("proc/sys/kernel/osrelease", "6.1.0\n");
        machine.file("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
        machine.memlock("unlimited", "unlimited");
        machine.hugepages("sys/kernel/mm/hugepages", 2048, 600, 600);
        machine.file("sys/devices/system/node/node0/cpulist", "0-3\n");
        machine.file("lib/modules/6.1.0/modules.dep", "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: kernel/ib_uverbs.ko\n");
        machine.file("sys/class/net/eth0/mtu", "1500\n");
        machine
    }

    pub fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn remove(&self, path: &str) -> &Self {
        let path = self.0.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        self
    }

    pub fn memlock(&self, soft: &str, hard: &str) -> &Self {
        let limits =
            format!("Max locked memory         {soft}   {hard}   bytes\nMax open files            65536  65536  files\n");
        self.file("proc/self/limits", &limits)
    }

    pub fn hugepages(&self, at: &str, kib: u32, total: u32, free: u32) -> &Self {
        self.file(&format!("{at}/hugepages-{kib}kB/nr_hugepages"), &format!("{total}\n"));
        self.file(&format!("{at}/hugepages-{kib}kB/free_hugepages"), &format!("{free}\n"))
    }

    /// A RoCE device with one active port and these GIDs: index, address, type.
    pub fn device(&self, name: &str, gids: &[(u32, &str, &str)]) -> &Self {
        let number = fs::read_dir(self.0.path().join("dev/infiniband")).map_or(0, Iterator::count);
        let at = format!("sys/class/infiniband/{name}");
        self.file(&format!("{at}/node_type"), "1: CA\n");
        self.port(name, "4: ACTIVE", "Ethernet");
        self.file(&format!("sys/class/infiniband_verbs/uverbs{number}/ibdev"), &format!("{name}\n"));
        self.file(&format!("dev/infiniband/uverbs{number}"), "");
        self.file("sys/module/ib_uverbs/refcnt", "1\n");
        for (index, address, kind) in gids {
            let full = address.parse::<std::net::Ipv6Addr>().unwrap().segments().map(|word| format!("{word:04x}")).join(":");
            self.file(&format!("{at}/ports/1/gids/{index}"), &format!("{full}\n"));
            self.file(&format!("{at}/ports/1/gid_attrs/types/{index}"), &format!("{kind}\n"));
            self.file(&format!("{at}/ports/1/gid_attrs/ndevs/{index}"), "eth0\n");
        }
        self
    }

    pub fn port(&self, device: &str, state: &str, link_layer: &str) -> &Self {
        let at = format!("sys/class/infiniband/{device}/ports/1");
        self.file(&format!("{at}/state"), &format!("{state}\n"));
        self.file(&format!("{at}/phys_state"), "5: LinkUp\n");
        self.file(&format!("{at}/link_layer"), &format!("{link_layer}\n"))
    }

    fn facts(&self) -> Facts {
        gather(&Root::new(Some(self.0.path())))
    }

    /// Judges it as a copy.
    pub fn told(&self, ask: Ask<'_>) -> Told {
        judged(&self.facts(), ask)
    }

    /// Judges it as if libibverbs had been asked, and had said what `change` makes of the tables in sysfs.
    pub fn asked(&self, ask: Ask<'_>, change: impl Fn(&mut Surveyed)) -> Told {
        let mut facts = self.facts();
        let look = |device| {
            let (name, is_iwarp) = (Candidate::name(&device).to_owned(), Candidate::is_iwarp(&device));
            let table = Candidate::open(&device).map(|((), mut table)| {
                (table.initiator_depth, table.responder_depth) = (16, 16);
                table.ports.iter_mut().for_each(|port| port.mtu_bytes = 4096);
                table
            });
            let mut surveyed = Surveyed { name, is_iwarp, table };
            change(&mut surveyed);
            surveyed
        };
        let survey = facts.devices.iter().map(look).collect();
        facts.survey = Survey::Devices(survey);
        judged(&facts, ask)
    }

    /// Judges it as if libibverbs had failed.
    pub fn failed(&self, ask: Ask<'_>, why: &str) -> Told {
        judged(&Facts { survey: Survey::Failed(why.into()), ..self.facts() }, ask)
    }

    /// Judges it with its facts changed.
    pub fn changed(&self, ask: Ask<'_>, change: impl FnOnce(&mut Facts)) -> Told {
        let mut facts = self.facts();
        change(&mut facts);
        judged(&facts, ask)
    }
}

fn judged(facts: &Facts, ask: Ask<'_>) -> Told {
    let wanted = Wanted { device: ask.device, address: ask.address.map(|a| a.parse().unwrap()), address_may_differ: false };
    let memory_bytes = ask.memory_bytes.unwrap_or(1 << 30);
    let purpose = Purpose { wanted, fabric: ask.fabric, memory_bytes, memory_is_given: ask.memory_bytes.is_some() };
    let mut findings = Findings::default();
    let choice = machine(facts, &purpose, &mut findings);
    Told { choice, findings }
}

impl Told {
    /// The level of a finding, `None` when there is none of this code.
    pub fn level(&self, code: &str) -> Option<Level> {
        self.findings.find(code).map(|finding| finding.level)
    }

    /// What a finding says, what it means and what mends it.
    #[track_caller]
    pub fn text(&self, code: &str) -> String {
        let finding = self.findings.find(code).unwrap_or_else(|| panic!("no {code} in {:#?}", self.findings));
        format!("{} | {} | {}", finding.what, finding.means, finding.mend.as_deref().unwrap_or(""))
    }

    /// The codes of all that is not as it should be.
    pub fn bad(&self) -> Vec<&'static str> {
        self.findings.all().filter(|finding| finding.level > Level::Note).map(|finding| finding.code).collect()
    }

    /// Device and GID index that would be used.
    pub fn chosen(&self) -> Option<(&str, Option<u32>)> {
        self.choice.as_ref().map(|choice| (choice.device.as_str(), choice.gid_index))
    }
}
