//! Looks and findings.

use super::{NO_JOBS, QSTAT, at, commands, diagnose, maui, place, showres, with};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{BatchSystem, FactState, Grade, JobFact, Picture, Unit};
use bookahead_lrms::command::Runner;
use bookahead_plan::{Interval, Seconds, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const PBSNODES: &str = include_str!("fixtures/pbsnodes.xml");
const SHOWQ: &str = include_str!("fixtures/showq.txt");
const SHOWRES: &str = include_str!("fixtures/showres.txt");
const DIAGNOSE: &str = include_str!("fixtures/diagnose.txt");

fn everything() -> (crate::scripted::Scripted, Picture) {
    let commands = commands();
    commands.says("pbsnodes", PBSNODES);
    commands.says("qstat", QSTAT);
    commands.says("showq", SHOWQ);
    commands.says("showres", SHOWRES);
    commands.says("diagnose", DIAGNOSE);
    let picture = maui(&commands).look().unwrap();
    (commands, picture)
}

fn job<'a>(picture: &'a Picture, native: &str) -> &'a JobFact {
    picture.jobs.iter().find(|job| job.native == native).unwrap()
}

#[test]
fn nodes_with_the_features_are_seen_with_their_processors_and_states() {
    let (commands, picture) = everything();
    let seen: Vec<_> =
        picture.nodes.iter().map(|node| (node.name.as_str(), node.cores, node.usable)).collect();
    assert_eq!(seen, [("n1", 8, true), ("n2", 8, true), ("n3", 8, false), ("n4", 8, false)]);
    let calls = ["pbsnodes|-x", "qstat|-x|-f|-t", "showq", "showres|-n|-g|-v", "diagnose|-r"];
    assert_eq!(commands.calls(), calls);
}

#[test]
fn the_time_is_that_of_maui() {
    assert_eq!(everything().1.clock, Some(at(0, 0)));
}

#[test]
fn running_jobs_are_seen_where_they_run_whatever_their_queue() {
    let (_, picture) = everything();
    let sim = job(&picture, "12.srv");
    assert_eq!((sim.account.as_str(), &sim.state, sim.cores, sim.nodes), ("bob", &FactState::Running, 5, 2));
    assert_eq!(sim.placed, BTreeMap::from([("n1".into(), 4), ("n2".into(), 1)]));
    assert_eq!((sim.started, sim.limit), (Some(at(-2, 0)), Some(Seconds(36_000))));
    let endless = job(&picture, "13.srv");
    assert_eq!((endless.cores, endless.limit), (2, None));
}

#[test]
fn jobs_wait_in_the_order_of_maui_with_the_starts_it_promises() {
    let (_, picture) = everything();
    let waiting = picture.jobs.iter().filter(|job| job.state == FactState::Waiting);
    let waiting: Vec<&str> = waiting.map(|job| job.native.as_str()).collect();
    assert_eq!(waiting, ["15.srv", "14.srv", "20[1].srv"]);
    let second = job(&picture, "14.srv");
    assert_eq!((second.cores, second.nodes, second.expected_start), (16, 2, Some(at(8, 0))));
    assert!(picture.jobs.iter().all(|job| job.native != "19.srv"), "of a queue that is no resource");
}

#[test]
fn jobs_that_are_held_blocked_or_orphaned_are_told_apart() {
    let (_, picture) = everything();
    assert!(matches!(job(&picture, "18.srv").state, FactState::Held { orphaned: false, .. }));
    let FactState::Held { why, orphaned: false } = &job(&picture, "16.srv").state else {
        panic!("16 is blocked")
    };
    assert!(why.contains("Deferred"), "{why}");
    let orphan = job(&picture, "17.srv");
    assert!(matches!(orphan.state, FactState::Held { orphaned: true, .. }));
    assert_eq!(orphan.name, "job_7f0000000000000000aa", "names are longer than Torque's");
}

#[test]
fn a_job_that_is_over_says_why() {
    let (_, picture) = everything();
    let over = job(&picture, "11.srv");
    assert_eq!((&over.state, over.ended), (&FactState::OutOfTime, Some(Time(1_794_681_303))));
}

#[test]
fn reservations_are_seen_and_those_for_jobs_are_none() {
    let (_, picture) = everything();
    let [ours, foreign] = &picture.reservations[..] else { panic!("{:?}", picture.reservations) };
    assert_eq!((ours.name.as_str(), ours.accounts.as_slice()), ("ba.5.0", &["svc".to_owned()][..]));
    assert_eq!(ours.cores, BTreeMap::from([("n2".into(), 3)]));
    assert_eq!(ours.interval, Interval::new(at(12, 0), at(14, 0)));
    assert_eq!((foreign.name.as_str(), foreign.interval.end), ("chem.0", Time::MAX));
    assert_eq!(foreign.cores, BTreeMap::from([("n1".into(), 8)]), "a task is the whole node");
}

#[test]
fn nothing_there_is_no_error() {
    for nothing in [NO_JOBS, ""] {
        let commands = commands();
        commands.says("pbsnodes", PBSNODES);
        commands.says("qstat", nothing);
        commands.says("showq", "ACTIVE JOBS---\n\nIDLE JOBS---\n\nBLOCKED JOBS---\n\nTotal Jobs: 0\n");
        commands.says("showres", &showres(&[]));
        commands.says("diagnose", &diagnose(&[]));
        let picture = maui(&commands).look().unwrap();
        assert_eq!((picture.jobs.len(), picture.reservations.len(), picture.clock), (0, 0, None));
    }
}

#[test]
fn garbage_is_an_error_that_names_the_command() {
    for program in ["pbsnodes", "qstat", "showq", "showres", "diagnose"] {
        let commands = commands();
        commands.says(program, "<Data><Job>what?");
        commands.says("pbsnodes", PBSNODES);
        commands.says("qstat", QSTAT);
        commands.says("showq", SHOWQ);
        commands.says("showres", SHOWRES);
        commands.says("diagnose", DIAGNOSE);
        let error = maui(&commands).look().unwrap_err();
        assert!(matches!(error, LrmsError::Unreadable { .. }), "{program}: {error}");
        assert!(error.to_string().contains(program), "{error}");
    }
}

#[test]
fn silence_is_told_from_an_answer() {
    let down = [
        ("pbsnodes", "pbsnodes: cannot connect to server srv, error=111 (Connection refused)\n"),
        ("showq", "ERROR:    cannot connect to 'srv' port 42559\n"),
    ];
    for (program, said) in down {
        let commands = commands();
        commands.answers(program, "", said, 1);
        commands.says("pbsnodes", PBSNODES);
        commands.says("qstat", QSTAT);
        assert!(matches!(maui(&commands).look(), Err(LrmsError::Silent { .. })), "{program}");
    }
    let commands = super::commands();
    commands.hangs("pbsnodes");
    let runner = Runner::local(Duration::from_millis(300));
    assert!(matches!(with(&commands, runner, place(Unit::Cores)).look(), Err(LrmsError::Silent { .. })));
}

#[test]
fn an_examination_tries_to_reserve_and_says_what_to_do() {
    let commands = commands();
    commands.says("showconfig", "# Maui version 3.3.1 (PID: 4711)\n# global policies\n");
    commands.says("pbsnodes", PBSNODES);
    commands.says("qstat", QSTAT);
    commands.says("showq", SHOWQ);
    commands.says("showres", SHOWRES);
    commands.says("diagnose", DIAGNOSE);
    commands.answers(
        "setres",
        "",
        "ERROR:    'setres' failed\nuser svc is not authorized create reservation\n",
        1,
    );
    let findings = maui(&commands).examine();
    assert_eq!(
        (findings[0].grade, findings[0].seen.as_str()),
        (Grade::Well, "Maui version 3.3.1 (PID: 4711)")
    );
    assert!(findings.iter().any(|finding| finding.seen == "32 processors on 4 nodes, 2 of them usable"));
    assert!(
        findings.iter().any(|finding| finding.what == "limits of jobs" && finding.grade == Grade::Doubtful)
    );
    let last = findings.last().unwrap();
    assert!(last.grade == Grade::Wrong && last.seen.contains("not authorized"), "{last:?}");
    assert!(last.advice.as_ref().unwrap().contains("ADMIN1"));
}

#[test]
fn moab_is_recognised_and_not_taken_for_maui() {
    let commands = commands();
    commands.says("showconfig", "# moab version 9.1.3 (PID: 1)\n");
    commands.says("pbsnodes", PBSNODES);
    commands.says("qstat", QSTAT);
    commands.says("showq", "what?");
    let findings = maui(&commands).examine();
    assert!(findings.iter().all(|finding| finding.grade == Grade::Wrong), "{findings:?}");
}
