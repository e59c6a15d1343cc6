//! Outages: commands fail fast during one, and its end is noticed.

use crate::command_local::{LONG, is_alive, shell, written};
use bookahead_lrms::LrmsError;
use bookahead_lrms::command::{Command, Outcome, Runner};
use bookahead_tests::polling::until_true;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Enough for an answer on a busy machine, and not too long to wait for a timeout.
const SHORT: Duration = Duration::from_secs(3);

/// A batch system of one file: while it exists, nothing answers.
struct Pretended(TempDir);

impl Pretended {
    fn new() -> Pretended {
        Pretended(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn go_down(&self) {
        std::fs::write(self.0.path().join("down"), "").unwrap();
    }

    fn come_back(&self) {
        std::fs::remove_file(self.0.path().join("down")).unwrap();
    }

    /// Records that it ran, and answers unless the system is down.
    fn question(&self) -> Command {
        shell("cd \"$0\"; echo x >> asked; while [ -e down ]; do sleep 0.05; done; echo answer")
            .arg(self.path())
    }

    /// Records that it ran.
    fn probe(&self) -> Command {
        shell("cd \"$0\"; echo x >> probed; [ ! -e down ]").arg(self.path())
    }

    fn lines(&self, file: &str) -> usize {
        std::fs::read_to_string(self.0.path().join(file)).unwrap_or_default().lines().count()
    }
}

fn assert_not_run(result: Result<Outcome, LrmsError>) {
    let refused = result.unwrap_err();
    assert!(matches!(refused, LrmsError::Silent { .. }), "{refused}");
    assert!(refused.to_string().contains("was not run"), "{refused}");
}

/// Begins an outage with a question that takes too long.
fn silence(runner: &Runner, system: &Pretended) {
    system.go_down();
    let silent = runner.run(&system.question()).unwrap_err();
    assert!(matches!(silent, LrmsError::Silent { .. }), "{silent}");
    assert!(runner.silent_since().is_some());
}

#[test]
fn after_a_time_out_nothing_is_run_until_the_probe_succeeds() {
    let system = Pretended::new();
    let runner = Runner::local(SHORT).with_probe(system.probe());
    assert_eq!(runner.run(&system.question()).unwrap().said(), "answer");
    silence(&runner, &system);
    until_true("it was probed twice", || {
        assert_not_run(runner.clone().run(&system.question()));
        system.lines("probed") >= 2
    });
    assert_eq!(system.lines("asked"), 2, "those that were not run asked nothing");
    system.come_back();
    until_true("it answers again", || runner.silent_since().is_none());
    assert_eq!(runner.run(&system.question()).unwrap().said(), "answer");
    // The last probe may answer before a third was due, so their number is read from their own records.
    let run = system.lines("asked") + system.lines("probed");
    assert_eq!(runner.usage().programs["sh"].runs, run as u64, "questions and probes are counted");
}

#[test]
fn without_a_probe_a_later_question_is_the_trial() {
    let system = Pretended::new();
    let runner = Runner::local(SHORT);
    silence(&runner, &system);
    assert_not_run(runner.run(&system.question()));
    system.come_back();
    let began = runner.silent_since().unwrap();
    until_true("a trial is let through", || runner.run(&system.question()).is_ok());
    assert!(began.elapsed() >= Duration::from_secs(5), "not before its time");
    assert_eq!((runner.silent_since(), system.lines("asked")), (None, 2));
}

#[test]
fn silence_that_is_known_from_words_ends_as_any_other() {
    let system = Pretended::new();
    let runner = Runner::local(LONG).with_probe(system.probe());
    system.go_down();
    runner.note_silence();
    runner.note_silence();
    assert_not_run(runner.run(&system.question()));
    system.come_back();
    until_true("it answers again", || runner.silent_since().is_none());
    assert_eq!(runner.run(&system.question()).unwrap().said(), "answer");
    runner.note_silence();
    until_true("it answers again, once more", || runner.silent_since().is_none());
}

#[test]
fn a_command_that_fails_is_an_answer() {
    let runner = Runner::local(LONG);
    assert_eq!(runner.run(&Command::new("false")).unwrap().code, Some(1));
    assert_eq!(runner.silent_since(), None);
}

#[test]
fn who_waits_for_a_place_is_told_of_silence_at_once() {
    let system = Pretended::new();
    let runner = Runner::local(LONG).at_most(1);
    system.go_down();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| runner.run(&system.question()));
        until_true("the first runs", || system.lines("asked") == 1);
        let second = scope.spawn(|| runner.run(&system.question()));
        runner.note_silence();
        assert_not_run(second.join().unwrap());
        system.come_back();
        assert_eq!(first.join().unwrap().unwrap().said(), "answer");
    });
    assert_eq!(system.lines("asked"), 1);
}

#[test]
fn the_probing_thread_ends_with_the_last_runner_and_the_probe_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note");
    let probe = shell("sleep 600 & echo $$ $! > \"$0\"; wait").arg(note.to_str().unwrap());
    let runner = Runner::local(LONG).with_probe(probe);
    let clone = runner.clone();
    runner.note_silence();
    let processes = written(Path::new(&note));
    drop(runner);
    assert!(processes.split(' ').all(is_alive), "a clone is still there");
    let began = Instant::now();
    drop(clone);
    for process in processes.split(' ') {
        until_true("it is gone", || !is_alive(process));
    }
    assert!(began.elapsed() < LONG);
}

#[test]
fn a_command_that_may_not_start_is_not_run_and_begins_no_outage() {
    let system = Pretended::new();
    let permitted = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let asked = permitted.clone();
    let may_start = move |timeout| timeout == LONG && asked.load(std::sync::atomic::Ordering::SeqCst);
    let runner = Runner::local(LONG).permitted_by(may_start);
    assert!(runner.run(&system.question()).is_ok());
    permitted.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_not_run(runner.run(&system.question()));
    assert_eq!(system.lines("asked"), 1);
    assert!(runner.silent_since().is_none());
    permitted.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(runner.run(&system.question()).is_ok());
}
