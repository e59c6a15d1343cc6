//! Submitting and cancelling jobs, and their results.

use super::{QSTAT, commands, handle, maui, place, with};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{FactState, Handle, JobSystem, Place, Submission, Unit};
use bookahead_lrms::command::Runner;
use bookahead_lrms::maui::{Maui, Settings};
use bookahead_party::Work;
use bookahead_plan::Seconds;
use std::time::Duration;

fn submission() -> Submission {
    Submission {
        restartable: false,
        name: "job_7f0000000000000000aa".into(),
        place: place(Unit::Cores),
        amount: 4,
        limit: Seconds(90),
        reservations: vec![handle(), Handle("ba.7.1.0".into())],
        within: None,
        account: None,
        project: None,
        qos: None,
        work: Work::Pretended { run: Seconds(5) },
        go_within: None,
        held: false,
    }
}

#[test]
fn a_job_is_bound_to_the_next_of_its_reservations() {
    let commands = commands();
    commands.says("qsub", "4711.srv.example\n");
    assert_eq!(maui(&commands).submit(&submission()).unwrap(), "4711.srv.example");
    let call = "qsub|-N|job_7f000000000|-S|/bin/sh|-l|nodes=4:big,walltime=90|-v|BOOKAHEAD_JOB=job_7f0000000000000000aa\
        |-q|batch|-W|x=FLAGS:ADVRES:ba.7.0.0|-j|oe|-o|job_7f0000000000000000aa.out";
    assert_eq!(commands.calls_of("qsub"), [call]);
    assert_eq!(commands.input("qsub"), "#!/bin/sh\nexec sleep 5\n");
}

#[test]
fn whole_nodes_and_output_are_said_on_the_command_line() {
    let commands = commands();
    commands.says("qsub", "4711.srv\n");
    let place = Place { partition: None, features: Vec::new(), ..place(Unit::Nodes) };
    let output = Some("/scratch/out".into());
    let settings = Settings { torque_bin: Some(commands.bin()), output, ..Settings::default() };
    Maui::new(commands.runner(), settings).submit(&Submission { place, ..submission() }).unwrap();
    let call = "qsub|-N|job_7f000000000|-S|/bin/sh|-l|nodes=4,walltime=90|-v|BOOKAHEAD_JOB=job_7f0000000000000000aa\
        |-W|x=NACCESSPOLICY:SINGLETASK;FLAGS:ADVRES:ba.7.0.0\
        |-j|oe|-o|/scratch/out/job_7f0000000000000000aa.out";
    assert_eq!(commands.calls_of("qsub"), [call]);
}

#[test]
fn the_lines_of_a_script_for_torque_stay_visible_to_it() {
    let commands = commands();
    commands.says("qsub", "4711.srv\n");
    let work =
        Work::Script { text: "#!/bin/bash\n#PBS -m e\necho $1\n".into(), arguments: vec!["`id`".into()] };
    let job = Submission { work, reservations: Vec::new(), ..submission() };
    maui(&commands).submit(&job).unwrap();
    let input = commands.input("qsub");
    assert!(input.starts_with("#!/bin/sh\n#PBS -m e\n"), "{input}");
    assert!(input.ends_with("exec '/bin/bash' /dev/fd/9 '`id`'\n"), "{input}");
    assert!(!commands.calls_of("qsub")[0].contains("-W"));
}

#[test]
fn a_refused_job_a_job_without_a_number_and_silence_are_told_apart() {
    let commands = commands();
    commands.answers("qsub", "", "qsub: submit error (Job exceeds queue resource limits)\n", 188);
    commands.says("qsub", "hello\n");
    let refused = maui(&commands).submit(&submission()).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. }) && refused.to_string().contains("exceeds queue"),
        "{refused}"
    );
    assert!(matches!(maui(&commands).submit(&submission()), Err(LrmsError::Unreadable { .. })));
    commands.hangs("qsub");
    let silent =
        with(&commands, Runner::local(Duration::from_millis(300)), place(Unit::Cores)).submit(&submission());
    assert!(matches!(silent, Err(LrmsError::Silent { .. })));
}

#[test]
fn ending_a_job_that_is_over_or_unknown_is_no_error() {
    let commands = commands();
    commands.answers("qdel", "", "qdel: Unknown Job Id Error 99.srv\n", 153);
    maui(&commands).cancel("99.srv").unwrap();
    commands.answers("qdel", "", "qdel: Request invalid for state of job 11.srv\n", 170);
    commands.says("qstat", QSTAT);
    maui(&commands).cancel("11.srv").unwrap();
}

#[test]
fn ending_a_job_that_cannot_be_ended_is_an_error() {
    let commands = commands();
    commands.answers("qdel", "", "qdel: Unauthorized Request  12.srv\n", 159);
    let (running, _) = QSTAT.split_once("</Job>").unwrap();
    commands.says("qstat", &format!("{running}</Job></Data>"));
    assert!(matches!(maui(&commands).cancel("12.srv"), Err(LrmsError::Failed { .. })));
}

#[test]
fn what_became_of_a_job_is_known_as_long_as_torque_keeps_it() {
    let commands = commands();
    commands.says("qstat", QSTAT);
    commands.answers("qstat", "", "qstat: Unknown Job Id Error 11.srv\n", 153);
    assert_eq!(maui(&commands).outcome("11.srv").unwrap().unwrap().state, FactState::OutOfTime);
    assert_eq!(maui(&commands).outcome("11.srv").unwrap(), None);
    assert_eq!(commands.calls_of("qstat")[0], "qstat|-x|-f|11.srv");
}

#[test]
fn a_job_is_submitted_on_hold_and_released() {
    let commands = commands();
    commands.says("qsub", "17.srv\n");
    maui(&commands).submit(&Submission { held: true, ..submission() }).unwrap();
    assert!(commands.calls_of("qsub")[0].contains("|-h|"));
    commands.says("qrls", "");
    maui(&commands).release("17.srv").unwrap();
    assert_eq!(commands.calls_of("qrls"), ["qrls|-h|u|17.srv"]);
    commands.answers("qrls", "", "qrls: Request invalid for state of job 12.srv\n", 170);
    commands.says("qstat", QSTAT);
    maui(&commands).release("12.srv").unwrap();
    commands.answers("qstat", "", "qstat: Unknown Job Id Error 99.srv\n", 153);
    assert!(maui(&commands).release("99.srv").is_err());
}

#[test]
fn a_job_that_claims_is_refused_with_the_reason() {
    let commands = commands();
    let job = Submission { go_within: Some(Seconds(60)), ..submission() };
    let said = [maui(&commands).submit(&job).unwrap_err(), maui(&commands).go("17").unwrap_err()];
    assert!(
        said.iter().all(|why| why.is_refusal() && why.to_string().contains("submit it to this site alone"))
    );
    assert!(commands.calls_of("qsub").is_empty());
}

#[test]
fn a_submission_that_stops_without_a_word_is_no_refusal() {
    let commands = commands();
    commands.refuses("qsub", "");
    let unknown = maui(&commands).submit(&submission()).unwrap_err();
    assert!(!unknown.is_refusal(), "{unknown}");
}
