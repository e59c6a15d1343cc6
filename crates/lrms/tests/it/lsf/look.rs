//! Looks and findings.

use super::{BHOSTS, BJOBS, HEAD, NO_JOBS, NONE, at, commands, lsf, place, with};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{BatchSystem, FactState, Grade, JobFact, Picture, Place, Unit};
use bookahead_plan::{Interval, Seconds, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const BRSVS: &str = include_str!("fixtures/brsvs.txt");
const BRSVS_L: &str = include_str!("fixtures/brsvs-l.txt");
const QUEUE: &str = "QUEUE: normal\n  -- the usual one\n\nUSERS: all\nHOSTS:  compute/ node4+2\n";
const MEMBERS: &str = r#"{"COMMAND":"bhosts","HOSTS":4,"RECORDS":[{"HOST_NAME":"node1"},{"HOST_NAME":"node2"},
    {"HOST_NAME":"node3"},{"HOST_NAME":"node4"}]}"#;

fn everything() -> (crate::scripted::Scripted, Picture) {
    let commands = commands();
    let picture = shown(&commands, BJOBS);
    (commands, picture)
}

fn shown(commands: &crate::scripted::Scripted, jobs: &str) -> Picture {
    commands.says("bqueues", QUEUE);
    commands.says("bhosts", MEMBERS);
    commands.says("bhosts", BHOSTS);
    commands.says("bjobs", jobs);
    commands.says("brsvs", BRSVS);
    commands.says("brsvs", BRSVS_L);
    lsf(commands).look().unwrap()
}

fn job<'a>(picture: &'a Picture, native: &str) -> &'a JobFact {
    picture.jobs.iter().find(|job| job.native == native).unwrap()
}

#[test]
fn hosts_of_the_queue_are_seen_with_their_slots_and_states() {
    let (commands, picture) = everything();
    assert_eq!(picture.clock, Some(at(0, 0)));
    let seen: Vec<_> =
        picture.nodes.iter().map(|node| (node.name.as_str(), node.cores, node.usable)).collect();
    assert_eq!(seen, [("node1", 8, true), ("node2", 8, true), ("node3", 8, false), ("node4", 0, false)]);
    let calls = commands.calls_of("bhosts");
    assert_eq!(calls[0], "bhosts|-X|-o|host_name|-json|compute|node4");
    assert_eq!(calls[1], "bhosts|-X|-o|host_name status max njobs|-json");
}

#[test]
fn running_jobs_are_seen_where_they_run_whatever_their_queue() {
    let (_, picture) = everything();
    let long = job(&picture, "101");
    assert_eq!(
        (long.name.as_str(), &long.state, long.cores, long.nodes),
        ("long \"one\"", &FactState::Running, 10, 2)
    );
    assert_eq!(long.placed, BTreeMap::from([("node1".into(), 2), ("node2".into(), 8)]));
    assert_eq!((long.started, long.limit), (Some(at(-2, 0)), Some(Seconds(43_200))));
    assert_eq!(long.ended, None, "what LSF prints for a job that runs is when it would end");
    let small = job(&picture, "102");
    assert_eq!((&small.state, small.started, small.limit), (&FactState::Running, Some(at(-3, 30)), None));
}

#[test]
fn jobs_wait_in_the_order_of_lsf_and_others_queues_are_left_out() {
    let (_, picture) = everything();
    let waiting: Vec<&str> =
        picture.jobs.iter().filter(|job| !job.state.is_over()).map(|job| job.native.as_str()).collect();
    assert_eq!(waiting, ["101", "102", "110[2]", "105", "106", "108"]);
    let array = job(&picture, "110[2]");
    assert_eq!((&array.state, array.cores, array.expected_start), (&FactState::Waiting, 4, Some(at(10, 0))));
    assert!(matches!(job(&picture, "105").state, FactState::Held { orphaned: false, .. }));
    assert!(matches!(job(&picture, "108").state, FactState::Held { orphaned: false, .. }));
    assert!(matches!(job(&picture, "106").state, FactState::Held { orphaned: true, .. }));
}

#[test]
fn a_running_job_that_claims_is_asked_for_its_message() {
    let jobs =
        BJOBS.replace("\"JOBINDEX\":\"0\"", "\"JOBINDEX\":\"0\", \"JOB_DESCRIPTION\":\"bookahead claims\"");
    for (message, expected) in [("", true), ("97 svc bookahead_go", false)] {
        let commands = commands();
        commands.prints("bread", 0, message);
        let picture = shown(&commands, &jobs);
        assert_eq!(["101", "105"].map(|native| job(&picture, native).awaits_go), [expected, true]);
        assert_eq!(commands.calls_of("bread"), ["bread|-i|97|101", "bread|-i|97|102"]);
        assert!(!job(&picture, "110[2]").awaits_go);
    }
}

#[test]
fn a_job_that_is_over_says_why() {
    let (_, picture) = everything();
    let over = job(&picture, "99");
    assert_eq!((&over.state, over.ended), (&FactState::OutOfTime, Some(at(-4, 40))));
}

#[test]
fn reservations_are_seen_and_those_that_come_again_as_often_as_they_come() {
    let (commands, picture) = everything();
    let ours: Vec<_> = picture.reservations.iter().filter(|reserved| reserved.name == "ba_5_0").collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].interval, Interval::new(at(12, 0), at(14, 0)));
    assert_eq!(ours[0].cores, BTreeMap::from([("node1".into(), 8), ("node3".into(), 4)]));
    assert_eq!(ours[0].accounts, ["svc"]);
    let daily: Vec<Time> = picture
        .reservations
        .iter()
        .filter(|reserved| reserved.name == "user2#0")
        .map(|reserved| reserved.interval.begin)
        .collect();
    assert_eq!((daily.len(), daily[1]), (28, at(36, 0)));
    assert_eq!(commands.calls_of("brsvs"), ["brsvs|-w", "brsvs|-l|user2#0"]);
}

#[test]
fn nothing_there_is_no_error_however_lsf_says_it() {
    for nothing in [(NO_JOBS, ""), ("", "No job found\n")] {
        let commands = commands();
        commands.says("bqueues", QUEUE);
        commands.says("bhosts", MEMBERS);
        commands.says("bhosts", BHOSTS);
        commands.answers("bjobs", nothing.0, nothing.1, if nothing.0.is_empty() { 255 } else { 0 });
        commands.answers("brsvs", "", NONE, 255);
        let picture = lsf(&commands).look().unwrap();
        assert_eq!((picture.jobs.len(), picture.reservations.len()), (0, 0));
    }
}

#[test]
fn which_hosts_belong_to_a_queue_is_asked_for_every_ten_minutes_only() {
    let commands = commands();
    commands.says("date", &format!("{}\n", super::MIDNIGHT + 599));
    commands.says("date", &format!("{}\n", super::MIDNIGHT + 600));
    commands.says("bqueues", QUEUE);
    for _ in 0..2 {
        commands.says("bhosts", MEMBERS);
        commands.says("bhosts", BHOSTS);
        commands.says("bhosts", BHOSTS);
    }
    commands.says("bjobs", NO_JOBS);
    commands.says("brsvs", HEAD);
    let lsf = lsf(&commands);
    for asked in [1, 1, 2] {
        lsf.look().unwrap();
        assert_eq!(commands.calls_of("bqueues").len(), asked);
    }
}

#[test]
fn features_are_asked_for_as_boolean_resources() {
    let commands = commands();
    commands.says("bhosts", MEMBERS);
    commands.says("bhosts", r#"{"COMMAND":"bhosts","HOSTS":1,"RECORDS":[{"HOST_NAME":"node2"}]}"#);
    commands.says("bhosts", BHOSTS);
    commands.says("bjobs", NO_JOBS);
    commands.says("brsvs", HEAD);
    let place = Place { partition: None, features: vec!["ib".into(), "big".into()], ..place(Unit::Cores) };
    let picture = with(&commands, commands.runner(), place).look().unwrap();
    assert_eq!(picture.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["node2"]);
    assert_eq!(commands.calls_of("bhosts")[1], "bhosts|-X|-o|host_name|-json|-R|select[ib && big]");
}

#[test]
fn garbage_is_an_error_that_names_the_command() {
    for (program, garbage) in [("bjobs", "{\"RECORDS\":7}"), ("bhosts", "<html>"), ("brsvs", "what?")] {
        let commands = commands();
        commands.says(program, garbage);
        commands.says("bqueues", QUEUE);
        commands.says("bhosts", MEMBERS);
        commands.says("bhosts", BHOSTS);
        commands.says("bjobs", NO_JOBS);
        commands.says("brsvs", HEAD);
        let error = lsf(&commands).look().unwrap_err();
        assert!(matches!(error, LrmsError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(program), "{error}");
    }
}

#[test]
fn a_job_that_cannot_be_read_is_left_out_and_told() {
    let commands = commands();
    commands.says("bqueues", QUEUE);
    commands.says("bhosts", MEMBERS);
    commands.says("bhosts", BHOSTS);
    commands.says("bjobs", "{\"RECORDS\":[{\"JOBID\":\"1\"}, {\"JOBID\":\"2\", \"JOB_NAME\":00}]}");
    commands.says("brsvs", HEAD);
    let picture = lsf(&commands).look().unwrap();
    let told: Vec<String> = picture.unreadable.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["job with an unknown id", "job 1"]);
}

#[test]
fn silence_is_told_from_an_answer() {
    let commands = commands();
    commands.answers("bqueues", "", "Cannot connect to LSF. Please wait ...\n", 255);
    assert!(matches!(lsf(&commands).look(), Err(LrmsError::Silent { .. })));
    let commands = super::commands();
    commands.hangs("bqueues");
    let runner = bookahead_lrms::command::Runner::local(Duration::from_millis(300));
    assert!(matches!(with(&commands, runner, place(Unit::Cores)).look(), Err(LrmsError::Silent { .. })));
}

#[test]
fn an_examination_tries_to_reserve_and_says_what_to_do() {
    let commands = commands();
    commands.says("lsid", "IBM Spectrum LSF Standard 10.1.0.14, Jun 01 2023\nMy cluster name is east\n");
    commands.says("bqueues", QUEUE);
    commands.says("bhosts", MEMBERS);
    commands.says("bhosts", BHOSTS);
    commands.says("bjobs", NO_JOBS);
    commands.says("brsvs", HEAD);
    commands.refuses("brsvadd", "Permission denied. Reservation not created.");
    let findings = lsf(&commands).examine();
    assert_eq!((findings[0].grade, findings[0].seen.starts_with("IBM Spectrum LSF")), (Grade::Well, true));
    let resource = findings.iter().find(|finding| finding.what == "the resource cpu").unwrap();
    assert_eq!(
        (resource.grade, resource.seen.as_str()),
        (Grade::Doubtful, "24 slots on 4 hosts, 2 of them usable")
    );
    let last = findings.last().unwrap();
    assert!(last.grade == Grade::Wrong && last.seen.contains("Permission denied"), "{last:?}");
    assert!(last.advice.as_ref().unwrap().contains("lsb.resources"));
}
