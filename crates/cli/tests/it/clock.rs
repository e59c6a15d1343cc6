//! The clock of the machine is changed while a site runs. A preloaded library shifts the time of day by the offset in a
//! file; the monotonic clock is not changed.

use crate::asking::{Asking, SITE};
use crate::folder::Folder;
use crate::service::Service;
use bookahead_tests::polling::until;
use bookahead_tests::postgres::Server;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
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
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.path("bin").display()));
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    // Peers on this machine usually have the same clock, and so are no independent evidence.
    command.env("BOOKAHEAD_LOCAL_CLOCKS", "1");
    Service::of(command)
}

/// Shifts the clock. A file that is written in place is empty for a moment, and the clock is right in that moment.
fn shift(folder: &Folder, offset: &str) {
    folder.write("offset.new", offset);
    std::fs::rename(folder.path("offset.new"), folder.path("offset")).unwrap();
}

/// Shifts the clock, and waits until the health of the site meets a condition.
#[track_caller]
fn set(asking: &Asking, offset: &str, status: &str) -> Value {
    shift(&asking.folder, offset);
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
    for (offset, told) in [("+3d", "by 3 days"), ("-3d", "by -3 days")] {
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
}

/// A site with a promise for tomorrow that was stopped, and starts again with a clock that is this far off.
fn restarted(offset: &str, line: &str, also: impl FnOnce(&Folder)) -> (Asking, String) {
    let asking = site();
    let promised = asking.hold("32");
    asking.document(&["commit", &promised]);
    asking.service.stop();
    shift(&asking.folder, offset);
    also(&asking.folder);
    (Asking { service: start_line(&asking.folder, line), folder: asking.folder }, promised)
}

/// Health, and what a request for a new promise gets.
fn in_doubt(asking: &Asking, offset: &str) -> Value {
    let health = set(asking, offset, "failed");
    let refused = asking.service.book(1);
    let problem: Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!((refused.status, &problem["code"]), (503, &Value::from("clock-in-doubt")), "{problem}");
    let metrics = asking.service.ask("GET", "/metrics", "", "").body;
    assert!(metrics.contains("bookahead_clock{state=\"in-doubt\"} 1"), "{metrics}");
    health
}

#[test]
fn a_clock_that_is_days_ahead_at_the_start_ends_no_promise() {
    let (asking, promised) = restarted("+3d", "site --config site.toml", |_| {});
    let health = in_doubt(&asking, "+3d");
    assert!(health["problem"].as_str().unwrap().contains("days ahead of the newest entry"), "{health}");
    assert_eq!(asking.document(&["show", &promised])["state"], "committed");
    assert_eq!(asking.document(&["list"])["reservations"].as_array().unwrap().len(), 1);
    // A restart changes nothing: the journal is as old as before.
    asking.service.stop();
    let asking = Asking { service: start(&asking.folder), folder: asking.folder };
    in_doubt(&asking, "+3d");
    assert_eq!(asking.document(&["show", &promised])["state"], "committed");
    // The clock is set right, and the same call succeeds.
    assert_eq!(set(&asking, "+0", "ready")["problem"], Value::Null);
    until(|| {
        let answer = asking.service.book(1);
        if answer.status == 201 { Ok(()) } else { Err(answer.body) }
    });
    assert_eq!(asking.document(&["show", &promised])["state"], "committed");
    asking.service.signal("TERM");
    let (status, said) = asking.service.ended();
    assert!(status.success(), "{said}");
    for event in ["clock_ahead_of_journal", "clock_passed_journal"] {
        assert_eq!(said.matches(event).count(), 1, "{event} in {said}");
    }
}

#[test]
fn an_operator_can_trust_a_clock_that_is_far_ahead_of_the_journal() {
    let (asking, promised) = restarted("+3d", "site --config site.toml --trust-clock", |_| {});
    assert_eq!(set(&asking, "+3d", "ready")["problem"], Value::Null);
    let forgotten = asking.ends(3, &["show", &promised]);
    assert!(forgotten.err.contains("not known here"), "three days have passed: {forgotten:?}");
}

/// Puts a `busctl` first on PATH that reports a synchronised clock with the time that `date` prints.
fn ntp(folder: &Folder, date: &str) {
    std::fs::create_dir(folder.path("bin")).unwrap();
    folder.write("bin/busctl", format!("#!/bin/sh\necho b true\necho t $({date} +%s%6N)\n"));
    std::fs::set_permissions(folder.path("bin/busctl"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_long_downtime_is_no_doubt_if_ntp_has_synchronised_the_clock() {
    // `date` sees the same clock as the service.
    let (asking, promised) = restarted("+3d", "site --config site.toml", |folder| ntp(folder, "date"));
    assert_eq!(set(&asking, "+3d", "ready")["problem"], Value::Null);
    let forgotten = asking.ends(3, &["show", &promised]);
    assert!(forgotten.err.contains("not known here"), "three days have passed: {forgotten:?}");

    // NTP shows another time than the clock that the service reads.
    let real = "env -u LD_PRELOAD date";
    let (asking, promised) = restarted("+3d", "site --config site.toml", |folder| ntp(folder, real));
    in_doubt(&asking, "+3d");
    assert_eq!(asking.document(&["show", &promised])["state"], "committed");
}

#[test]
fn a_stand_by_whose_clock_is_days_ahead_takes_over_and_ends_nothing() {
    let server = Server::start(&[]);
    let state = server.database("site");
    let site = SITE.replacen('\n', &format!("\nstate = \"{state}\"\nlease = \"1s\"\n"), 1);
    let process = |offset: &str| {
        let folder = Folder::with("site.toml", &site);
        shift(&folder, offset);
        // It becomes ready when it has taken over.
        Asking { service: start_line(&folder, "site --config site.toml --listen 127.0.0.1:0"), folder }
    };
    let first = process("+0");
    let promised = first.hold("32");
    first.document(&["commit", &promised]);
    first.service.signal("KILL");
    let second = process("+3d");
    let health = set(&second, "+3d", "failed");
    assert!(health["problem"].as_str().unwrap().contains("set by"), "{health}");
    assert_eq!(second.document(&["show", &promised])["state"], "committed");
    assert_eq!(second.service.book(1).status, 201, "the clock of the database decides");
    second.service.signal("TERM");
    let (status, said) = second.service.ended();
    assert!(status.success() && said.contains("clock_of_database"), "{said}");
    let third = process("+0");
    assert_eq!(set(&third, "+0", "ready")["problem"], Value::Null);
    assert_eq!(third.document(&["show", &promised])["state"], "committed");
    assert_eq!(third.document(&["list"])["reservations"].as_array().unwrap().len(), 2);
}

#[test]
fn a_clock_that_is_behind_the_journal_at_the_start_is_reported_until_it_is_past_it() {
    let asking = site();
    let promised = asking.hold("32");
    asking.document(&["commit", &promised]);
    asking.service.stop();
    shift(&asking.folder, "-1d");
    let asking = Asking { service: start(&asking.folder), folder: asking.folder };
    let health = set(&asking, "-1d", "failed");
    let problem = health["problem"].as_str().unwrap();
    assert!(problem.contains("behind the journal"), "{health}");
    in_doubt(&asking, "-1d");
    assert_eq!(asking.document(&["show", &promised])["state"], "committed");
    // A clock that is set to a time just after the journal is followed at once.
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

#[test]
fn what_a_broker_does_with_a_clock_behind_the_journal_is_not_long_past_when_the_clock_is_right() {
    let below = Asking::site(SITE);
    let folder = Folder::with("offset", "+0");
    let peer = format!("[[peer]]\nname = \"north\"\nurl = \"{}\"\n", below.service.url());
    folder
        .write("broker.toml", format!("name = \"grid\"\nheartbeat = \"200ms\"\nretention = \"5m\"\n{peer}"));
    let broker = |folder| Asking { service: start_line(&folder, "broker --config broker.toml"), folder };
    let asking = broker(folder);
    asking.until(&["sites"], |sites| sites.to_string().contains("north/cluster"));
    let (kept, cancelled) = (asking.hold("8"), asking.hold("8"));
    asking.document(&["commit", &kept]);
    asking.document(&["commit", &cancelled]);
    asking.service.stop();
    shift(&asking.folder, "-1d");
    let asking = broker(asking.folder);
    set(&asking, "-1d", "failed");
    assert_eq!(asking.document(&["cancel", &cancelled])["state"], "cancelled");
    set(&asking, "+0", "ready");
    // It is not forgotten as if it had ended a day ago.
    assert_eq!(asking.document(&["show", &kept])["state"], "committed");
    assert_eq!(asking.document(&["show", &cancelled])["state"], "cancelled");
}
