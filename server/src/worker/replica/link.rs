//! The way to another server's worker: asked for over the control plane, opened on this worker's own port.

use super::super::poll_loop::Worker;
use super::fill;
use super::send::Message;
use crate::cluster::LinkAsk;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::MemberId;
use sidewire_common::fabric::{EndpointId, EndpointSpec, FabricError, PeerInfo, RemoteRegion, Role};
use sidewire_common::limits::MESSAGE_CREDITS;
use sidewire_common::staging_ring::{Ring, Span};
use std::collections::VecDeque;
use std::time::Duration;

/// Pauses between attempts to open a link; doubled up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long the fabric's handshake may hold this worker up. The peer has answered the control plane just before.
const HANDSHAKE_MAX: Duration = Duration::from_millis(50);

/// A server and one of its workers.
pub(super) type LinkName = (MemberId, u32);

/// What was posted and not answered.
pub(super) struct Sent {
    pub sequence: u64,
    pub span: Span,
    pub message: Message,
    pub at: BootInstant,
}

#[derive(Debug)]
pub(super) enum State {
    /// Tried again at this moment.
    Down(BootInstant),
    /// Waits for the control plane; the endpoint is this side's.
    Asked(EndpointId),
    /// Works.
    Up(EndpointId),
}

/// A link.
pub(super) struct Link {
    pub state: State,
    pause: Duration,
    /// Since when it is down, or was made.
    pub since: BootInstant,
    pub staging: Option<RemoteRegion>,
    pub ring: Ring,
    pub sequence: u64,
    /// Oldest first.
    pub unanswered: VecDeque<Sent>,
    pub queue: VecDeque<Message>,
}

impl Link {
    fn new(now: BootInstant) -> Self {
        Self {
            state: State::Down(now),
            pause: PAUSE_FIRST,
            since: now,
            staging: None,
            ring: Ring::new(0),
            sequence: 0,
            unanswered: VecDeque::new(),
            queue: VecDeque::new(),
        }
    }

    /// Since when the other side owes an answer.
    pub fn owes_since(&self) -> Option<BootInstant> {
        match self.state {
            State::Up(_) => self.unanswered.front().map(|sent| sent.at),
            _ => Some(self.since),
        }
    }
}

impl Worker {
    /// The link to the copy of `shard` at `member`, made if there is none.
    pub(super) fn link_of(&mut self, member: MemberId, shard: u32) -> Option<LinkName> {
        let map = self.replication.map.as_ref()?;
        map.members.get(&member)?;
        let workers = self.replication.worker_counts.get(&member).copied();
        // Not known before the first answer: any worker can be asked.
        let name = (member, workers.map_or(0, |count| shard % count));
        let now = BootInstant::now();
        self.replication.links.entry(name).or_insert_with(|| Link::new(now));
        Some(name)
    }

    /// Asks for links that are down and due.
    pub(super) fn dial(&mut self) -> bool {
        let now = BootInstant::now();
        let due = |link: &Link| matches!(link.state, State::Down(at) if now >= at);
        let names: Vec<LinkName> = self.replication.links.iter().filter(|(_, link)| due(link)).map(|(&name, _)| name).collect();
        for &name in &names {
            if let Err(error) = self.ask_for(name) {
                tracing::debug!(worker = self.number, member = %name.0, %error, "a link cannot be opened");
                self.link_failed(name);
            }
        }
        !names.is_empty()
    }

    fn ask_for(&mut self, name: LinkName) -> Result<(), FabricError> {
        let (Some(map), Some(me)) = (self.replication.map.clone(), self.replication.me) else { return Ok(()) };
        let Some(member) = map.members.get(&name.0) else { return Ok(()) };
        let spec = EndpointSpec { role: Role::Writer, send_depth: MESSAGE_CREDITS, recv_depth: MESSAGE_CREDITS };
        let opened = self.port.open(&spec)?;
        if let Some(link) = self.replication.links.get_mut(&name) {
            link.state = State::Asked(opened.endpoint);
        }
        let ask = LinkAsk {
            me,
            worker: self.number,
            member: name.0,
            to_worker: name.1,
            address: member.address.clone(),
            peer: opened.info,
            endpoint: opened.endpoint,
        };
        self.store.cluster().ask_link(ask);
        Ok(())
    }

    /// The control plane has answered.
    pub(in super::super) fn link_answered(
        &mut self,
        name: LinkName,
        endpoint: EndpointId,
        answer: Result<(PeerInfo, RemoteRegion, u32), String>,
    ) {
        let waits = matches!(self.replication.links.get(&name).map(|l| &l.state), Some(State::Asked(of)) if *of == endpoint);
        if !waits {
            return self.port.close(endpoint);
        }
        let connected = answer.and_then(|(peer, staging, workers)| {
            self.port.set_patience(HANDSHAKE_MAX);
            self.port.connect(endpoint, &peer).map_err(|error| error.to_string())?;
            Ok((staging, workers))
        });
        match connected {
            Ok((_, workers)) if name.1 >= workers || !self.learn_workers(name, workers) => {
                // The link leads to a worker that serves none of these shards.
                self.port.close(endpoint);
                self.move_link(name);
            }
            Ok((staging, _)) => self.link_up(name, endpoint, staging),
            Err(error) => {
                tracing::debug!(worker = self.number, member = %name.0, error, "a link was not opened");
                self.port.close(endpoint);
                self.link_failed(name);
            }
        }
    }

    /// Notes how many workers a member has. False when that was not known: its shards may belong to other links then.
    fn learn_workers(&mut self, name: LinkName, workers: u32) -> bool {
        self.replication.worker_counts.insert(name.0, workers.max(1)) == Some(workers.max(1)) || workers == 1
    }

    /// The messages of a link go to the links of their shards.
    fn move_link(&mut self, name: LinkName) {
        let Some(link) = self.replication.links.remove(&name) else { return };
        for message in link.unanswered.into_iter().map(|sent| sent.message).chain(link.queue) {
            if let Some(right) = self.link_of(name.0, message.shard())
                && let Some(link) = self.replication.links.get_mut(&right)
            {
                link.queue.push_back(message);
            }
        }
    }

    fn link_up(&mut self, name: LinkName, endpoint: EndpointId, staging: RemoteRegion) {
        let Some(link) = self.replication.links.get_mut(&name) else { return self.port.close(endpoint) };
        tracing::debug!(worker = self.number, member = %name.0, to = name.1, "a link is up");
        link.ring = Ring::new(usize::try_from(staging.bytes).unwrap_or(0));
        (link.state, link.staging, link.pause, link.sequence) = (State::Up(endpoint), Some(staging), PAUSE_FIRST, 0);
        self.replication.ends.insert(endpoint, name);
    }

    fn link_failed(&mut self, name: LinkName) {
        if let Some(link) = self.replication.links.get_mut(&name) {
            link.state = State::Down(BootInstant::now().plus(link.pause));
            link.pause = (link.pause * 2).min(PAUSE_MAX);
        }
    }

    /// A link has broken: what was not answered is told again on the next one, in the same order. A copy takes nothing
    /// twice; one that is still being filled begins anew.
    pub(in super::super) fn link_broke(&mut self, endpoint: EndpointId) {
        let Some(name) = self.replication.ends.remove(&endpoint) else { return };
        self.port.close(endpoint);
        let Some(link) = self.replication.links.get_mut(&name) else { return };
        link.since = BootInstant::now();
        link.state = State::Down(link.since);
        while let Some(sent) = link.unanswered.pop_back() {
            link.queue.push_front(sent.message);
        }
        tracing::info!(worker = self.number, member = %name.0, to = name.1, "a link broke");
        self.restart_fills(name);
    }

    /// Copies at the end of this link that are not whole begin anew.
    pub(super) fn restart_fills(&mut self, name: LinkName) {
        self.replication.moving = true;
        let mut shards = Vec::new();
        let served = self.replication.shards.keys().copied().filter(|&number| self.replication.serves(name, number));
        for number in served.collect::<Vec<u32>>() {
            let Some(primary) = self.replication.primary(number) else { continue };
            if let Some(fill) = primary.fills.get_mut(&name.0) {
                *fill = fill::Fill::default();
                shards.push(number);
            }
            let joining = primary.followers.get(&name.0).is_some_and(|f| !f.in_map && f.join != fill::Join::Wished);
            if joining {
                primary.followers.remove(&name.0);
                primary.fills.insert(name.0, fill::Fill::default());
                shards.push(number);
            }
        }
        for shard in shards {
            if let Some(link) = self.replication.links.get_mut(&name) {
                link.queue.retain(|message| message.shard() != shard);
            }
            self.no_longer_awaited(shard, name.0);
        }
    }

    /// Links to servers that have left.
    pub(super) fn drop_links(&mut self) {
        let Some(map) = self.replication.map.clone() else { return };
        let gone: Vec<LinkName> =
            self.replication.links.keys().filter(|(member, _)| !map.members.contains_key(member)).copied().collect();
        for name in gone {
            if let Some(link) = self.replication.links.remove(&name)
                && let State::Up(endpoint) | State::Asked(endpoint) = link.state
            {
                self.replication.ends.remove(&endpoint);
                self.port.close(endpoint);
            }
        }
        self.replication.worker_counts.retain(|member, _| map.members.contains_key(member));
    }
}
