//! The link goes: at the far end, at the own end, by loss, or with the address; for a moment, and for longer than a lease.

use crate::load::Load;
use sidewire_tests::{Server, cable::Cable, server::client_builder};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_secs(1);
/// Recovery that takes longer than this is none.
const RECOVERY_MAX: Duration = Duration::from_secs(15);
/// Calm before the first cut, and calls that must end well after recovery.
const CALM: Duration = Duration::from_millis(500);
const CALLS_AFTER: usize = 100;

// In the order of teardown: a device that a server still uses cannot be taken away.
struct Scene {
    load: Load,
    client: sidewire::Client,
    server: Server,
    cable: Cable,
}

fn scene() -> Option<Scene> {
    let cable = Cable::take()?;
    let server = Server::builder().on(&cable.far.address, &cable.far.device).lease(LEASE).start();
    let client = client_builder(server.address()).connect().unwrap();
    assert_eq!((client.attachment().device, server.info().fabric.unwrap().device), (cable.near.device.clone(), "rxe1".into()));
    let load = Load::start(&client, DEADLINE);
    sleep(CALM);
    Some(Scene { load, client, server, cable })
}

impl Scene {
    /// Cuts for a while and mends; the load goes on throughout.
    fn outage(&self, what: &str, length: Duration, cut: impl FnOnce(&Cable), mend: impl FnOnce(&Cable)) {
        let started = Instant::now();
        cut(&self.cable);
        sleep(length);
        mend(&self.cable);
        let mended = Instant::now();
        self.load.recovered(what, mended, RECOVERY_MAX);
        self.load.tell(what, started, Instant::now());
        self.calm(what);
    }

    /// From here on calls end well.
    fn calm(&self, what: &str) {
        let (since, before) = (Instant::now(), self.load.calls().len());
        while self.load.calls().len() < before + CALLS_AFTER {
            assert!(since.elapsed() < RECOVERY_MAX * 2, "{what}: the load has stopped");
            sleep(Duration::from_millis(5));
        }
        let failed = self.load.tell(&format!("{what}, after it"), since, Instant::now());
        assert_eq!(failed, 0, "{what}: calls fail after recovery");
    }

    fn end(self) {
        let Self { load, client, server, cable } = self;
        load.finish(&client);
        println!("attached anew {} times, {} clients swept", client.stats().reattaches, server.info().clients_swept);
        drop((client, server, cable));
    }
}

#[test]
fn the_far_end_s_link_goes_and_comes() {
    let Some(scene) = scene() else { return };
    for length in [200, 1500, 9000].map(Duration::from_millis) {
        let what = format!("far link down {length:?}");
        scene.outage(&what, length, |cable| cable.cut(&cable.far), |cable| cable.mend(&cable.far));
    }
    scene.end();
}

#[test]
fn the_own_link_goes_and_comes() {
    let Some(scene) = scene() else { return };
    for length in [200, 1500, 9000].map(Duration::from_millis) {
        let what = format!("own link down {length:?}");
        scene.outage(&what, length, |cable| cable.cut(&cable.near), |cable| cable.mend(&cable.near));
    }
    scene.end();
}

#[test]
fn packets_are_lost_and_late() {
    let Some(scene) = scene() else { return };
    for (how, length) in
        [("loss 5%", 3000), ("delay 20ms 10ms", 3000), ("loss 20% delay 5ms reorder 25%", 3000), ("loss 100%", 1500)]
    {
        let what = format!("netem {how} {length} ms");
        scene.outage(&what, Duration::from_millis(length), |cable| cable.impair(how), Cable::clear);
    }
    let what = "netem loss 100% 9 s";
    scene.outage(what, Duration::from_secs(9), |cable| cable.impair("loss 100%"), Cable::clear);
    scene.end();
}

#[test]
fn addresses_go_and_come_elsewhere_in_the_table() {
    let Some(scene) = scene() else { return };
    let index = |scene: &Scene| scene.server.info().fabric.unwrap().gid_index;
    let before = index(&scene);
    for length in [200, 6000].map(Duration::from_millis) {
        let what = format!("own address gone {length:?}");
        scene.outage(&what, length, |cable| cable.unname(&cable.near), |cable| cable.rename(&cable.near));
        let what = format!("server's address gone {length:?}");
        scene.outage(&what, length, |cable| cable.unname(&cable.far), |cable| cable.rename(&cable.far));
    }
    println!("the server's GID index was {before}, it says {}", index(&scene));
    scene.end();
}
