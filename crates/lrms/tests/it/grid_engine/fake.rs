//! Answers that a real Grid Engine hardly ever gives.

use super::own_cell::place;
use super::wanted;
use crate::command_local::LONG;
use crate::scripted::{Scripted, refusal};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{BatchSystem, Handle, Node, Picture, Place, ReservationSystem};
use bookahead_lrms::command::Runner;
use bookahead_lrms::grid_engine::{GridEngine, Settings};
use bookahead_plan::Time;
use std::time::Duration;

const GRANTED: &str = "Your advance reservation 7 has been granted\n";
/// 11:33:20; the wanted reservation ends at 11:35:00.
const BEGIN: Time = Time(1_794_742_400);

fn engine(commands: &Scripted, time_out: Duration) -> GridEngine {
    let settings = Settings { bin: Some(commands.bin()), ..Settings::new(vec![place("all.q")], "smp") };
    GridEngine::new(Runner::local(time_out), settings)
}

/// Requests four slots from a Grid Engine that grants what `qrstat` then shows.
fn create(commands: &Scripted) -> Result<Handle, LrmsError> {
    engine(commands, LONG).create(&wanted(BEGIN, 0, 100, 4), &picture()).map(|made| made.handle)
}

fn granting() -> Scripted {
    let commands = Scripted::new(&["qrsub", "qrstat", "qrdel"]);
    commands.says("qrsub", GRANTED);
    commands.says("qrdel", "");
    commands
}

fn shown(slots: u32, end: &str, instance: &str) -> String {
    format!(
        "<?xml version='1.0'?>\n<qrstat xmlns:xsd=\"x\"><ar_summary><id>7</id>\
         <name>ba.site.0123456789abcdef0123456789abcdef.0.ann</name>\
         <owner>root</owner><state>w</state><start_time>2026-11-15T11:33:20</start_time><end_time>{end}</end_time>\
         <granted_slots_list><granted_slots  queue_instance=\"{instance}\" slots=\"{slots}\"/></granted_slots_list>\
         </ar_summary></qrstat>\n"
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
        (shown(3, end, "all.q@a"), "it has 3 instead of 4"),
        (shown(5, end, "all.q@a"), "it has 5 instead of 4"),
        (shown(4, "2026-11-15T11:34:59", "all.q@a"), "was granted instead of"),
        (shown(4, end, "all.q@b"), "not usable"),
        (shown(4, end, "other.q@a"), "not belong to cpu"),
    ];
    for (qrstat, expected) in cases {
        let commands = granting();
        commands.says("qrstat", &qrstat);
        let told = refusal(create(&commands));
        assert!(told.contains(expected), "{told}");
        assert_eq!(commands.calls().last().unwrap(), "qrdel|7");
    }
    let commands = granting();
    commands.answers("qrstat", "<qrstat><ar_unknown><id>7</id></ar_unknown></qrstat>", "", 1);
    assert!(refusal(create(&commands)).contains("does not exist"));
    assert_eq!(commands.calls().last().unwrap(), "qrdel|7");

    let commands = granting();
    commands.says("qrstat", &shown(4, end, "all.q@a"));
    create(&commands).unwrap();
    // One queue instance is down: the others are named.
    let asked = "qrsub|-a|202611151133.20|-e|202611151135.00|-pe|smp|4|-q|all.q@a|-N|ba.site.";
    assert!(commands.calls()[0].starts_with(asked), "{:?}", commands.calls());
    assert!(commands.calls_of("qrdel").is_empty());
}

#[test]
fn what_cannot_be_read_is_told_and_a_grant_that_cannot_be_read_back_is_undone() {
    let garbage: [&[u8]; 4] = [b"garbage\n", b"<job_info>\n", b"<other/>\n", b"\0\xff<"];
    let unreadable = |error: LrmsError| assert!(matches!(error, LrmsError::Unreadable { .. }), "{error:?}");
    for garbage in garbage {
        let commands = Scripted::new(&["qstat", "qconf", "qrstat"]);
        commands.answers_bytes("qstat", garbage, "", 0);
        commands.says("qconf", "");
        commands.says("qrstat", "");
        unreadable(engine(&commands, LONG).look().unwrap_err());
        let commands = granting();
        commands.answers_bytes("qrstat", garbage, "", 0);
        unreadable(create(&commands).unwrap_err());
        assert_eq!(commands.calls().last().unwrap(), "qrdel|7");
        let commands = Scripted::new(&["qrsub"]);
        commands.answers_bytes("qrsub", garbage, "", 0);
        unreadable(create(&commands).unwrap_err());
    }
    let error = engine(&Scripted::new(&[]), LONG).look().unwrap_err();
    assert!(matches!(error, LrmsError::CannotRun { .. }), "{error:?}");
}

/// One job, with its details.
const JOB: &str = "<job_info><queue_info/><job_info><job_list state=\"pending\"><JB_job_number>7</JB_job_number><JB_name>n</JB_name>\
    <JB_owner>ann</JB_owner><state>qw</state><slots>2</slots></job_list></job_info></job_info>";
const DETAILS: &str = "<detailed_job_info><djob_info><element><JB_job_number>7</JB_job_number><JB_ar>3</JB_ar></element>\
    </djob_info></detailed_job_info>";

#[test]
fn details_that_are_older_than_a_job_are_asked_for_again() {
    let commands = Scripted::new(&["qstat", "qconf", "qrstat"]);
    commands.says("qconf", "");
    commands.says("qrstat", "<qrstat/>");
    let place = Place { partition: None, ..place("all.q") };
    let settings = Settings { bin: Some(commands.bin()), ..Settings::new(vec![place], "smp") };
    // One at a time, to make clear which of the two gives which answer.
    let engine = GridEngine::new(Runner::local(LONG).at_most(1), settings);
    let listed = JOB.replace(
        "<queue_info/>",
        "<queue_info><Queue-List><name>all.q@a</name><slots_total>8</slots_total></Queue-List></queue_info>",
    );
    let nothing = "<unknown_jobs ><ST_name>*</ST_name></unknown_jobs>";
    for (first, calls) in [(DETAILS, 2), (nothing, 3)] {
        commands.forget("qstat");
        commands.says("qstat", first);
        commands.says("qstat", &listed);
        commands.says("qstat", DETAILS);
        let before = commands.calls_of("qstat").len();
        let picture = engine.look().unwrap();
        assert_eq!(picture.jobs[0].reservations, [Handle("3".into())]);
        assert_eq!(commands.calls_of("qstat").len() - before, calls);
    }
}

#[test]
fn a_command_that_hangs_is_silence() {
    let commands = Scripted::new(&["qconf", "qstat", "qrstat", "qrsub"]);
    for program in ["qstat", "qrsub"] {
        commands.hangs(program);
    }
    for program in ["qconf", "qrstat"] {
        commands.says(program, "");
    }
    let engine = engine(&commands, Duration::from_millis(300));
    assert!(matches!(engine.look().unwrap_err(), LrmsError::Silent { .. }));
    let error = engine.create(&wanted(BEGIN, 0, 100, 4), &picture()).unwrap_err();
    assert!(matches!(error, LrmsError::Silent { .. }));
}
