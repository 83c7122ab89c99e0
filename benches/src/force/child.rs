//! A process among those that work together: orders come on stdin, what they brought goes to stdout.

use std::io::{BufRead, Write};

use super::Reply;
use crate::connect::Stop;
use crate::drive::Order;
use crate::progress::Progress;
use crate::settings::Settings;
use crate::target::open;

/// Writes one line. Nobody who could be told is left when this fails: stdin ends then, too.
pub fn tell(reply: &Reply) {
    let mut line = serde_json::to_string(reply).unwrap_or_default();
    line.push('\n');
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Carries out orders until there are no more.
pub fn serve(settings: &Settings<'_>) -> Result<(), Stop> {
    let work = || -> Result<(), Stop> {
        let target = settings.target()?;
        let store = open(&target, &settings.args.common, &settings.args.records, &settings.needs())?;
        let crew = store.crew(&settings.plan(&target)?, settings.threads)?;
        tell(&Reply::Ready);
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| Stop::Failed(format!("stdin: {error}")))?;
            let order: Order = serde_json::from_str(&line).map_err(|error| Stop::Failed(format!("an order: {error}")))?;
            let measured = crew.run(&order, None, &Progress::piped())?;
            tell(&Reply::Measured(Box::new(measured.sent())));
        }
        Ok(())
    };
    work().inspect_err(|stop| tell(&Reply::Failed(stop.to_string())))
}
