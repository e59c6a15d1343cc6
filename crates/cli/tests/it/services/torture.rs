//! The `torture` command: real daemons under load, killed again and again.

use crate::folder::Folder;
use bookahead_tests::cases::quick;
use bookahead_tests::postgres::Server;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn under_load_and_kills_every_acknowledged_answer_stays_true() {
    let seconds = if quick() { 6 } else { 25 };
    let line = format!("torture --duration {seconds}s --kill-every 400ms --seed 2000 --json");
    let results = Folder::new().succeed(&line).json();
    eprintln!("{results:#}");
    let number = |name: &str| results[name].as_u64().unwrap();
    assert_eq!(number("violations"), 0);
    assert!(number("kills") > seconds / 2 && number("acknowledged") > 50 * seconds / 10);
    assert!(number("blocks_checked") > 0, "no schedule showed anything under load");
    let commits = &results["calls"]["at_brokers"]["book"]["acknowledged"];
    assert!(commits.as_u64().unwrap() > 0, "no co-reservation was booked");
    assert!(results["calls"]["repeated"].as_u64().unwrap() > 0);
}

#[test]
fn under_load_and_kills_journals_in_postgresql_keep_every_promise() {
    let server = Server::start(&[]);
    let url = server.database("torture");
    let seconds = if quick() { 5 } else { 15 };
    let line =
        format!("torture --duration {seconds}s --kill-every 400ms --seed 2001 --json --postgres {url}");
    let results = Folder::new().succeed(&line).json();
    eprintln!("{results:#}");
    assert_eq!(results["violations"], 0);
    assert!(results["kills"].as_u64().unwrap() > 1 && results["acknowledged"].as_u64().unwrap() > 20);
    let records = server.sql("torture", "SELECT count(DISTINCT party) FROM bookahead.record");
    assert_eq!(records, "5", "three sites and two brokers");
}

#[test]
fn ctrl_c_ends_the_load_and_what_was_acknowledged_is_checked() {
    let folder = Folder::new();
    let mut command = folder.command("torture --duration 1h --json --folder state");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let ready = folder.path("state/outer.ready");
    while !std::fs::read_to_string(&ready).is_ok_and(|text| text.ends_with('\n')) {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success(), "{out}");
    let results: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(results["violations"], 0);
    folder.fail("torture --folder state", &["is not empty"]);
}
