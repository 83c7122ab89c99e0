//! Asking threads that know nothing of tokio, with a bound on every wait.

use super::refusal::Refusal;
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use sidewire_common::clock::BootInstant;
use sidewire_common::host;
use std::future::Future;
use std::time::Duration;

/// Time for a worker or the lease thread to answer. It exceeds the 5 s that a fabric's handshake may take.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Gives `count` threads something to do (`send` hands over their reply channel) and waits for all replies.
pub(super) async fn ask_all<T: Send + 'static>(
    who: &str,
    count: usize,
    send: impl FnOnce(Sender<T>) -> Result<(), Refusal>,
) -> Result<Vec<T>, Refusal> {
    let (reply, replies) = bounded(count);
    send(reply)?;
    let who = who.to_owned();
    if host::is_simulated() {
        return collect(who, count, &replies);
    }
    let waiting = tokio::task::spawn_blocking(move || collect(who, count, &replies));
    waiting.await.unwrap_or(Err(Refusal::Stopping))
}

/// Runs a future on a task of its own: it goes on when the caller hangs up half-way.
pub(super) async fn apart<T: Send + 'static>(
    future: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    if host::is_simulated() {
        return future.await;
    }
    tokio::spawn(future).await.unwrap_or(Err(Refusal::Stopping))
}

/// The same for one thread.
pub(super) async fn ask<T: Send + 'static>(who: &str, send: impl FnOnce(Sender<T>) -> Result<(), Refusal>) -> Result<T, Refusal> {
    let mut replies = ask_all(who, 1, send).await?;
    replies.pop().ok_or(Refusal::Stopping)
}

fn collect<T>(who: String, count: usize, replies: &Receiver<T>) -> Result<Vec<T>, Refusal> {
    let started = BootInstant::now();
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let left = ANSWER_LIMIT.saturating_sub(BootInstant::now().since(started));
        match host::receive_within(replies, left) {
            Ok(reply) => all.push(reply),
            Err(RecvTimeoutError::Timeout) => return Err(Refusal::Deadline { who, seconds: ANSWER_LIMIT.as_secs() }),
            Err(RecvTimeoutError::Disconnected) => return Err(Refusal::Stopping),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_replies_are_awaited() {
        let sent = |reply: Sender<u32>| {
            std::thread::spawn(move || (0..3).for_each(|n| reply.send(n).unwrap()));
            Ok(())
        };
        assert_eq!(ask_all("workers", 3, sent).await.unwrap(), [0, 1, 2]);
    }

    #[tokio::test]
    async fn a_thread_that_ended_is_a_server_that_stops() {
        let dropped = |_: Sender<u32>| Ok(());
        assert!(matches!(ask("a worker", dropped).await, Err(Refusal::Stopping)));
    }
}
