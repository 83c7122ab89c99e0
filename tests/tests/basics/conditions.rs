//! Conditional writes, deletes, and keys that go away by themselves.

use sidewire::{Error, Kind, Unmet, Version, Write, WriteOptions};
use sidewire_tests::{Server, setting};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn done(write: Write) -> Version {
    match write {
        Write::Done(version) => version,
        Write::NotDone(why) => panic!("not done: {why:?}"),
    }
}

fn unmet(write: Write) -> Unmet {
    match write {
        Write::NotDone(why) => why,
        Write::Done(version) => panic!("done: {version:?}"),
    }
}

#[test]
fn conditions_are_judged_by_what_is_there() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    let key = b"condition";
    let never = Version::from_raw(1);
    assert_eq!(unmet(session.put_if_version(key, b"0", never).unwrap()), Unmet::NotFound);
    assert_eq!(unmet(session.delete_if_version(key, never).unwrap()), Unmet::NotFound);
    let first = done(session.put_if_absent(key, b"1").unwrap());
    assert_eq!(unmet(session.put_if_absent(key, b"2").unwrap()), Unmet::Exists(first));
    let second = done(session.put_if_version(key, b"2", first).unwrap());
    assert!(second > first, "versions rise");
    assert_eq!(unmet(session.put_if_version(key, b"3", first).unwrap()), Unmet::Mismatch(second));
    assert_eq!(unmet(session.delete_if_version(key, first).unwrap()), Unmet::Mismatch(second));
    let value = session.get(key).unwrap().unwrap();
    assert_eq!((&*value, value.version()), (&b"2"[..], second), "refused writes show nowhere");
    done(session.delete_if_version(key, second).unwrap());
    assert!(session.get(key).unwrap().is_none());
    assert!(!session.exists(key).unwrap());
    let third = done(session.put_if_absent(key, b"4").unwrap());
    assert!(third > second, "a key's versions rise over its deletion");
    assert_eq!(unmet(session.put_if_version(key, b"5", second).unwrap()), Unmet::Mismatch(third), "no life is taken for another");
}

/// Two who compare and swap could both believe that they won.
#[test]
fn of_several_conditional_writers_one_wins_each_version() {
    const THREADS: u64 = 4;
    let rounds = sidewire_tests::scale(300);
    let server = Server::builder().workers(2).start();
    let client = server.client();
    client.session().unwrap().put(b"cas", &0_u64.to_le_bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let session = client.session().unwrap();
                let mut won = 0;
                while won < rounds {
                    let (version, sum) = {
                        let value = session.get(b"cas").unwrap().unwrap();
                        (value.version(), u64::from_le_bytes((*value).try_into().unwrap()))
                    };
                    match session.put_if_version(b"cas", &(sum + 1).to_le_bytes(), version).unwrap() {
                        Write::Done(_) => won += 1,
                        Write::NotDone(why) => assert!(matches!(why, Unmet::Mismatch(_)), "{why:?}"),
                    }
                }
            });
        }
    });
    let sum = client.session().unwrap().get(b"cas").unwrap().unwrap();
    assert_eq!(u64::from_le_bytes((*sum).try_into().unwrap()), THREADS * rounds);
}

/// A key could outlive its time in a cache, or vanish before it.
#[test]
fn a_key_goes_away_at_its_time() {
    let server = Server::start();
    let (client, other) = (server.client(), server.client());
    let (session, other) = (client.session().unwrap(), other.session().unwrap());
    let ttl = setting::patience(Duration::from_millis(400));
    let options = WriteOptions::new().ttl(ttl);
    let started = Instant::now();
    done(session.put_with(b"brief", b"1", &options).unwrap());
    session.put(b"lasting", b"1").unwrap();
    let mut seen = 0;
    loop {
        let (before, value, after) = (started.elapsed(), other.get(b"brief").unwrap(), started.elapsed());
        match value {
            Some(value) => {
                seen += 1;
                let left = Duration::from_millis(value.expires_in_ms().expect("it has a time"));
                assert!(left <= ttl, "{left:?} left");
                assert!(before < ttl + setting::patience(Duration::from_millis(100)), "still there after {before:?}");
            }
            None => {
                assert!(after + Duration::from_millis(5) >= ttl, "gone after {after:?}");
                break;
            }
        }
        sleep(Duration::from_millis(3));
    }
    assert!(seen > 0);
    assert!(!session.exists(b"brief").unwrap());
    assert_eq!(session.kind(b"brief").unwrap(), None);
    assert!(!session.delete(b"brief").unwrap(), "what is over is not there to be deleted");
    done(session.put_if_absent(b"brief", b"2").unwrap());
    assert_eq!(other.get(b"brief").unwrap().unwrap().expires_in_ms(), None, "a later write without a time has none");
    assert_eq!(session.kind(b"lasting").unwrap(), Some(Kind::Value));
    // A write renews the time; a shorter one shortens it.
    done(session.put_with(b"renewed", b"1", &options).unwrap());
    done(session.put_with(b"renewed", b"2", &WriteOptions::new().ttl(Duration::from_secs(3600))).unwrap());
    sleep(ttl + Duration::from_millis(50));
    assert_eq!(&*other.get(b"renewed").unwrap().unwrap(), b"2");
}

/// Keys that nobody looks at could hold their memory for ever.
#[test]
fn keys_whose_time_is_over_give_their_memory_back() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    let options = WriteOptions::new().ttl(Duration::from_millis(200));
    for n in 0..200 {
        done(session.put_with(format!("t{n}").as_bytes(), &[1; 500], &options).unwrap());
    }
    let until = Instant::now() + setting::patience(Duration::from_secs(10));
    while server.info().keys > 0 {
        assert!(Instant::now() < until, "{} keys are left", server.info().keys);
        sleep(Duration::from_millis(50));
    }
    assert_eq!((server.info().record_bytes, server.info().expired), (0, 200));
}

#[test]
fn a_time_beyond_ten_years_is_refused() {
    let server = Server::start();
    let client = server.client();
    let session = client.session().unwrap();
    let century = WriteOptions::new().ttl(Duration::from_secs(100 * 365 * 86_400));
    match session.put_with(b"k", b"v", &century) {
        Err(Error::Refused { limit, .. }) => assert_eq!(limit, 10 * 365 * 86_400_000),
        other => panic!("{other:?}"),
    }
    assert!(!session.exists(b"k").unwrap());
}
