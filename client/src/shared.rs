//! What the sessions of a client and the heartbeat to one of its servers share.

use crate::attach::Wishes;
use crate::attached::Attached;
use crate::cluster::{Manner, Membership};
use crate::control::Control;
use crate::error::Error;
use crate::stats::{AllStats, SessionStats};
use parking_lot::{Condvar, Mutex, RwLock};
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::{MemberId, Reign};
use sidewire_common::fabric::Waker;
use sidewire_common::host;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Since when there has been no attachment, and why.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    pub since: BootInstant,
    pub reason: String,
    /// Attempts to attach anew that have failed.
    pub attempts: u64,
}

#[derive(Default)]
struct Wakers {
    heartbeat: Option<Waker>,
    sessions: Vec<(u64, Waker)>,
}

/// Shared by sessions, the heartbeat's thread and the handles.
pub(crate) struct Shared {
    pub control: Control,
    pub wishes: Wishes,
    pub deadline: Duration,
    pub spin: Duration,
    /// Whether requests that wait together share a message.
    pub packs: bool,
    /// Counts of the sessions at this server.
    pub stats: AllStats,
    /// Those of all servers of the client.
    pub all_stats: Arc<AllStats>,
    /// What the server is within its cluster, if it is in one.
    pub membership: Option<Membership>,
    /// `None` until there was a first one.
    attached: RwLock<Option<Arc<Attached>>>,
    /// Rises with each attachment; 0 before the first.
    life: AtomicU64,
    gone: Mutex<Option<Gone>>,
    changed: Condvar,
    wakers: Mutex<Wakers>,
    next_waker: AtomicU64,
    /// A session suspects that the server is gone.
    suspected: AtomicBool,
    /// The attachment of which the server said that it does not know it any more.
    lapsed: AtomicU64,
    beats_answered: AtomicU64,
    /// A call waits for an attempt to attach anew.
    hurried: AtomicBool,
    stopping: AtomicBool,
}

impl Shared {
    /// With its first attachment, or none yet.
    pub fn new(control: Control, manner: &Manner, attached: Option<Attached>, membership: Option<Membership>) -> Self {
        let reason = "it was not attached to yet".into();
        let gone = attached.is_none().then(|| Gone { since: BootInstant::now(), reason, attempts: 0 });
        Self {
            control,
            wishes: manner.wishes.clone(),
            deadline: manner.deadline,
            spin: manner.spin,
            packs: manner.packs,
            stats: AllStats::default(),
            all_stats: Arc::clone(&manner.stats),
            membership,
            life: AtomicU64::new(u64::from(attached.is_some())),
            attached: RwLock::new(attached.map(Arc::new)),
            gone: Mutex::new(gone),
            changed: Condvar::new(),
            wakers: Mutex::default(),
            next_waker: AtomicU64::new(1),
            suspected: AtomicBool::new(false),
            lapsed: AtomicU64::new(0),
            beats_answered: AtomicU64::new(0),
            hurried: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// The latest attachment, which may have ended; `None` before the first.
    pub fn attached(&self) -> Option<Arc<Attached>> {
        self.attached.read().clone()
    }

    /// Whether there is one that has not ended.
    pub fn is_attached(&self) -> bool {
        self.attached.read().as_ref().is_some_and(|attached| !attached.has_ended())
    }

    /// Which member of its cluster the server is.
    pub fn member(&self) -> Option<MemberId> {
        self.membership.as_ref().map(|membership| membership.id)
    }

    /// Which attachment it is.
    pub fn life(&self) -> u64 {
        self.life.load(Ordering::Acquire)
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        self.control.address().as_str()
    }

    /// The attachment has ended. The heartbeat's thread alone calls it, and `attached_anew`.
    pub fn ended(&self, reason: &str) {
        if let Some(attached) = &*self.attached.read() {
            attached.end();
        }
        *self.gone.lock() = Some(Gone { since: BootInstant::now(), reason: reason.into(), attempts: 0 });
        self.wake_sessions();
    }

    /// Why attaching anew has failed once more.
    pub fn still_gone(&self, error: &Error) {
        if let Some(gone) = self.gone.lock().as_mut() {
            gone.reason = error.reason();
            gone.attempts += 1;
        }
        self.changed.notify_all();
    }

    /// Asks for an attempt to attach anew without further pause.
    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// There is another attachment.
    pub fn attached_anew(&self, attached: Arc<Attached>) {
        let before = self.attached.write().replace(attached);
        self.suspected.store(false, Ordering::Release);
        if before.is_some() {
            self.stats.reattached();
            self.all_stats.reattached();
        }
        let mut gone = self.gone.lock();
        *gone = None;
        self.life.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
        drop(gone);
        self.wake_sessions();
    }

    /// Since when there has been no attachment.
    pub fn gone(&self) -> Option<Gone> {
        self.gone.lock().clone()
    }

    /// Waits until there is an attachment, at most for `limit`. False when there is none.
    pub fn wait_attached(&self, limit: Duration) -> bool {
        let mut gone = self.gone.lock();
        if gone.is_some() && !self.is_stopping() {
            host::wait_for(&self.changed, &mut gone, limit);
        }
        gone.is_none()
    }

    /// The error of a call that found no server.
    pub fn gone_error(&self) -> Error {
        let reason = self.gone().map_or_else(|| "no answer".into(), |g| g.reason);
        Error::ServerGone { server: self.server().into(), reason }
    }

    /// Whether a shard that was this server's in `reign` by the map of `epoch` is elsewhere by now, or in another reign.
    /// What was read here for it counts no more.
    #[inline]
    pub fn has_moved(&self, epoch: u32, shard: u32, reign: Reign) -> bool {
        let Some(membership) = &self.membership else { return false };
        membership.map.epoch() != epoch && !membership.map.is_primary(shard, membership.id, reign)
    }

    /// Counts of a new session here.
    pub fn begin_stats(&self) -> Arc<SessionStats> {
        let stats = self.stats.begin();
        self.all_stats.adopt(&stats);
        stats
    }

    /// The session has ended; its counts stay.
    pub fn end_stats(&self, stats: &Arc<SessionStats>) {
        self.stats.end(stats);
        self.all_stats.end(stats);
    }

    /// A session's way to be woken; and its name for `forget_session`.
    pub fn remember_session(&self, waker: Waker) -> u64 {
        let name = self.next_waker.fetch_add(1, Ordering::Relaxed);
        self.wakers.lock().sessions.push((name, waker));
        name
    }

    /// The session has ended.
    pub fn forget_session(&self, name: u64) {
        self.wakers.lock().sessions.retain(|(n, _)| *n != name);
    }

    /// The heartbeat's way to be woken.
    pub fn remember_heartbeat(&self, waker: Waker) {
        self.wakers.lock().heartbeat = Some(waker);
    }

    /// Wakes all sessions from whatever they wait for.
    pub fn wake_sessions(&self) {
        self.wakers.lock().sessions.iter().for_each(|(_, waker)| waker.wake());
    }

    /// Wakes the heartbeat's thread from whatever it waits for.
    pub fn wake_heartbeat(&self) {
        if let Some(waker) = &self.wakers.lock().heartbeat {
            waker.wake();
        }
        self.changed.notify_all();
    }

    /// A session could not reach the server: the heartbeat shall look.
    pub fn suspect(&self) {
        if !self.suspected.swap(true, Ordering::AcqRel) {
            self.wake_heartbeat();
        }
    }

    /// The server has told a session that it does not know this attachment any more.
    pub fn lapsed(&self, life: u64) {
        self.lapsed.fetch_max(life, Ordering::AcqRel);
        self.wake_heartbeat();
    }

    /// Whether it has told so of the present one.
    pub fn has_lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Acquire) >= self.life()
    }

    /// Whether a session suspects that the server is gone; asks once.
    pub fn take_suspicion(&self) -> bool {
        self.suspected.swap(false, Ordering::AcqRel)
    }

    /// The server has answered a heartbeat.
    pub fn beat_answered(&self) {
        self.beats_answered.fetch_add(1, Ordering::AcqRel);
    }

    /// Heartbeats that were answered so far.
    pub fn beats_answered(&self) -> u64 {
        self.beats_answered.load(Ordering::Acquire)
    }

    /// The client ends: what ends from here on is not attached anew.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether the client ends.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sleeps on behalf of the heartbeat, until the time is over, somebody is in a hurry, or the client ends.
    pub fn pause_heartbeat(&self, pause: Duration) {
        let started = BootInstant::now();
        let mut gone = self.gone.lock();
        while !self.is_stopping() && !self.hurried.swap(false, Ordering::AcqRel) {
            let left = pause.saturating_sub(BootInstant::now().since(started));
            if left.is_zero() {
                return;
            }
            host::wait_for(&self.changed, &mut gone, left);
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("server", &self.server()).field("attached", &self.attached).finish()
    }
}
