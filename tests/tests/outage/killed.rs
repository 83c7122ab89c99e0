//! Clients that are killed with work in flight, and connections that never come to be.

use sidewire::{Error, Operation, WriteOptions};
use sidewire_tests::{Child, Server, child, scale, server::client_builder, setting, stamped};
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
const DEPTH: usize = 16;

fn lease() -> Duration {
    setting::patience(Duration::from_millis(500))
}

/// Keeps `DEPTH` writes in flight until it is killed.
pub fn pipelines(arguments: &[String]) {
    let [address, who] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).connect().unwrap();
    let session = client.session().unwrap();
    let who: u64 = who.parse().unwrap();
    child::say("writing");
    let mut finished = Vec::new();
    for version in 1.. {
        let value = stamped::stamp(who, version, 2000);
        let key = format!("pipe-{who}");
        match session.submit(Operation::Put { key: key.as_bytes(), value: &value, options: WriteOptions::new() }) {
            Ok(_) => {}
            Err(Error::Full) => {
                session.wait(&mut finished).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        if session.in_flight() >= DEPTH {
            session.wait(&mut finished).unwrap();
        }
        finished.drain(..).for_each(|(_, ended)| drop(ended.unwrap()));
    }
}

/// Several at one instant, each in mid-Put: the server must live, and have everything back within a lease.
#[test]
fn several_pipelined_clients_vanish_at_one_instant() {
    let mut server = Server::builder().lease(lease()).workers(2).start();
    let watcher = server.client();
    let session = watcher.session().unwrap();
    for round in 0..scale(20).max(4) {
        let mut clients: Vec<_> =
            (0..CLIENTS).map(|who| Child::start("pipelines", &[server.address(), &who.to_string()])).collect();
        clients.iter().for_each(|client| assert_eq!(client.hear(), "writing"));
        std::thread::sleep(Duration::from_millis(30 + 11 * round));
        clients.iter_mut().for_each(Child::kill);
        let killed = Instant::now();
        for who in 0..CLIENTS as u64 {
            let key = format!("pipe-{who}");
            if let Some(value) = session.get(key.as_bytes()).unwrap() {
                stamped::version_of(&value, who).unwrap_or_else(|torn| panic!("torn: {torn}"));
            }
            // Whoever comes next writes the same keys at once.
            session.put(key.as_bytes(), &stamped::stamp(who, 0, 100)).unwrap();
            // What had arrived from the dead one may be done after that, but whole.
            let value = session.get(key.as_bytes()).unwrap().unwrap();
            stamped::version_of(&value, who).unwrap_or_else(|torn| panic!("torn: {torn}"));
        }
        let until = Instant::now() + lease() * 3 + setting::patience(Duration::from_secs(2));
        while server.info().clients.len() > 1 {
            assert!(server.runs() && Instant::now() < until, "{:?}", server.info().clients);
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("round {round}: all of {CLIENTS} killed clients was back after {:.0?}, lease {:?}", killed.elapsed(), lease());
    }
    assert!(server.runs());
}
