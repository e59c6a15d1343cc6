//! Real programs. The test sets their time, and waits for their effects.

use crate::{Drive, at, backing, hosted, inside, job, span, state, status, wake};
use bookahead_lrms::builtin::Processes;
use bookahead_lrms::{Builtin, LrmsError};
use bookahead_party::{Ended, Job, JobState, Work};
use bookahead_plan::{Policy, Time};
use bookahead_protocol::JobId;
use bookahead_tests::polling::until_true;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) const DONE: JobState = JobState::Done { exit: 0 };

/// A site with eight processors whose jobs live in this folder; asleep.
pub(crate) fn asleep(folder: &Path, second: i64) -> Builtin {
    Builtin::new(vec![hosted(8, Policy::EASY)], at(second), Some(reopened(folder))).unwrap()
}

/// A process that another test is just starting holds our lock until its exec.
pub(crate) fn reopened(folder: &Path) -> Processes {
    let mut opened = None;
    until_true("the folder is free", || {
        opened = Processes::open(folder, None).ok();
        opened.is_some()
    });
    opened.unwrap()
}

pub(crate) fn open(folder: &Path, second: i64) -> Builtin {
    let mut builtin = asleep(folder, second);
    wake(&mut builtin, second);
    builtin
}

fn fresh() -> (TempDir, Builtin) {
    let folder = tempfile::tempdir().unwrap();
    let builtin = open(folder.path(), 0);
    (folder, builtin)
}

pub(crate) fn script(id: u128, text: &str, arguments: &[&str]) -> Job {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Job { work: Work::Script { text: text.into(), arguments }, ..job(id, 1, 100, 0) }
}

fn program(id: u128, program: &str, arguments: &[&str]) -> Job {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let (program, environment) = (program.into(), BTreeMap::new());
    Job { work: Work::Program { program, arguments, folder: None, environment }, ..job(id, 1, 100, 0) }
}

pub(crate) fn file(folder: &Path, id: u128, name: &str) -> PathBuf {
    folder.join("jobs").join(JobId(id).to_string()).join(name)
}

pub(crate) fn read(folder: &Path, id: u128, name: &str) -> String {
    std::fs::read_to_string(file(folder, id, name)).unwrap_or_default()
}

#[track_caller]
pub(crate) fn until_state(builtin: &mut Builtin, second: i64, id: u128, expected: &JobState) {
    until_true(&format!("{expected:?}"), || {
        builtin.pass(at(second));
        state(builtin, id) == *expected
    });
}

#[test]
fn with_an_output_folder_scripts_run_there_and_print_to_a_file_named_by_the_id_of_the_job() {
    let (folder, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let processes = reopened(folder.path()).with_output(Some(shared.path().into()));
    let mut builtin = Builtin::new(vec![hosted(8, Policy::EASY)], at(0), Some(processes)).unwrap();
    wake(&mut builtin, 0);
    builtin.submit(at(0), &script(0xa11, "pwd\necho odd >&2\n", &[])).unwrap();
    until_state(&mut builtin, 1, 0xa11, &DONE);
    let printed = std::fs::read_to_string(shared.path().join(format!("{}.out", JobId(0xa11)))).unwrap();
    assert_eq!(printed, format!("{}\nodd\n", shared.path().canonicalize().unwrap().display()));
    assert!(!file(folder.path(), 0xa11, "output").exists());
}

/// A program that has not begun yet misses its SIGTERM, so time must pass.
#[track_caller]
pub(crate) fn until_gone(builtin: &mut Builtin, folder: &Path, second: i64, id: u128) {
    until_true("all its processes are gone", || {
        builtin.pass(at(second));
        alive(folder, id).is_empty()
    });
}

/// The value of `BOOKAHEAD_FOLDER` in the processes of a job.
pub(crate) fn carried(folder: &Path, id: u128) -> PathBuf {
    folder.canonicalize().unwrap().join("jobs").join(JobId(id).to_string())
}

/// The processes of a job, recognised by their environment.
pub(crate) fn alive(folder: &Path, id: u128) -> Vec<u32> {
    let variable = format!("BOOKAHEAD_FOLDER={}", carried(folder, id).display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let carries = |process: &u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    processes.filter(carries).collect()
}

#[test]
fn a_script_runs_in_its_reservation_and_what_it_wrote_and_how_it_ended_is_known() {
    let (folder, mut builtin) = fresh();
    builtin.back(at(0), &backing(5, &[span(10, 50, 2)])).unwrap();
    let text = "echo \"$1 in $BOOKAHEAD_RESERVATION with $BOOKAHEAD_CAPACITY\"; echo oh >&2
        echo \"$BOOKAHEAD_BEGIN to $BOOKAHEAD_END\"; exit 7";
    builtin.submit(at(0), &inside(script(0x101, text, &["runs"]), 5)).unwrap();
    builtin.pass(at(9));
    assert_eq!(state(&mut builtin, 0x101), JobState::Waiting);
    builtin.pass(at(10));
    assert_eq!(state(&mut builtin, 0x101), JobState::Running);
    assert!(builtin.next_event().is_some_and(|next| next <= at(11)), "it wants to be looked after");
    until_state(&mut builtin, 11, 0x101, &JobState::Done { exit: 7 });
    assert_eq!(
        read(folder.path(), 0x101, "output"),
        "runs in rsv_5 with 1\n1970-01-01T00:00:10Z to 1970-01-01T00:00:50Z\n"
    );
    assert_eq!(read(folder.path(), 0x101, "error"), "oh\n");
    let status = status(&mut builtin, 0x101);
    assert_eq!((status.started, status.ended), (Some(Time(10)), Some(Time(11))));
}

#[test]
fn with_a_reservation_all_processes_of_its_jobs_end_even_those_that_will_not() {
    let (folder, mut builtin) = fresh();
    builtin.back(at(0), &backing(5, &[span(0, 30, 2)])).unwrap();
    // A child, one that left the group, and one that ignores SIGTERM.
    let text = "sleep 600 & setsid sleep 600 & (trap '' TERM; sleep 600 & echo deaf; sleep 600) & wait";
    builtin
        .submit(at(0), &inside(Job { limit: bookahead_plan::Seconds(99), ..script(0x102, text, &[]) }, 5))
        .unwrap();
    builtin.pass(at(1));
    until_true("it is ready", || {
        read(folder.path(), 0x102, "output") == "deaf\n" && alive(folder.path(), 0x102).len() >= 6
    });
    builtin.pass(at(30));
    assert_eq!(state(&mut builtin, 0x102), JobState::Killed(Ended::ReservationOver));
    until_true("those that listen are gone", || alive(folder.path(), 0x102).len() <= 4);
    builtin.pass(at(34));
    assert!(!alive(folder.path(), 0x102).is_empty(), "they have five seconds");
    until_gone(&mut builtin, folder.path(), 35, 0x102);
    until_true("nothing is left to look after", || {
        builtin.pass(at(36));
        builtin.next_event().is_none()
    });
}

#[test]
fn a_program_that_takes_too_long_is_ended() {
    let (folder, mut builtin) = fresh();
    builtin.submit(at(0), &program(0x103, "sleep", &["600"])).unwrap();
    builtin.pass(at(0));
    until_true("it runs", || !alive(folder.path(), 0x103).is_empty());
    builtin.pass(at(99));
    assert_eq!(state(&mut builtin, 0x103), JobState::Running);
    builtin.pass(at(100));
    assert_eq!(state(&mut builtin, 0x103), JobState::Killed(Ended::Limit));
    until_gone(&mut builtin, folder.path(), 106, 0x103);
}

#[test]
fn what_a_job_leaves_behind_ends_with_it() {
    let (folder, mut builtin) = fresh();
    builtin.submit(at(0), &script(0x104, "setsid sleep 600 & sleep 600 & exit 0", &[])).unwrap();
    until_state(&mut builtin, 0, 0x104, &DONE);
    until_gone(&mut builtin, folder.path(), 1, 0x104);
}

#[test]
fn a_cancelled_job_ends_and_one_that_waits_never_begins() {
    let (folder, mut builtin) = fresh();
    builtin.submit(at(0), &program(0x105, "sleep", &["600"])).unwrap();
    builtin
        .submit(at(0), &Job { capacity: bookahead_plan::Capacity(8), ..script(0x106, "echo ran", &[]) })
        .unwrap();
    builtin.pass(at(0));
    until_true("it runs", || !alive(folder.path(), 0x105).is_empty());
    builtin.cancel(at(1), JobId(0x106)).unwrap();
    builtin.cancel(at(1), JobId(0x105)).unwrap();
    builtin.pass(at(1));
    let cancelled = JobState::Killed(Ended::Cancelled);
    assert_eq!([0x105, 0x106].map(|id| state(&mut builtin, id)), [cancelled.clone(), cancelled]);
    until_gone(&mut builtin, folder.path(), 50, 0x105);
    assert!(!file(folder.path(), 0x106, "output").exists());
    assert_eq!(
        read(folder.path(), 0x106, "started"),
        "0\n",
        "nor could a process that we do not know of begin it"
    );
}

#[test]
fn what_cannot_start_says_why_and_lets_others_go_on() {
    let (_folder, mut builtin) = fresh();
    let whole = |job: Job| Job { capacity: bookahead_plan::Capacity(8), ..job };
    let nowhere = |job: Job| match job.work {
        Work::Program { program, arguments, environment, .. } => {
            let folder = Some("/no/such/folder".into());
            Job { work: Work::Program { program, arguments, folder, environment }, ..job }
        }
        _ => job,
    };
    builtin.submit(at(0), &whole(program(0x107, "no-such-program", &[]))).unwrap();
    builtin.submit(at(0), &whole(program(0x108, "/etc/passwd", &[]))).unwrap();
    builtin.submit(at(0), &whole(nowhere(program(0x109, "true", &[])))).unwrap();
    builtin.submit(at(0), &whole(script(0x10a, "#!/no/such/shell\n", &[]))).unwrap();
    builtin.submit(at(0), &whole(program(0x10b, "true", &[]))).unwrap();
    builtin.pass(at(0));
    for (id, word) in
        [(0x107, "PATH"), (0x108, "/etc/passwd"), (0x109, "/no/such/folder"), (0x10a, "/no/such/shell")]
    {
        match state(&mut builtin, id) {
            JobState::Killed(Ended::CouldNotStart(why)) => assert!(why.contains(word), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    until_state(&mut builtin, 0, 0x10b, &DONE);
}

#[test]
fn exit_codes_are_those_of_the_program_and_signals_count_from_128() {
    let (_folder, mut builtin) = fresh();
    builtin.submit(at(0), &script(0x10c, "exit 200", &[])).unwrap();
    builtin.submit(at(0), &script(0x10d, "kill -9 $$", &[])).unwrap();
    builtin.submit(at(0), &program(0x10e, "false", &[])).unwrap();
    builtin.submit(at(0), &script(0x10f, "#! /bin/sh -e\r\nfalse\necho reached", &[])).unwrap();
    for (id, exit) in [(0x10c, 200), (0x10d, 137), (0x10e, 1), (0x10f, 1)] {
        until_state(&mut builtin, 0, id, &JobState::Done { exit });
    }
}

const HOSTILE: [&str; 9] =
    ["$(touch hacked)", "`touch hacked`", "'; touch hacked; '", "a\nb", "\"", "\\", "", "-n", "*"];

#[test]
fn hostile_names_and_arguments_arrive_unchanged() {
    let (folder, mut builtin) = fresh();
    let place = folder.path().join("a $(touch hacked)\n'\"; folder");
    std::fs::create_dir(&place).unwrap();
    let name = "-p $(touch hacked)\n'\" =x";
    std::os::unix::fs::symlink("/usr/bin/printf", place.join(name)).unwrap();
    let arguments: Vec<String> = ["%s\\0"].into_iter().chain(HOSTILE).map(String::from).collect();
    let work = Work::Program {
        program: format!("./{name}"),
        arguments,
        folder: Some(place),
        environment: BTreeMap::new(),
    };
    builtin.submit(at(0), &Job { work, ..job(0x110, 1, 100, 0) }).unwrap();
    builtin.submit(at(0), &script(0x111, "printf '%s\\0' \"$@\"", &HOSTILE)).unwrap();
    for id in [0x110, 0x111] {
        until_state(&mut builtin, 0, id, &DONE);
        let output = read(folder.path(), id, "output");
        assert_eq!(output.split_terminator('\0').collect::<Vec<_>>(), HOSTILE);
    }
    let hacked =
        |path: &Path| std::fs::read_dir(path).unwrap().flatten().any(|entry| entry.file_name() == "hacked");
    assert!(!hacked(folder.path()) && !hacked(file(folder.path(), 0x110, "").as_path()));
}

#[test]
fn a_program_sees_what_the_job_gives_and_nothing_else() {
    let (folder, mut builtin) = fresh();
    let mut given: BTreeMap<String, String> =
        HOSTILE.iter().enumerate().map(|(at, text)| (format!("GIVEN_{at}"), (*text).into())).collect();
    given.insert("BOOKAHEAD_JOB".into(), "job_1".into());
    given.insert("BOOKAHEAD_FOLDER".into(), "/".into());
    given.insert("BOOKAHEAD_RESERVATION".into(), "rsv_1".into());
    given.insert("BOOKAHEAD_END".into(), "never".into());
    let work = Work::Program {
        program: "env".into(),
        arguments: vec!["-0".into()],
        folder: None,
        environment: given.clone(),
    };
    builtin.submit(at(0), &Job { work, ..job(0x112, 3, 100, 0) }).unwrap();
    until_state(&mut builtin, 0, 0x112, &DONE);
    let output = read(folder.path(), 0x112, "output");
    let seen: BTreeMap<&str, &str> =
        output.split_terminator('\0').filter_map(|variable| variable.split_once('=')).collect();
    for (name, value) in given.iter().filter(|(name, _)| name.starts_with("GIVEN")) {
        assert_eq!(seen.get(name.as_str()), Some(&value.as_str()), "{name}");
    }
    assert_eq!(seen["BOOKAHEAD_JOB"], "job_112", "a job cannot pass itself off as another");
    assert_eq!(Path::new(seen["BOOKAHEAD_FOLDER"]), carried(folder.path(), 0x112));
    assert_eq!(seen["BOOKAHEAD_CAPACITY"], "3");
    let known = [
        "PATH",
        "HOME",
        "LANG",
        "BOOKAHEAD_JOB",
        "BOOKAHEAD_FOLDER",
        "BOOKAHEAD_CAPACITY",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    let others = seen.keys().filter(|name| !name.starts_with("GIVEN") && !known.contains(name));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn jobs_that_cannot_be_written_as_a_command_are_refused() {
    let (folder, mut builtin) = fresh();
    let with = |name: &str, value: &str, place: Option<&str>| Work::Program {
        program: "true".into(),
        arguments: Vec::new(),
        folder: place.map(PathBuf::from),
        environment: BTreeMap::from([(name.to_owned(), value.to_owned())]),
    };
    let wrong = [
        program(0x113, "", &[]).work,
        program(0x113, "a\0b", &[]).work,
        program(0x113, "true", &["a\0b"]).work,
        script(0x113, "exit 0", &["\0"]).work,
        script(0x113, "#!sh\n", &[]).work,
        script(0x113, &"x".repeat(2 << 20), &[]).work,
        with("A=B", "", None),
        with("", "", None),
        with("1A", "", None),
        with("BASH_FUNC_echo%%", "() { :; }", None),
        with("A", "\0", None),
        with("A", "", Some("relative")),
        with("A", "", Some("/a\0b")),
    ];
    for work in wrong {
        let refused = builtin.submit(at(0), &Job { work, ..job(0x113, 1, 1, 1) }).unwrap_err();
        assert!(
            refused.is_refusal() && refused.to_string().starts_with("the job cannot be run"),
            "{refused}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path().join("jobs")).unwrap().count(), 0);
}

#[test]
fn one_folder_is_for_one_process() {
    let (folder, builtin) = fresh();
    assert!(matches!(Processes::open(folder.path(), None), Err(LrmsError::InUse { .. })));
    drop(builtin);
    reopened(folder.path());
}

#[test]
fn sites_on_one_machine_leave_the_jobs_of_the_others_alone() {
    let ((here, mut ours), (there, mut theirs)) = (fresh(), fresh());
    for builtin in [&mut ours, &mut theirs] {
        builtin.submit(at(0), &program(0x114, "sleep", &["600"])).unwrap();
        builtin.pass(at(0));
    }
    until_true("theirs runs", || !alive(there.path(), 0x114).is_empty());
    ours.cancel(at(1), JobId(0x114)).unwrap();
    until_gone(&mut ours, here.path(), 7, 0x114);
    theirs.pass(at(1));
    assert_eq!(state(&mut theirs, 0x114), JobState::Running);
    theirs.cancel(at(2), JobId(0x114)).unwrap();
    until_gone(&mut theirs, there.path(), 8, 0x114);
}
