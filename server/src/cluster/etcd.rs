//! The map in etcd.
//!
//! | key below `/sidewire/NAME/` | value | lives |
//! | --- | --- | --- |
//! | `map` | the map, in its wire form | for good |
//! | `members/ID` | the node's name | as long as the member's lease |
//! | `leader` | the id of the member that plans | as long as that member's lease |
//!
//! The map is written in transactions on its mod-revision and on the writer's own member key: whoever has lost its
//! lease changes nothing. Every call has a limit. Nothing but the lease is kept here between two calls, so an etcd
//! that went away and came back, or has compacted its past, needs no care.

mod access;
mod watch;

pub use access::{Access, AccessError};

use super::store::{KeepError, MapStore, Revision, StoreError, SwapError};
use access::{explain, options};
use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, LeaseKeepAliveStream, LeaseKeeper, PutOptions, Txn, TxnOp, TxnOpResponse,
};
use parking_lot::Mutex;
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_proto::{cluster_map, v1};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Time for the first answer of an etcd that may be starting itself.
const FIRST_LIMIT: Duration = Duration::from_secs(5);
/// Bounds of the time for every later call, and the part of a lease that it is.
const CALL_LIMIT_MIN: Duration = Duration::from_millis(300);
const CALL_LIMIT_MAX: Duration = Duration::from_secs(2);
const CALLS_PER_LEASE: u32 = 4;

/// The store.
pub struct Etcd {
    // Taken when it ends: a runtime must not be waited for by whoever drops this.
    runtime: Option<Runtime>,
    client: Client,
    prefix: String,
    limit: Duration,
    own: Mutex<Own>,
}

/// What this member holds.
#[derive(Default)]
struct Own {
    me: Option<MemberId>,
    lease: i64,
    /// Dropped after any failure: an answer that comes late must not be taken for a later one's.
    keeper: Option<(LeaseKeeper, LeaseKeepAliveStream)>,
}

impl Etcd {
    /// Connects, and sees that etcd answers and lets us in. `lease` is that of the server's clients.
    ///
    /// # Errors
    /// When a file cannot be read, or etcd does not answer or refuses.
    pub fn connect(access: &Access, cluster: &str, lease: Duration) -> Result<Self, AccessError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kv-etcd")
            .enable_all()
            .build()
            .map_err(AccessError::Thread)?;
        let options = options(access, FIRST_LIMIT)?;
        let urls = access.urls.join(", ");
        let key = format!("/sidewire/{cluster}/");
        let first = async {
            let client = Client::connect(&access.urls, Some(options)).await?;
            client.kv_client().get(format!("{key}map"), Some(GetOptions::new().with_keys_only())).await?;
            Ok(client)
        };
        let refused = |reason| AccessError::Refused { urls: urls.clone(), reason };
        let client = match runtime.block_on(async { tokio::time::timeout(FIRST_LIMIT, first).await }) {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(refused(explain(&error))),
            Err(_) => return Err(refused(format!("no answer within {} s; is it running?", FIRST_LIMIT.as_secs()))),
        };
        let limit = (lease / CALLS_PER_LEASE).clamp(CALL_LIMIT_MIN, CALL_LIMIT_MAX);
        Ok(Self { runtime: Some(runtime), client, prefix: key, limit, own: Mutex::default() })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn member_key(&self, id: MemberId) -> String {
        self.key(&format!("members/{}", id.0))
    }

    fn call<T>(&self, what: &'static str, call: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        let Some(runtime) = &self.runtime else { return Err(store_error(what, "it has ended".into(), true)) };
        match runtime.block_on(async { tokio::time::timeout(self.limit, call).await }) {
            Ok(done) => done.map_err(|error| store_error(what, explain(&error), false)),
            Err(_) => Err(store_error(what, format!("etcd did not answer within {:?}", self.limit), false)),
        }
    }

    fn unchanged(&self, revision: Revision) -> Compare {
        Compare::mod_revision(self.key("map"), CompareOp::Equal, revision)
    }

    fn put_map(&self, map: &ClusterMap) -> TxnOp {
        TxnOp::put(self.key("map"), prost::Message::encode_to_vec(&cluster_map::to_wire(map)), None)
    }

    /// The revision that the map got, or the answers to what was asked instead.
    fn commit(&self, what: &'static str, txn: Txn) -> Result<Result<Revision, Vec<TxnOpResponse>>, StoreError> {
        let mut kv = self.client.kv_client();
        let done = self.call(what, kv.txn(txn))?;
        let revision = done.header().map_or(0, |header| header.revision());
        Ok(if done.succeeded() { Ok(revision) } else { Err(done.op_responses()) })
    }
}

fn store_error(what: &'static str, reason: String, is_final: bool) -> StoreError {
    StoreError { what, reason, is_final }
}

impl MapStore for Etcd {
    fn load(&self) -> Result<Option<(ClusterMap, Revision)>, StoreError> {
        let what = "reading the map";
        let mut kv = self.client.kv_client();
        let got = self.call(what, kv.get(self.key("map"), None))?;
        let Some(pair) = got.kvs().first() else { return Ok(None) };
        let wrong = |reason: String| {
            store_error(what, format!("{} holds something else: {reason}; choose another --cluster", self.key("map")), true)
        };
        let wire: v1::ClusterMap = prost::Message::decode(pair.value()).map_err(|e| wrong(e.to_string()))?;
        let map = cluster_map::from_wire(wire).map_err(|e| wrong(e.to_string()))?;
        Ok(Some((map, pair.mod_revision())))
    }

    fn create(&self, map: &ClusterMap) -> Result<Revision, SwapError> {
        let none = Compare::create_revision(self.key("map"), CompareOp::Equal, 0);
        let txn = Txn::new().when([none]).and_then([self.put_map(map)]);
        self.commit("making the cluster", txn)?.map_err(|_| SwapError::Conflict)
    }

    fn enter(
        &self,
        map: &ClusterMap,
        revision: Revision,
        me: MemberId,
        lease: Duration,
    ) -> Result<(Revision, Duration), SwapError> {
        let what = "entering the cluster";
        let mut own = self.own.lock();
        *own = Own::default();
        let seconds = lease.as_millis().div_ceil(1000) as i64;
        let mut leases = self.client.lease_client();
        let granted = self.call(what, leases.grant(seconds, None))?;
        let name = map.members.get(&me).map(|member| member.name.clone()).unwrap_or_default();
        let own_key = TxnOp::put(self.member_key(me), name, Some(PutOptions::new().with_lease(granted.id())));
        let txn = Txn::new().when([self.unchanged(revision)]).and_then([self.put_map(map), own_key]);
        let done = self.commit(what, txn);
        if !matches!(done, Ok(Ok(_))) {
            // A key that was put all the same must not look alive for longer than it has to.
            let _ = self.call(what, leases.revoke(granted.id()));
        }
        let revision = done?.map_err(|_| SwapError::Conflict)?;
        *own = Own { me: Some(me), lease: granted.id(), keeper: None };
        Ok((revision, Duration::from_secs(granted.ttl().unsigned_abs())))
    }

    fn swap(&self, map: &ClusterMap, revision: Revision) -> Result<Revision, SwapError> {
        let Some(me) = self.own.lock().me else { return Err(SwapError::Gone) };
        let key = self.member_key(me);
        let alive = Compare::create_revision(key.clone(), CompareOp::Greater, 0);
        let asked = TxnOp::get(key, Some(GetOptions::new().with_keys_only()));
        let txn = Txn::new().when([self.unchanged(revision), alive]).and_then([self.put_map(map)]).or_else([asked]);
        self.commit("changing the map", txn)?.map_err(|told| {
            let is_there = |answer: &TxnOpResponse| matches!(answer, TxnOpResponse::Get(got) if !got.kvs().is_empty());
            if told.iter().any(is_there) { SwapError::Conflict } else { SwapError::Gone }
        })
    }

    fn keep_alive(&self) -> Result<Duration, KeepError> {
        let mut own = self.own.lock();
        if own.me.is_none() {
            return Err(KeepError::Gone);
        }
        let (keeper, id) = (own.keeper.take(), own.lease);
        let mut leases = self.client.lease_client();
        let renewed = self.call("renewing the lease", async {
            let (mut keeper, mut stream) = match keeper {
                Some(pair) => pair,
                None => match leases.keep_alive(id).await {
                    // How a new stream is told that there is no such lease; one that is there is told a TTL of 0.
                    Err(Error::LeaseKeepAliveError(_)) => return Ok(None),
                    opened => opened?,
                },
            };
            keeper.keep_alive().await?;
            let ended = || Error::LeaseKeepAliveError("etcd has ended the stream".into());
            let ttl = stream.message().await?.ok_or_else(ended)?.ttl();
            Ok((ttl > 0).then(|| (Duration::from_secs(ttl.unsigned_abs()), keeper, stream)))
        });
        match renewed {
            Ok(Some((ttl, keeper, stream))) => {
                own.keeper = Some((keeper, stream));
                Ok(ttl)
            }
            Ok(None) => {
                *own = Own::default();
                Err(KeepError::Gone)
            }
            Err(error) => Err(KeepError::Store(error)),
        }
    }

    fn live(&self) -> Result<BTreeSet<MemberId>, StoreError> {
        let prefix = self.key("members/");
        let mut kv = self.client.kv_client();
        let options = GetOptions::new().with_prefix().with_keys_only();
        let got = self.call("reading the members", kv.get(prefix.clone(), Some(options)))?;
        let id = |key: &[u8]| std::str::from_utf8(key).ok()?.strip_prefix(&prefix)?.parse().ok().map(MemberId);
        Ok(got.kvs().iter().filter_map(|pair| id(pair.key())).collect())
    }

    fn lead(&self) -> Result<Option<MemberId>, StoreError> {
        let (me, lease) = {
            let own = self.own.lock();
            (own.me, own.lease)
        };
        let Some(me) = me else { return Ok(None) };
        let key = self.key("leader");
        let nobody = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
        let take = TxnOp::put(key.clone(), me.0.to_string(), Some(PutOptions::new().with_lease(lease)));
        let txn = Txn::new().when([nobody]).and_then([take]).or_else([TxnOp::get(key, None)]);
        Ok(match self.commit("electing the leader", txn)? {
            Ok(_) => Some(me),
            Err(told) => told.iter().find_map(|answer| match answer {
                TxnOpResponse::Get(got) => got.kvs().first()?.value_str().ok()?.parse().ok().map(MemberId),
                _ => None,
            }),
        })
    }

    fn leave(&self) -> Result<(), StoreError> {
        let own = std::mem::take(&mut *self.own.lock());
        if own.me.is_none() {
            return Ok(());
        }
        let mut leases = self.client.lease_client();
        self.call("giving the lease back", leases.revoke(own.lease)).map(drop)
    }

    fn watch(&self, nudge: Box<dyn Fn(bool) + Send + Sync>) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(watch::follow(self.client.watch_client(), self.prefix.clone(), nudge));
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
