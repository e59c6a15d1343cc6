//! Commands on this machine: their arguments and environment, their outcomes, and their timeouts.

use bookahead_lrms::LrmsError;
use bookahead_lrms::command::{Command, MOST_OUTPUT, ProgramUsage, Runner, quoted};
use bookahead_tests::polling::until_true;
use proptest::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Names and arguments of hostile and of harmless users.
pub(crate) const HOSTILE: [&str; 28] = [
    "",
    " ",
    "; rm -rf /nowhere",
    "$(touch /nowhere)",
    "`touch /nowhere`",
    "${HOME}",
    "$HOME",
    "'",
    "''",
    "it's",
    "\"",
    "\"'\"'\"",
    "\\",
    "\\'",
    "two\nlines\n",
    "\n",
    "\r\n\t\u{7}\u{1b}[31m",
    "*",
    "~",
    "~root",
    "!!",
    "#",
    "a & b | c > d < e && f || g",
    "-rf",
    "--",
    "--help",
    "A=b",
    "größer 予約 🕰",
];

pub(crate) fn shell(script: &str) -> Command {
    Command::new("sh").args(["-c", script])
}

/// The output of a program that prints its arguments, each followed by a NUL.
pub(crate) fn printed<S: AsRef<str>>(words: &[S]) -> String {
    words.iter().map(|word| format!("{}\0", word.as_ref())).collect()
}

pub(crate) fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name: an exited process that was not waited for is a zombie.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// Reads a file that a command is going to write.
#[track_caller]
pub(crate) fn written(path: &Path) -> String {
    let mut text = String::new();
    until_true("it is written", || {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text.trim().into()
}

#[test]
fn exit_code_and_both_outputs_are_told() {
    let outcome = Runner::local(LONG).run(&shell("echo out; echo err >&2; exit 7")).unwrap();
    assert_eq!((outcome.code, outcome.out.as_str(), outcome.err.as_str()), (Some(7), "out\n", "err\n"));
    assert_eq!((outcome.is_success(), outcome.said()), (false, "err"));
    let outcome = Runner::local(LONG).run(&shell("kill -9 $$")).unwrap();
    assert_eq!(outcome.code, None, "a signal ended it");
}

#[test]
fn hostile_words_arrive_as_they_are() {
    let command = Command::new("printf").arg("%s\\0").args(HOSTILE).input("");
    assert_eq!(Runner::local(LONG).run(&command).unwrap().out, printed(&HOSTILE));
}

#[test]
fn what_is_not_text_does_no_harm() {
    assert_eq!(Runner::local(LONG).run(&shell(r"printf 'a\377b'")).unwrap().out, "a\u{fffd}b");
}

#[test]
fn input_arrives_however_long_and_is_at_its_end_where_there_is_none() {
    let runner = Runner::local(LONG);
    let text = "0123456789abcdef\n".repeat(100_000);
    assert_eq!(runner.run(&Command::new("cat").input(text.clone())).unwrap().out, text);
    assert_eq!(runner.run(&Command::new("cat")).unwrap().out, "");
    let outcome = runner.run(&shell("exit 3").input(text)).unwrap();
    assert_eq!(outcome.code, Some(3), "a command that does not read its input is no error");
}

#[test]
fn language_and_time_zone_are_fixed_and_other_variables_are_ours_and_its_own() {
    let command = shell("echo $LC_ALL $TZ $OWN ${PATH:+path}");
    let command = command.env("TZ", "Asia/Tokyo").env("LC_ALL", "de_DE.UTF-8").env("OWN", "x");
    assert_eq!(Runner::local(LONG).run(&command).unwrap().out, "C UTC x path\n");
}

const SECRET: &str = "BOOKAHEAD_LRMS_COMMAND_SECRET";

/// Does nothing unless started by another test: a service with a secret in its environment.
#[test]
fn what_a_service_with_a_secret_does() {
    if std::env::var_os(SECRET).is_some() {
        let outcome = Runner::local(LONG).run(&Command::new("env").env("BOOKAHEAD_GIVEN", "1")).unwrap();
        assert!(outcome.out.contains("BOOKAHEAD_GIVEN=1"), "what is given on purpose stays");
        assert!(!outcome.out.contains(SECRET));
        assert!(outcome.out.contains("COMMAND_NO_SECRET=2"));
    }
}

#[test]
fn secrets_of_the_service_are_not_passed_on() {
    let mut service = std::process::Command::new(std::env::current_exe().unwrap());
    service.args(["command_local::what_a_service_with_a_secret_does", "--exact"]);
    let service = service.env(SECRET, "hidden").env("COMMAND_NO_SECRET", "2").output().unwrap();
    let said = String::from_utf8_lossy(&service.stdout);
    assert!(service.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_missing_program_is_told_by_its_name() {
    let refused = Runner::local(LONG).run(&Command::new("no-such-program-here")).unwrap_err();
    assert!(matches!(&refused, LrmsError::CannotRun { program, .. } if program == "no-such-program-here"));
    let runner = Runner::local(LONG).becoming(vec!["env".into()]);
    let refused = runner.run(&Command::new("/no/such").account(Some("ann".into()))).unwrap_err();
    assert!(matches!(&refused, LrmsError::CannotRun { program, .. } if program == "/no/such"), "{refused}");
    assert_eq!(runner.silent_since(), None, "that says nothing of the batch system");
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note");
    let command = shell("sleep 600 & echo $$ $! > \"$0\"; wait").arg(note.to_str().unwrap());
    // Enough for the note, on a busy machine too.
    let runner = Runner::local(Duration::from_secs(5));
    let silent = runner.run(&command).unwrap_err();
    assert!(matches!(silent, LrmsError::Silent { after, .. } if after == Duration::from_secs(5)), "{silent}");
    let processes = written(&note);
    for process in processes.split(' ') {
        until_true("it is gone", || !is_alive(process));
    }
    assert_eq!(runner.usage().programs["sh"].time_outs, 1);
}

#[test]
fn what_a_command_leaves_behind_is_neither_waited_for_nor_ended() {
    let runner = Runner::local(LONG);
    let outcome = runner.run(&shell("sleep 600 & echo $!; echo oh >&2")).unwrap();
    let left = outcome.out.trim();
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), "oh\n"));
    assert!(is_alive(left), "it was left behind on purpose");
    runner.run(&Command::new("kill").args(["-9", left])).unwrap();
}

#[test]
fn a_command_that_writes_without_end_is_ended_and_that_is_said() {
    for (script, output) in [("yes", "standard output"), ("yes >&2", "standard error")] {
        let runner = Runner::local(LONG);
        let refused = runner.run(&shell(script)).unwrap_err();
        assert!(matches!(refused, LrmsError::Failed { code: None, .. }), "{refused}");
        let said = refused.to_string();
        assert!(said.contains("more than 64 MiB") && said.contains(output), "{said}");
        assert_eq!(runner.silent_since(), None);
    }
    let command = Command::new("head").args(["-c", &MOST_OUTPUT.to_string(), "/dev/zero"]);
    assert_eq!(
        Runner::local(LONG).run(&command).unwrap().out.len(),
        MOST_OUTPUT,
        "the limit itself is allowed"
    );
}

#[test]
fn an_account_is_reached_by_the_prefix_and_the_environment_behind_it_is_whole() {
    let prefix = ["env", "-i", "PATH=/usr/bin:/bin", "BECAME={user}/{user}"].map(String::from).into();
    let runner = Runner::local(LONG).becoming(prefix);
    let command = shell("echo $BECAME $LC_ALL $TZ \"$OWN\"; cat").env("OWN", "$x  y").env("TZ", "Asia/Tokyo");
    let command = command.account(Some("ann".into())).input("in\n");
    assert_eq!(runner.run(&command).unwrap().out, "ann/ann C UTC $x  y\nin\n");
    let words = Command::new("printf").arg("%s\\0").args(HOSTILE).account(Some("ann".into()));
    assert_eq!(runner.run(&words).unwrap().out, printed(&HOSTILE));
    assert_eq!(runner.usage().programs.keys().collect::<Vec<_>>(), ["printf", "sh"]);
}

#[test]
fn an_account_without_a_prefix_and_an_odd_account_are_refused() {
    let command = Command::new("true").account(Some("ann".into()));
    let refused = Runner::local(LONG).run(&command).unwrap_err().to_string();
    assert!(refused.contains("no prefix is configured"), "{refused}");
    let runner = Runner::local(LONG).becoming(vec!["env".into()]);
    let refused = runner.run(&Command::new("true").account(Some("-x".into()))).unwrap_err();
    assert!(matches!(refused, LrmsError::NotRunnable { .. }), "{refused}");
    assert!(runner.usage().programs.is_empty(), "nothing was run");
}

/// Only root may become others without a password; for other accounts runuser refuses, and nothing is run.
#[test]
fn a_real_account_is_taken_on_where_that_is_allowed() {
    let prefix = ["runuser", "-u", "{user}", "--"].map(String::from).into();
    let runner = Runner::local(LONG).becoming(prefix);
    let outcome = runner.run(&shell("id -un; exit 5").account(Some("nobody".into()))).unwrap();
    if std::process::Command::new("id").arg("-u").output().unwrap().stdout == b"0\n" {
        assert_eq!((outcome.code, outcome.said()), (Some(5), "nobody"));
    } else {
        assert!(outcome.code != Some(5) && outcome.said().contains("runuser"), "{outcome:?}");
    }
}

#[test]
fn no_more_run_at_once_than_may_and_answers_come_in_the_order_of_the_questions() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir \"$0/$1\" && ls \"$0\" | wc -l && sleep 0.05 && rmdir \"$0/$1\" && echo \"$1\"";
    let place = folder.path().to_str().unwrap();
    let commands: Vec<Command> =
        (0..12).map(|number| shell(script).arg(place).arg(number.to_string())).collect();
    let runner = Runner::local(LONG).at_most(3);
    let outcomes = runner.run_all(&commands);
    let mut most = 0;
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let outcome = outcome.unwrap();
        let lines: Vec<usize> = outcome.out.lines().map(|line| line.trim().parse().unwrap()).collect();
        assert_eq!(lines[1], number);
        most = most.max(lines[0]);
    }
    assert!(most <= 3, "{most} at once");
    assert_eq!(runner.usage().programs["sh"].runs, 12);
    assert!(runner.run_all(&[]).is_empty());
}

#[test]
fn commands_run_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let meet = "cd \"$0\" && touch \"$1\" && while [ ! -e \"$2\" ]; do sleep 0.01; done";
    let command =
        |one: &str, other: &str| shell(meet).arg(folder.path().to_str().unwrap()).args([one, other]);
    let outcomes = Runner::local(LONG).run_all(&[command("a", "b"), command("b", "a")]);
    assert!(outcomes.into_iter().all(|outcome| outcome.unwrap().is_success()), "each waits for the other");
}

#[test]
fn clones_share_the_places_and_who_waits_too_long_for_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let runner = Runner::local(Duration::from_secs(3)).at_most(1);
    std::thread::scope(|scope| {
        let script = "touch \"$0.there\"; while [ ! -e \"$0\" ]; do sleep 0.01; done";
        let first = scope.spawn(|| runner.clone().run(&shell(script).arg(go.to_str().unwrap())));
        until_true("the first runs", || folder.path().join("go.there").exists());
        // It waits at most as long as the first may run, and the first began before.
        let second = scope.spawn(|| runner.clone().run(&Command::new("echo").arg("second")));
        let silent = first.join().unwrap().unwrap_err();
        assert!(matches!(silent, LrmsError::Silent { .. }), "{silent}");
        let refused = second.join().unwrap().unwrap_err();
        assert!(refused.to_string().contains("echo was not run"), "{refused}");
    });
    assert!(!runner.usage().programs.contains_key("echo"));
}

#[test]
fn many_commands_from_many_threads_all_get_their_own_answer() {
    let (runner, next) = (Runner::local(LONG), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let number = next.fetch_add(1, Ordering::Relaxed).to_string();
                    let outcome = runner.run(&Command::new("cat").input(number.clone())).unwrap();
                    assert_eq!(outcome.out, number);
                }
            });
        }
    });
    let ProgramUsage { runs, failures, time_outs, spent, longest } = runner.usage().programs["cat"];
    assert_eq!((runs, failures, time_outs), (200, 0, 0));
    assert!(spent >= longest && longest > Duration::ZERO);
}

#[test]
fn usage_tells_runs_and_failures_by_program() {
    let runner = Runner::local(LONG);
    for command in
        [Command::new("/bin/true"), Command::new("true"), Command::new("false"), Command::new("no-such")]
    {
        let _outcome = runner.run(&command);
    }
    let counted = |program: &str| {
        let usage = runner.usage().programs[program];
        (usage.runs, usage.failures, usage.time_outs)
    };
    assert_eq!([counted("true"), counted("false"), counted("no-such")], [(2, 0, 0), (1, 1, 0), (1, 1, 0)]);
    assert_eq!(runner.usage().programs.len(), 3);
}

#[test]
fn a_time_out_without_end_is_cut_and_one_of_nothing_ends_at_once() {
    assert!(Runner::local(Duration::MAX).run(&Command::new("true")).unwrap().is_success());
    let began = Instant::now();
    let silent = Runner::local(Duration::ZERO).run(&Command::new("sleep").arg("600")).unwrap_err();
    assert!(matches!(silent, LrmsError::Silent { .. }), "{silent}");
    assert!(began.elapsed() < LONG);
}

/// Words of all possible characters, mostly those with a meaning in a shell.
pub(crate) fn word() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        4 => prop::sample::select(" \t\n'\"\\$`!*?[]{}()<>|&;#~=-%^@:,./\u{81}\u{88}".chars().collect::<Vec<_>>()),
        2 => prop::char::range('a', 'e'),
        1 => any::<char>().prop_filter("no argument has a NUL", |letter| *letter != '\0'),
    ];
    prop::collection::vec(letter, 0..12).prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(200))]

    #[test]
    fn quoted_words_come_out_of_a_shell_as_they_went_in(words in prop::collection::vec(word(), 1..20)) {
        let line: Vec<String> = words.iter().filter_map(|word| quoted(word)).collect();
        let outcome = Runner::local(LONG).run(&shell(&format!("printf '%s\\0' {}", line.join(" ")))).unwrap();
        prop_assert_eq!(outcome.out, printed(&words));
    }
}
