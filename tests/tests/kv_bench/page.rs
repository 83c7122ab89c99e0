//! The page of a run shows what it should, needs nothing from elsewhere, and a browser draws it; reports can be put
//! beside each other.

use super::peer::find;
use super::{RECORDS, figure, good, load, output};
use serde_json::Value;
use sidewire_tests::Server;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a browser may take for one page.
const BROWSER: Duration = Duration::from_secs(60);
/// A drawing of the page's size that shows nothing is far smaller than this.
const DRAWN_BYTES_MIN: u64 = 30_000;

/// Runs B with everything that a page can show, and writes page, CSV and JSON.
fn run(server: &Server, folder: &Path, name: &str) -> (String, String, Value) {
    let file = |ending: &str| folder.join(format!("{name}.{ending}")).to_str().expect("it is text").to_owned();
    let (html, csv, records) = (file("html"), file("csv"), RECORDS.to_string());
    let run = ["run", "-w", "b", "--records", &records, "--duration", "1s", "--threads", "2", "--warmup", "100ms"];
    let more = ["--rate-sweep", "100,200,400", "--sweep-time", "300ms", "--html", &html, "--csv", &csv];
    let json = good(server, &[&run[..], &more].concat());
    std::fs::write(file("json"), json.to_string()).expect("it can be written");
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    (read(&html), read(&csv), json)
}

fn assert_complete(html: &str) {
    let parts =
        ["Latency", "Throughput over time", "Rate sweep", "Operations", "Cost and retries", "The raw fabric", "Where and what"];
    for part in
        parts.iter().chain(&["raw Read p50", "raw Reads of", "Reads per Get", "retries: torn", "server CPU per operation"])
    {
        assert!(html.contains(part), "the page has no {part}");
    }
    for part in ["kernel", "server memory (pages)", "server version", "kv bench version"] {
        assert!(html.contains(part), "the environment has no {part}");
    }
    assert!(html.matches("<svg").count() == 3 && html.matches("<polyline").count() >= 6);
    for foreign in ["http:", "https:", "<script", "<link", "<img", "src=", "href=", "url(", "@import"] {
        assert!(!html.contains(foreign), "the page asks for {foreign}");
    }
}

/// Runs the browser on a page; what it prints, or `None` where there is none.
fn browse(page: &Path, folder: &Path, arguments: &[&str]) -> Option<String> {
    let Some(browser) = find("chromium") else {
        println!("skipped: no chromium here to look at the page; `deploy/setup.sh --bench` installs it");
        return None;
    };
    let profile = folder.join("profile");
    let printed = folder.join("printed");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,2600"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&printed).expect("it can be written"))
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let until = Instant::now() + BROWSER;
    while child.try_wait().expect("it is our child").is_none() {
        if Instant::now() > until {
            child.kill().expect("it is our child");
            child.wait().expect("it is our child");
            panic!("the browser did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(std::fs::read_to_string(&printed).expect("it was written"))
}

#[test]
fn a_page_shows_the_run_and_needs_nothing_else() {
    let server = Server::builder().memory("256MiB").start();
    load(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let (html, csv, json) = run(&server, folder.path(), "one");
    assert_complete(&html);
    let reads = figure(&json, "/latency_ns/read/count");
    assert!(csv.lines().any(|line| line.starts_with("operation,read,") && line.contains(&format!(",{reads},"))), "{csv}");
    assert_eq!(csv.lines().filter(|line| line.starts_with("sweep,")).count(), 3);
    assert!(csv.lines().any(|line| line.starts_with("raw,read,")));

    let page = folder.path().join("one.html");
    let Some(seen) = browse(&page, folder.path(), &["--dump-dom"]) else { return };
    // The browser closes what was left open and drops what it cannot read: all of it must be there still.
    assert_complete(&seen);
    assert_eq!(seen.matches("<tr>").count(), html.matches("<tr>").count());
    let picture = folder.path().join("picture.png");
    browse(&page, folder.path(), &[&format!("--screenshot={}", picture.display())]);
    let drawn = std::fs::metadata(&picture).expect("there is a picture").len();
    assert!(drawn > DRAWN_BYTES_MIN, "a picture of {drawn} bytes shows nothing");
    if let Some(keep) = std::env::var_os("SIDEWIRE_TEST_PICTURE") {
        std::fs::copy(&picture, keep).expect("it can be kept");
    }
}

#[test]
fn reports_are_put_beside_each_other() {
    let server = Server::builder().memory("256MiB").start();
    load(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let jsons = ["before", "after"].map(|name| run(&server, folder.path(), name).2);
    let path = |name: &str| folder.path().join(name).to_str().expect("it is text").to_owned();
    let (before, after, html) = (path("before.json"), path("after.json"), path("both.html"));
    let both = output(&["report", &before, &after, "--html", &html]);
    assert!(both.status.success(), "{}", String::from_utf8_lossy(&both.stderr));
    let table = String::from_utf8_lossy(&both.stdout).into_owned();
    let line = table.lines().find(|line| line.starts_with("throughput_ops")).expect("it has a line");
    let ratio: f64 = line.split_whitespace().last().expect("it has a ratio").parse().expect("it is a number");
    let [one, two] = jsons.each_ref().map(|json| figure(json, "/throughput_ops"));
    assert!((ratio - two / one).abs() < 0.001, "{line}: {two} / {one}");
    let html = std::fs::read_to_string(&html).expect("it was written");
    assert!(html.contains("after: read") && html.contains("before: read") && html.matches("<svg").count() == 3);

    let nonsense = path("nonsense.json");
    std::fs::write(&nonsense, "{\"a\": 1}").expect("it can be written");
    for wrong in [&["report"][..], &["report", "/nonexistent.json"], &["report", &before, &nonsense]] {
        assert_eq!(output(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
