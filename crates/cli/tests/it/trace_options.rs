//! The options that select and change the jobs of a trace, each checked by the starts that `simulate` writes.

use crate::folder::{FIVE_JOBS, Folder, OVERRUN, THREE_JOBS, columns};

/// Jobs of one processor, a hundred seconds apart; the trace begins at 2001-09-09T01:46:40Z.
const APART: &str = "\
; MaxProcs: 4
; UnixStartTime: 1000000000
1 100 -1 10 1 -1 -1 1 20
2 200 -1 10 1 -1 -1 1 20
3 300 -1 10 1 -1 -1 1 20
4 400 -1 10 1 -1 -1 1 20
";

#[track_caller]
fn check_chosen(options: &str, jobs: &[i64]) {
    let folder = Folder::with("trace.swf", APART);
    let chosen: Vec<i64> = folder.starts(options).into_iter().map(|(job, _)| job).collect();
    assert_eq!(chosen, jobs, "{options}");
}

#[test]
fn first_takes_the_first_sound_jobs() {
    check_chosen("--first 2", &[1, 2]);
    check_chosen("-n 99", &[1, 2, 3, 4]);
}

#[test]
fn from_is_included_and_to_is_not() {
    check_chosen("--from 200 --to 400", &[2, 3]);
    check_chosen("--from -5", &[1, 2, 3, 4]);
    check_chosen("--to 101", &[1]);
}

#[test]
fn calendar_times_are_counted_from_the_start_of_the_trace() {
    check_chosen("--from 2001-09-09T01:50:00Z --to 2001-09-09T03:53:20+02:00", &[2, 3]);
    check_chosen("--from 2001-09-09T01:51:40Z --to 401", &[3, 4]);
}

#[test]
fn calendar_times_are_read_whatever_second_the_trace_began_at() {
    for start in ["9223372036854775807", "-9223372036854775808"] {
        let folder = Folder::with("trace.swf", APART.replace("1000000000", start));
        for option in ["--from", "--to", "--gantt g.svg --gantt-from", "--gantt g.svg --gantt-to"] {
            let ran = folder.run(&format!("simulate trace.swf {option} 2001-09-09T01:46:40Z"));
            assert!(matches!(ran.code, Some(0 | 1)) && !ran.err.contains("panicked"), "{ran:?}");
        }
    }
}

#[test]
fn jobs_outside_the_range_are_counted() {
    let folder = Folder::with("trace.swf", APART);
    let ran = folder.succeed("simulate trace.swf --from 200 --to 300 --json");
    assert_eq!(ran.json()["cleaning"]["outside_range"], 3);
    assert!(ran.err.contains("  3 outside the range\n"), "{ran:?}");
}

#[test]
fn load_divides_the_gaps() {
    let folder = Folder::with("trace.swf", APART);
    assert_eq!(folder.starts("--load 2"), [(1, 100), (2, 150), (3, 200), (4, 250)]);
    assert_eq!(folder.starts("--load 0.5"), [(1, 100), (2, 300), (3, 500), (4, 700)]);
}

#[test]
fn processors_given_go_before_the_header() {
    let folder = Folder::with("trace.swf", FIVE_JOBS);
    assert_eq!(folder.starts("--processors 100").iter().map(|(_, start)| start).sum::<i64>(), 0);
    assert_eq!(folder.starts("-p 6"), [(1, 0), (4, 100), (5, 100)], "wider jobs are dropped");
}

#[test]
fn a_trace_without_a_header_needs_the_machine_only() {
    let folder = Folder::with("trace.swf", "1 0 -1 10 1 -1 -1 1 20\n");
    assert_eq!(folder.starts("--processors 1"), [(1, 0)]);
}

#[test]
fn units_are_whole_nodes() {
    let trace = "; MaxProcs: 9\n1 0 -1 10 1 -1 -1 1 10\n2 0 -1 10 5 -1 -1 5 10\n3 0 -1 10 9 -1 -1 9 10\n";
    let folder = Folder::with("trace.swf", trace);
    // Two nodes of four processors: the second job needs both, the third more than the machine has.
    assert_eq!(folder.starts("--unit 4"), [(1, 0), (2, 10)]);
    assert_eq!(columns(&folder.text("starts.csv"), ["processors"]), [[4], [8]]);
    let ran = folder.succeed("simulate trace.swf --unit 4");
    assert!(ran.out.starts_with("trace.swf: 2 jobs on 2 nodes of 4 processors\n"), "{ran:?}");
}

#[test]
fn estimates_decide_who_may_overtake() {
    let trace =
        "; MaxProcs: 10\n1 0 -1 100 8 -1 -1 8 100\n2 0 -1 10 10 -1 -1 10 10\n3 0 -1 60 2 -1 -1 2 1000\n";
    let folder = Folder::with("trace.swf", trace);
    assert_eq!(folder.starts("--estimates requested"), [(1, 0), (2, 100), (3, 110)]);
    assert_eq!(folder.starts("--estimates actual"), [(1, 0), (2, 100), (3, 0)]);
    folder.starts("--estimates factor:2");
    assert_eq!(
        columns(&folder.text("starts.csv"), ["start", "end", "request"]),
        [[0, 100, 200], [100, 110, 20], [0, 60, 120]]
    );
}

#[track_caller]
fn check_overrun(options: &str, job_start_end: &[[i64; 3]], code: &str) {
    let folder = Folder::with("trace.swf", OVERRUN);
    let ran = folder.succeed(&format!("simulate trace.swf --jobs-out jobs.csv --json {options}"));
    assert_eq!(columns(&folder.text("jobs.csv"), ["job", "start", "end"]), job_start_end);
    let counts = ran.json()["cleaning"].to_string();
    assert!(counts.contains(&format!("{{\"{code}\":1}}")), "{counts}");
}

#[test]
fn a_job_beyond_its_request_is_killed_extended_or_dropped() {
    check_overrun("", &[[1, 0, 100], [2, 0, 100], [3, 100, 150]], "run-cut-at-request");
    check_overrun("--overrun kill", &[[1, 0, 100], [2, 0, 100], [3, 100, 150]], "run-cut-at-request");
    check_overrun("--overrun extend", &[[1, 0, 100], [2, 0, 200], [3, 100, 150]], "overrun-kept");
    check_overrun("--overrun drop", &[[1, 0, 100], [3, 100, 150]], "run-above-request");
}

#[test]
fn jobs_that_estimates_drop_take_their_records_along() {
    let folder = Folder::with("trace.swf", OVERRUN);
    // The factor makes every job an overrun; an estimate that is rounded up to one second is none.
    folder.write("short.swf", format!("{OVERRUN}4 20 -1 1 7 -1 -1 7 1 -1 1 1 1 1 1 1 -1 -1\n"));
    folder.succeed("workload convert short.swf out.swf --estimates factor:0.5 --overrun drop");
    assert_eq!(folder.text("out.swf"), "; MaxProcs: 10\n4 20 -1 1 7 -1 -1 7 1 -1 1 1 1 1 1 1 -1 -1\n");
    folder.fail(
        "simulate trace.swf --estimates factor:0.5 --overrun drop",
        &["trace.swf: no jobs left", "--estimates"],
    );
}

#[test]
fn standard_input_is_a_trace_too() {
    let folder = Folder::new();
    let ran = folder.run_with_input("simulate - --json", THREE_JOBS);
    assert_eq!(ran.json()["schedulers"][0]["mean_wait"], 70.0);
    assert_eq!(ran.json()["trace"], "standard input");
    folder
        .run_with_input("simulate - --from 2001-09-09T01:46:40Z", THREE_JOBS)
        .assert_refused(1, &["use a file, or seconds of the trace"]);
}

#[test]
fn strict_names_the_first_line_that_is_not_sound() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    folder.succeed("simulate trace.swf --strict");
    folder.write("wide.swf", format!("{THREE_JOBS}14 5 -1 10 11 -1 -1 11 10 -1 1 1 1 1 1 1 -1 -1\n"));
    folder.fail(
        "simulate wide.swf --strict",
        &["wide.swf:6: the job needs more processors", "correct the line"],
    );
    folder.write("long.swf", OVERRUN);
    folder.fail("workload info long.swf --strict", &["long.swf:3: the job ran longer than it asked for"]);
}
