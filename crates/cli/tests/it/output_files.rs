//! The files that `simulate` writes: times of each job, and charts. They are the same for any number of threads.

use crate::folder::{FIVE_JOBS, Folder, THREE_JOBS, columns, gunzip};

#[test]
fn the_csv_has_the_traces_own_numbers_and_times() {
    let trace = "; MaxProcs: 10\n907 5000 -1 100 8 -1 -1 8 300\n-3 5010 -1 10 4 -1 -1 4 20\n";
    let folder = Folder::with("trace.swf", trace);
    folder.succeed("simulate trace.swf --jobs-out jobs.csv");
    let jobs =
        columns(&folder.text("jobs.csv"), ["job", "submit", "start", "end", "processors", "wait", "request"]);
    assert_eq!(jobs, [[907, 5000, 5000, 5100, 8, 0, 300], [-3, 5010, 5100, 5110, 4, 90, 20]]);
}

#[test]
fn the_swf_is_the_trace_with_simulated_waits() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    folder.succeed("simulate trace.swf --jobs-out out.swf");
    let expected = "\
; MaxProcs: 10
; UnixStartTime: 1000000000
; Note: waits and run times are simulated, scheduler easy
11 0 0 100 8 -1 -1 8 100 -1 1 1 1 1 1 1 -1 -1
12 0 100 10 10 -1 -1 10 10 -1 1 1 1 1 1 1 -1 -1
13 0 110 1000 2 -1 -1 2 1000 -1 1 1 1 1 1 1 -1 -1
";
    assert_eq!(folder.text("out.swf"), expected);
    let again = folder.succeed("simulate out.swf --json --strict").json();
    assert_eq!(again["schedulers"][0]["mean_wait"], 70.0);
    assert_eq!(folder.succeed("workload info out.swf --json").json()["statistics"]["jobs"], 3);
}

#[test]
fn swf_from_a_trace_without_a_header_tells_the_machine() {
    let folder = Folder::with("trace.swf", "1 0 -1 10 1 -1 -1 1 20\n");
    folder.succeed("simulate trace.swf --processors 7 --jobs-out out.swf");
    assert_eq!(folder.succeed("simulate out.swf --json").json()["machine"], 7);
}

#[test]
fn names_that_end_in_gz_are_gzip() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    for name in ["jobs.csv", "jobs.swf"] {
        folder.succeed(&format!("simulate trace.swf --jobs-out {name}"));
        folder.succeed(&format!("simulate trace.swf --jobs-out {name}.gz"));
        assert_eq!(gunzip(&folder.bytes(&format!("{name}.gz"))), folder.text(name));
    }
    assert_eq!(folder.succeed("simulate jobs.swf.gz --json").json()["schedulers"][0]["mean_wait"], 70.0);
}

#[test]
fn with_compare_the_schedulers_name_goes_into_the_files() {
    let folder = Folder::with("trace.swf", FIVE_JOBS);
    let ran = folder
        .succeed("simulate trace.swf --compare easy[promises=2],easy --jobs-out jobs.csv.gz --gantt g.svg");
    for name in ["jobs.easy-2.csv.gz", "jobs.easy.csv.gz", "g.easy-2.svg", "g.easy.svg"] {
        assert!(!folder.bytes(name).is_empty());
        assert!(ran.err.contains(&format!("wrote {name}\n")), "{ran:?}");
    }
    assert_ne!(folder.bytes("jobs.easy-2.csv.gz"), folder.bytes("jobs.easy.csv.gz"));
}

#[test]
fn pictures_are_svg_and_name_their_schedulers() {
    let folder = Folder::with("trace.swf", FIVE_JOBS);
    folder.succeed("simulate trace.swf --compare --svg time.svg --gantt gantt.svg --step 1m");
    let time = folder.text("time.svg");
    assert!(time.starts_with("<svg") && time.trim_end().ends_with("</svg>"));
    for scheduler in ["fcfs", "easy", "conservative"] {
        assert!(time.contains(scheduler));
        let gantt = folder.text(&format!("gantt.{scheduler}.svg"));
        assert!(gantt.starts_with("<svg") && gantt.trim_end().ends_with("</svg>"));
        assert!(gantt.contains(&format!("trace.swf, {scheduler}")));
    }
}

#[test]
fn a_gantt_chart_may_show_a_part() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    folder.succeed("simulate trace.swf --gantt all.svg");
    folder.succeed("simulate trace.swf --gantt part.svg --gantt-from 2001-09-09T01:46:40Z --gantt-to 50");
    assert_ne!(folder.text("all.svg"), folder.text("part.svg"));
    folder.fail(
        "simulate trace.swf --gantt g.svg --gantt-from 50 --gantt-to 50",
        &["--gantt-from", "--gantt-to"],
    );
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let folder = Folder::new();
    folder.succeed("workload generate --jobs 400 --processors 64 --load 0.9 --output trace.swf");
    folder.succeed("workload reservations trace.swf --window 1h --output requests.csv --jobs-out jobs.swf");
    let outputs = |threads: usize| {
        let options =
            "--reservations requests.csv --compare --json --jobs-out jobs.csv --svg time.svg --gantt g.svg";
        let ran = folder.succeed(&format!("simulate jobs.swf {options} --threads {threads}"));
        let mut bytes = vec![folder.bytes("time.svg")];
        for scheduler in ["fcfs", "easy", "conservative"] {
            bytes.push(folder.bytes(&format!("jobs.{scheduler}.csv")));
            bytes.push(folder.bytes(&format!("g.{scheduler}.svg")));
        }
        (ran.out, bytes)
    };
    let alone = outputs(1);
    assert!(alone == outputs(2) && alone == outputs(3));
}
