//! Servers and clients that die, and come back.
//!
//! What could break: a client that never finds the way back; a value of the dead server that is believed after the new
//! one took writes; a call that ends in nothing typed; something that a dead or departed client leaves at the server
//! (a place, a connection, a descriptor), a little more each time.

use sidewire::{Error, Operation, Session, WriteOptions};
use sidewire_tests::{Child, Server, child, is_typed, scale, server::client_builder, setting, stamped};
use std::time::{Duration, Instant};

fn lease() -> Duration {
    setting::patience(Duration::from_secs(1))
}

fn server() -> Server {
    Server::builder().lease(lease()).start()
}

fn deadline() -> Duration {
    setting::patience(Duration::from_millis(500))
}

#[test]
fn child() {
    child::run(&[("writes", writes)]);
}

/// Calls until it ends well; every other end must be typed and in time.
fn until_good<T>(what: &str, mut call: impl FnMut() -> Result<T, Error>) -> T {
    let until = Instant::now() + lease() * 5 + setting::patience(Duration::from_secs(5));
    loop {
        let started = Instant::now();
        match call() {
            Ok(done) => return done,
            Err(error) => {
                let took = started.elapsed();
                assert!(is_typed(&error), "{what}: {error:?}");
                assert!(took < deadline() * 11 / 10 + setting::patience(Duration::from_millis(150)), "{what}: {took:?}");
                assert!(Instant::now() < until, "{what} never ends well: {error}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn clients_find_the_way_back_and_believe_nothing_of_the_dead() {
    let mut server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(deadline());
    for round in 0..3_u64 {
        let before = client.attachment().incarnation;
        for n in 0..50 {
            session.put(format!("k{n}").as_bytes(), &stamped::stamp(n, round * 10, 200)).unwrap();
            session.get(format!("k{n}").as_bytes()).unwrap().unwrap();
        }
        session.create_counter(b"n", 5).unwrap();
        session.add(b"n", 1).unwrap();
        server.kill();
        // Calls while nobody is there: by the deadline, typed.
        for _ in 0..2 {
            let started = Instant::now();
            match session.put(b"k0", b"to nobody") {
                Err(error) => assert!(is_typed(&error), "{error:?}"),
                Ok(version) => panic!("a dead server wrote {version:?}"),
            }
            assert!(started.elapsed() < deadline() * 11 / 10 + setting::patience(Duration::from_millis(150)));
        }
        server.start_again();
        // A new client writes to the new life; the old client may not see older values from then on.
        let other = server.client();
        let other = other.session().unwrap();
        for n in 0..50 {
            other.put(format!("k{n}").as_bytes(), &stamped::stamp(n, round * 10 + 5, 100)).unwrap();
        }
        for n in 0..50 {
            let value = until_good("get", || session.get(format!("k{n}").as_bytes()));
            let value = value.unwrap_or_else(|| panic!("k{n} is absent after it was put"));
            assert_eq!(stamped::version_of(&value, n), Ok(round * 10 + 5), "a value of the dead server");
        }
        assert_eq!(until_good("counter", || session.counter(b"n")), None, "the dead server's counter");
        until_good("put", || session.put(b"back", b"again"));
        assert_ne!(client.attachment().incarnation, before);
    }
    assert!(client.stats().reattaches >= 3, "{:?}", client.stats());
}

/// Submitted operations could stay open for ever when the server dies under them.
#[test]
fn open_operations_end_when_the_server_dies() {
    let mut server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(deadline());
    session.put(b"there", b"v").unwrap();
    for round in 0..3 {
        let mut open = 0;
        server.pause();
        let value = vec![round; 1000];
        while open < 20 {
            match session.submit(Operation::Put { key: b"open", value: &value, options: WriteOptions::new() }) {
                Ok(_) => open += 1,
                Err(Error::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        server.kill();
        let started = Instant::now();
        let mut finished = Vec::new();
        while finished.len() < open {
            if let Err(error) = session.wait(&mut finished) {
                assert!(is_typed(&error), "{error:?}");
            }
            assert!(
                started.elapsed() < deadline() * 2 + setting::patience(Duration::from_millis(300)),
                "{} of {open}",
                finished.len()
            );
        }
        for (_, outcome) in finished {
            let error = outcome.expect_err("a dead server answers nothing");
            assert!(is_typed(&error), "{error:?}");
        }
        assert_eq!(session.in_flight(), 0);
        server.start_again();
        until_good("put", || session.put(b"there", b"v"));
    }
}

#[test]
fn a_graceful_stop_is_told_and_survived() {
    let mut server = server();
    let client = server.client();
    let session = client.session().unwrap();
    session.set_deadline(deadline());
    session.put(b"k", b"old").unwrap();
    server.stop();
    let started = Instant::now();
    let error = session.put(b"k", b"to nobody").expect_err("nobody is there");
    assert!(is_typed(&error), "{error:?}");
    assert!(started.elapsed() < deadline() * 11 / 10 + setting::patience(Duration::from_millis(150)));
    server.start_again();
    assert!(until_good("get", || session.get(b"k")).is_none(), "memory does not outlive its server");
    until_good("put", || session.put(b"k", b"new"));
    server.stop();
}

/// Puts large values under a few keys until it is killed.
fn writes(arguments: &[String]) {
    let [address] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).connect().unwrap();
    let session = client.session().unwrap();
    child::say("writing");
    for version in 1.. {
        let n = version % 3;
        session.put(format!("torn{n}").as_bytes(), &stamped::stamp(n, version, 30_000 + version as usize % 70_000)).unwrap();
    }
}

/// What the server holds for clients.
#[derive(Debug, PartialEq, Eq)]
struct Gauges {
    clients: usize,
    connections: u32,
    cells: u64,
    files: usize,
}

fn gauges(server: &Server) -> Gauges {
    let info = server.info();
    Gauges {
        clients: info.clients.len(),
        connections: info.workers.iter().map(|worker| worker.connections).sum(),
        cells: info.cells_in_use,
        files: server.open_files(),
    }
}

/// Waits until the gauges are what they were.
fn back_at(server: &Server, baseline: &Gauges) {
    let until = Instant::now() + lease() * 3 + setting::patience(Duration::from_secs(3));
    while gauges(server) != *baseline {
        assert!(Instant::now() < until, "{:?}, it was {baseline:?}", gauges(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The descriptor of the connection that asks for the gauges itself is open from the first question on.
fn baseline(server: &Server) -> Gauges {
    drop(server.client().session().unwrap());
    let until = Instant::now() + lease() * 3;
    loop {
        let now = gauges(server);
        if (now.clients == 0 && now.connections == 0) || Instant::now() > until {
            std::thread::sleep(Duration::from_millis(100));
            return gauges(server);
        }
    }
}

#[test]
fn clients_killed_in_the_middle_of_a_put_leave_nothing_half_done() {
    let server = server();
    let quiet = baseline(&server);
    let rounds = scale(12);
    {
        let client = server.client();
        let session = client.session().unwrap();
        for round in 0..rounds {
            let mut writer = Child::start("writes", &[server.address()]);
            assert_eq!(writer.hear(), "writing");
            std::thread::sleep(Duration::from_millis(20 + round * 7));
            writer.kill();
            for n in 0..3 {
                if let Some(value) = session.get(format!("torn{n}").as_bytes()).unwrap() {
                    stamped::version_of(&value, n).unwrap_or_else(|torn| panic!("torn: {torn}"));
                }
            }
        }
        // Whoever comes next can write the same keys.
        for n in 0..3 {
            session.put(format!("torn{n}").as_bytes(), b"mended").unwrap();
            assert_eq!(&*session.get(format!("torn{n}").as_bytes()).unwrap().unwrap(), b"mended");
        }
    }
    back_at(&server, &quiet);
    assert_eq!(server.info().keys, 3);
}

fn visit(session: &Session, round: u64) {
    session.put(b"visited", &round.to_le_bytes()).unwrap();
    assert_eq!(*session.get(b"visited").unwrap().unwrap(), round.to_le_bytes());
}

#[test]
fn two_hundred_visits_leave_nothing_behind() {
    let server = server();
    let quiet = baseline(&server);
    let own = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let threads_before = threads();
    for round in 0..scale(200) {
        let client = server.client();
        let session = client.session().unwrap();
        visit(&session, round);
        if round % 2 == 0 {
            drop(session);
            client.detach().unwrap();
        }
    }
    back_at(&server, &quiet);
    assert_eq!(server.info().clients_swept, 0, "everybody said good-bye");
    let until = Instant::now() + setting::patience(Duration::from_secs(5));
    loop {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        // Other tests of this executable may run beside this one: a few more are theirs.
        if files < own + 60 && threads() < threads_before + 60 {
            break;
        }
        assert!(Instant::now() < until, "{own} descriptors before, {files} after; threads {threads_before}, {}", threads());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sessions_come_and_go_within_a_client() {
    let server = server();
    let client = server.client();
    visit(&client.session().unwrap(), 0);
    std::thread::sleep(Duration::from_millis(100));
    let quiet = Gauges { files: 0, ..gauges(&server) };
    let files = server.open_files();
    for round in 0..scale(100) {
        visit(&client.session().unwrap(), round);
    }
    let until = Instant::now() + lease() * 3;
    while (Gauges { files: 0, ..gauges(&server) }) != quiet || server.open_files() > files {
        assert!(Instant::now() < until, "{:?}, it was {quiet:?} and {files} files", gauges(&server));
        std::thread::sleep(Duration::from_millis(20));
    }
}
