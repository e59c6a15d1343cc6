//! Invalid options: wrong usage ends with exit code 2, an unsuitable value with 1. The message states what to use
//! instead.

use crate::folder::{Folder, THREE_JOBS};

#[track_caller]
fn check(code: i32, line: &str, words: &[&str]) {
    Folder::with("trace.swf", THREE_JOBS).run(line).assert_refused(code, words);
}

#[test]
fn wrong_usage_ends_with_exit_code_2() {
    check(2, "simulate trace.swf --frobnicate", &["--frobnicate", "Usage: bookahead simulate"]);
    check(2, "simulate", &["<TRACE>"]);
    check(2, "simulate trace.swf extra.swf", &["extra.swf"]);
    check(2, "workload frobnicate", &["frobnicate"]);
    check(2, "simulate trace.swf --step 1h", &["--svg <FILE>"]);
    check(2, "simulate trace.swf --gantt-from 5", &["--gantt <FILE>"]);
    check(2, "simulate trace.swf --gantt-to 5", &["--gantt <FILE>"]);
    check(2, "simulate trace.swf --scheduler easy --compare", &["--scheduler", "--compare"]);
    check(2, "workload convert trace.swf", &["<OUTPUT>"]);
}

#[test]
fn asking_for_help_is_no_error() {
    let folder = Folder::new();
    for line in ["--help", "-h", "help workload", "simulate --help", "workload info -h", "--version"] {
        let ran = folder.succeed(line);
        assert!(ran.out.contains("bookahead") && ran.err.is_empty(), "{ran:?}");
    }
    let ran = folder.run("");
    assert_eq!(ran.code, Some(2));
    assert!(ran.out.is_empty() && ran.err.contains("Usage: bookahead <COMMAND>"), "{ran:?}");
}

#[test]
fn unknown_words_are_answered_with_the_known_ones() {
    check(
        2,
        "simulate trace.swf --scheduler sjf",
        &["unknown scheduler 'sjf'", "fcfs, easy or conservative"],
    );
    check(2, "simulate trace.swf --scheduler easy[promises=0]", &["(1 or more)"]);
    check(2, "simulate trace.swf --compare easy,sjf", &["unknown scheduler 'sjf'"]);
    check(2, "simulate trace.swf --overrun forgive", &["kill, extend, drop"]);
    check(2, "simulate trace.swf --estimates guess", &["requested, actual or factor:F"]);
    check(2, "simulate trace.swf --estimates factor:0", &["a number above 0"]);
    check(2, "simulate trace.swf --estimates factor:nan", &["a number above 0"]);
    check(2, "workload generate --model zipf", &["poisson, lublin, lublin-batch, cirne"]);
    check(2, "workload generate --requests guess", &["exact, popular or factor:F"]);
}

#[test]
fn numbers_must_be_numbers() {
    for option in ["--processors", "--unit", "--first", "--load", "--threads"] {
        check(2, &format!("simulate trace.swf {option} many"), &[option, "invalid"]);
    }
    check(2, "simulate trace.swf --processors 4294967296", &["--processors"]);
    check(2, "simulate trace.swf --svg t.svg --step soon", &["2h30m"]);
}

#[test]
fn times_need_an_offset() {
    let words = ["invalid time", "RFC 3339 with an offset"];
    check(2, "simulate trace.swf --from 2001-09-09T01:46:40", &words);
    check(2, "simulate trace.swf --to yesterday", &words);
    check(2, "simulate trace.swf --gantt g.svg --gantt-from 2001-09-09", &words);
}

#[test]
fn two_kinds_of_data_do_not_share_standard_output() {
    for option in ["--jobs-out", "--svg", "--gantt"] {
        check(2, &format!("simulate trace.swf {option} -"), &[option, "use a file name"]);
    }
    check(2, "workload reservations trace.swf --jobs-out -", &["use a file name"]);
}

#[test]
fn numbers_that_cannot_be_meant_are_refused() {
    check(
        1,
        "simulate trace.swf --processors 0",
        &["trace.swf", "a machine of 0 processors", "between 1 and"],
    );
    check(1, "simulate trace.swf --unit 0", &["a unit of at least 1"]);
    check(1, "simulate trace.swf --unit 11", &["trace.swf", "nodes of 11", "between 11 and"]);
    check(1, "simulate trace.swf --first 0", &["at least 1"]);
    for factor in ["0", "-1", "nan", "inf", "-inf"] {
        check(1, &format!("simulate trace.swf --load={factor}"), &["a number above 0"]);
    }
    check(1, "simulate trace.swf --load -1", &["a number above 0"]);
}

#[test]
fn ranges_must_not_be_empty() {
    check(1, "simulate trace.swf --from 5 --to 5", &["--from 5 is not before --to 5"]);
    check(1, "simulate trace.swf --from 5 --to 2001-09-09T01:46:40Z", &["--from 5 is not before --to 0"]);
    check(1, "simulate trace.swf --from 1", &["trace.swf", "3 outside the range", "check"]);
}

#[test]
fn a_drawing_has_a_sensible_number_of_points() {
    check(1, "simulate trace.swf --svg t.svg --step 0", &["use a longer --step"]);
    let folder = Folder::with("trace.swf", format!("{THREE_JOBS}14 1000000000 -1 10 1 -1 -1 1 10\n"));
    folder.fail("simulate trace.swf --svg t.svg --step 1s", &["use a longer --step"]);
    folder.succeed("simulate trace.swf --svg t.svg");
}

#[test]
fn files_that_cannot_be_written_are_named() {
    for option in ["--jobs-out", "--svg", "--gantt"] {
        check(
            1,
            &format!("simulate trace.swf {option} none/x.svg"),
            &["none/x.svg", "cannot be written", "check"],
        );
    }
    check(1, "simulate trace.swf --jobs-out none/x.swf.gz", &["none/x.swf.gz: cannot be written"]);
    check(1, "simulate trace.swf --svg .", &[". cannot be written"]);
    check(1, "workload convert trace.swf none/x.swf", &["none/x.swf: cannot be written"]);
    check(1, "workload generate --output none/x.swf", &["none/x.swf: cannot be written"]);
    check(1, "workload reservations trace.swf --output none/x.csv", &["none/x.csv: cannot be written"]);
}

#[test]
fn models_refuse_what_they_cannot_draw() {
    for model in ["poisson", "lublin", "lublin-batch", "cirne"] {
        let line = |options: &str| format!("workload generate --model {model} {options}");
        check(1, &line("--jobs 0"), &["give 1 to"]);
        check(1, &line("--processors 0"), &["give 1 to"]);
        check(1, &line("--load nan"), &["a number above 0"]);
        check(1, &line("--load=-1"), &["a number above 0"]);
    }
    check(1, "workload generate --model blue-horizon --jobs 0", &["give 1 to"]);
    check(1, "workload generate --model blue-horizon --processors 64", &["--processors", "another --model"]);
    check(1, "workload generate --model lublin --gap 5m", &["--gap", "another --model"]);
    check(1, "workload generate --model cirne --requests exact", &["--requests", "another --model"]);
    check(1, "workload generate --model poisson --size 5 2", &["the lower end first"]);
    check(1, "workload generate --model poisson --run 0 0", &["the lower end first"]);
    check(1, "workload reservations trace.swf --block 0", &["at least 1 job"]);
}
