//! Members come, die and come back.

use crate::scene::{LEASE, PATIENCE, is_whole, primaries, server, status, until};
use sidewire_tests::etcd::Etcd;
use sidewire_tests::setting;
use std::time::{Duration, Instant};

#[test]
fn three_servers_share_evenly_and_the_death_of_the_leader_moves_its_shards() {
    let etcd = Etcd::start();
    let mut servers: Vec<_> = ["a", "b", "c"].iter().map(|node| server(&etcd, "trio", node, 2)).collect();
    let whole = until(&servers[0], "three members with their shares", |s| is_whole(s, 3));
    let mut shares: Vec<usize> = primaries(&whole).into_values().collect();
    shares.sort_unstable();
    assert_eq!(shares, [85, 85, 86]);
    assert!(whole.map.as_ref().unwrap().shards.iter().all(|s| s.in_sync.len() == 2));

    let leader = servers.iter().position(|s| status(s).member == whole.leader).expect("one of them leads");
    servers[leader].kill();
    let began = Instant::now();
    let survivor = &servers[(leader + 1) % 3];
    let reigns = until(survivor, "no shard is the dead one's", |s| {
        let map = s.map.as_ref().unwrap();
        map.shards.iter().all(|shard| !shard.in_sync.contains(&whole.leader))
    });
    let took = began.elapsed();
    // etcd looks for leases that have run out twice a second, and an election of the next leader waits for a beat.
    assert!(took < setting::patience(LEASE * 4), "the dead server's shards were moved after {took:?}");
    assert_eq!(reigns.map.as_ref().unwrap().lost, 0, "every shard had a copy elsewhere");
    let after = until(survivor, "two members with all shards", |s| is_whole(s, 2));
    assert_ne!(after.leader, whole.leader);

    servers[leader].start_again();
    let back = until(&servers[leader], "three members again", |s| is_whole(s, 3));
    let shares: Vec<usize> = primaries(&back).into_values().collect();
    assert!(shares.iter().all(|n| [85, 86].contains(n)), "{shares:?}");
    assert_eq!(back.map.unwrap().lost, 0);
}

#[test]
fn a_server_that_leaves_gives_its_shards_back_at_once_and_two_clusters_do_not_meet() {
    let etcd = Etcd::start();
    let mut one = [server(&etcd, "one", "a", 2), server(&etcd, "one", "b", 2)];
    let other = server(&etcd, "other", "a", 1);
    let alone = until(&other, "one member", |s| is_whole(s, 1));
    let whole = until(&one[0], "two members", |s| is_whole(s, 2));
    let (map, others) = (whole.map.unwrap(), alone.map.unwrap());
    assert_eq!((map.name.as_str(), others.name.as_str()), ("one", "other"));
    assert_ne!(map.hash_seed, others.hash_seed);
    assert_eq!((map.members.len(), others.members.len()), (2, 1));
    one[1].stop();
    let left = until(&one[0], "one member", |s| is_whole(s, 1)).map.unwrap();
    assert_eq!(left.lost, 0);
    assert!(left.shards.iter().all(|s| s.in_sync == [left.members[0].id]));
}

#[test]
fn a_server_that_slept_through_its_lease_comes_back_as_another_and_empty() {
    let etcd = Etcd::start();
    let mut servers = [server(&etcd, "sleep", "a", 1), server(&etcd, "sleep", "b", 1)];
    let whole = until(&servers[0], "two members", |s| is_whole(s, 2));
    let before = status(&servers[1]).member;
    servers[1].pause();
    let buried = until(&servers[0], "the sleeper is gone", |s| s.map.as_ref().unwrap().members.len() == 1);
    assert_eq!(buried.map.unwrap().lost, 128, "its shards had no other copy");
    servers[1].resume();
    let back = until(&servers[1], "it has entered as another member", |s| s.member != before && is_whole(s, 2));
    assert_eq!(whole.map.unwrap().hash_seed, back.map.unwrap().hash_seed);
    assert_eq!(servers[1].info().keys, 0);
}

#[test]
fn servers_whose_leases_ran_out_together_come_back_with_what_they_have() {
    let etcd = Etcd::start();
    let mut servers = [server(&etcd, "all", "a", 1), server(&etcd, "all", "b", 1)];
    let before = until(&servers[0], "two members", |s| is_whole(s, 2)).map.unwrap();
    let client = servers[0].client();
    let keys: Vec<String> = (0..32).map(|n| format!("key {n}")).collect();
    let session = client.session().unwrap();
    for key in &keys {
        session.put(key.as_bytes(), key.as_bytes()).unwrap();
    }
    servers.iter_mut().for_each(|server| server.pause());
    std::thread::sleep(setting::patience(LEASE) * 3);
    servers.iter_mut().for_each(|server| server.resume());
    for server in &servers {
        let end = Instant::now() + setting::patience(PATIENCE);
        while !server.said().contains("lease in the cluster has run out") {
            assert!(Instant::now() < end, "its lease did not run out:\n{}", server.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let after = until(&servers[0], "two members again", |s| is_whole(s, 2)).map.unwrap();
    assert_eq!((after.lost, &after.members), (0, &before.members));
    let end = Instant::now() + setting::patience(PATIENCE);
    for key in &keys {
        let value = loop {
            match session.get(key.as_bytes()) {
                Ok(value) => break value,
                Err(error) => assert!(Instant::now() < end, "{key}: {error}"),
            }
        };
        assert_eq!(value.as_deref(), Some(key.as_bytes()), "{key}");
    }
}
