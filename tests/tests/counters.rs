//! Counters and sequences, from several processes at once.
//!
//! What could break: an add that is acknowledged and lost, or counted twice; an add on a cell that serves another
//! counter by now; a sequence that gives a number twice. Every add here gets its answer, so the sums must be exact.

use sidewire::Error;
use sidewire_tests::{Child, Server, child, scale, server::client_builder, stamped};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

const PROCESSES: u64 = 3;

#[test]
fn child() {
    child::run(&[("adder", adder), ("taker", taker)]);
}

/// Adds so many times, then says the sum of what it added.
fn adder(arguments: &[String]) {
    let [address, count, seed] = arguments else { panic!("{arguments:?}") };
    let (count, seed) = (count.parse::<u64>().unwrap(), seed.parse::<u64>().unwrap());
    let client = client_builder(address).connect().unwrap();
    let session = client.session().unwrap();
    let mut sums = [0_i64; 2];
    for n in 0..count {
        let delta = (stamped::mixed(n, seed) % 2001) as i64 - 1000;
        session.add(b"plain", delta).unwrap();
        sums[0] += delta;
        if n % 16 == 0 {
            session.add_exactly_once(b"plain", 3).unwrap();
            sums[0] += 3;
        }
        session.add(b"ones", 1).unwrap();
        sums[1] += 1;
    }
    child::say(format!("{} {}", sums[0], sums[1]));
}

#[test]
fn the_sum_is_the_sum_of_all_adds() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    session.create_counter(b"plain", 1_000_000).unwrap();
    session.create_counter(b"ones", 0).unwrap();
    let count = scale(20_000);
    let children: Vec<_> =
        (0..PROCESSES).map(|n| Child::start("adder", &[server.address(), &count.to_string(), &n.to_string()])).collect();
    let (mut plain, mut ones) = (1_000_000, 0);
    for child in children {
        let said = child.hear();
        let (a, b) = said.split_once(' ').unwrap();
        plain += a.parse::<i64>().unwrap();
        ones += b.parse::<i64>().unwrap();
        child.finish();
    }
    assert_eq!(session.counter(b"plain").unwrap(), Some(plain));
    assert_eq!(session.counter(b"ones").unwrap(), Some(ones));
    assert_eq!(ones as u64, PROCESSES * count);
}

/// Takes numbers of a sequence until it has enough, and says them.
fn taker(arguments: &[String]) {
    let [address, count] = arguments else { panic!("{arguments:?}") };
    let client = client_builder(address).connect().unwrap();
    let session = client.session().unwrap();
    let numbers: Vec<_> = (0..count.parse().unwrap()).map(|_| session.next(b"numbers").unwrap().to_string()).collect();
    child::say(numbers.join(" "));
}

#[test]
fn a_sequence_gives_no_number_twice() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    session.create_sequence(b"numbers", 100).unwrap();
    let count = scale(5_000);
    let mut killed = Child::start("taker", &[server.address(), "100000000"]);
    let children: Vec<_> = (0..PROCESSES).map(|_| Child::start("taker", &[server.address(), &count.to_string()])).collect();
    let mut seen = HashSet::new();
    for (n, child) in children.into_iter().enumerate() {
        for number in child.hear().split(' ') {
            let number: i64 = number.parse().unwrap();
            assert!(number >= 100 && seen.insert(number), "{number} twice");
        }
        child.finish();
        if n == 0 {
            killed.kill();
        }
    }
    let next = session.next(b"numbers").unwrap();
    assert!(seen.iter().all(|&number| number < next));
    assert_eq!(seen.len() as u64, PROCESSES * count);
}

/// A counter that is deleted and made anew while others add: an add could count on a cell that serves nobody, or
/// another counter. Each life of the counter begins at another thousand million, so an answer says in which life it
/// counted. In each life the answers must be begin + 1, + 2, ..., each once, none left out.
#[test]
fn adds_that_were_acknowledged_count_in_the_life_they_were_told() {
    const LIFE: i64 = 1_000_000_000;
    let lives = scale(60) as i64;
    let server = Server::start();
    let stop = AtomicBool::new(false);
    let (mut answers, absent) = std::thread::scope(|scope| {
        let adders: Vec<_> = (0..PROCESSES)
            .map(|_| {
                let (stop, address) = (&stop, server.address());
                scope.spawn(move || {
                    let client = client_builder(address).connect().unwrap();
                    let session = client.session().unwrap();
                    let (mut answers, mut absent) = (Vec::new(), 0);
                    while !stop.load(Ordering::Relaxed) {
                        match session.add(b"mortal", 1) {
                            Ok(sum) => answers.push(sum),
                            Err(Error::NotFound) => absent += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (answers, absent)
                })
            })
            .collect();
        let client = client_builder(server.address()).connect().unwrap();
        let session = client.session().unwrap();
        for life in 1..=lives {
            assert!(session.create_counter(b"mortal", life * LIFE).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(10));
            if life < lives {
                assert!(session.delete(b"mortal").unwrap());
                // Whoever gets the cell next must not get late adds with it.
                session.create_counter(format!("heir{life}").as_bytes(), 0).unwrap();
            }
            if adders.iter().any(|adder| adder.is_finished()) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let all: Vec<_> = adders.into_iter().map(|adder| adder.join().unwrap()).collect();
        (all.iter().flat_map(|a| a.0.iter().copied()).collect::<Vec<_>>(), all.iter().map(|a| a.1).sum::<u64>())
    });
    answers.sort_unstable();
    let mut expected = 0;
    for &answer in &answers {
        let begins = answer / LIFE * LIFE;
        if expected <= begins {
            expected = begins + 1;
        }
        assert_eq!(answer, expected, "in life {} an add was lost or counted twice", answer / LIFE);
        expected += 1;
    }
    println!("{} adds in {lives} lives, {absent} between them", answers.len());
    let client = server.client();
    let session = client.session().unwrap();
    for life in 1..lives {
        assert_eq!(session.counter(format!("heir{life}").as_bytes()).unwrap(), Some(0), "an add for a dead counter");
    }
    let left = session.counter(b"mortal").unwrap();
    // On a busy machine nobody may have added in the last life: then it holds what it began with.
    let last = answers.last().copied().unwrap_or(0).max(lives * LIFE);
    assert_eq!(left, Some(last), "the last answer is what is there");
}
