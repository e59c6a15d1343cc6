//! Submitting and cancelling jobs, and their results.

use super::{NO_JOBS, at, commands, handle, lsf, place, with};
use crate::scripted::{Scripted, run_job};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{FactState, Handle, JobSystem, NO_GO, Place, Submission, Unit};
use bookahead_lrms::lsf::{Lsf, Settings};
use bookahead_party::Work;
use bookahead_plan::Seconds;
use std::collections::BTreeMap;

const SUBMITTED: &str = "Job <4711> is submitted to queue <normal>.\n";

fn submission() -> Submission {
    Submission {
        restartable: false,
        name: "job_7f".into(),
        place: place(Unit::Cores),
        amount: 4,
        limit: Seconds(90),
        reservations: vec![handle(), Handle("ba_77_1".into())],
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
    commands.says("bsub", SUBMITTED);
    assert_eq!(lsf(&commands).submit(&submission()).unwrap(), "4711");
    assert_eq!(commands.calls_of("bsub"), ["bsub|-J|job_7f|-n|4|-W|2|-q|normal|-U|ba_77_0|-o|job_7f.out"]);
    assert_eq!(commands.input("bsub"), "#!/bin/sh\nexec sleep 5\n");
}

#[test]
fn whole_hosts_features_and_output_are_said_on_the_command_line() {
    let commands = commands();
    commands.says("bsub", SUBMITTED);
    let place = Place { partition: None, features: vec!["ib".into()], ..place(Unit::Nodes) };
    let settings =
        Settings { bin: Some(commands.bin()), output: Some("/scratch/out".into()), ..Settings::default() };
    let job = Submission { place, reservations: Vec::new(), ..submission() };
    Lsf::new(commands.runner(), settings).submit(&job).unwrap();
    let call = "bsub|-J|job_7f|-n|4|-W|2|-R|select[ib]|-R|span[ptile=1]|-x|-o|/scratch/out/job_7f.out";
    assert_eq!(commands.calls_of("bsub"), [call]);
}

#[test]
fn hostile_words_reach_bsub_by_its_input_and_quoted() {
    let commands = commands();
    commands.says("bsub", SUBMITTED);
    let arguments = vec!["$(touch /tmp/x)".into(), "it's".into(), "; rm -rf /".into()];
    let work =
        Work::Program { program: "echo".into(), arguments, folder: None, environment: BTreeMap::new() };
    lsf(&commands).submit(&Submission { work, ..submission() }).unwrap();
    assert!(!commands.calls_of("bsub")[0].contains("rm -rf"));
    let input = commands.input("bsub");
    assert!(input.ends_with("\nexec env -- 'echo' '$(touch /tmp/x)' 'it'\\''s' '; rm -rf /'\n"), "{input}");
}

#[test]
fn a_refused_job_and_a_job_without_a_number_are_told_apart() {
    let commands = commands();
    commands.refuses("bsub", "ba_77_0: No such reservation. Job not submitted.");
    commands.says("bsub", "hello\n");
    let refused = lsf(&commands).submit(&submission()).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. }) && refused.to_string().contains("No such reservation")
    );
    assert!(matches!(lsf(&commands).submit(&submission()), Err(LrmsError::Unreadable { .. })));
    commands.hangs("bsub");
    let runner = bookahead_lrms::command::Runner::local(std::time::Duration::from_millis(300));
    let silent = with(&commands, runner, place(Unit::Cores)).submit(&submission());
    assert!(matches!(silent, Err(LrmsError::Silent { .. })));
}

#[test]
fn ending_a_job_that_is_over_or_unknown_is_no_error() {
    let commands = commands();
    commands.says("bkill", "Job <99> is being terminated\n");
    commands.answers("bkill", "", "Job <99>: Job has already finished\n", 255);
    commands.says(
        "bjobs",
        r#"{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"99","ERROR":"Job <99> is not found"}]}"#,
    );
    lsf(&commands).cancel("99").unwrap();
    lsf(&commands).cancel("99").unwrap();
    commands.says("bjobs", super::BJOBS);
    assert!(matches!(lsf(&commands).cancel("99"), Ok(())), "the last that is shown is over");
}

#[test]
fn ending_a_job_that_cannot_be_ended_is_an_error() {
    let commands = commands();
    commands.refuses("bkill", "Job <101>: User permission denied");
    let running = r#"{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"101","STAT":"RUN","USER":"ann","QUEUE":"normal",
        "JOB_NAME":"x","EXEC_HOST":"node1","SUBMIT_TIME":"Nov 14 20:00:00 2026","START_TIME":"Nov 14 22:00:00 2026"}]}"#;
    commands.says("bjobs", running);
    assert!(matches!(lsf(&commands).cancel("101"), Err(LrmsError::Failed { .. })));
}

#[test]
fn what_is_not_shown_any_more_is_found_in_the_history() {
    let commands = commands();
    commands.says("bjobs", NO_JOBS);
    let history = "Job <4711>, Job Name <job_7f>, User <ann>, Project <default>, Command <x>\n\
        Sat Nov 14 10:00:00 2026: Submitted from host <login>, to Queue <normal>;\n\
        Sat Nov 14 10:00:05 2026: Dispatched 4 Task(s) on Host(s) <node1>;\n\
        Sat Nov 14 10:00:55 2026: Exited with exit code 2. The CPU time used is 1.0 seconds;\n";
    commands.says("bhist", history);
    let job = lsf(&commands).outcome("4711").unwrap().unwrap();
    assert_eq!(
        (job.name.as_str(), &job.state, job.ended),
        ("job_7f", &FactState::Done { exit: 2 }, Some(bookahead_plan::Time(at(-14, 0).0 + 55)))
    );
    assert_eq!(commands.calls_of("bhist"), ["bhist|-n|0|-UF|4711"]);
    commands.answers("bhist", "", "No matching job found\n", 255);
    assert_eq!(lsf(&commands).outcome("4711").unwrap(), None);
}

#[test]
fn a_job_is_submitted_on_hold_and_released() {
    let commands = Scripted::new(&["bsub", "bresume", "bjobs", "date"]);
    commands.says("bsub", SUBMITTED);
    lsf(&commands).submit(&Submission { held: true, ..submission() }).unwrap();
    assert!(commands.calls_of("bsub")[0].contains("|-H|"));
    commands.says("bresume", "Job <4711> is being resumed\n");
    lsf(&commands).release("4711").unwrap();
    assert_eq!(commands.calls_of("bresume"), ["bresume|4711"]);
    // One that is not on hold, for whatever LSF says.
    let shown = |state: &str| {
        format!(
            r#"{{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{{"JOBID":"4711","STAT":"{state}","USER":"ann","QUEUE":"normal",
            "JOB_NAME":"x","SUBMIT_TIME":"Nov 14 19:30","START_TIME":"-","FINISH_TIME":"-","SLOTS":"1"}}]}}"#
        )
    };
    commands.says("date", "1794686400\n");
    commands.refuses("bresume", "Job <4711>: Job has not been suspended");
    commands.says("bjobs", &shown("PEND"));
    lsf(&commands).release("4711").unwrap();
    commands.says("bjobs", &shown("PSUSP"));
    assert!(matches!(lsf(&commands).release("4711"), Err(LrmsError::Failed { .. })));
}

#[test]
fn a_job_that_claims_waits_for_a_message() {
    let commands = Scripted::new(&["bsub", "bread", "bpost"]);
    commands.says("bsub", SUBMITTED);
    let work = Work::Script { text: "#!/bin/sh\n#BSUB -M 1\necho ran\n".into(), arguments: Vec::new() };
    lsf(&commands).submit(&Submission { work, go_within: Some(Seconds(0)), ..submission() }).unwrap();
    assert!(commands.calls_of("bsub")[0].contains("|-Jd|bookahead claims|"));
    let script = commands.input("bsub");
    assert!(script.starts_with("#!/bin/sh\n#BSUB -M 1\n"), "{script}");
    let run = || run_job(&script, ("LSB_JOBID", "4711"));
    commands.refuses("bread", "No message available for the job.");
    assert_eq!(run(), (Some(NO_GO), String::new()));
    commands.says("bpost", "");
    lsf(&commands).go("4711").unwrap();
    assert_eq!(commands.calls_of("bpost"), ["bpost|-i|97|-d|bookahead_go|4711"]);
    commands
        .says("bread", "JOBID MSG_ID FROM POST_TIME DESCRIPTION\n4711 97 svc Nov 14 20:00 bookahead_go\n");
    assert_eq!(run(), (Some(0), "ran\n".into()));
    assert_eq!(commands.calls_of("bread"), ["bread|-i|97|4711"; 2]);
    commands.refuses("bpost", "Job <4711>: Job has already finished");
    assert!(lsf(&commands).go("4711").unwrap_err().is_refusal());
}

#[test]
fn a_submission_that_stops_without_a_word_is_no_refusal() {
    let commands = commands();
    commands.refuses("bsub", "");
    let unknown = lsf(&commands).submit(&submission()).unwrap_err();
    assert!(!unknown.is_refusal(), "{unknown}");
}
