//! Commands through a real sshd: data arrives unchanged, and a failed connection is never taken for an answer.

use crate::command_local::{HOSTILE, LONG, is_alive, printed, shell, word, written};
use bookahead_lrms::LrmsError;
use bookahead_lrms::command::{Command, Outcome, Runner, Ssh};
use bookahead_tests::polling::until_true;
use bookahead_tests::sshd::{Sshd, account, make_key};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::time::Duration;

fn runner(ssh: Ssh) -> Runner {
    Runner::ssh(ssh, LONG).unwrap()
}

/// Calls share a connection.
fn connection(sshd: &Sshd) -> Ssh {
    Ssh { control_folder: Some(sshd.path("c")), ..new_connection(sshd) }
}

/// Each call opens a connection.
fn new_connection(sshd: &Sshd) -> Ssh {
    Ssh {
        user: Some(account()),
        port: Some(sshd.port()),
        key_file: Some(sshd.path("key")),
        known_hosts: Some(sshd.path("known_hosts")),
        config_file: Some(sshd.path("config")),
        ..Ssh::to("127.0.0.1")
    }
}

/// The message about an unreachable host.
#[track_caller]
fn unreachable(result: Result<Outcome, LrmsError>) -> String {
    match result.unwrap_err() {
        LrmsError::Unreachable { host, said } => {
            assert_eq!(host, "127.0.0.1");
            said
        }
        other => panic!("{other}"),
    }
}

fn print(words: &[impl AsRef<str>]) -> Command {
    Command::new("printf").arg("%s\\0").args(words.iter().map(AsRef::as_ref))
}

#[test]
fn hostile_words_variables_and_input_arrive_as_they_were_sent() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd));
    let outcome = runner.run(&print(&HOSTILE)).unwrap();
    assert_eq!((outcome.out, outcome.err.as_str()), (printed(&HOSTILE), ""));
    for word in HOSTILE {
        let command =
            shell("printf '%s\\0' \"$OWN\" \"$LC_ALL\" \"$TZ\"; cat").env("OWN", word).env("TZ", word);
        let outcome = runner.run(&command.input(word)).unwrap();
        assert_eq!(outcome.out, printed(&[word, "C", "UTC"]) + word);
    }
    assert_eq!(sshd.logins(), 1);
}

#[test]
fn arbitrary_words_arrive_as_they_were_sent() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd));
    let mut drawn = TestRunner::new(bookahead_tests::cases::cases(1));
    for _ in 0..4 {
        let words: Vec<String> = (0..500).map(|_| word().new_tree(&mut drawn).unwrap().current()).collect();
        assert_eq!(runner.run(&print(&words)).unwrap().out, printed(&words));
    }
}

#[test]
fn exit_codes_arrive_also_the_one_that_ssh_has_for_itself() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd));
    for code in [0, 1, 7, 124, 126, 127, 254, 255] {
        let outcome = runner.run(&shell(&format!("echo out; printf err >&2; exit {code}"))).unwrap();
        assert_eq!((outcome.code, outcome.out.as_str(), outcome.err.as_str()), (Some(code), "out\n", "err"));
    }
    assert_eq!(runner.run(&shell("kill -9 $$")).unwrap().code, Some(137));
    assert_eq!(runner.silent_since(), None);
}

#[test]
fn input_arrives_however_long_and_is_at_its_end_where_there_is_none() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd));
    let text = "0123456789abcdef\n".repeat(100_000);
    assert_eq!(runner.run(&Command::new("cat").input(text.clone())).unwrap().out, text);
    assert_eq!(runner.run(&Command::new("cat")).unwrap().out, "");
}

#[test]
fn a_missing_program_over_there_is_told_by_its_name() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd));
    let refused = runner.run(&Command::new("no-such-program-here")).unwrap_err();
    assert!(matches!(&refused, LrmsError::CannotRun { program, .. } if program == "no-such-program-here"));
    assert!(runner.run(&Command::new("true")).unwrap().is_success());
}

#[test]
fn an_account_is_reached_by_the_prefix_over_there() {
    let sshd = Sshd::start();
    let prefix = ["env", "BECAME=it's {user}"].map(String::from).into();
    let runner = runner(connection(&sshd)).becoming(prefix);
    let command = shell("echo \"$BECAME\" $LC_ALL").account(Some("ann".into()));
    assert_eq!(runner.run(&command).unwrap().out, "it's ann C\n");
    let refused = runner.run(&shell("true").account(Some("ann;id".into()))).unwrap_err();
    assert!(matches!(refused, LrmsError::NotRunnable { .. }), "{refused}");
}

#[test]
fn a_command_that_takes_too_long_is_given_up_here_and_ended_there() {
    let sshd = Sshd::start();
    let note = sshd.path("note");
    assert!(runner(connection(&sshd)).run(&Command::new("true")).unwrap().is_success(), "it is connected");
    let runner = Runner::ssh(connection(&sshd), Duration::from_secs(4)).unwrap();
    let command = shell("sleep 600 & echo $$ $! > \"$0\"; wait").arg(note.to_str().unwrap());
    let silent = runner.run(&command).unwrap_err();
    assert!(matches!(silent, LrmsError::Silent { .. }), "{silent}");
    for process in written(&note).split(' ') {
        until_true("it is ended over there", || !is_alive(process));
    }
    assert!(matches!(runner.run(&Command::new("true")).unwrap_err(), LrmsError::Silent { .. }));
}

#[test]
fn the_open_connection_is_kept_and_used() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd));
    for _ in 0..5 {
        assert!(runner.run(&Command::new("true")).unwrap().is_success());
    }
    assert_eq!(sshd.logins(), 1, "{}", sshd.log());
    let sockets: Vec<_> = std::fs::read_dir(sshd.path("c")).unwrap().flatten().collect();
    assert_eq!(sockets.len(), 1);
    assert!(is_alive(&keeper(&sshd)));
    let anew = self::runner(new_connection(&sshd));
    for _ in 0..2 {
        assert!(anew.run(&Command::new("true")).unwrap().is_success());
    }
    assert_eq!(sshd.logins(), 3, "without a control folder each call has a connection of its own");
}

/// The process of the open connection, as it reports itself.
fn keeper(sshd: &Sshd) -> String {
    let mut sockets = std::fs::read_dir(sshd.path("c")).unwrap();
    let mut check = std::process::Command::new("ssh");
    check.arg("-F").arg(sshd.path("config")).arg("-S").arg(sockets.next().unwrap().unwrap().path());
    let said = check.args(["-O", "check", "127.0.0.1"]).output().unwrap().stderr;
    String::from_utf8(said).unwrap().chars().filter(char::is_ascii_digit).collect()
}

#[test]
fn an_open_connection_that_is_lost_is_opened_anew() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd));
    assert!(runner.run(&Command::new("true")).unwrap().is_success());
    let before = keeper(&sshd);
    assert!(Runner::local(LONG).run(&Command::new("kill").args(["-9", &before])).unwrap().is_success());
    until_true("it is gone", || !is_alive(&before));
    let outcome = runner.run(&Command::new("echo").arg("there")).unwrap();
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("there\n", ""));
    assert_ne!(keeper(&sshd), before);
}

#[test]
fn first_calls_at_the_same_moment_do_not_disturb_each_other() {
    let sshd = Sshd::start();
    let runner = runner(connection(&sshd)).at_most(6);
    let outcomes = runner.run_all(&vec![Command::new("echo").arg("there"); 12]);
    for outcome in outcomes {
        let outcome = outcome.unwrap();
        assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("there\n", ""), "nor does a greeting");
    }
}

#[test]
fn a_host_that_is_not_known_is_refused_unless_new_ones_are_accepted_and_a_changed_one_always() {
    let mut sshd = Sshd::start();
    let strict = Ssh { known_hosts: Some(sshd.path("none")), ..new_connection(&sshd) };
    let said = unreachable(runner(strict.clone()).run(&Command::new("true")));
    assert!(said.contains("Host key verification failed"), "{said}");
    assert_eq!(sshd.logins(), 0);
    let accepting = Ssh { accept_new: true, ..strict };
    let outcome = runner(accepting.clone()).run(&Command::new("true")).unwrap();
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""));
    assert!(sshd.read("none").contains("ssh-ed25519"), "it is known now");
    sshd.stop();
    make_key(&sshd.path("host"));
    until_true("it listens again", || sshd.resume());
    let said = unreachable(runner(accepting).run(&Command::new("true")));
    assert!(said.contains("REMOTE HOST IDENTIFICATION HAS CHANGED"), "{said}");
}

#[test]
fn a_key_that_is_not_accepted_is_told() {
    let sshd = Sshd::start();
    let wrong = Ssh { key_file: Some(sshd.path("wrong")), ..connection(&sshd) };
    let said = unreachable(runner(wrong).run(&Command::new("true")));
    assert!(said.contains("Permission denied"), "{said}");
}

#[test]
fn a_host_that_goes_away_is_unreachable_then_silent_and_is_found_again() {
    let mut sshd = Sshd::start();
    let runner = runner(connection(&sshd)).with_probe(Command::new("true"));
    assert!(runner.run(&Command::new("true")).unwrap().is_success());
    sshd.stop();
    let said = unreachable(runner.run(&Command::new("true")));
    assert!(!said.is_empty());
    let silent = runner.run(&Command::new("true")).unwrap_err();
    assert!(silent.to_string().contains("was not run"), "{silent}");
    until_true("it listens again", || sshd.resume());
    until_true("it is found again", || runner.silent_since().is_none());
    assert_eq!(runner.run(&Command::new("echo").arg("back")).unwrap().out, "back\n");
}

#[test]
fn a_connection_that_is_lost_while_a_command_runs_is_not_its_answer() {
    let mut sshd = Sshd::start();
    let note = sshd.path("note");
    for ssh in [connection(&sshd), new_connection(&sshd)] {
        let runner = runner(ssh);
        let _none = std::fs::remove_file(&note);
        let command = shell("echo here > \"$0\"; echo half; sleep 600").arg(note.to_str().unwrap());
        std::thread::scope(|scope| {
            let lost = scope.spawn(|| runner.run(&command));
            written(&note);
            sshd.stop();
            unreachable(lost.join().unwrap());
        });
        until_true("it listens again", || sshd.resume());
    }
}
