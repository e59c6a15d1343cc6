//! `workload`: generated and converted traces, jobs turned into requests, and statistics.

use crate::folder::{Folder, THREE_JOBS, columns, gunzip};
use serde_json::json;
use std::collections::BTreeSet;

const MODELS: [&str; 4] = ["poisson", "lublin", "lublin-batch", "cirne"];

#[test]
fn every_model_draws_the_same_jobs_from_the_same_seed() {
    let folder = Folder::new();
    for model in MODELS {
        let draw = |seed: u64| {
            folder.succeed(&format!("workload generate -m {model} -n 200 -p 64 --seed {seed}")).out
        };
        assert_eq!(draw(7), draw(7), "{model}");
        assert_ne!(draw(7), draw(8), "{model}");
    }
}

#[test]
fn what_every_model_draws_is_sound_and_can_be_simulated() {
    let folder = Folder::new();
    for model in MODELS {
        folder.succeed(&format!(
            "workload generate --model {model} --jobs 200 --processors 64 --output trace.swf"
        ));
        let results = folder.succeed("simulate trace.swf --strict --json").json();
        assert_eq!(
            (&results["machine"], &results["schedulers"][0]["jobs"]),
            (&json!(64), &json!(200)),
            "{model}"
        );
    }
}

#[test]
fn generate_brings_the_load_that_was_asked_for() {
    let folder = Folder::new();
    for model in MODELS {
        folder.succeed(&format!("workload generate -m {model} -n 1000 --load 0.7 -o trace.swf"));
        let info = folder.succeed("workload info trace.swf --json").json();
        let load = info["statistics"]["offered_load"].as_f64().unwrap();
        assert!((load - 0.7).abs() < 0.01, "{model}: {load}");
    }
}

#[test]
fn jobs_as_on_blue_horizon_are_drawn_for_its_machine() {
    let folder = Folder::new();
    let draw = |seed: u64| folder.succeed(&format!("workload generate -m blue-horizon --seed {seed}")).out;
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    folder.succeed("workload generate -m blue-horizon -n 3000 --load 0.7 -o trace.swf");
    let info = folder.succeed("workload info trace.swf --strict --json").json();
    let load = info["statistics"]["offered_load"].as_f64().unwrap();
    assert!((load - 0.7).abs() < 0.01, "{load}");
    let results = folder.succeed("simulate trace.swf --strict --json").json();
    assert_eq!((&results["machine"], &results["schedulers"][0]["jobs"]), (&json!(144), &json!(3000)));
}

#[test]
fn generate_keeps_to_its_bounds() {
    let folder = Folder::new();
    folder
        .succeed("workload generate -m poisson -n 300 --size 3 5 --run 1m 2m --requests exact -o trace.swf");
    folder.succeed("simulate trace.swf --jobs-out jobs.csv");
    let jobs = columns(&folder.text("jobs.csv"), ["processors", "start", "end", "request"]);
    let within = |[processors, start, end, request]: &[i64; 4]| {
        (3..=5).contains(processors) && (60..=120).contains(request) && end - start == *request
    };
    assert!(jobs.len() == 300 && jobs.iter().all(within), "{jobs:?}");
}

#[test]
fn a_converted_trace_is_the_same_trace() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    folder.succeed("workload convert trace.swf plain.swf");
    folder.succeed("workload convert plain.swf packed.swf.gz");
    folder.succeed("workload convert packed.swf.gz again.swf --strict");
    assert_eq!(folder.text("plain.swf"), THREE_JOBS);
    assert_eq!(gunzip(&folder.bytes("packed.swf.gz")), THREE_JOBS);
    assert_eq!(folder.text("again.swf"), THREE_JOBS);
}

#[test]
fn convert_writes_what_was_mended_chosen_and_scaled() {
    let trace = "; MaxProcs: 10\n1 10 -1 30 4 -1 -1 -1 20\n2 0 -1 5 2 -1 -1 2 -1\n3 -1 -1 5 2 -1 -1 2 9\n4 30 -1 5 2 -1 -1 2 9\n";
    let folder = Folder::with("trace.swf", trace);
    folder.succeed("workload convert trace.swf out.swf --to 30 --load 2");
    let expected = "\
; MaxProcs: 10
2 0 -1 5 2 -1 -1 2 5 -1 -1 -1 -1 -1 -1 -1 -1 -1
1 5 -1 20 4 -1 -1 4 20 -1 -1 -1 -1 -1 -1 -1 -1 -1
";
    assert_eq!(folder.text("out.swf"), expected);
    folder.succeed("simulate out.swf --strict");
}

#[test]
fn convert_tells_the_machine_where_the_header_did_not() {
    let folder = Folder::with("trace.swf", "1 0 -1 10 1 -1 -1 1 20\n");
    folder.succeed("workload convert trace.swf out.swf --processors 7");
    assert_eq!(folder.succeed("simulate out.swf --json").json()["machine"], 7);
}

#[test]
fn requests_and_remaining_jobs_are_together_all_jobs() {
    let folder = Folder::new();
    folder.succeed("workload generate --jobs 205 --processors 64 --output trace.swf");
    let line =
        "workload reservations trace.swf --block 10 --book-ahead 2h --window 30m --jobs-out jobs.swf.gz";
    let ran = folder.succeed(&format!("{line} --output requests.csv.gz"));
    assert!(ran.err.contains("20 of 205 jobs became requests\n"), "{ran:?}");
    let requests = gunzip(&folder.bytes("requests.csv.gz"));
    assert_eq!(folder.succeed(line).out, requests, "standard output is the default");
    let requested: BTreeSet<i64> = columns(&requests, ["job"]).into_iter().flatten().collect();
    folder.succeed("simulate jobs.swf.gz --strict --jobs-out jobs.csv");
    let stayed: BTreeSet<i64> = columns(&folder.text("jobs.csv"), ["job"]).into_iter().flatten().collect();
    assert_eq!((requested.len(), stayed.len()), (20, 185));
    assert_eq!(&requested | &stayed, (1..=205).collect());
    for [submit, earliest, latest, duration] in
        columns(&requests, ["submit", "earliest_start", "latest_end", "duration"])
    {
        assert_eq!((earliest - submit, latest - earliest), (7200, duration + 1800));
    }
    let results = folder.succeed("simulate jobs.swf.gz --reservations requests.csv.gz --json").json();
    assert_eq!(results["schedulers"][0]["reservations"]["requested"], 20);
}

#[test]
fn info_shows_a_trace_in_numbers() {
    let trace = "; Computer: Abacus\n; MaxProcs: 10\n1 0 -1 60 1 -1 -1 1 120\n2 3600 -1 120 3 -1 -1 3 120\n";
    let folder = Folder::with("trace.swf", trace);
    let table = folder.succeed("workload info trace.swf").out;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        &["Computer", "Abacus"][..],
        &["machine", "10", "processors"],
        &["jobs", "2"],
        &["span", "1h", "00m"],
        &["serial", "jobs", "50.0%"],
        &["run", "over", "request,", "mean", "75.0%"],
        &["run", "time", "1m", "30s", "1m", "00s", "2m", "00s"],
    ] {
        assert!(rows.iter().any(|shown| shown == row), "{row:?} is missing: {table}");
    }
}

#[test]
fn info_as_json_has_the_header_too() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    let info = folder.succeed("workload info trace.swf --json").json();
    assert_eq!(info["header"], json!({"MaxProcs": ["10"], "UnixStartTime": ["1000000000"]}));
    assert_eq!(info["cleaning"]["kept"], 3);
    let statistics = &info["statistics"];
    assert_eq!((&statistics["jobs"], &statistics["machine"]), (&json!(3), &json!(10)));
    assert_eq!(statistics["run"], json!({"mean": 370.0, "median": 100, "p95": 1000}));
    assert!(statistics["offered_load"].is_null(), "all at one instant");
}

#[test]
fn the_output_of_sacct_is_imported_and_simulated_and_bad_lines_are_told_by_number() {
    let sacct = "\
JobID|User|Submit|Start|End|Timelimit|ReqCPUS|State
1|ada|2026-11-17T09:00:00|2026-11-17T09:00:10|2026-11-17T10:00:10|02:00:00|8|COMPLETED
1.batch||2026-11-17T09:00:10|2026-11-17T09:00:10|2026-11-17T10:00:10|||COMPLETED
2|bob|2026-11-17T09:30:00|2026-11-17T10:00:10|2026-11-17T10:30:10|01:00:00|6|FAILED
3|bob|2026-11-17T09:30:00|now|2026-11-17T10:30:10|01:00:00|6|FAILED
4|bob|2026-11-17T09:40:00|Unknown|Unknown|01:00:00|6|PENDING
";
    let folder = Folder::with("jobs.txt", sacct);
    let ran = folder.succeed("workload import jobs.txt --zone Europe/Berlin --processors 10 -o log.swf");
    for told in ["2 jobs of 6 lines", "1  steps of jobs", "1  jobs that had not ended", "jobs.txt:5: "] {
        assert!(ran.err.contains(told), "{told}: {ran:?}");
    }
    let log = folder.text("log.swf");
    for line in ["; UnixStartTime: 1794902400", "; MaxProcs: 10", "; Note: imported from jobs.txt"] {
        assert!(log.lines().any(|found| found == line), "{line}: {log}");
    }
    assert!(!log.contains("ada"), "names only on request: {log}");
    let results = folder.succeed("simulate log.swf --strict --json").json();
    assert_eq!(results["schedulers"][0]["jobs"], 2);
    folder.fail("workload import jobs.txt --strict", &["jobs.txt:5:", "\"now\"", "start"]);
    folder.fail("workload import jobs.txt --zone Nowhere", &["time zone", "Europe/Berlin"]);
}

#[test]
fn a_pbs_log_of_several_days_is_imported_as_one() {
    let folder = Folder::new();
    folder.write("20261117", "11/17/2026 09:00:00;S;1.north;user=ada queue=workq ctime=1000 start=1010\n");
    folder.write(
        "20261118",
        "11/18/2026 09:00:00;E;1.north;user=ada queue=workq ctime=1000 start=1010 end=1600 \
         Resource_List.select=2:ncpus=4 Resource_List.walltime=01:00:00 Exit_status=0\n",
    );
    let ran = folder.succeed("workload import 20261117 20261118 --processors 16 --names");
    assert!(
        ran.out.ends_with(
            "; Queue: 1 workq\n; User: 1 ada\n1 0 10 590 8 -1 -1 8 3600 -1 1 1 -1 -1 1 -1 -1 -1\n"
        )
    );
    assert!(!ran.err.contains("not ended"), "{ran:?}");
}

#[test]
fn fields_beyond_the_eighteenth_are_ignored_and_counted() {
    let trace = THREE_JOBS.replace("-1 -1\n", "-1 -1 7 x 3.5\n");
    let folder = Folder::with("trace.swf", &trace);
    let info = folder.succeed("workload info trace.swf --json").json();
    assert_eq!(info["cleaning"]["mended"], json!({ "extra-fields-ignored": 3 }));
    folder.succeed("workload convert trace.swf out.swf");
    assert_eq!(folder.text("out.swf"), THREE_JOBS);
}
