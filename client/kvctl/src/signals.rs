//! SIGINT, SIGTERM and SIGHUP as events, told by a thread of their own.

use crate::failure::{Done, Failure, TROUBLE};
use rustix::process::Signal;
use std::io;
use std::sync::mpsc;
use tokio::signal::unix::{SignalKind, signal};

/// Calls `on` for each signal until it answers false. From when this returns, the signals no longer end the process.
pub fn watch(on: impl FnMut(Signal) -> bool + Send + 'static) -> Done {
    let (ready, started) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || tell(on, &ready)).map_err(|error| trouble(&error))?;
    match started.recv() {
        Ok(result) => result.map_err(|error| trouble(&error)),
        Err(_) => Err(trouble(&io::Error::other("the thread ended"))),
    }
}

fn trouble(error: &io::Error) -> Failure {
    Failure::new(TROUBLE, "signals", format!("cannot watch for signals: {error}"))
}

fn tell(mut on: impl FnMut(Signal) -> bool, ready: &mpsc::SyncSender<io::Result<()>>) {
    let outcome = tokio::runtime::Builder::new_current_thread().enable_io().build().and_then(|runtime| {
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hangup = signal(SignalKind::hangup())?;
            let _ = ready.send(Ok(()));
            loop {
                let seen = tokio::select! {
                    _ = interrupt.recv() => Signal::INT,
                    _ = terminate.recv() => Signal::TERM,
                    _ = hangup.recv() => Signal::HUP,
                };
                if !on(seen) {
                    return Ok(());
                }
            }
        })
    });
    if let Err(error) = outcome {
        let _ = ready.send(Err(error));
    }
}
