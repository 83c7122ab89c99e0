//! A way of TCP between two programs, to be cut: a network that fails, for those who speak over the loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often a pump looks whether its way is still open.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes on their way at once, in each direction.
const CHUNK: usize = 64 << 10;

/// What becomes of what is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cut {
    /// It arrives.
    Not,
    /// It arrives when the way is mended: packets are lost and sent again, and nobody is told.
    Silent,
    /// Connections end, and new ones end at once.
    Loud,
}

struct Way {
    cut: AtomicU8,
    over: AtomicBool,
    target: u16,
    open: Mutex<Vec<TcpStream>>,
}

/// A port of the loopback that leads to another one.
pub struct Relay {
    port: u16,
    way: Arc<Way>,
}

impl Relay {
    /// A way to `target` of the loopback.
    ///
    /// # Panics
    /// When no port is to be had.
    #[must_use]
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system picks a port");
        let port = listener.local_addr().expect("it is bound").port();
        let way =
            Arc::new(Way { cut: AtomicU8::new(Cut::Not as u8), over: AtomicBool::new(false), target, open: Mutex::default() });
        let of = Arc::clone(&way);
        thread::spawn(move || of.serve(&listener));
        Self { port, way }
    }

    /// Where it begins.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts the way, or mends it.
    pub fn cut(&self, cut: Cut) {
        self.way.cut.store(cut as u8, Ordering::SeqCst);
        if cut == Cut::Loud {
            self.way.end_all();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.way.over.store(true, Ordering::SeqCst);
        self.way.end_all();
        // Whoever accepts looks up.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Way {
    fn is(&self, cut: Cut) -> bool {
        self.cut.load(Ordering::SeqCst) == cut as u8
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn end_all(&self) {
        let ended = std::mem::take(&mut *self.open.lock().expect("no pump panics"));
        ended.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    fn serve(self: Arc<Self>, listener: &TcpListener) {
        for near in listener.incoming().filter_map(Result::ok) {
            if self.is_over() {
                return;
            }
            if self.is(Cut::Loud) {
                continue;
            }
            let Ok(far) = TcpStream::connect(("127.0.0.1", self.target)) else { continue };
            let (Ok(from_near), Ok(from_far)) = (near.try_clone(), far.try_clone()) else { continue };
            let mut open = self.open.lock().expect("no pump panics");
            // Whoever has ended is told of no cut.
            open.retain(|stream| stream.peer_addr().is_ok());
            open.extend([near.try_clone(), far.try_clone()].into_iter().filter_map(Result::ok));
            drop(open);
            for (from, to) in [(from_near, far), (from_far, near)] {
                let way = Arc::clone(&self);
                thread::spawn(move || way.pump(from, to));
            }
        }
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; CHUNK];
        let _ = from.set_read_timeout(Some(LOOK));
        while !self.is_over() {
            if self.is(Cut::Silent) {
                thread::sleep(LOOK);
                continue;
            }
            match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    // What was read before the cut is still on its way.
                    while self.is(Cut::Silent) && !self.is_over() {
                        thread::sleep(LOOK);
                    }
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_cut_carries_nothing_until_it_is_mended() {
        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay::to(target.local_addr().unwrap().port());
        let mut near = TcpStream::connect(("127.0.0.1", relay.port())).unwrap();
        let (mut far, _) = target.accept().unwrap();
        far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut byte = [0];
        near.write_all(b"1").unwrap();
        far.read_exact(&mut byte).unwrap();
        relay.cut(Cut::Silent);
        // A pump may be in its last look.
        thread::sleep(LOOK * 3);
        near.write_all(b"2").unwrap();
        assert!(far.read_exact(&mut byte).is_err(), "nothing gets through");
        relay.cut(Cut::Not);
        far.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"2");
        relay.cut(Cut::Loud);
        assert_eq!(near.read(&mut byte).unwrap_or(0), 0, "the connection has ended");
    }
}
