//! A server's place in its cluster, from the configuration: known before memory is mapped, taken when all runs.

use crate::cluster::etcd::{AccessError, Etcd};
use crate::cluster::file::{self, FileError};
use crate::cluster::store::MapStore;
use crate::cluster::thread::{EnterError, Membership, Profile, found};
use crate::cluster::{Event, Hands, Links, Peers, View};
use crate::config::{ClusterConfig, Config, MapSource};
use crate::control::peers::GrpcPeers;
use crate::store::Store;
use crate::worker::Workers;
use crossbeam::channel::Receiver;
use sidewire_common::cluster::Member;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Why a server has no place.
#[derive(Debug, thiserror::Error)]
pub enum SeatError {
    /// etcd.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The map in it.
    #[error(transparent)]
    Enter(#[from] EnterError),
    /// The map file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Others could not reach it.
    #[error("listen is {0}, which others cannot reach: tell them an address with --advertise")]
    Advertise(SocketAddr),
}

/// The place.
pub struct Seat {
    /// What the server looks at.
    pub view: Arc<View>,
    peers: Arc<dyn Peers>,
    entry: Option<Entry>,
}

struct Entry {
    store: Arc<dyn MapStore>,
    inbox: Receiver<Event>,
    profile: Profile,
}

impl Seat {
    /// The place that a server listening on `address` is to have; `None` when it is alone.
    ///
    /// # Errors
    /// When the map cannot be had.
    pub fn of(config: &Config, address: SocketAddr, runtime: Handle) -> Result<Option<Self>, SeatError> {
        let ClusterConfig { source, name, node, .. } = &config.cluster;
        let peers: Arc<dyn Peers> = Arc::new(GrpcPeers::new(runtime));
        match source {
            MapSource::Alone => Ok(None),
            MapSource::File(path) => {
                let (map, me) = file::read(path, node)?;
                Ok(Some(Self { view: View::fixed(map, me), peers, entry: None }))
            }
            MapSource::Etcd(access) => {
                let member = Member {
                    name: node.clone(),
                    address: reachable(config, address)?.to_string(),
                    incarnation: None,
                    weight: config.cluster.weight,
                    draining: false,
                };
                let store = Etcd::connect(access, name, config.lease)?;
                let profile = Profile { member, lease: config.lease };
                Ok(Some(Self::in_store(Arc::new(store), name, config.cluster.replicas, profile, peers)?))
            }
        }
    }

    /// The place in the cluster whose map is in `store`.
    ///
    /// # Errors
    /// When the map cannot be had or made.
    pub fn in_store(
        store: Arc<dyn MapStore>,
        name: &str,
        replicas: Option<u32>,
        profile: Profile,
        peers: Arc<dyn Peers>,
    ) -> Result<Self, EnterError> {
        let (map, revision) = found(&*store, name, replicas)?;
        let (view, inbox) = View::new(map, revision);
        Ok(Self { view, peers, entry: Some(Entry { store, inbox, profile }) })
    }

    /// Seed of the cluster's key hash.
    #[must_use]
    pub fn hash_seed(&self) -> u64 {
        self.view.map().hash_seed
    }

    /// What the store's threads ask their cluster by.
    #[must_use]
    pub fn hands(&self) -> Arc<dyn Hands> {
        Arc::clone(&self.view) as Arc<dyn Hands>
    }

    /// Takes the place: the workers follow the map.
    ///
    /// # Errors
    /// When the cluster was not entered.
    pub fn take(self, store: &Store, workers: &Arc<Workers>) -> Result<Option<Membership>, EnterError> {
        self.view.serve(Arc::clone(workers), Links::new(self.peers, store.incarnation()));
        let Some(Entry { store: maps, inbox, mut profile }) = self.entry else { return Ok(None) };
        profile.member.incarnation = Some(store.incarnation());
        Membership::start(maps, self.view, inbox, profile).map(Some)
    }
}

fn reachable(config: &Config, listens: SocketAddr) -> Result<SocketAddr, SeatError> {
    match config.cluster.advertise {
        Some(address) => Ok(address),
        None if listens.ip().is_unspecified() => Err(SeatError::Advertise(listens)),
        None => Ok(listens),
    }
}
