//! Sweeps on this machine.

use super::{files, logged, rows, what_if, with_trace};
use crate::folder::Folder;
use bookahead_tests::polling::until_true;
use std::process::Stdio;

const SWEEP: &str = "command = \"simulate\"\ninput = \"trace.swf\"\nout = \"out\"\nchunk = 5\n";

#[test]
fn each_row_has_what_a_run_of_its_own_prints() {
    let folder = with_trace();
    let parameters =
        "[parameters]\nscheduler = [\"easy\", \"fcfs\"]\nload = [1, 1.5]\nblock = 8\nseed = \"1..2\"\n";
    folder.write("sweep.toml", format!("{SWEEP}{parameters}"));
    let ran = folder.succeed("sweep sweep.toml");
    assert!(ran.err.contains("ran 8 runs") && ran.err.contains("8 runs done; results: "), "{ran:?}");
    let found = rows(&folder.path("out/runs"));
    assert_eq!((found.len(), files(&folder.path("out/runs")).len()), (8, 2));
    for (scheduler, load, seed) in [("easy", 1.0, 1), ("fcfs", 1.5, 2)] {
        let options = format!("--scheduler {scheduler} --load {load} --block 8 --seed {seed}");
        // As text: a parser of JSON may not keep the last digit of a number.
        let alone = folder.succeed(&format!("simulate trace.swf {options} --json")).out;
        let row = found.iter().find(|row| {
            let parts = [format!("\"{scheduler}\""), format!("load: {load:?}"), format!("seed: {seed}")];
            parts.iter().all(|part| row.contains(part))
        });
        let row = row.unwrap_or_else(|| panic!("{scheduler} {load} {seed}: {found:#?}"));
        for name in ["mean_wait", "makespan", "granted"] {
            let (_, rest) = alone.split_once(&format!("\"{name}\": ")).unwrap();
            let value = rest.split([',', '\n']).next().unwrap();
            assert!(row.contains(&format!("{name}: {value},")), "{name}: {value} in {row}");
        }
    }
    assert!(!folder.path("out/work").exists(), "nothing is left over");
}

#[test]
fn what_is_done_is_not_done_again_and_what_is_new_is() {
    let folder = with_trace();
    folder.write("sweep.toml", format!("{SWEEP}[parameters]\nload = [1, 2]\nscheduler = \"easy\"\n"));
    assert!(folder.succeed("sweep sweep.toml").err.contains("ran 2 runs"));
    let first = files(&folder.path("out/runs"));
    let again = folder.succeed("sweep sweep.toml").err;
    assert!(again.contains("2 runs of 2 are done already") && !again.contains("ran "), "{again}");
    // Another order, and one value more.
    folder.write("sweep.toml", format!("{SWEEP}[parameters]\nscheduler = \"easy\"\nload = [1, 1.5, 2]\n"));
    assert!(folder.succeed("sweep sweep.toml").err.contains("ran 1 run\n"));
    let second = files(&folder.path("out/runs"));
    assert!(first.iter().all(|(name, bytes)| second.get(name) == Some(bytes)), "files stay as they are");
    // Another trace under the same name.
    folder.succeed("workload generate --jobs 300 --seed 4 --output trace.swf");
    assert!(folder.succeed("sweep sweep.toml").err.contains("ran 3 runs"));
}

#[test]
fn a_killed_sweep_continues_and_no_run_that_ended_runs_twice() {
    let folder = Folder::new();
    folder.write("all.toml", what_if("all", 4, ""));
    folder.succeed("sweep all.toml");
    folder.write("sweep.toml", what_if("out", 4, ""));
    let mut ended = 0;
    for wanted in [5, 60, 120] {
        let mut command = folder.command("sweep sweep.toml --threads 2");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let out = folder.path("out");
        until_true("some runs have ended", || rows_if_any(&out) + logged(&out) >= wanted);
        child.kill().unwrap();
        child.wait().unwrap();
        ended = rows_if_any(&out) + logged(&out);
        assert!((wanted..288).contains(&ended), "killed in the middle: {ended}");
    }
    let last = folder.succeed("sweep sweep.toml").err;
    assert!(last.contains(&format!("{ended} runs of 288 are done already")), "{last}");
    assert!(last.contains(&format!("ran {} run", 288 - ended)), "{last}");
    assert_eq!(rows(&folder.path("out/runs")), rows(&folder.path("all/runs")));
}

/// Rows of finished chunks.
fn rows_if_any(out: &std::path::Path) -> usize {
    let runs = out.join("runs");
    if runs.exists() { rows(&runs).len() } else { 0 }
}

#[test]
fn a_killed_chunk_continues_behind_its_last_run() {
    let folder = Folder::new();
    folder.write("sweep.toml", what_if("out", 3, "").replace("chunk = 27", "chunk = 300"));
    let start = |line: &str| {
        let mut command = folder.command(line);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let out = folder.path("out");
    let mut child = start("sweep sweep.toml --threads 1");
    until_true("some runs have ended", || logged(&out) >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut child = start("sweep chunk out 0");
    until_true("some runs have ended", || logged(&out) >= 10);
    folder.fail("sweep chunk out 0", &["chunk 0 is run by another process"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = logged(&out);
    // A part of a line, as a kill in the middle of a write leaves it.
    let plan = std::fs::read_dir(out.join("work")).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read(plan.join("00000.log")).unwrap();
    std::fs::write(plan.join("00000.log"), [&log[..], b"{\"run\":7"].concat()).unwrap();
    let last = folder.succeed("sweep chunk out 0").err;
    assert!(last.contains(&format!("chunk 0: ran {} of 216 runs", 216 - ended)), "{last}");
    assert_eq!(rows(&folder.path("out/runs")).len(), 216);
}

#[test]
fn runs_that_fail_are_listed_with_the_command_that_repeats_them() {
    let folder = with_trace();
    // No job was submitted before the trace begins.
    folder.write("sweep.toml", format!("{SWEEP}[parameters]\nload = [1, 2]\nto = [\"-5\", \"100000\"]\n"));
    let ran = folder.run("sweep sweep.toml");
    ran.assert_refused(
        1,
        &["run 0 failed: ", "  bookahead simulate ./trace.swf --load=1 --to=-5", "2 runs failed"],
    );
    assert_eq!(rows(&folder.path("out/runs")).len(), 2, "the others are done");
    let again = folder.run("sweep sweep.toml");
    again.assert_refused(1, &["2 runs of 4 are done already", "ran 2 runs"]);
    let repeated = folder.run("simulate ./trace.swf --load=1 --to=-5");
    assert_eq!(repeated.code, Some(1), "{repeated:?}");
}

#[test]
fn parameters_can_be_folders_and_jobs_have_a_table_of_their_own() {
    let folder = with_trace();
    let more = "jobs = true\npartition = [\"scheduler\"]\n[parameters]\nload = [1, 2]\n";
    let schedulers = "scheduler = [\"easy\", \"easy[order=sjf]\"]\n";
    folder.write("sweep.toml", format!("{SWEEP}{more}{schedulers}"));
    folder.succeed("sweep sweep.toml");
    let folders: Vec<String> = files(&folder.path("out/runs"))
        .keys()
        .map(|name| name.parent().unwrap().display().to_string())
        .collect();
    assert_eq!(folders, ["command=simulate/scheduler=easy", "command=simulate/scheduler=easy[order%3Dsjf]"]);
    let jobs = rows(&folder.path("out/jobs"));
    assert_eq!(jobs.len(), 4 * 300);
    folder.succeed("simulate trace.swf --load 2 --jobs-out alone.csv");
    let alone = folder.text("alone.csv");
    let fields: Vec<&str> = alone.lines().nth(7).unwrap().split(',').collect();
    let [job, submit, start, end, processors, wait, request] = fields[..] else { panic!("{fields:?}") };
    let row = format!(
        "job: {job}, submit: {submit}, start: {start}, end: {end}, processors: {processors}, \
         wait: {wait}, request: {request}"
    );
    assert!(jobs.iter().any(|found| found.contains(&row)), "{row}");
}

#[test]
fn a_description_that_cannot_work_is_refused_before_the_first_run() {
    let folder = with_trace();
    for (more, words) in [
        ("[parameters]\nloud = [1, 2]\n", &["sweep.toml", "unexpected argument '--loud'"][..]),
        ("[parameters]\nscheduler = [\"easy\", \"best\"]\n", &["scheduler = best", "invalid value 'best'"]),
        ("[parameters]\ncompare = \"easy,fcfs\"\n", &["use scheduler = "]),
        ("[parameters]\njson = true\n", &["options that write output are not for a sweep"]),
        ("[parameters]\nload = [1, 1]\n", &["sweep.toml, line 6: parameter load: it has 1 twice"]),
        ("colour = 1\n", &["not a valid description of a sweep", "line 5"]),
    ] {
        folder.write("sweep.toml", format!("{SWEEP}{more}"));
        folder.fail("sweep sweep.toml", words);
    }
    folder.write("sweep.toml", "command = \"simulate\"\ninput = \"none.swf\"\nout = \"out\"\n");
    folder.fail("sweep sweep.toml", &["cannot read ./none.swf"]);
    folder.fail("sweep none.toml", &["cannot read none.toml"]);
    folder.fail("sweep report out", &["cannot read out/sweep.json"]);
}

#[test]
fn grids_are_swept_over_seeds_and_values_of_their_description() {
    let folder = Folder::new();
    let example =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grid/tele-immersion.toml");
    folder.write("grid.toml", std::fs::read_to_string(example).unwrap());
    folder.write(
        "sweep.toml",
        "command = \"simulate-grid\"\ninput = \"grid.toml\"\nout = \"out\"\n[parameters]\nseed = \"1..2\"\n\
         \"network.lost\" = [0.0, 5.0]\n",
    );
    folder.succeed("sweep sweep.toml");
    let found = rows(&folder.path("out/runs"));
    assert_eq!(found.len(), 4);
    assert!(
        found.iter().all(|row| row.contains("requests: 1,") && row.contains("violations: 0")),
        "{found:#?}"
    );
    let alone = folder.succeed("simulate-grid grid.toml --seed 2 --json").json();
    let took = alone["requests"][0]["took"].as_f64().unwrap();
    assert!(
        found
            .iter()
            .any(|row| { row.contains("seed: 2,") && row.contains(&format!("mean_answer: {took:?}")) })
    );
    assert_eq!(folder.succeed("sweep one out 2").json()["mean_answer"], took);
    folder.write(
        "bad.toml",
        "command = \"simulate-grid\"\ninput = \"grid.toml\"\nout = \"bad\"\n[parameters]\n\"site.9.name\" = \"x\"\n",
    );
    folder.fail("sweep bad.toml", &["there is no element 9"]);
}

#[test]
fn experiments_are_swept_over_seeds() {
    let folder = Folder::new();
    folder.write(
        "sweep.toml",
        "command = \"experiment\"\ninput = \"cosy\"\nout = \"out\"\n[parameters]\nquick = true\nseed = \"1..3\"\n",
    );
    folder.succeed("sweep sweep.toml");
    assert_eq!(rows(&folder.path("out/runs")).len(), 3);
    folder.write("bad.toml", what_if("bad", 1, "colour = 1\n"));
    folder.fail("sweep bad.toml", &["unknown parameter colour of what-if"]);
}

#[test]
fn a_report_has_curves_heat_maps_and_a_table() {
    let folder = Folder::new();
    folder.write("sweep.toml", what_if("out", 2, "jobs = 300\n"));
    folder.succeed("sweep sweep.toml --quiet");
    let ran = folder.succeed("sweep report out --metric success,delayed");
    assert!(ran.err.ends_with("report: out/report/index.html\n"), "{ran:?}");
    let page = folder.text("out/report/index.html");
    assert!(
        page.contains("144 of 144 runs done") && page.contains("Mean over 2 seeds with its 95%"),
        "{page}"
    );
    for name in ["success-curves.svg", "success-map-0.svg", "success-map-1.svg", "delayed-curves.svg"] {
        assert!(folder.text(&format!("out/report/{name}")).starts_with("<svg"), "{name}");
    }
    let table = folder.text("out/report/table.csv");
    assert!(table.starts_with("method,book-ahead,window,\"Success, %\",Delayed\n"), "{table}");
    assert_eq!(table.lines().count(), 1 + 72);
    assert!(table.lines().skip(1).all(|line| line.contains(" ± ")), "{table}");
    folder.fail("sweep report out --metric colour", &["unknown result 'colour'; use added_wait, "]);
    folder.fail("sweep report out --x seed", &["seed is not a parameter with several values"]);
}

#[test]
fn simulate_takes_several_loads() {
    let folder = with_trace();
    let all = folder.succeed("simulate trace.swf --load 1,1.5..2:0.5 --compare fcfs,easy --json").json();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 6);
    for (at, load, scheduler) in [(0, "1", "fcfs"), (3, "1.5", "easy"), (4, "2", "fcfs")] {
        let alone = folder
            .succeed(&format!("simulate trace.swf --load {load} --scheduler {scheduler} --json"))
            .json();
        let alone = &alone["schedulers"][0];
        assert_eq!(
            (&all[at]["scheduler"], all[at]["load"].as_f64()),
            (&alone["scheduler"], load.parse().ok())
        );
        for name in ["mean_wait", "makespan", "utilisation"] {
            assert_eq!(all[at][name], alone[name]);
        }
    }
    let table = folder.succeed("simulate trace.swf --load 1,2").out;
    assert!(table.contains("mean wait") && table.contains("easy"), "{table}");
    folder.fail("simulate trace.swf --load 1,2 --svg a.svg", &["files are written for one --load only"]);
    folder.fail("workload info trace.swf --load 1,2", &["--load takes one factor here"]);
    folder.run("simulate trace.swf --load 2..1").assert_refused(2, &["the range 2..1 is empty"]);
}

#[test]
fn generated_grids_are_swept_over_their_options() {
    let folder = Folder::new();
    folder.write(
        "sweep.toml",
        "command = \"simulate-grid\"\nout = \"out\"\n[parameters]\nsites = 12\nbrokers = [0, 3]\nprobe-first = [12, 2]\n\
         requests-per-hour = 7200\nduration = \"10s\"\ncost-per-input = \"100us\"\nseed = \"1..2\"\n",
    );
    folder.succeed("sweep sweep.toml");
    let found = rows(&folder.path("out/runs"));
    assert_eq!(found.len(), 8);
    let line = "simulate-grid --sites=12 --brokers=3 --probe-first=2 --requests-per-hour=7200 --duration=10s \
                --cost-per-input=100us --seed=2";
    let alone = folder.succeed(&format!("{line} --json")).json();
    let one = folder.succeed("sweep one out 7").json();
    for name in ["requests", "booked", "refused", "unanswered", "messages_per_request", "settled_at"] {
        assert_eq!(one[name], alone[name], "{name}");
    }
    let levels = alone["levels"].as_array().unwrap();
    let names = ["first_busy", "lower_busiest", "sites_busiest"];
    for (name, level) in names.iter().zip(levels) {
        assert_eq!(one[name], level["busiest"], "{name}");
    }
    assert_eq!((&one["p99_answer"], &one["violations"]), (&alone["took"]["p99"], &0.into()));
    let row = format!("booked: {}, ", alone["booked"]);
    assert!(found.iter().any(|found| found.contains(&row) && found.contains("brokers: 3, probe_first: 2")));
    // One broker has no level below it.
    assert!(folder.succeed("sweep one out 0").json()["lower_busiest"].is_null());
    folder.succeed("sweep report out");
    let page = folder.text("out/report/index.html");
    assert!(page.contains("<title>Sweep: simulate-grid</title>") && page.contains("Time to the answer, p99"));
}

#[test]
fn a_generated_grid_that_cannot_be_made_is_refused_before_the_first_run() {
    let folder = Folder::new();
    for (parameters, words) in [
        ("seed = 1\n", &["sites is missing; add it to [parameters]"][..]),
        ("sites = [10, 20]\nbrokers = [2, 15]\n", &["brokers = 15", "at most as many as sites"]),
        ("sites = 10\n\"network.lost\" = 1.0\n", &["unexpected argument '--network.lost'"]),
        ("sites = 10\ncost-per-input = \"slow\"\n", &["invalid value 'slow'"]),
    ] {
        let head = "command = \"simulate-grid\"\nout = \"out\"\n[parameters]\n";
        folder.write("sweep.toml", format!("{head}{parameters}"));
        folder.fail("sweep sweep.toml", words);
    }
    folder.write("sweep.toml", "command = \"simulate\"\nout = \"out\"\n");
    folder.fail("sweep sweep.toml", &["sweep.toml: input is missing; set it to a trace"]);
}

#[test]
fn a_chunk_is_not_run_by_a_program_of_another_source() {
    let folder = with_trace();
    folder.write("sweep.toml", format!("{SWEEP}[parameters]\nload = [1, 2]\n"));
    folder.succeed("sweep sweep.toml");
    let plan = folder.text("out/sweep.json");
    let version = plan.split("\"version\": \"").nth(1).unwrap().split('"').next().unwrap();
    let (number, source) = version.split_once('+').unwrap();
    assert_eq!((number, source.len()), (env!("CARGO_PKG_VERSION"), 16), "{version}");
    assert!(rows(&folder.path("out/runs")).iter().all(|row| row.contains(version)), "rows name the source");
    folder.write("out/sweep.json", plan.replace(source, "0123456789abcdef"));
    folder.fail(
        "sweep chunk out 0",
        &["planned by version", "+0123456789abcdef", "a program of the same source"],
    );
}

#[test]
fn curves_show_each_combination_of_few_values() {
    let folder = with_trace();
    let parameters =
        "load = [1, 1.5, 2]\nscheduler = [\"easy\", \"fcfs\"]\nblock = [4, 8]\nseed = \"1..2\"\n";
    folder.write("sweep.toml", format!("{SWEEP}[parameters]\n{parameters}"));
    folder.succeed("sweep sweep.toml");
    folder.succeed("sweep report out --metric mean_wait --x load");
    let table = folder.text("out/report/mean_wait-curves.csv");
    let head = "load,\"easy, block 4\",\"easy, block 8\",\"fcfs, block 4\",\"fcfs, block 8\"\n";
    assert!(table.starts_with(head), "{table}");
    assert_eq!(table.lines().count(), 4, "a row for each load");
    assert!(folder.text("out/report/mean_wait-curves.svg").contains("fcfs, block 8"));
    let page = folder.text("out/report/index.html");
    assert!(page.contains("<a href=\"#sweep-mean-wait\">Mean wait</a>"), "links to its headings");
    assert!(!page.contains("experiments"), "it is not an experiment");
}

#[test]
fn the_sweeps_of_the_page_about_scale_run() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scale");
    let page = examples.join("../../docs/explanation/scale.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("examples/scale")).unwrap();
    for (name, runs) in [("knee", 4), ("fast", 2), ("level-knee", 1), ("brokers", 6), ("sites", 14)] {
        assert!(page.contains(&format!("bookahead sweep examples/scale/{name}.toml")), "{name}");
        let text = std::fs::read_to_string(examples.join(format!("{name}.toml"))).unwrap();
        // One request or two in a tenth of a second, instead of minutes of work.
        let short = text.lines().map(|line| match line.split(' ').next() {
            Some("duration") => "duration = \"100ms\"",
            Some("requests-per-hour") => "requests-per-hour = 36000",
            Some("seed") => "seed = 1",
            _ => line,
        });
        let short: Vec<&str> = short.collect();
        folder.write(&format!("examples/scale/{name}.toml"), short.join("\n"));
        let ran = folder.succeed(&format!("sweep examples/scale/{name}.toml")).err;
        assert!(ran.contains(&format!("ran {runs} run")), "{name}: {ran}");
        assert_eq!(rows(&folder.path(&format!("results/{name}/runs"))).len(), runs, "{name}");
    }
}
