//! `simulate` on traces that are small enough to compute the schedule by hand: start times and statistics.

use crate::folder::{FIVE_JOBS, Folder, THREE_JOBS};
use serde_json::{Value, json};

#[test]
fn a_filler_that_would_delay_the_head_waits() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    assert_eq!(folder.starts(""), [(11, 0), (12, 100), (13, 110)]);
}

#[test]
fn each_scheduler_makes_its_own_schedule() {
    let folder = Folder::with("trace.swf", FIVE_JOBS);
    assert_eq!(folder.starts("--scheduler fcfs"), [(1, 0), (2, 100), (3, 200), (4, 300), (5, 300)]);
    assert_eq!(folder.starts("--scheduler easy"), [(1, 0), (2, 100), (3, 1000), (4, 0), (5, 0)]);
    assert_eq!(folder.starts("--scheduler conservative"), [(1, 0), (2, 100), (3, 200), (4, 300), (5, 0)]);
    assert_eq!(folder.starts("--scheduler easy[promises=2]"), folder.starts("-s conservative"));
    assert_eq!(folder.starts(""), folder.starts("--scheduler easy"), "easy is the default");
}

#[test]
fn the_table_shows_figures_as_people_read_them() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    let table = folder.succeed("simulate trace.swf").out;
    let expected = "\
trace.swf: 3 jobs on 10 processors
                          easy
──────────────────────────────
jobs                         3
mean wait               1m 10s
median wait             1m 40s
95% wait at most        1m 50s
longest wait            1m 50s
mean response           7m 20s
mean bounded slowdown     4.37
makespan               18m 30s
utilisation by jobs      26.1%
";
    assert_eq!(table, expected);
}

#[test]
fn json_has_the_same_figures_in_seconds() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    let results = folder.succeed("simulate trace.swf --json").json();
    let expected = json!({
        "trace": "trace.swf",
        "machine": 10,
        "unit": 1,
        "cleaning": {"read": 3, "kept": 3, "outside_range": 0, "dropped": {}, "mended": {}},
        "schedulers": [{
            "scheduler": "easy",
            "jobs": 3,
            "mean_wait": 70.0,
            "median_wait": 100,
            "p95_wait": 110,
            "max_wait": 110,
            "mean_response": 440.0,
            "mean_bounded_slowdown": 4.37,
            "makespan": 1110,
            "utilisation": 2900.0 / 11_100.0,
        }],
    });
    assert_eq!(results, expected);
}

#[test]
fn compare_without_a_list_runs_all_three() {
    let folder = Folder::with("trace.swf", FIVE_JOBS);
    let results = folder.succeed("simulate trace.swf --compare --json").json();
    assert_eq!(mean_waits(&results), [("fcfs", 180.0), ("easy", 220.0), ("conservative", 120.0)]);
}

#[test]
fn compare_keeps_the_order_of_its_list() {
    let folder = Folder::with("trace.swf", FIVE_JOBS);
    let results =
        folder.succeed("simulate trace.swf --compare conservative,easy[promises=2],fcfs --json").json();
    assert_eq!(mean_waits(&results), [("conservative", 120.0), ("easy[promises=2]", 120.0), ("fcfs", 180.0)]);
    let table = folder.succeed("simulate trace.swf --compare conservative,fcfs").out;
    let head: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(head, ["conservative", "fcfs"]);
}

fn mean_waits(results: &Value) -> Vec<(&str, f64)> {
    let runs = results["schedulers"].as_array().unwrap();
    runs.iter().map(|run| (run["scheduler"].as_str().unwrap(), run["mean_wait"].as_f64().unwrap())).collect()
}

const REQUESTS: &str = "\
job,submit,earliest_start,latest_end,duration,processors
71,0,100,200,50,11
72,0,100,200,50,10
73,0,100,150,50,1
74,0,100,900,50,1
";

#[test]
fn reservations_are_granted_where_they_fit_and_jobs_keep_clear_of_them() {
    let jobs = "; MaxProcs: 10\n1 0 -1 100 8 -1 -1 8 100\n2 10 -1 50 3 -1 -1 3 100\n";
    let folder = Folder::with("trace.swf", jobs);
    folder.write("requests.csv", REQUESTS);
    assert_eq!(folder.starts(""), [(1, 0), (2, 100)]);
    assert_eq!(folder.starts("--reservations requests.csv"), [(1, 0), (2, 150)]);
    let results = folder.succeed("simulate trace.swf --reservations requests.csv --json").json();
    // Wider than the machine: refused. Ten processors: 100 to 150. The next finds no room, the last gets 150 to 200.
    let reservations = &results["schedulers"][0]["reservations"];
    assert_eq!((&reservations["requested"], &reservations["granted"]), (&json!(4), &json!(2)));
    assert_eq!(reservations["jobs_killed"], 0);
    let table = folder.succeed("simulate trace.swf --reservations requests.csv").out;
    assert!(table.contains("reservations granted   2 of 4\n"), "{table}");
}

#[test]
fn requests_need_not_be_in_order() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    let head = "job,submit,earliest_start,latest_end,duration,processors";
    folder.write("requests.csv", format!("{head}\n2,50,5000,6000,10,10\n1,0,5000,6000,10,10\n"));
    let results = folder.succeed("simulate trace.swf --reservations requests.csv --json").json();
    assert_eq!(results["schedulers"][0]["reservations"]["granted"], 2);
}

#[test]
fn jobs_wider_than_the_machine_are_counted_and_the_others_run() {
    let folder = Folder::with("trace.swf", format!("{THREE_JOBS}14 5 -1 10 11 -1 -1 11 10\n"));
    let ran = folder.succeed("simulate trace.swf --json");
    assert_eq!(ran.json()["cleaning"]["dropped"]["above-machine"], 1);
    assert_eq!(ran.json()["schedulers"][0]["jobs"], 3);
    assert!(ran.err.contains("the job needs more processors than the machine has"), "{ran:?}");
}

#[test]
fn requests_are_placed_as_told() {
    let folder = Folder::with(
        "trace.swf",
        "; MaxProcs: 10\n1 0 -1 100 6 -1 -1 6 100 -1 1\n2 1 -1 50 10 -1 -1 10 50 -1 1\n3 2 -1 100 5 -1 -1 5 100 -1 1\n",
    );
    folder.write(
        "requests.csv",
        "job,submit,earliest_start,latest_end,duration,processors\n9,10,160,400,20,6\n",
    );
    let granted = |options: &str| {
        folder.succeed(&format!(
            "simulate trace.swf --reservations requests.csv --reservations-out out.csv {options}"
        ));
        folder.text("out.csv").lines().nth(1).unwrap().split(',').nth(6).unwrap().to_owned()
    };
    // At the earliest fit it delays the third job from 150 to 180; with local jobs preferred it waits for the end of
    // that job.
    assert_eq!(granted(""), "160");
    assert_eq!(granted("--method local-jobs-preferred --prefer earliest"), "250");
    assert_eq!(granted("--max-delayed 0 --prefer earliest"), "250");
    assert_eq!(granted("--max-delay 30s --prefer earliest"), "160");
    // With any method, the preference for the least impact chooses the first slot that delays no job.
    assert_eq!(granted("--method earliest --gap 10s --prefer earliest"), "160");
    assert_eq!(granted("--method earliest --gap 10s --prefer impact"), "252");
}

#[test]
fn a_request_must_give_as_much_notice_as_the_queue_would_make_it_wait() {
    // The second job starts at 100 after a wait of 100; the mean of both waits is 50 when the request is made at 110.
    let folder = Folder::with(
        "trace.swf",
        "; MaxProcs: 10\n1 0 -1 100 10 -1 -1 10 100 -1 1\n2 0 -1 5 10 -1 -1 10 5 -1 1\n",
    );
    let header = "job,submit,earliest_start,latest_end,duration,processors";
    folder.write("requests.csv", format!("{header}\n8,110,120,400,20,6\n9,110,120,140,20,4\n"));
    let starts = |options: &str| -> Vec<String> {
        folder.succeed(&format!(
            "simulate trace.swf --reservations requests.csv --reservations-out out.csv {options}"
        ));
        let text = folder.text("out.csv");
        text.lines().skip(1).map(|line| line.split(',').nth(6).unwrap().to_owned()).collect()
    };
    assert_eq!(starts(""), ["120", "120"]);
    assert_eq!(starts("--notice 1"), ["160", ""], "the second has no room to be later");
    assert_eq!(starts("--notice 2 --method what-if --prefer earliest"), ["210", ""]);
    folder.fail("simulate trace.swf --reservations requests.csv --notice -1", &["between 0 and 1000"]);
    folder.run("simulate trace.swf --notice 1").assert_refused(2, &["--reservations"]);
}
