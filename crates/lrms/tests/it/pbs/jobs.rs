//! Submitting and cancelling jobs, and their results.

use super::{commands, four_until, pbs, place, shown, wanted};
use crate::scripted::{refusal, run_job};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{
    BatchSystem, FactState, Handle, JobSystem, NO_GO, ReservationSystem, Submission, Unit,
};
use bookahead_party::Work;
use bookahead_plan::{Seconds, Time};

fn job(unit: Unit, reserved: bool) -> Submission {
    let reservations = if reserved { vec![Handle("R9.pbs1".into())] } else { Vec::new() };
    Submission {
        restartable: false,
        name: "job_0123456789abcdef0123456789abcdef".into(),
        place: place(unit),
        amount: 2,
        limit: Seconds(3723),
        reservations,
        within: None,
        account: None,
        project: None,
        qos: None,
        work: Work::Script { text: "#PBS -t 1-100\necho 'x'".into(), arguments: vec!["a b".into()] },
        go_within: None,
        held: false,
    }
}

#[test]
fn a_job_goes_into_the_queue_of_its_reservation_with_its_script() {
    let commands = commands();
    commands.prints("qsub", 0, "17.pbs1\n");
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    assert_eq!(pbs(&commands).submit(&job(Unit::Cores, true)).unwrap(), "17.pbs1");
    let called = "qsub|-C||-S|/bin/sh|-r|n|-m|n|-N|job_0123456789abcdef0123456789abcdef|-l|select=2:ncpus=1|-l|place=free|\
         -l|walltime=01:02:03|-j|oe|-o|job_0123456789abcdef0123456789abcdef.out|-q|R9";
    assert_eq!(commands.calls_of("qsub"), [called]);
    let input = commands.input("qsub");
    assert!(input.contains("\nbookahead_script=$(mktemp)") && !input.contains("\n#PBS"), "{input}");
    assert!(input.contains(r"echo '\''x'\''") && input.ends_with("'a b'\n"), "{input}");

    let whole = shown("11:33:20", "11:35:00", "2:ncpus=8", "scatter:excl", "(n1:ncpus=8)+(n2:ncpus=8)");
    commands.prints("pbs_rstat", 0, &whole);
    pbs(&commands).submit(&job(Unit::Nodes, true)).unwrap();
    assert!(commands.calls_of("qsub")[1].contains("-l|select=2:ncpus=8|-l|place=scatter:excl"));
    pbs(&commands).submit(&job(Unit::Nodes, false)).unwrap();
    // The smallest vnode of the place has four.
    assert!(
        commands.calls_of("qsub")[2].contains("-l|select=2:ncpus=4")
            && commands.calls_of("qsub")[2].ends_with("-q|workq")
    );
}

#[test]
fn what_is_refused_and_what_is_odd_are_told_apart() {
    let commands = commands();
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    commands.prints("qsub", 188, "qsub: Job violates queue and/or server resource limits");
    assert!(refusal(pbs(&commands).submit(&job(Unit::Cores, true))).contains("larger than its reservation"));
    commands.prints("qsub", 159, "qsub: Unauthorized Request");
    assert!(refusal(pbs(&commands).submit(&job(Unit::Cores, true))).contains("Unauthorized"));
    commands.prints("qsub", 0, "submitted, maybe\n");
    assert!(matches!(pbs(&commands).submit(&job(Unit::Cores, true)), Err(LrmsError::Unreadable { .. })));
    commands.prints("pbs_rstat", 0, "");
    assert!(refusal(pbs(&commands).submit(&job(Unit::Cores, true))).contains("no longer exists"));
    commands.prints("qsub", 15, "qsub: cannot connect to server pbs1 (errno=15010)");
    assert!(matches!(pbs(&commands).submit(&job(Unit::Cores, false)), Err(LrmsError::Silent { .. })));
}

#[test]
fn cancelling_what_is_over_or_unknown_is_no_error() {
    let commands = commands();
    for (code, said) in
        [(0, ""), (153, "qdel: Unknown Job Id 17.pbs1"), (35, "qdel: Job has finished 17.pbs1")]
    {
        commands.prints("qdel", code, said);
        pbs(&commands).cancel("17.pbs1").unwrap();
    }
    assert_eq!(commands.calls_of("qdel")[0], "qdel|17.pbs1");
    commands.prints("qdel", 159, "qdel: Unauthorized Request  17.pbs1");
    assert!(refusal(pbs(&commands).cancel("17.pbs1")).contains("Unauthorized"));
    commands.prints("qdel", 1, "qdel: odd");
    assert!(matches!(pbs(&commands).cancel("17.pbs1"), Err(LrmsError::Failed { .. })));
}

/// A finished job in the output of `qstat -x`.
fn remembered(queue: &str, state: &str, exit: &str, ran: &str) -> String {
    let exit = if exit.is_empty() { String::new() } else { format!("|Exit_status={exit}") };
    format!(
        "Job Id: 17.pbs1|Job_Name=n|Job_Owner=ann@pbs1|job_state={state}|queue={queue}{exit}|comment=why|\
         qtime=Mon Nov 16 11:22:00 2026|stime=Mon Nov 16 11:33:20 2026|Resource_List.ncpus=2|\
         Resource_List.walltime=00:05:00|resources_used.walltime={ran}\n"
    )
}

#[test]
fn the_history_tells_how_a_job_ended() {
    let commands = commands();
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    let state = |queue: &str, letter: &str, exit: &str, ran: &str| {
        commands.prints("qstat", 0, &remembered(queue, letter, exit, ran));
        pbs(&commands).outcome("17.pbs1").unwrap().unwrap().state
    };
    assert_eq!(state("workq", "F", "0", "00:00:10"), FactState::Done { exit: 0 });
    assert_eq!(state("workq", "F", "3", "00:00:10"), FactState::Done { exit: 3 });
    assert_eq!(state("workq", "F", "-29", "00:05:02"), FactState::OutOfTime);
    assert_eq!(state("workq", "F", "271", "00:05:02"), FactState::OutOfTime);
    assert_eq!(state("workq", "F", "271", "00:00:10"), FactState::Cancelled);
    assert_eq!(state("workq", "F", "", "00:00:00"), FactState::Cancelled);
    assert!(
        matches!(state("workq", "F", "-1", "00:00:00"), FactState::Failed { why } if why.contains("why"))
    );
    assert_eq!(state("workq", "E", "0", "00:00:10"), FactState::Running);
    // With its reservation, and without.
    assert_eq!(state("R9", "F", "271", "00:01:40"), FactState::Cancelled);
    for gone in ["", &four_until("11:35:00").replace("CONFIRMED", "BEING_DELETED")] {
        commands.prints("pbs_rstat", 0, gone);
        assert_eq!(state("R9", "F", "271", "00:01:40"), FactState::OutOfTime);
    }
    let fact = pbs(&commands).outcome("17.pbs1").unwrap().unwrap();
    assert_eq!((fact.ended, fact.limit), (Some(Time(1_794_828_900)), Some(Seconds(300))));
}

#[test]
fn the_recorded_history_tells_how_each_job_ended() {
    let commands = commands();
    // Their reservations no longer exist.
    commands.prints("pbs_rstat", 0, "");
    let ends = include_str!("fixtures/finished.dsv").lines().map(|line| {
        commands.prints("qstat", 0, &format!("{line}\n"));
        let fact = pbs(&commands).outcome("38.pbs1").unwrap().unwrap();
        let ran = fact.started.zip(fact.ended).map(|(started, ended)| (ended - started).0);
        (fact.name, fact.state, ran)
    });
    let end = |name: &str, state, ran| (name.to_owned(), state, ran);
    let expected = [
        end("ok", FactState::Done { exit: 0 }, Some(0)),
        end("three", FactState::Done { exit: 3 }, Some(0)),
        // Its limit was two seconds; PBS notices late, and gives it ten more to end.
        end("slow", FactState::OutOfTime, Some(15)),
        end("killed", FactState::Cancelled, Some(7)),
        end("never", FactState::Cancelled, None),
        end("ended", FactState::OutOfTime, Some(12)),
        end("deleted", FactState::OutOfTime, Some(3)),
        end("unstarted", FactState::OutOfTime, None),
        end("shot", FactState::Done { exit: 137 }, Some(1)),
        end("nothing", FactState::Done { exit: 254 }, Some(1)),
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

#[test]
fn a_server_that_is_down_is_silent_to_every_command() {
    let commands = commands();
    let picture = pbs(&commands).look().unwrap();
    let recorded = include_str!("fixtures/server-down.txt").split("$ ").skip(1).map(|one| {
        let (called, said) = one.split_once('\n').unwrap();
        let (said, code) = said.trim_end().rsplit_once("rc ").unwrap();
        (called.split(' ').next().unwrap(), said, code.parse().unwrap())
    });
    let handle = Handle("R9.pbs1".into());
    for (program, said, code) in recorded {
        commands.forget(program);
        commands.answers(program, "", said, code);
        let pbs = pbs(&commands);
        let outcome = match program {
            "qstat" | "pbsnodes" | "pbs_rstat" => pbs.look().map(drop),
            "pbs_rsub" => pbs.create(&wanted(4), &picture).map(drop),
            "pbs_ralter" => {
                commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
                pbs.change(&handle, &wanted(2), &picture).map(drop)
            }
            "pbs_rdel" => pbs.delete(&handle),
            "qdel" => pbs.cancel("9.pbs1"),
            "qsub" => pbs.submit(&job(Unit::Cores, false)).map(drop),
            "qalter" => pbs.go("9.pbs1"),
            "qmgr" => continue,
            other => panic!("{other}"),
        };
        assert!(matches!(outcome, Err(LrmsError::Silent { .. })), "{program}: {outcome:?}");
        commands.prints("pbsnodes", 0, include_str!("fixtures/pbsnodes.dsv"));
        commands.prints("qstat", 0, include_str!("fixtures/qstat.dsv"));
    }
}

#[test]
fn a_server_that_remembers_nothing_tells_nothing() {
    let commands = commands();
    for said in ["qstat: Unknown Job Id 17.pbs1", "qstat: PBS is not configured to maintain job history"] {
        commands.prints("qstat", 153, said);
        assert_eq!(pbs(&commands).outcome("17.pbs1").unwrap(), None);
    }
    commands.prints("qstat", 0, "");
    assert_eq!(pbs(&commands).outcome("17.pbs1").unwrap(), None);
    for odd in ["garbage", "Job Id: 17.pbs1|Job_Name=n|Job_Owner=ann@pbs1\n"] {
        commands.prints("qstat", 0, odd);
        assert!(matches!(pbs(&commands).outcome("17.pbs1"), Err(LrmsError::Unreadable { .. })));
    }
    commands.prints("qstat", 1, "qstat: odd");
    assert!(matches!(pbs(&commands).outcome("17.pbs1"), Err(LrmsError::Failed { .. })));
}

#[test]
fn a_job_is_submitted_on_hold_and_released() {
    let commands = commands();
    commands.prints("qsub", 0, "17.pbs1\n");
    pbs(&commands).submit(&Submission { held: true, ..job(Unit::Cores, false) }).unwrap();
    assert!(commands.calls_of("qsub")[0].contains("|-h|"));
    commands.prints("qrls", 0, "");
    pbs(&commands).release("17.pbs1").unwrap();
    assert_eq!(commands.calls_of("qrls"), ["qrls|-h|u|17.pbs1"]);
    commands.prints("qrls", 1, "qrls: Request invalid for state of job 17.pbs1");
    pbs(&commands).release("17.pbs1").unwrap();
    for said in ["qrls: Unauthorized Request  17.pbs1", "qrls: Unknown Job Id 17.pbs1"] {
        commands.prints("qrls", 1, said);
        assert!(refusal(pbs(&commands).release("17.pbs1")).contains(said));
    }
}

#[test]
fn a_job_that_claims_waits_for_a_comment_of_an_operator() {
    let commands = commands();
    commands.prints("qsub", 0, "17.pbs1\n");
    let work = Work::Script { text: "#!/bin/sh\necho ran".into(), arguments: Vec::new() };
    let job = Submission { work, go_within: Some(Seconds(0)), ..job(Unit::Cores, false) };
    pbs(&commands).submit(&job).unwrap();
    assert!(commands.calls_of("qsub")[0].contains("|-v|BOOKAHEAD_CLAIMS=yes|"));
    let script = commands.input("qsub");
    let run = || run_job(&script, ("PBS_JOBID", "17.pbs1"));
    commands.prints("qstat", 0, "Job Id: 17.pbs1\n    comment = Job run at Mon Nov 16 at 11:00 on (n1)\n");
    assert_eq!(run(), (Some(NO_GO), String::new()));
    commands.prints("qalter", 0, "");
    pbs(&commands).go("17.pbs1").unwrap();
    assert_eq!(commands.calls_of("qalter"), ["qalter|-W|comment=bookahead_go|17.pbs1"]);
    commands.prints("qstat", 0, "Job Id: 17.pbs1\n    comment = bookahead_go\n");
    assert_eq!(run(), (Some(0), "ran\n".into()));
    assert_eq!(commands.calls_of("qstat").last().unwrap(), "qstat|-f|17.pbs1");
    for said in ["qalter: Unauthorized Request  17.pbs1", "qalter: Unknown Job Id 17.pbs1"] {
        commands.prints("qalter", 1, said);
        assert!(refusal(pbs(&commands).go("17.pbs1")).contains(said));
    }
}

#[test]
fn whether_a_job_claims_or_runs_is_seen_by_its_variable_and_its_comment() {
    let commands = commands();
    let shown = |comment: &str| {
        format!(
            "Job Id: 16.pbs1|Job_Name=x|Job_Owner=ann@pbs1|job_state=R|queue=workq|exec_vnode=(n1:ncpus=1)|\
             qtime=Mon Nov 16 11:22:00 2026|Variable_List=PBS_O_HOST=vm,BOOKAHEAD_CLAIMS=yes|comment={comment}\n"
        )
    };
    for (comment, expected) in
        [("Job run at", true), ("bookahead_go", false), ("bookahead_go and finished", false)]
    {
        commands.prints("qstat", 0, &shown(comment));
        assert_eq!(pbs(&commands).look().unwrap().jobs[0].awaits_go, expected, "{comment}");
    }
}
