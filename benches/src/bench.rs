//! A store under load: opened, loaded, warmed up, measured.

use crate::connect::Stop;
use crate::drive::{Line, Measured, Order};
use crate::force::Force;
use crate::load;
use crate::progress::Progress;
use crate::server_cost::ServerCost;
use crate::settings::Settings;
use crate::target::{Store, TargetUrl, open};

/// A store and those who put it under load.
pub struct Bench<'a> {
    settings: &'a Settings<'a>,
    target: TargetUrl,
    /// The store.
    pub store: Box<dyn Store>,
    force: Option<Force>,
}

impl<'a> Bench<'a> {
    /// Opens the store, loads it if told to, and finds out whether its records are there.
    pub fn open(settings: &'a Settings<'a>, target: TargetUrl) -> Result<Self, Stop> {
        settings.plan(&target)?;
        let store = open(&target, &settings.args.common, &settings.args.records, &settings.needs())?;
        if settings.args.load {
            load::store_all(&*store, settings)?;
        }
        let bench = Self { settings, target, store, force: None };
        bench.require_records()?;
        Ok(bench)
    }

    /// A run on records that are not there would only count absences.
    fn require_records(&self) -> Result<(), Stop> {
        if self.settings.may_miss() {
            return Ok(());
        }
        let (records, mut keys) = (self.settings.records, self.settings.plan(&self.target)?.keys);
        let ends = [0, records - 1];
        let Some(at) = self.store.missing(&ends.map(|record| keys.write(record).to_vec()))? else { return Ok(()) };
        let text = format!(
            "record {} of {records} is not on {}; run `kv-bench load --records {records}` first, or `run --load`",
            ends[at], self.target
        );
        Err(Stop::Failed(text))
    }

    /// Opens the sessions and brings caches to where they are in the middle of a run.
    pub fn warm_up(&mut self) -> Result<(), Stop> {
        if self.force.is_none() {
            self.force = Some(Force::raise(&*self.store, self.settings, &self.target)?);
        }
        let Some(order) = self.settings.warm_up() else { return Ok(()) };
        let progress = Progress::new("warm-up", &order.limits);
        let measured = self.force()?.run(&order, None, &progress)?;
        measured.gave_up.map_or(Ok(()), |why| Err(Stop::Failed(format!("warm-up: {why}"))))
    }

    /// Runs a phase, and asks the server before and after it.
    pub fn phase(&self, title: &'static str, order: &Order, line: Option<Line>) -> Result<(Measured, Option<ServerCost>), Stop> {
        let before = self.store.look()?;
        let measured = self.force()?.run(order, line, &Progress::new(title, &order.limits))?;
        // A server that is gone has no more to say; the figures up to there are still told.
        let after = self.store.look().ok();
        Ok((measured, after.map(|after| before.until(after))))
    }

    /// Ends the sessions.
    pub fn dismiss(&mut self) {
        self.force = None;
    }

    fn force(&self) -> Result<&Force, Stop> {
        self.force.as_ref().ok_or_else(|| Stop::Failed("there are no sessions".into()))
    }
}
