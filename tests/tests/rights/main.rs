//! A client built to misbehave.
//!
//! What could break: one who holds a region's key or descriptor changes index or heap, sees or changes what another
//! client writes, or brings the server down by what it writes into its own ring. `shm` must refuse by seals and by
//! never handing out another's ring; `verbs` by access flags and protection domains. Afterwards the server and the
//! other clients go on, and every byte is as it was.

mod descriptors;
mod remote_access;
mod requests;

use sidewire::Session;
use sidewire_tests::stamped;

const KEYS: u64 = 200;

/// What the others have in the store.
fn fill(session: &Session) {
    for n in 0..KEYS {
        session.put(format!("r{n}").as_bytes(), &stamped::stamp(n, 1, 16 + n as usize * 9)).unwrap();
    }
    session.create_counter(b"count", 7).unwrap();
}

/// All of it is as it was, and can be changed.
fn is_whole(session: &Session) {
    for n in 0..KEYS {
        let value = session.get(format!("r{n}").as_bytes()).unwrap().unwrap_or_else(|| panic!("r{n} is gone"));
        assert_eq!(stamped::version_of(&value, n), Ok(1));
    }
    assert_eq!(session.counter(b"count").unwrap(), Some(7));
    session.put(b"written", b"after").unwrap();
    assert_eq!(&*session.get(b"written").unwrap().unwrap(), b"after");
    assert!(session.delete(b"written").unwrap());
}
