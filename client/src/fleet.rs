//! The administration of all servers: of one that runs alone, or of the members of a cluster.

use crate::address::Address;
use crate::admin::{Admin, ScanItem};
use crate::control::Plane;
use crate::error::Error;
use sidewire_common::clock::BootInstant;
use sidewire_common::cluster::{ClusterMap, MemberId};
use sidewire_common::key::KeyHash;
use sidewire_proto::cluster_map;
use std::sync::Arc;
use std::time::Duration;

/// A server of a fleet.
#[derive(Clone, Debug)]
pub struct FleetServer {
    /// Which member of the cluster it is; `None` when it runs alone.
    pub member: Option<MemberId>,
    /// Its node's name; empty when it runs alone.
    pub name: String,
    /// Its control plane.
    pub address: String,
    /// Its administration. Nothing was asked yet, so it may be gone.
    pub admin: Admin,
}

/// All servers, without attaching to them.
#[derive(Clone, Debug)]
pub struct Fleet {
    map: Option<Arc<ClusterMap>>,
    servers: Vec<FleetServer>,
}

impl Fleet {
    /// Asks the first server of `servers` that answers for its cluster. Calls of the servers' administration have this
    /// deadline each; this one has it as a whole.
    ///
    /// # Errors
    /// When no server answers, of the last one tried; or an address cannot be used.
    pub fn connect<S: AsRef<str>>(servers: &[S], deadline: Duration) -> Result<Self, Error> {
        let plane = Plane::start()?;
        let started = BootInstant::now();
        let mut last = Error::Address { address: String::new(), reason: "no server was named".into() };
        for (at, server) in servers.iter().enumerate() {
            let control = plane.server(Address::parse(server.as_ref())?)?;
            // One that does not answer leaves time for the others.
            let limit = deadline.saturating_sub(BootInstant::now().since(started)) / (servers.len() - at) as u32;
            match control.map(limit) {
                Ok(None) => {
                    let (address, admin) = (control.name().to_owned(), Admin::of(control, deadline));
                    let server = FleetServer { member: None, name: String::new(), address, admin };
                    return Ok(Self { map: None, servers: vec![server] });
                }
                Ok(Some(told)) => return Self::of(told, &plane, deadline),
                Err(error) => last = error.into_error(control.name()),
            }
        }
        Err(last)
    }

    fn of(told: sidewire_proto::v1::ClusterMap, plane: &Plane, deadline: Duration) -> Result<Self, Error> {
        let map = cluster_map::from_wire(told).map_err(|e| Error::Layout { reason: format!("the map of the cluster: {e}") })?;
        let server = |(id, member): (&MemberId, &sidewire_common::cluster::Member)| {
            let control = plane.server(Address::parse(&member.address)?)?;
            let (name, address) = (member.name.clone(), member.address.clone());
            Ok(FleetServer { member: Some(*id), name, address, admin: Admin::of(control, deadline) })
        };
        let servers = map.members.iter().map(server).collect::<Result<_, Error>>()?;
        Ok(Self { map: Some(Arc::new(map)), servers })
    }

    /// The cluster's map; `None` of a server that runs alone.
    #[must_use]
    pub fn map(&self) -> Option<&ClusterMap> {
        self.map.as_deref()
    }

    /// The servers, members in the order of their ids.
    #[must_use]
    pub fn servers(&self) -> &[FleetServer] {
        &self.servers
    }

    /// All keys that begin with `prefix`, one server after the other, each key as its primary tells it; `limit` 0 means
    /// all. A key that exists throughout is told at least once, unless its shard moves meanwhile.
    ///
    /// # Errors
    /// Each server's, as an item, where the scan of it ends.
    pub fn scan(&self, prefix: &[u8], values: bool, limit: u64) -> impl Iterator<Item = Result<ScanItem, Error>> + use<> {
        let (prefix, most) = (prefix.to_vec(), if limit == 0 { usize::MAX } else { limit as usize });
        let map = self.map.clone();
        // What a server tells besides its own shards does not count.
        let asked = if map.is_some() { 0 } else { limit };
        let of = move |server: FleetServer| {
            let map = map.clone();
            let is_its_own = move |item: &Result<ScanItem, Error>| match (item, &map, server.member) {
                (Ok(item), Some(map), Some(member)) => {
                    map.shard(KeyHash::of(&item.key, map.hash_seed).shard()).primary() == Some(member)
                }
                _ => true,
            };
            let items: Box<dyn Iterator<Item = _>> = match server.admin.scan(&prefix, values, asked) {
                Ok(items) => Box::new(items),
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
            items.filter(is_its_own)
        };
        self.servers.clone().into_iter().flat_map(of).take(most)
    }
}
