//! Jobs in a look, and their environment.

use super::own_cell::{OwnCell, SLOTS, place};
use super::{find, job, until_state};
use bookahead_lrms::batch::{BatchSystem, FactState, JobSystem};
use bookahead_party::Work;
use bookahead_plan::Seconds;
use std::collections::BTreeMap;
use std::fs;

#[test]
fn jobs_are_seen_in_the_order_in_which_they_would_start() {
    let cell = OwnCell::start();
    cell.add_queue("two.q");
    let mut engine = cell.engine();
    // It fills one queue and half of the other.
    let span = cell.submit(&["-pe", "smp", "12", "-l", "h_rt=600"], 600);
    until_state(&cell, &mut engine, &span, |state| *state == FactState::Running);
    let elsewhere = cell.submit(&["-q", "two.q", "-l", "h_rt=600"], 600);
    let small = cell.submit(&["-q", "all.q", "-l", "h_rt=100"], 100);
    let large = cell.submit(&["-q", "all.*", "-pe", "smp", "6-8"], 100);
    let held = cell.submit(&["-q", "all.q", "-h"], 100);
    let after = cell.submit(&["-q", "all.q", "-hold_jid", &span], 100);
    let later = cell.submit(&["-q", "all.q", "-a", "203001010000"], 100);
    let array = cell.submit(&["-q", "all.q", "-t", "1-5:2", "-l", "h_rt=50"], 100);
    let array = array.split('.').next().unwrap().to_owned();
    let in_queue_two = cell.submit(&["-q", "two.q", "-pe", "smp", "8"], 100);

    // Priorities come with the next scheduling cycle: larger jobs are more urgent.
    cell.until("the large job is first", || {
        let picture = engine.look().unwrap();
        let waiting = picture.jobs.iter().find(|job| job.state == FactState::Waiting);
        waiting.is_some_and(|job| job.native == large)
    });
    let picture = engine.look().unwrap();
    let running = find(&picture, &span).unwrap();
    let both = BTreeMap::from([(cell.instance("all.q"), SLOTS), (cell.instance("two.q"), 4)]);
    assert_eq!((&running.placed, running.cores, running.nodes), (&both, 12, 2));
    assert_eq!((running.limit, running.account.as_str()), (Some(Seconds(660)), "root"));
    assert!(find(&picture, &elsewhere).is_none() && find(&picture, &in_queue_two).is_none());

    let fact = find(&picture, &large).unwrap();
    assert_eq!((fact.cores, fact.limit, fact.resources.len()), (6, None, 1));
    assert_eq!(find(&picture, &small).unwrap().state, FactState::Waiting);
    for task in ["1", "3", "5"] {
        let fact = find(&picture, &format!("{array}.{task}")).unwrap();
        assert_eq!((&fact.state, fact.limit), (&FactState::Waiting, Some(Seconds(110))));
    }
    for (native, expected) in [(held, "is held"), (after, "another job"), (later, "time has not come")] {
        match &find(&picture, &native).unwrap().state {
            FactState::Held { why, orphaned: false } => assert!(why.contains(expected), "{why}"),
            other => panic!("{native} is {other:?}"),
        }
    }
    engine.cancel(&format!("{array}.3")).unwrap();
    let picture = engine.look().unwrap();
    assert!(
        find(&picture, &format!("{array}.3")).is_none() && find(&picture, &format!("{array}.5")).is_some()
    );

    let mut settings = cell.settings();
    settings.places = vec![place("*.q@@allhosts")];
    let both = cell.engine_with(settings).look().unwrap();
    assert_eq!((both.nodes.len(), find(&both, &elsewhere).is_some()), (2, true));
}

#[test]
fn hostile_words_arrive_as_they_were_given() {
    const HOSTILE: [&str; 9] =
        ["a b", "it's", "\"q\"", "", "$(id)", "two\nlines\njob_owner=root", "-sync", "*", "`id`; grün"];
    let cell = OwnCell::start();
    let mut engine = cell.engine();
    let (words, text) = (cell.path("words"), cell.path("text"));
    let print = |file: &std::path::Path| format!("printf '[%s]' \"$@\" \"$ODD\" > {}", file.display());
    let arguments =
        [vec!["-c".to_owned(), print(&words), "sh".into()], HOSTILE.map(String::from).to_vec()].concat();
    let environment = BTreeMap::from([("ODD".to_owned(), "x,y=z\n'".to_owned())]);
    let program = Work::Program { program: "sh".into(), arguments, folder: Some("/".into()), environment };
    // Options in a script must have no effect.
    let script = format!("#!/bin/sh -e\n#$ -sync y -t 1-100 -l h_rt=1\n{}\nfalse\n", print(&text));
    let script = Work::Script { text: script, arguments: HOSTILE.map(String::from).to_vec() };
    let program = engine.submit(&job(1, 60, None, program)).unwrap();
    let script = engine.submit(&job(1, 60, None, script)).unwrap();
    let ends = |state: &FactState| state.is_over();
    assert_eq!(until_state(&cell, &mut engine, &program, ends).state, FactState::Done { exit: 0 });
    assert_eq!(until_state(&cell, &mut engine, &script, ends).state, FactState::Done { exit: 1 });
    let expected = HOSTILE.map(|word| format!("[{word}]")).concat();
    assert_eq!(fs::read_to_string(words).unwrap(), format!("{expected}[x,y=z\n']"));
    assert_eq!(fs::read_to_string(text).unwrap(), format!("{expected}[]"));
}
