//! Connections, counted: one too many is closed at once instead of eating descriptors.

use sidewire_common::pace::Pace;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Pause after the kernel could not hand over a connection (descriptors used up), so that it is not asked in a loop.
const PAUSE: Duration = Duration::from_millis(100);

/// Lines about refused connections in a second.
static REFUSED: Pace = Pace::new(5);

/// Time for a connection's first bytes, the preface of HTTP/2. Before them nothing else watches it.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Bytes of the preface.
const HELLO_BYTES: usize = 24;

/// What is still to be heard before a connection is taken for one.
struct Hello {
    bytes: usize,
    until: Pin<Box<Sleep>>,
}

/// A connection and its place in the count.
pub(super) struct Connection {
    stream: TcpStream,
    hello: Option<Hello>,
    _place: OwnedSemaphorePermit,
}

/// Accepted connections.
pub(super) struct Incoming {
    listener: TcpListener,
    places: Arc<Semaphore>,
    limit: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Incoming {
    /// At most `limit` connections at a time.
    pub(super) fn new(listener: TcpListener, limit: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(limit)), limit, pause: None }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => {
                    let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                        if let Some(left_out) = REFUSED.admit() {
                            let limit = self.limit;
                            tracing::warn!(%peer, limit, left_out, "connection refused: there are as many as there may be");
                        }
                        continue;
                    };
                    // Without it a small answer waits for an acknowledgement of the one before.
                    let _ = stream.set_nodelay(true);
                    let hello = Hello { bytes: HELLO_BYTES, until: Box::pin(tokio::time::sleep(HELLO_TIME)) };
                    return Poll::Ready(Some(Ok(Connection { stream, hello: Some(hello), _place: place })));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    self.pause = Some(Box::pin(tokio::time::sleep(PAUSE)));
                }
            }
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if let Some(hello) = &mut self.hello {
            hello.bytes = hello.bytes.saturating_sub(into.filled().len() - before);
            if hello.bytes == 0 {
                self.hello = None;
            } else if hello.until.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
