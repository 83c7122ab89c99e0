//! Hearing of changes in etcd.
//!
//! What has changed is not taken from here: whoever is nudged reads the state as it is. So a watch that broke, or whose
//! past was compacted, is simply begun anew from now.

use etcd_client::{Error, EventType, WatchClient, WatchOptions};
use std::time::Duration;

/// Pause before a watch that ended is begun anew.
const PAUSE: Duration = Duration::from_millis(200);

/// Calls `nudge` after every change below `prefix`, and whenever some may have been missed, with whether a key has
/// gone. Ends with its runtime.
pub(super) async fn follow(mut client: WatchClient, prefix: String, nudge: Box<dyn Fn(bool) + Send + Sync>) {
    loop {
        if let Err(error) = listen(&mut client, &prefix, &*nudge).await {
            tracing::debug!(%error, "the watch on etcd has ended; beginning anew");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(client: &mut WatchClient, prefix: &str, nudge: &(dyn Fn(bool) + Send + Sync)) -> Result<(), Error> {
    let options = WatchOptions::new().with_prefix();
    let mut stream = client.watch(prefix, Some(options)).await?;
    nudge(true);
    while let Some(change) = stream.message().await? {
        if change.canceled() {
            return Err(Error::WatchError(change.cancel_reason().to_owned()));
        }
        nudge(change.events().iter().any(|event| event.event_type() == EventType::Delete));
    }
    Ok(())
}
