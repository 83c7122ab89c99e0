//! Servers, the map that they follow, and who grants their wishes.

use crate::raw::{Client, PATIENCE, Server};
use crossbeam::channel::bounded;
use kv_server::cluster::{Hands, LinkAsk};
use kv_server::worker::{Command, ScanCursor, ScanItem, Workers};
use parking_lot::Mutex;
use sidewire_common::cluster::change::{Change, apply};
use sidewire_common::cluster::{Assignment, ClusterMap, Member, MemberId};
use sidewire_common::fabric::PeerInfo;
use sidewire_common::layout::ack::Outcome;
use sidewire_common::layout::request::Condition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Seed of every cluster here.
pub const SEED: u64 = 7;

/// What all servers see.
#[derive(Default)]
pub struct Board {
    map: Mutex<Option<ClusterMap>>,
    workers: Mutex<BTreeMap<MemberId, Arc<Workers>>>,
    /// Servers that no link reaches.
    unreachable: Mutex<BTreeSet<MemberId>>,
    /// Whether wishes are granted.
    pub deaf: Mutex<bool>,
    pub wishes: Mutex<Vec<(MemberId, Change)>>,
}

/// One server's hands.
struct HandsOf(Arc<Board>, MemberId);

impl Hands for HandsOf {
    fn wish(&self, wish: Change) {
        let (board, me) = (Arc::clone(&self.0), self.1);
        board.wishes.lock().push((me, wish.clone()));
        if !*board.deaf.lock() {
            std::thread::spawn(move || board.grant(me, &wish));
        }
    }

    fn ask_link(&self, ask: LinkAsk) {
        let board = Arc::clone(&self.0);
        std::thread::spawn(move || board.connect(ask));
    }
}

impl Board {
    fn connect(&self, ask: LinkAsk) {
        let target = self.workers.lock().get(&ask.member).cloned();
        let source = self.workers.lock().get(&ask.me).cloned();
        let reachable = !self.unreachable.lock().contains(&ask.member);
        let answer = match target.filter(|_| reachable) {
            None => Err("unreachable".into()),
            Some(target) => {
                let (reply, told) = bounded(1);
                let command = Command::OpenPeer { member: ask.me, worker: ask.worker, peer: ask.peer, reply };
                target.send(ask.to_worker, command).map_err(|e| e.to_string()).and_then(|()| {
                    let opened = told.recv_timeout(PATIENCE).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
                    Ok((opened.peer, opened.staging.unwrap(), target.count()))
                })
            }
        };
        if let Some(source) = source {
            let LinkAsk { member, to_worker, endpoint, worker, .. } = ask;
            let _ = source.send(worker, Command::LinkAnswered { member, to_worker, endpoint, answer });
        }
    }

    /// Changes the map as the wish says, if it still holds.
    pub fn grant(&self, by: MemberId, wish: &Change) {
        let mut map = self.map.lock();
        if let Ok(Some(changed)) = apply(map.as_ref().unwrap(), by, wish) {
            *map = Some(changed);
            self.tell_all(map.as_ref().unwrap());
        }
    }

    /// Changes the map and tells every server.
    pub fn change(&self, change: impl FnOnce(&mut ClusterMap)) {
        let mut map = self.map.lock();
        let map = map.as_mut().unwrap();
        change(map);
        map.epoch += 1;
        map.check().unwrap();
        self.tell_all(map);
    }

    fn tell_all(&self, map: &ClusterMap) {
        for (&me, workers) in &*self.workers.lock() {
            for worker in 0..workers.count() {
                let _ = workers.send(worker, Command::Map { map: Arc::new(map.clone()), me });
            }
        }
    }

    /// The map now.
    pub fn map(&self) -> ClusterMap {
        self.map.lock().clone().unwrap()
    }

    /// Links from the first server's worker 0 to a server break: it takes another one instead.
    pub fn break_links(&self, member: u32) {
        let workers = self.workers.lock()[&MemberId(member)].clone();
        let (reply, told) = bounded(1);
        workers.send(0, Command::OpenPeer { member: MemberId(1), worker: 0, peer: PeerInfo::Unneeded, reply }).unwrap();
        drop(told.recv_timeout(PATIENCE));
    }

    /// A server is told nothing more.
    pub fn hide(&self, member: u32) -> Option<Arc<Workers>> {
        self.workers.lock().remove(&MemberId(member))
    }

    /// No new link to a server is made.
    pub fn cut(&self, member: u32, cut: bool) {
        if cut {
            self.unreachable.lock().insert(MemberId(member));
        } else {
            self.unreachable.lock().remove(&MemberId(member));
        }
    }
}

/// Servers of one cluster.
pub struct Cluster {
    pub board: Arc<Board>,
    pub servers: Vec<Server>,
}

impl Cluster {
    /// So many servers; the first has all shards, `replicas` are wanted.
    pub fn start(workers: &[u32], replicas: u32) -> Self {
        if std::env::var_os("REPLICAS_LOG").is_some() {
            let log = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
            let _ = log.with_test_writer().try_init();
        }
        let board = Arc::new(Board::default());
        let mut map = ClusterMap::new("test".into(), SEED, replicas);
        let mut servers = Vec::new();
        for (index, &count) in workers.iter().enumerate() {
            let server = Server::start_with(count, Some(SEED));
            let id = MemberId(index as u32 + 1);
            server.store.join(Arc::new(HandsOf(Arc::clone(&board), id)));
            let address = format!("in-process:{}", id.0);
            let member = Member { name: format!("n{}", id.0), address, incarnation: None, weight: 1, draining: false };
            map.members.insert(id, member);
            board.workers.lock().insert(id, Arc::clone(&server.workers));
            servers.push(server);
        }
        map.next_member = workers.len() as u32 + 1;
        for shard in &mut map.shards {
            *shard = Assignment { reign: 1, in_sync: vec![MemberId(1)], ..Assignment::default() };
        }
        *board.map.lock() = Some(map);
        let cluster = Self { board, servers };
        cluster.board.change(|_| {});
        cluster
    }

    /// Every shard's assignment changes.
    pub fn assign(&self, change: impl Fn(&mut Assignment)) {
        self.board.change(|map| map.shards.iter_mut().for_each(&change));
    }

    /// Waits until the map says so.
    pub fn until(&self, what: &str, done: impl Fn(&ClusterMap) -> bool) {
        let began = Instant::now();
        while !done(&self.board.map()) {
            assert!(began.elapsed() < PATIENCE, "not in time: {what}; wishes {:?}", self.board.wishes.lock().last());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All shards have a copy at a server, besides the first.
    pub fn fill(&self, member: u32) {
        let id = MemberId(member);
        self.assign(|shard| {
            if !shard.holders().any(|holder| holder == id) {
                shard.syncing.push(id);
            }
        });
        self.until("the copy is in sync", |map| map.shards.iter().all(|shard| shard.in_sync.contains(&id)));
    }

    /// The member loses everything that it holds; others reign.
    pub fn bury(&self, member: u32) {
        let id = MemberId(member);
        self.assign(|shard| {
            let reigned = shard.primary() == Some(id);
            shard.in_sync.retain(|&m| m != id);
            shard.syncing.retain(|&m| m != id);
            shard.reign += u32::from(reigned);
        });
    }

    /// A client of a server.
    pub fn client(&self, member: u32) -> Client {
        self.servers[member as usize - 1].client()
    }

    /// Everything that a server holds, by key.
    pub fn content(&self, member: u32) -> BTreeMap<Vec<u8>, ScanItem> {
        let workers = &self.servers[member as usize - 1].workers;
        let mut all = BTreeMap::new();
        for worker in 0..workers.count() {
            let mut cursor = Some(ScanCursor::default());
            while let Some(at) = cursor {
                let (reply, page) = bounded(1);
                let command = Command::Scan { cursor: at, prefix: Arc::from(&b""[..]), values: true, reply };
                workers.send(worker, command).unwrap();
                let page = page.recv_timeout(PATIENCE).unwrap();
                all.extend(page.items.into_iter().map(|item| (item.key.clone(), item)));
                cursor = page.next;
            }
        }
        all
    }

    /// Waits until two servers hold the same.
    pub fn same(&self, one: u32, other: u32) {
        let began = Instant::now();
        loop {
            let (a, b) = (self.content(one), self.content(other));
            let plain = |all: &BTreeMap<Vec<u8>, ScanItem>| -> Vec<_> {
                all.iter().map(|(key, item)| (key.clone(), item.value.clone(), item.version, item.kind, item.expiry_ms)).collect()
            };
            if plain(&a) == plain(&b) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{} keys and {} keys differ", a.len(), b.len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends all servers.
    pub fn stop(self) {
        self.servers.into_iter().for_each(Server::stop);
    }
}

/// Puts until the server takes it.
pub fn put_soon(client: &mut Client, key: &[u8], value: &[u8]) -> u64 {
    let began = Instant::now();
    loop {
        client.line = client.sequence + 1;
        let ack = client.put(key, value, Condition::None);
        if ack.outcome == Outcome::Done {
            return ack.figures[0];
        }
        assert!(matches!(ack.outcome, Outcome::Busy | Outcome::WrongPrimary), "{ack:?}");
        assert!(began.elapsed() < PATIENCE, "not taken in time: {ack:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
