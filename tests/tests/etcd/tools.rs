//! `kvctl cluster`, and maps that stand in a file.

use crate::scene::{is_whole, primaries, server, status, until};
use serde_json::Value as Json;
use sidewire_tests::etcd::Etcd;
use sidewire_tests::{Server, programs};
use std::process::Command;

fn kvctl(server: &Server, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(programs::program("kvctl"));
    let output = command.args(["-s", server.address()]).args(arguments).output().expect("kvctl can be started");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code().unwrap_or(-1), if output.status.success() { said[0].clone() } else { said.concat() })
}

#[test]
fn a_cluster_is_shown_drained_and_given_back() {
    let etcd = Etcd::start();
    let servers = [server(&etcd, "tools", "a", 1), server(&etcd, "tools", "b", 1)];
    assert_eq!(kvctl(&servers[0], &["cluster", "add", "b"]).1, "b added\n");
    until(&servers[0], "two members", |s| is_whole(s, 2));
    let (code, page) = kvctl(&servers[0], &["cluster", "status"]);
    assert_eq!(code, 0, "{page}");
    assert!(page.contains("all where they should be") && page.contains("leads"), "{page}");
    let json: Json = serde_json::from_str(&kvctl(&servers[0], &["--json", "cluster", "status"]).1).unwrap();
    assert_eq!((json["settled"].as_bool(), json["members"][1]["primary"].as_u64()), (Some(true), Some(128)));

    assert_eq!(kvctl(&servers[0], &["cluster", "drain", "b"]), (0, "b drained\n".into()));
    let drained = status(&servers[1]);
    assert_eq!(primaries(&drained).get("b"), None);
    assert_eq!(drained.map.as_ref().unwrap().lost, 0, "its shards were handed over, not lost");
    let (_, map) = kvctl(&servers[1], &["cluster", "map"]);
    assert_eq!(map.lines().count(), 257);

    assert_eq!(kvctl(&servers[1], &["cluster", "undrain", "b"]).0, 0);
    assert_eq!(kvctl(&servers[1], &["cluster", "rebalance", "b=300"]), (0, "balanced\n".into()));
    assert_eq!(primaries(&status(&servers[0]))["b"], 192);

    let (code, said) = kvctl(&servers[0], &["cluster", "drain", "nobody"]);
    assert!(code == 3 && said.contains("name of a member"), "{said}");
    let (code, said) = kvctl(&servers[0], &["cluster", "rebalance", "a=0"]);
    assert!(code == 3 && said.contains("1 to 1000"), "{said}");
}

#[test]
fn a_map_in_a_file_is_the_same_for_all_and_never_changes() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("map.toml");
    let text = "name='fixed'\n[[server]]\nname='a'\naddress='127.0.0.1:1'\n[[server]]\nname='b'\naddress='127.0.0.1:2'\n";
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let start = |node: &str| Server::builder().args(&["--map", &file, "--node", node]).start();
    let (a, b) = (start("a"), start("b"));
    let (of_a, of_b) = (status(&a), status(&b));
    assert_eq!(of_a.map, of_b.map);
    assert_eq!((of_a.member, of_b.member, of_a.static_map), (1, 2, true));
    assert_eq!(primaries(&of_a)["a"], 128);
    let (code, said) = kvctl(&a, &["cluster", "drain", "a"]);
    assert!(code == 3 && said.contains("the map is a file") || said.contains("map is a file"), "{said}");
    let alone = Server::start();
    let (code, said) = kvctl(&alone, &["cluster", "status"]);
    assert!(code == 3 && said.contains("belongs to no cluster"), "{said}");
}
