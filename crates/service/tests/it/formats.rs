//! Journals of other releases: older ones are read, newer ones refused. `format-1.journal` was written when there
//! was no other format, and must never be written again; `format-1.jsonl` is its export. Its event types are no
//! longer used.

use crate::*;
use bookahead_service::journal::{check, export};
use serde_json::{Value, json};
use std::fs;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn a_journal_of_format_1_is_read_by_every_later_release() {
    let (_folder, path) = folder();
    fs::copy(fixture("format-1.journal"), &path).unwrap();
    let mut out = Vec::new();
    export(&path, &mut out).unwrap();
    let expected = fs::read_to_string(fixture("format-1.jsonl")).unwrap().replace("\r\n", "\n");
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let (journal, replay) = Journal::<Value>::open(&path, &ledgers::kind()).unwrap();
    assert_eq!(replay.snapshot.unwrap().state::<Value>().unwrap(), json!({ "events": 4 }));
    let lines = expected.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events: Vec<Value> = lines.map(|line| line["event"].clone()).collect();
    assert!(replay.events.iter().map(|record| &record.event).eq(&events));
    journal.append(&events).unwrap().wait().unwrap();
    journal.close().unwrap();
    assert!(check(&path).unwrap().is_sound());
}

#[test]
fn a_journal_of_a_newer_format_is_refused_and_left_alone() {
    let (_folder, path) = folder();
    filled(&path);
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
    let error = all(&path).unwrap_err();
    assert!(matches!(error, JournalError::Newer { found: 1_000, .. }), "{error}");
    assert!(error.to_string().contains("use a newer release"), "{error}");
    assert!(matches!(check(&path), Err(JournalError::Newer { .. })));
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 0).unwrap();
    assert!(matches!(all(&path), Err(JournalError::Damaged { .. })));
}

#[test]
fn events_of_a_newer_version_are_refused() {
    let (_folder, path) = folder();
    let newer = Kind { schema: 2, ..kind() };
    let (journal, _) = Journal::open_with(&path, &newer, &unsynced()).unwrap();
    journal.append(&notes(0..1)).unwrap().wait().unwrap();
    journal.close().unwrap();
    let error = all(&path).unwrap_err();
    assert!(error.to_string().contains("events of version 2"), "{error}");
}

#[test]
fn events_of_an_older_version_are_brought_up_to_date() {
    let (_folder, path) = folder();
    let old = Journal::<Value>::open_with(&path, &kind(), &unsynced()).unwrap().0;
    old.append(&[json!({ "who": 3, "number": 7 })]).unwrap().wait().unwrap();
    old.close().unwrap();
    let upgrade = |version: u32, event: Value| {
        assert_eq!(version, 1);
        json!({ "writer": event["who"], "number": event["number"], "text": "old" })
    };
    let new = Kind { schema: 2, upgrade: Some(upgrade), ..kind() };
    let (journal, replay) = Journal::<Note>::open_with(&path, &new, &unsynced()).unwrap();
    assert_eq!(replay.events[0].event, Note { writer: 3, number: 7, text: "old".to_owned() });
    journal.append(&notes(0..1)).unwrap().wait().unwrap();
    journal.close().unwrap();
    let replay = Journal::<Note>::open_with(&path, &new, &unsynced()).unwrap().1;
    assert_eq!(replay.events[1].event, note(0, 0), "a new one is taken as it is");
}
