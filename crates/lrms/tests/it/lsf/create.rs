//! Creating and deleting reservations.

use super::{
    HEAD, NO_JOBS, NONE, WINDOW, WINDOW_WITHOUT_YEAR, at, commands, handle, listed, lsf, picture, place,
    wanted, with,
};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{FactState, JobFact, Place, ReservationSystem, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_plan::{Interval, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const CREATED: &str = "Reservation \"ba_77_0\" is created\n";

/// A job on a host that never ends.
fn endless(host: &str, cores: u32) -> JobFact {
    JobFact {
        restarts: 0,
        native: "1".into(),
        name: "x".into(),
        account: "bob".into(),
        resources: vec!["cpu".into()],
        state: FactState::Running,
        cores,
        nodes: 1,
        placed: BTreeMap::from([(host.into(), cores)]),
        submitted: at(0, 0),
        eligible: None,
        started: Some(at(0, 0)),
        ended: None,
        limit: None,
        reservations: Vec::new(),
        expected_start: None,
        awaits_go: false,
    }
}

#[test]
fn what_is_granted_is_read_back() {
    for window in [WINDOW, WINDOW_WITHOUT_YEAR] {
        let commands = commands();
        commands.says("brsvadd", CREATED);
        commands.says("brsvs", &listed(&[("node1", 8), ("node2", 4)], window));
        assert_eq!(lsf(&commands).create(&wanted(12), &picture()).unwrap().handle, handle());
        let call = "brsvadd|-N|ba_77_0|-u|ann|-n|12|-m|node1 node2|-b|2026:11:15:2:0|-e|2026:11:15:3:0";
        assert_eq!(commands.calls_of("brsvadd"), [call]);
        assert!(commands.calls_of("brsvdel").is_empty());
    }
}

#[test]
fn a_time_between_minutes_is_widened_outward() {
    let commands = commands();
    commands.says("brsvadd", CREATED);
    commands.says("brsvs", &listed(&[("node1", 1)], "11/15/2/0-11/15/3/1"));
    let interval = Interval::new(Time(at(2, 0).0 + 30), Time(at(3, 0).0 + 1));
    lsf(&commands).create(&Wanted { interval, ..wanted(1) }, &picture()).unwrap();
    assert!(commands.calls_of("brsvadd")[0].ends_with("-b|2026:11:15:2:0|-e|2026:11:15:3:1"));
}

#[test]
fn what_has_begun_begins_with_the_next_minute() {
    let commands = commands();
    commands.says("brsvadd", CREATED);
    commands.says("brsvs", &listed(&[("node1", 1)], "11/15/0/1-11/15/3/0"));
    let interval = Interval::new(at(-1, 0), at(3, 0));
    lsf(&commands).create(&Wanted { interval, ..wanted(1) }, &picture()).unwrap();
    assert!(commands.calls_of("brsvadd")[0].contains("-b|2026:11:15:0:1|"));
}

#[test]
fn whole_hosts_are_asked_for_as_hosts() {
    let commands = commands();
    commands.says("brsvadd", CREATED);
    commands.says("brsvs", &listed(&[("node1", 8), ("node2", 8)], WINDOW));
    let wanted = Wanted { place: place(Unit::Nodes), ..wanted(2) };
    with(&commands, commands.runner(), place(Unit::Nodes)).create(&wanted, &picture()).unwrap();
    assert!(commands.calls_of("brsvadd")[0].contains("-unit|host|-n|2|-m|node1 node2|"));
}

#[test]
fn hosts_with_a_job_in_the_way_are_added_with_their_numbers() {
    let commands = commands();
    commands.says("brsvadd", CREATED);
    commands.says("brsvmod", "Reservation \"ba_77_0\" is modified\n");
    commands.says("brsvs", &listed(&[("node1", 3), ("node2", 8), ("node3", 8), ("node4", 8)], WINDOW));
    let mut picture = picture();
    picture.jobs = vec![endless("node1", 5)];
    lsf(&commands).create(&wanted(27), &picture).unwrap();
    assert!(commands.calls_of("brsvadd")[0].contains("-n|24|-m|node2 node3 node4|"));
    assert_eq!(commands.calls_of("brsvmod"), ["brsvmod|addhost|-n|3|-m|node1|ba_77_0"]);
}

#[test]
fn nothing_is_asked_for_where_jobs_may_still_run() {
    let commands = commands();
    let mut picture = picture();
    picture.jobs = vec![endless("node1", 5)];
    let refused = lsf(&commands).create(&wanted(28), &picture).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. }) && refused.to_string().contains("only 27 are free"),
        "{refused}"
    );
    assert!(commands.calls_of("brsvadd").is_empty());
}

#[test]
fn a_refusal_is_told_in_the_words_of_lsf() {
    let commands = commands();
    commands.refuses("brsvadd", "Host(s) not available: insufficient slots. Reservation is not created.");
    commands.says("brsvs", HEAD);
    let refused = lsf(&commands).create(&wanted(12), &picture()).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. }) && refused.to_string().contains("insufficient slots"),
        "{refused}"
    );
}

#[test]
fn one_that_is_there_already_with_the_same_terms_is_no_error() {
    let commands = commands();
    commands.refuses("brsvadd", "Reservation name ba_77_0 is already used.");
    commands.says("brsvs", &listed(&[("node3", 8), ("node4", 4)], WINDOW));
    assert_eq!(lsf(&commands).create(&wanted(12), &picture()).unwrap().handle, handle());
    let refused = lsf(&commands).create(&wanted(11), &picture()).unwrap_err();
    assert!(refused.to_string().contains("a reservation of this name exists"), "{refused}");
}

#[test]
fn a_short_grant_is_undone_and_refused() {
    let short = [
        listed(&[("node1", 8)], WINDOW),
        listed(&[("node1", 8), ("node2", 4)], "2026/11/15/2/0-2026/11/15/2/50"),
        listed(&[("node1", 8), ("node2", 4)], "2026/11/15/2/10-2026/11/15/3/0"),
        listed(&[("node1", 8), ("login", 4)], WINDOW),
        listed(&[("node1", 8), ("node2", 4)], WINDOW).replace(" ann ", " bob "),
    ];
    for short in short {
        let commands = commands();
        commands.says("brsvadd", CREATED);
        commands.says("brsvs", &short);
        commands.says("brsvs", NONE);
        commands.says("bjobs", NO_JOBS);
        commands.says("brsvdel", "Reservation \"ba_77_0\" is being deleted\n");
        let refused = lsf(&commands).create(&wanted(12), &picture()).unwrap_err();
        assert!(matches!(refused, LrmsError::Refused { .. }), "{refused}");
        assert_eq!(commands.calls_of("brsvdel"), ["brsvdel|ba_77_0"], "{short}");
    }
}

#[test]
fn a_short_grant_that_cannot_be_undone_is_no_refusal() {
    let commands = commands();
    commands.says("brsvadd", CREATED);
    commands.says("brsvs", &listed(&[("node1", 8)], WINDOW));
    commands.says("bjobs", NO_JOBS);
    commands.refuses("brsvdel", "Permission denied");
    let error = lsf(&commands).create(&wanted(12), &picture()).unwrap_err();
    assert!(
        matches!(error, LrmsError::Failed { .. }) && error.to_string().contains("could not be deleted"),
        "{error}"
    );
}

#[test]
fn an_accepted_reservation_that_is_not_listed_is_no_refusal() {
    let commands = commands();
    commands.says("brsvadd", CREATED);
    commands.says("brsvs", HEAD);
    let unknown = lsf(&commands).create(&wanted(12), &picture()).unwrap_err();
    assert!(!unknown.is_refusal() && unknown.to_string().contains("does not list it"), "{unknown}");
}

#[test]
fn garbage_and_silence_are_no_refusals() {
    let commands = commands();
    commands.says("brsvadd", CREATED);
    commands.says("brsvs", "Segmentation fault");
    assert!(matches!(lsf(&commands).create(&wanted(12), &picture()), Err(LrmsError::Unreadable { .. })));
    let commands = super::commands();
    commands.hangs("brsvadd");
    let lsf = with(&commands, Runner::local(Duration::from_millis(300)), place(Unit::Cores));
    assert!(matches!(lsf.create(&wanted(12), &picture()), Err(LrmsError::Silent { .. })));
}

#[test]
fn what_lsf_cannot_do_is_refused_before_it_is_asked() {
    let commands = commands();
    let refused = |wanted: Wanted| lsf(&commands).create(&wanted, &picture()).unwrap_err().to_string();
    assert!(refused(Wanted { name: "ba.site.7".into(), ..wanted(1) }).contains("does not allow . and -"));
    assert!(refused(Wanted { name: "ba-7".into(), ..wanted(1) }).contains("does not allow . and -"));
    assert!(refused(Wanted { name: "b".repeat(40), ..wanted(1) }).contains("39 characters"));
    assert!(refused(Wanted { account: "a b".into(), ..wanted(1) }).contains("its account"));
    assert!(
        refused(Wanted { interval: Interval::new(at(2, 0), at(2, 9)), ..wanted(1) }).contains("ten minutes")
    );
    assert!(
        refused(Wanted { interval: Interval::new(at(9000, 0), at(9001, 0)), ..wanted(1) })
            .contains("330 days")
    );
    assert!(refused(wanted(0)).contains("request at least 1"));
    let elsewhere = Place { resource: "gpu".into(), ..place(Unit::Cores) };
    assert!(refused(Wanted { place: elsewhere, ..wanted(1) }).contains("only 0 are free"));
    assert!(commands.calls().iter().all(|call| call == "date|+%s"));
}

#[test]
fn deleting_ends_the_jobs_of_a_reservation_first() {
    let commands = commands();
    let jobs = super::BJOBS.replace("ba_gone", "ba_77_0");
    commands.says("bjobs", &jobs);
    commands.says("bkill", "Job <106> is being terminated\n");
    commands.says("brsvdel", "Reservation \"ba_77_0\" is being deleted\n");
    commands.says("brsvs", HEAD);
    lsf(&commands).delete(&handle()).unwrap();
    let order: Vec<String> = commands
        .calls()
        .into_iter()
        .filter(|call| call.starts_with("bkill") || call.starts_with("brsvdel"))
        .collect();
    assert_eq!(order, ["bkill|106", "brsvdel|ba_77_0"]);
}

#[test]
fn deleting_what_is_gone_is_no_error_and_what_stays_is_one() {
    let commands = commands();
    commands.says("bjobs", NO_JOBS);
    commands.refuses("brsvdel", "Reservation <ba_77_0> not found");
    commands.says("brsvs", NONE);
    commands.says("brsvs", &listed(&[("node1", 8)], WINDOW));
    lsf(&commands).delete(&handle()).unwrap();
    assert!(matches!(lsf(&commands).delete(&handle()), Err(LrmsError::Failed { .. })));
}

#[test]
fn a_creation_that_stops_without_a_word_is_no_refusal() {
    let commands = commands();
    commands.refuses("brsvadd", "");
    commands.says("brsvs", HEAD);
    let unknown = lsf(&commands).create(&wanted(12), &picture()).unwrap_err();
    assert!(!unknown.is_refusal(), "{unknown}");
}
