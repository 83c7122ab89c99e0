//! What cannot be: each ends with a sentence that says what to do.

use crate::scene::{is_whole, server, until};
use sidewire_tests::etcd::Etcd;
use sidewire_tests::programs;
use std::path::Path;
use std::process::Command;

/// Exit code and what was said.
fn told(flags: &[&str]) -> (i32, String) {
    let mut command = Command::new(programs::program("kv-server"));
    if !flags.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.args(["--memory", "64MiB", "--fabric", "shm", "--hugepages", "off", "--log", "off"]);
    let output = command.args(flags).output().expect("kv-server can be started");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[track_caller]
fn refused(flags: &[&str], code: i32, words: &[&str]) {
    let (exit, said) = told(flags);
    assert_eq!(exit, code, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn flags_that_do_not_go_together_are_named() {
    let url = ["--etcd", "http://127.0.0.1:1"];
    refused(&url, 2, &["node", "--node NAME"]);
    refused(&["--node", "a"], 2, &["node", "--etcd or --map"]);
    refused(&["--etcd", "127.0.0.1:2379", "--node", "a"], 2, &["etcd", "http://HOST:PORT"]);
    refused(&["--map", "m", "--etcd", "http://h:1", "--node", "a"], 2, &["map", "leave out"]);
    refused(&[&url[..], &["--node", "A b"]].concat(), 2, &["node", "a-z"]);
    refused(&[&url[..], &["--node", "a", "--etcd-user", "u"]].concat(), 2, &["etcd_user", "--etcd-password-file"]);
    refused(&[&url[..], &["--node", "a", "--etcd-ca", "f"]].concat(), 2, &["etcd_ca", "https://"]);
    refused(&["--etcd", "https://h:1", "--node", "a", "--etcd-cert", "f"], 2, &["etcd_cert", "--etcd-key"]);
    refused(&["--listen", "0.0.0.0:0", "--etcd", "http://127.0.0.1:1", "--node", "a"], 3, &["0.0.0.0", "--advertise"]);
    refused(&["--map", "no-such-file", "--node", "a"], 3, &["no-such-file"]);
}

#[test]
fn an_etcd_that_cannot_be_reached_or_refuses_is_named() {
    refused(&["--etcd", "http://127.0.0.1:1", "--node", "a"], 3, &["etcd at http://127.0.0.1:1", "?"]);
    let etcd = Etcd::start();
    let _first = server(&etcd, "made", "a", 1);
    let flags = ["--etcd", &etcd.url(), "--cluster", "made", "--node", "b", "--replicas", "3"];
    refused(&flags, 3, &["made with 1 copies", "leave it out"]);
    let https = etcd.url().replace("http:", "https:");
    refused(&["--etcd", &https, "--node", "a"], 3, &["https exactly if etcd wants TLS"]);
    refused(&["--etcd", &https, "--node", "a", "--etcd-ca", "no-such-file"], 3, &["no-such-file", "--etcd-ca"]);
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output().expect("openssl is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and certificates of it for etcd and for a client.
fn certificates(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(folder, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=test-ca"));
    std::fs::write(folder.join("ext"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    for name in ["etcd", "node"] {
        openssl(folder, &format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(
            folder,
            &format!("x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out {name}.pem"),
        );
    }
}

#[test]
fn tls_is_passed_through_and_a_missing_certificate_is_refused() {
    let etcd = Etcd::start_with("https", |folder| {
        certificates(folder);
        let file = |name: &str| folder.join(name).display().to_string();
        let flag = |name: &str, value: String| [name.to_owned(), value];
        let flags = [
            flag("--cert-file", file("etcd.pem")),
            flag("--key-file", file("etcd.key")),
            flag("--trusted-ca-file", file("ca.pem")),
        ];
        flags.into_iter().flatten().chain(["--client-cert-auth".to_owned()]).collect()
    });
    let file = |name: &str| etcd.folder().join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("node.pem"), file("node.key"));
    let base = ["--etcd", &etcd.url(), "--node", "a", "--replicas", "1"];
    refused(&base, 3, &["etcd at https", "--etcd-ca"]);
    refused(&[&base[..], &["--etcd-ca", &ca]].concat(), 3, &["etcd at https", "--etcd-cert"]);
    let all = [&base[..], &["--etcd-ca", &ca, "--etcd-cert", &cert, "--etcd-key", &key]].concat();
    let inside = sidewire_tests::Server::builder().args(&all).start();
    until(&inside, "one member", |s| is_whole(s, 1));
}

#[test]
fn credentials_are_passed_through_and_wrong_ones_are_refused() {
    let etcd = Etcd::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut client = etcd_client::Client::connect([etcd.url()], None).await.unwrap();
        client.role_add("root").await.unwrap();
        client.user_add("root", "secret", None).await.unwrap();
        client.user_grant_role("root", "root").await.unwrap();
        client.auth_enable().await.unwrap();
    });
    let password = |text: &str| {
        let path = etcd.folder().join(text);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        path.display().to_string()
    };
    let (right, wrong) = (password("secret"), password("wrong"));
    let base = ["--etcd", &etcd.url(), "--node", "a", "--replicas", "1"];
    refused(&base, 3, &["--etcd-user"]);
    refused(&[&base[..], &["--etcd-user", "root", "--etcd-password-file", &wrong]].concat(), 3, &["--etcd-password-file"]);
    let all = [&base[..], &["--etcd-user", "root", "--etcd-password-file", &right]].concat();
    let inside = sidewire_tests::Server::builder().args(&all).start();
    until(&inside, "one member", |s| is_whole(s, 1));
}
