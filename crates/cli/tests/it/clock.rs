//! The clock of the machine is changed while a site runs. A preloaded library shifts the time of day by the offset in a
//! file; the monotonic clock is not changed.

use crate::asking::{Asking, SITE};
use crate::folder::Folder;
use crate::service::Service;
use bookahead_tests::polling::until;
use serde_json::Value;
use std::path::PathBuf;

fn library() -> PathBuf {
    let path = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
    assert!(std::fs::exists(&path).unwrap(), "{path} is missing; install the package libfaketime");
    path.into()
}

/// A site whose clock is shifted by the contents of the file `offset`.
fn site() -> Asking {
    let folder = Folder::with("site.toml", SITE);
    folder.write("offset", "+0");
    let service = start(&folder);
    Asking { folder, service }
}

fn start(folder: &Folder) -> Service {
    start_line(folder, "site --config site.toml")
}

fn start_line(folder: &Folder, line: &str) -> Service {
    let mut command = folder.command(line);
    command.env("LD_PRELOAD", library()).env("FAKETIME_TIMESTAMP_FILE", folder.path("offset"));
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    // Peers on this machine usually have the same clock, and so are no independent evidence.
    command.env("BOOKAHEAD_LOCAL_CLOCKS", "1");
    Service::of(command)
}

/// Shifts the clock, and waits until the health of the site meets a condition.
#[track_caller]
fn set(asking: &Asking, offset: &str, status: &str) -> Value {
    asking.folder.write("offset", offset);
    until(|| {
        let answer = asking.service.ask("GET", "/v1/health", "", "");
        let health: Value = serde_json::from_str(&answer.body).unwrap();
        if health["status"] == status {
            assert_eq!(answer.status, if status == "ready" { 200 } else { 503 });
            return Ok(health);
        }
        Err(health)
    })
}

#[test]
fn a_clock_that_is_days_off_for_a_while_costs_no_promise() {
    let asking = site();
    let promised = asking.hold("32");
    asking.document(&["commit", &promised]);
    for (offset, told) in [("+3d", "by 259"), ("-3d", "by -259")] {
        let health = set(&asking, offset, "failed");
        assert!(health["problem"].as_str().unwrap().contains(told), "{health}");
        assert_eq!(asking.document(&["show", &promised])["state"], "committed");
        let held = asking.hold("8");
        assert_eq!(asking.document(&["commit", &held])["state"], "committed", "time goes on as before");
        let health = set(&asking, "+0", "ready");
        assert_eq!(health["problem"], Value::Null);
        assert_eq!(asking.document(&["show", &promised])["state"], "committed");
    }
    asking.service.signal("TERM");
    let (status, said) = asking.service.ended();
    assert!(status.success(), "{said}");
    for event in ["clock_jumped", "clock_is_back"] {
        assert_eq!(said.matches(event).count(), 2, "{event} in {said}");
    }
    // After a restart the clock is trusted: three days have passed, and the reservation is over.
    asking.folder.write("offset", "+3d");
    let asking = Asking { service: start(&asking.folder), folder: asking.folder };
    let forgotten = asking.ends(3, &["show", &promised]);
    assert!(forgotten.err.contains("not known here"), "{forgotten:?}");
    assert_eq!(set(&asking, "+3d", "ready")["problem"], Value::Null);
}

#[test]
fn a_clock_that_is_behind_the_journal_at_the_start_is_reported_until_it_is_past_it() {
    let asking = site();
    let promised = asking.hold("32");
    asking.document(&["commit", &promised]);
    asking.service.stop();
    asking.folder.write("offset", "-1d");
    let asking = Asking { service: start(&asking.folder), folder: asking.folder };
    let health = set(&asking, "-1d", "failed");
    let problem = health["problem"].as_str().unwrap();
    assert!(problem.contains("behind the newest entry of the journal"), "{health}");
    assert_eq!(asking.document(&["show", &promised])["state"], "committed");
    // A clock that is set to a time after the journal is trusted at once, as after a restart.
    assert_eq!(set(&asking, "+0", "ready")["problem"], Value::Null);
    let held = asking.hold("8");
    assert_eq!(asking.document(&["commit", &held])["state"], "committed");
    asking.service.signal("TERM");
    let (status, said) = asking.service.ended();
    assert!(status.success(), "{said}");
    for event in ["clock_behind_journal", "clock_passed_journal"] {
        assert_eq!(said.matches(event).count(), 1, "{event} in {said}");
    }
}

#[test]
fn a_clock_that_was_set_right_is_followed_when_a_peer_shows_the_same_time() {
    let below = Asking::site(SITE);
    let folder = Folder::with("offset", "-1h");
    let peer = format!("[[peer]]\nname = \"north\"\nurl = \"{}\"\n", below.service.url());
    let broker = "name = \"grid\"\nheartbeat = \"200ms\"\n";
    folder.write("broker.toml", format!("{broker}{peer}"));
    let asking = Asking { service: start_line(&folder, "broker --config broker.toml"), folder };
    set(&asking, "-1h", "ready");
    // A time that no peer confirms is not trusted; the time of the peer is.
    set(&asking, "+5h", "failed");
    set(&asking, "+0", "ready");
    asking.service.signal("TERM");
    let (status, said) = asking.service.ended();
    assert!(status.success(), "{said}");
    assert_eq!(said.matches("clock_confirmed").count(), 1, "{said}");
}
