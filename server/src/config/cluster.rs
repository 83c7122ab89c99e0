//! Which cluster a server belongs to, and as what.

use super::ConfigError;
use super::value::Said;
use crate::cluster::etcd::Access;
use sidewire_common::cluster::{REPLICAS_MAX, WEIGHT_MAX, check_name};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Addresses of etcd at most.
const URLS_MAX: usize = 16;

/// Where the map comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MapSource {
    /// There is none: the server is alone.
    Alone,
    /// etcd.
    Etcd(Access),
    /// A file.
    File(PathBuf),
}

/// The checked settings of membership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterConfig {
    /// Where the map comes from.
    pub source: MapSource,
    /// The cluster's name.
    pub name: String,
    /// This server's.
    pub node: String,
    /// Copies when the cluster is made.
    pub replicas: Option<u32>,
    /// This server's share.
    pub weight: u32,
    /// Where others reach it.
    pub advertise: Option<SocketAddr>,
}

impl ClusterConfig {
    /// Names of its settings.
    pub(super) const FIELDS: [&str; 12] = [
        "etcd",
        "cluster",
        "node",
        "replicas",
        "weight",
        "advertise",
        "etcd_ca",
        "etcd_cert",
        "etcd_key",
        "etcd_user",
        "etcd_password_file",
        "map",
    ];

    /// # Errors
    /// At the first value that cannot be accepted, alone or beside the others.
    pub(super) fn check(said: impl Fn(&'static str) -> Said) -> Result<Self, ConfigError> {
        let (etcd, map, node, cluster) = (said("etcd"), said("map"), said("node"), said("cluster"));
        let named = |of: &Said, field| check_name(field, &of.text).map_err(|e| of.refuse(format!("must be {}", e.expected)));
        named(&cluster, "cluster")?;
        if !node.text.is_empty() {
            named(&node, "node")?;
        }
        let source = match (etcd.text.is_empty(), map.text.is_empty()) {
            (true, true) => MapSource::Alone,
            (false, false) => return Err(map.refuse("a cluster has its map from a file or from etcd: leave out --map or --etcd")),
            (true, false) => MapSource::File(PathBuf::from(&map.text)),
            (false, true) => MapSource::Etcd(access(&etcd, &said)?),
        };
        match source {
            MapSource::Alone if !node.text.is_empty() => {
                return Err(node.refuse("a server of a cluster needs --etcd or --map too"));
            }
            MapSource::Alone => {}
            _ if node.text.is_empty() => return Err(node.refuse("a server of a cluster needs a name: --node NAME")),
            _ => {}
        }
        Ok(Self {
            source,
            name: cluster.text,
            node: node.text,
            replicas: said("replicas").or_auto(|s| s.count(1, REPLICAS_MAX))?,
            weight: said("weight").count(1, WEIGHT_MAX)?,
            advertise: said("advertise").or_auto(|s| {
                let address = s.address()?;
                let is_one = !address.ip().is_unspecified() && address.port() != 0;
                if is_one { Ok(address) } else { Err(s.refuse("must be an address that others can reach, with its port")) }
            })?,
        })
    }

    pub(super) fn text_of(&self, field: &str) -> String {
        let none = Access::default();
        let access = if let MapSource::Etcd(access) = &self.source { access } else { &none };
        let path = |path: Option<&PathBuf>| path.map(|p| p.display().to_string()).unwrap_or_default();
        match field {
            "etcd" => access.urls.join(","),
            "cluster" => self.name.clone(),
            "node" => self.node.clone(),
            "replicas" => self.replicas.map_or_else(|| "auto".into(), |n| n.to_string()),
            "weight" => self.weight.to_string(),
            "advertise" => self.advertise.map_or_else(|| "auto".into(), |a| a.to_string()),
            "etcd_ca" => path(access.ca.as_ref()),
            "etcd_cert" => path(access.identity.as_ref().map(|(cert, _)| cert)),
            "etcd_key" => path(access.identity.as_ref().map(|(_, key)| key)),
            "etcd_user" => access.user.as_ref().map(|(user, _)| user.clone()).unwrap_or_default(),
            "etcd_password_file" => path(access.user.as_ref().map(|(_, file)| file)),
            "map" => {
                if let MapSource::File(file) = &self.source {
                    path(Some(file))
                } else {
                    String::new()
                }
            }
            other => unreachable!("field {other} has no text"),
        }
    }
}

fn access(etcd: &Said, said: impl Fn(&'static str) -> Said) -> Result<Access, ConfigError> {
    let urls: Vec<String> = etcd.text.split(',').map(|url| url.trim().to_owned()).collect();
    let is_url = |url: &String| {
        let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        host.is_some_and(|host| !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic()))
    };
    let is_tls = |url: &String| url.starts_with("https:");
    if urls.len() > URLS_MAX || !urls.iter().all(is_url) || urls.iter().any(is_tls) != urls.iter().all(is_tls) {
        return Err(etcd.refuse("must be 1 to 16 of http://HOST:PORT, or of https://HOST:PORT, with commas between"));
    }
    let (ca, cert, key) = (said("etcd_ca"), said("etcd_cert"), said("etcd_key"));
    let file = |said: &Said| (!said.text.is_empty()).then(|| PathBuf::from(&said.text));
    if let Some(given) = [&ca, &cert, &key].into_iter().find(|s| !s.text.is_empty() && !is_tls(&urls[0])) {
        return Err(given.refuse("certificates need an etcd at https://"));
    }
    let identity = match (file(&cert), file(&key)) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) => return Err(cert.refuse("a certificate needs its key: --etcd-key")),
        (None, Some(_)) => return Err(key.refuse("a key needs its certificate: --etcd-cert")),
    };
    let (user, password) = (said("etcd_user"), said("etcd_password_file"));
    let user = match (user.text.is_empty(), file(&password)) {
        (true, None) => None,
        (false, Some(file)) => Some((user.text, file)),
        (false, None) => return Err(user.refuse("a user needs a password: --etcd-password-file")),
        (true, Some(_)) => return Err(password.refuse("a password needs a user: --etcd-user")),
    };
    Ok(Access { urls, ca: file(&ca), identity, user })
}
