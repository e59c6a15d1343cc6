//! Creating and releasing reservations.

use super::{NO_JOBS, QSTAT, at, commands, diagnose, handle, maui, picture, place, showres, wanted, with};
use crate::scripted::Scripted;
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{ReservationSystem, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_plan::{Interval, Time};
use std::time::Duration;

const CREATED: &str =
    "reservation created\n\n\nreservation 'ba.7.0.0' created on 2 nodes (6 tasks)\nn1:4\nn2:2\n\n\n";
const GRANTED: [(&str, &str, u32, &str); 2] =
    [("n1", "ba.7.0.0", 4, "02:00:00"), ("n2", "ba.7.0.0", 2, "02:00:00")];

/// The state before and after: reservations by node, and the size of their tasks.
fn there(commands: &Scripted, rows: &[(&str, &str, u32, &str)], procs: &str, user: &str) {
    commands.says("showres", &showres(rows));
    let mut ids: Vec<&str> = rows.iter().map(|row| row.1).collect();
    ids.dedup();
    let about: Vec<(&str, &str, &str)> = ids.into_iter().map(|id| (id, procs, user)).collect();
    commands.says("diagnose", &diagnose(&about));
}

#[test]
fn what_is_granted_is_read_back() {
    let commands = commands();
    there(&commands, &[], "1", "ann");
    commands.says("setres", CREATED);
    there(&commands, &GRANTED, "1", "ann");
    assert_eq!(maui(&commands).create(&wanted(), &picture()).unwrap().handle, handle());
    let call = "setres|-u|ann|-n|ba.7.0|-e|03:00:00_11/15/26|-s|02:00:00_11/15/26|-r|PROCS=1|-f|big|TASKS==6";
    assert_eq!(commands.calls_of("setres"), [call]);
    assert!(commands.calls_of("releaseres").is_empty());
}

#[test]
fn whole_nodes_are_tasks_of_which_nothing_is_said() {
    let commands = commands();
    there(&commands, &[], "[ALL]", "ann");
    commands.says("setres", CREATED);
    there(&commands, &[("n1", "ba.7.0.0", 1, "02:00:00"), ("n2", "ba.7.0.0", 1, "02:00:00")], "[ALL]", "ann");
    let wanted = Wanted { place: place(Unit::Nodes), amount: 2, ..wanted() };
    with(&commands, commands.runner(), place(Unit::Nodes)).create(&wanted, &picture()).unwrap();
    assert!(commands.calls_of("setres")[0].ends_with("-f|big|TASKS==2"));
    assert!(!commands.calls_of("setres")[0].contains("PROCS"));
}

#[test]
fn what_has_begun_begins_at_once() {
    let commands = commands();
    there(&commands, &[], "1", "ann");
    commands.says("setres", CREATED);
    there(&commands, &[("n1", "ba.7.0.0", 6, "00:00:00")], "1", "ann");
    let wanted = Wanted { interval: Interval::new(at(-1, 0), at(3, 0)), ..wanted() };
    maui(&commands).create(&wanted, &picture()).unwrap();
    assert!(!commands.calls_of("setres")[0].contains("-s|"));
}

#[test]
fn one_that_is_there_already_is_not_made_again() {
    let commands = commands();
    there(&commands, &GRANTED, "1", "ann");
    assert_eq!(maui(&commands).create(&wanted(), &picture()).unwrap().handle, handle());
    assert!(commands.calls_of("setres").is_empty());
}

#[test]
fn another_of_the_same_name_is_not_taken_for_it() {
    let commands = commands();
    let other = ("n3", "ba.7.0.0", 1, "02:00:00");
    there(&commands, &[other], "1", "ann");
    commands.says("setres", &CREATED.replace("ba.7.0.0", "ba.7.0.1"));
    there(&commands, &[other, ("n1", "ba.7.0.1", 6, "02:00:00")], "1", "ann");
    assert_eq!(maui(&commands).create(&wanted(), &picture()).unwrap().handle.0, "ba.7.0.1");
}

#[test]
fn a_refusal_is_told_in_the_words_of_maui() {
    let commands = commands();
    there(&commands, &[], "1", "ann");
    let said = "ERROR:    'setres' failed\nERROR:    cannot select 6 tasks for reservation for 4:00:00\n\
        ERROR:    cannot select requested tasks for 'TASKS==6'\n";
    commands.answers("setres", "", said, 1);
    let refused = maui(&commands).create(&wanted(), &picture()).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. }) && refused.to_string().contains("for 4:00:00"),
        "{refused}"
    );
}

#[test]
fn a_short_grant_is_undone_and_refused() {
    let fewer = [("n1", "ba.7.0.0", 5, "02:00:00")];
    let later = [("n1", "ba.7.0.0", 6, "02:30:00")];
    let elsewhere = [("old", "ba.7.0.0", 6, "02:00:00")];
    for (rows, user) in
        [(&fewer[..], "ann"), (&later[..], "ann"), (&elsewhere[..], "ann"), (&GRANTED[..], "bob")]
    {
        let commands = commands();
        there(&commands, &[], "1", "ann");
        commands.says("setres", CREATED);
        there(&commands, rows, "1", user);
        there(&commands, &[], "1", "ann");
        commands.says("qstat", NO_JOBS);
        commands.says("releaseres", "\n\nreleased User reservation 'ba.7.0.0'\n\n\n");
        let refused = maui(&commands).create(&wanted(), &picture()).unwrap_err();
        assert!(matches!(refused, LrmsError::Refused { .. }), "{refused}");
        assert_eq!(commands.calls_of("releaseres"), ["releaseres|ba.7.0.0"], "{rows:?}");
    }
}

#[test]
fn a_short_grant_that_cannot_be_undone_is_no_refusal() {
    let commands = commands();
    there(&commands, &[], "1", "ann");
    commands.says("setres", CREATED);
    there(&commands, &[("n1", "ba.7.0.0", 5, "02:00:00")], "1", "ann");
    commands.says("qstat", NO_JOBS);
    commands
        .says("releaseres", "\n\nERROR:     user svc is not authorized to release reservation 'ba.7.0.0'\n");
    let error = maui(&commands).create(&wanted(), &picture()).unwrap_err();
    assert!(
        matches!(error, LrmsError::Failed { .. }) && error.to_string().contains("could not be deleted"),
        "{error}"
    );
}

#[test]
fn an_accepted_reservation_that_is_not_listed_is_no_refusal() {
    let commands = commands();
    there(&commands, &[], "1", "ann");
    commands.says("setres", CREATED);
    let unknown = maui(&commands).create(&wanted(), &picture()).unwrap_err();
    assert!(!unknown.is_refusal() && unknown.to_string().contains("does not list it"), "{unknown}");
}

#[test]
fn garbage_and_silence_are_no_refusals() {
    let commands = commands();
    there(&commands, &[], "1", "ann");
    commands.says("setres", CREATED);
    commands.says("showres", "Segmentation fault");
    assert!(matches!(maui(&commands).create(&wanted(), &picture()), Err(LrmsError::Unreadable { .. })));
    let commands = super::commands();
    there(&commands, &[], "1", "ann");
    commands.hangs("setres");
    let maui = with(&commands, Runner::local(Duration::from_secs(1)), place(Unit::Cores));
    assert!(matches!(maui.create(&wanted(), &picture()), Err(LrmsError::Silent { .. })));
}

#[test]
fn what_maui_cannot_do_is_refused_before_it_is_asked() {
    let commands = commands();
    let refused = |wanted: Wanted| maui(&commands).create(&wanted, &picture()).unwrap_err().to_string();
    assert!(refused(Wanted { name: "a b".into(), ..wanted() }).contains("its name"));
    assert!(refused(Wanted { name: "b".repeat(49), ..wanted() }).contains("48 characters"));
    assert!(refused(Wanted { account: "ann:bob".into(), ..wanted() }).contains("its account"));
    assert!(refused(Wanted { account: "-x".into(), ..wanted() }).contains("its account"));
    assert!(refused(Wanted { amount: 0, ..wanted() }).contains("request more"));
    assert!(refused(Wanted { interval: Interval::new(at(2, 0), Time::MAX), ..wanted() }).contains("98 days"));
    let next_century = Interval::new(Time(4_102_444_800), Time(4_102_444_860));
    assert!(refused(Wanted { interval: next_century, ..wanted() }).contains("2096"));
    let mut odd = wanted();
    odd.place.features = vec!["a:b".into()];
    assert!(refused(odd).contains("not a valid property"));
    assert!(commands.calls().is_empty());
}

#[test]
fn a_change_is_left_to_the_caller() {
    let commands = commands();
    assert_eq!(maui(&commands).change(&handle(), &wanted(), &picture()).unwrap(), None);
    assert!(commands.calls().is_empty());
}

#[test]
fn releasing_ends_the_jobs_of_a_reservation_first() {
    let commands = commands();
    commands.says("qstat", &QSTAT.replace("ba.gone.0", "ba.7.0.0"));
    commands.says("qdel", "");
    commands.says("releaseres", "\n\nreleased User reservation 'ba.7.0.0'\n\n\n");
    there(&commands, &[], "1", "ann");
    maui(&commands).delete(&handle()).unwrap();
    let order: Vec<String> =
        commands.calls().into_iter().filter(|call| !call.starts_with("qstat")).take(2).collect();
    assert_eq!(order, ["qdel|17.srv", "releaseres|ba.7.0.0"]);
}

#[test]
fn releasing_what_is_gone_is_no_error_and_what_stays_is_one() {
    let commands = commands();
    commands.says("qstat", NO_JOBS);
    commands.says("releaseres", "\n\nERROR:    cannot locate reservation 'ba.7.0.0'\n\n\n");
    there(&commands, &[], "1", "ann");
    there(&commands, &GRANTED, "1", "ann");
    maui(&commands).delete(&handle()).unwrap();
    assert!(matches!(maui(&commands).delete(&handle()), Err(LrmsError::Failed { .. })));
}

#[test]
fn a_creation_that_stops_without_a_word_is_no_refusal() {
    let commands = commands();
    there(&commands, &[], "1", "ann");
    commands.refuses("setres", "");
    let unknown = maui(&commands).create(&wanted(), &picture()).unwrap_err();
    assert!(!unknown.is_refusal(), "{unknown}");
}
