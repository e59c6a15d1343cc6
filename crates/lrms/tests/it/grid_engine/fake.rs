//! Commands that answer what a real Grid Engine hardly ever does.

use super::own_cell::place;
use super::{refusal, wanted};
use crate::program::write_program;
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{BatchSystem, Node, Picture};
use bookahead_lrms::command::Runner;
use bookahead_lrms::grid_engine::{GridEngine, Settings};
use bookahead_plan::Time;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

const GRANTED: &str = "echo 'Your advance reservation 7 has been granted'";

struct Fake(TempDir);

impl Fake {
    fn new(programs: &[(&str, &str)]) -> Fake {
        let fake = Fake(tempfile::tempdir().unwrap());
        for (program, body) in programs {
            let path = fake.0.path().join(program);
            let log = fake.0.path().join("log");
            write_program(&path, &format!("#!/bin/sh\necho {program} \"$@\" >> {}\n{body}\n", log.display()));
        }
        fake
    }

    fn engine(&self) -> GridEngine {
        let settings =
            Settings { bin: Some(self.0.path().into()), ..Settings::new(vec![place("all.q")], "smp") };
        GridEngine::new(Runner::local(Duration::from_secs(5)), settings)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.0.path().join("log")).unwrap_or_default()
    }
}

fn shown(slots: u32, end: &str, instance: &str) -> String {
    format!(
        "cat <<'XML'\n<?xml version='1.0'?>\n<qrstat xmlns:xsd=\"x\"><ar_summary><id>7</id>\
         <name>ba.site.0123456789abcdef0123456789abcdef.0.ann</name>\
         <owner>root</owner><state>w</state><start_time>2026-11-15T11:33:20</start_time><end_time>{end}</end_time>\
         <granted_slots_list><granted_slots  queue_instance=\"{instance}\" slots=\"{slots}\"/></granted_slots_list>\
         </ar_summary></qrstat>\nXML"
    )
}

fn picture() -> Picture {
    let node =
        |name: &str, usable| Node { name: name.into(), cores: 8, usable, resources: vec!["cpu".into()] };
    let nodes = vec![node("all.q@a", true), node("all.q@b", false)];
    Picture { clock: Some(Time(1_794_742_000)), nodes, ..Picture::default() }
}

#[test]
fn a_grant_that_is_not_what_was_wanted_is_undone_and_refused() {
    let end = "2026-11-15T11:35:00";
    let cases = [
        (shown(3, end, "all.q@a"), "3 slots were granted instead of 4"),
        (shown(5, end, "all.q@a"), "5 slots were granted instead of 4"),
        (shown(4, "2026-11-15T11:34:59", "all.q@a"), "was granted instead of"),
        (shown(4, end, "all.q@b"), "not usable"),
        (shown(4, end, "other.q@a"), "elsewhere"),
        ("echo \"<qrstat><ar_unknown><id>7</id></ar_unknown></qrstat>\"; exit 1".to_owned(), "is not there"),
    ];
    for (qrstat, expected) in cases {
        let fake = Fake::new(&[("qrsub", GRANTED), ("qrstat", &qrstat), ("qrdel", "true")]);
        // From 11:33:20 to 11:35:00.
        let told = refusal(fake.engine().create(&wanted(Time(1_794_742_400), 0, 100, 4), &picture()));
        assert!(told.contains(expected), "{told}");
        assert!(fake.log().ends_with("qrdel 7\n"), "{}", fake.log());
    }
    let fake = Fake::new(&[("qrsub", GRANTED), ("qrstat", &shown(4, end, "all.q@a")), ("qrdel", "true")]);
    fake.engine().create(&wanted(Time(1_794_742_400), 0, 100, 4), &picture()).unwrap();
    // One queue instance is down: the others are named.
    let asked = "qrsub -a 202611151133.20 -e 202611151135.00 -pe smp 4 -q all.q@a -N ba.site.";
    assert!(fake.log().starts_with(asked), "{}", fake.log());
    assert!(!fake.log().contains("qrdel"));
}

#[test]
fn what_cannot_be_read_is_told_and_a_grant_that_cannot_be_read_back_is_undone() {
    for garbage in ["echo garbage", "echo '<job_info>'", "echo '<other/>'", "printf '\\000\\377<'"] {
        let error = Fake::new(&[("qstat", garbage), ("qconf", "true")]).engine().look().unwrap_err();
        assert!(matches!(error, LrmsError::Unreadable { .. }), "{error:?}");
        let fake = Fake::new(&[("qrsub", GRANTED), ("qrstat", garbage), ("qrdel", "true")]);
        let error = fake.engine().create(&wanted(Time(1_794_742_400), 0, 100, 4), &picture()).unwrap_err();
        assert!(matches!(error, LrmsError::Unreadable { .. }), "{error:?}");
        assert!(fake.log().ends_with("qrdel 7\n"), "{}", fake.log());
        let fake = Fake::new(&[("qrsub", garbage)]);
        let error = fake.engine().create(&wanted(Time(1_794_742_400), 0, 100, 4), &picture()).unwrap_err();
        assert!(matches!(error, LrmsError::Unreadable { .. }), "{error:?}");
    }
    let error = Fake::new(&[]).engine().look().unwrap_err();
    assert!(matches!(error, LrmsError::CannotRun { .. }), "{error:?}");
}

#[test]
fn a_command_that_hangs_is_silence() {
    let fake = Fake::new(&[("qconf", "true"), ("qstat", "exec sleep 60"), ("qrsub", "exec sleep 60")]);
    let settings = Settings { bin: Some(fake.0.path().into()), ..Settings::new(vec![place("all.q")], "smp") };
    let mut engine = GridEngine::new(Runner::local(Duration::from_millis(300)), settings);
    assert!(matches!(engine.look().unwrap_err(), LrmsError::Silent { .. }));
    let error = engine.create(&wanted(Time(1_794_742_400), 0, 100, 4), &picture()).unwrap_err();
    assert!(matches!(error, LrmsError::Silent { .. }));
}
