//! A whole log through the simulator, on one core: reading and cleaning it, then each scheduler, and a bare EASY
//! loop on the same jobs beside them. The log is SDSC Blue Horizon where it lies beside the project, else one of
//! the same size drawn from a model.

use bookahead_benches::{bare_easy, people};
use bookahead_plan::{Capacity, Policy};
use bookahead_sim::{Fate, Job, Overrun, Site, simulate};
use bookahead_workload::models::{Lublin, Setting, header, records};
use bookahead_workload::{LoadOptions, Trace, swf};
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROUNDS: usize = 7;

fn main() {
    let (path, name) = log();
    let (load, trace) = fastest(|| Trace::load(&path, &LoadOptions::default()).expect("a sound log"));
    let jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
    let lines = trace.report.read as f64;
    println!("{name}: {} job lines, {} jobs, {} processors", trace.report.read, jobs.len(), trace.machine);
    println!("{:<24} {:>10} {:>12} {:>24}", "", "time", "Mjobs/s", "with reading, Mjobs/s");
    println!("{:<24} {:>10} {:>12.2}", "reading and cleaning", people(load), lines / load * 1e3);
    let mut ours = f64::NAN;
    let mut starts = Vec::new();
    for policy in [Policy::FCFS, Policy::CONSERVATIVE, Policy::EASY] {
        let site = Site { policy, capacity: trace.machine, overrun: Overrun::Kill };
        let (time, outcome) = fastest(|| simulate(site, &jobs, &[], |_| {}));
        let speed = |time: f64| lines / time * 1e3;
        println!(
            "{:<24} {:>10} {:>12.2} {:>24.2}",
            policy.to_string(),
            people(time),
            speed(time),
            speed(time + load)
        );
        ours = time;
        starts = outcome
            .jobs
            .iter()
            .map(|fate| if let Fate::Ran(ran) = fate { ran.start.0 } else { -1 })
            .collect();
    }
    let start = Instant::now();
    let bare = bare_easy(trace.machine.0, &jobs);
    let time = start.elapsed().as_nanos() as f64;
    let same = if bare == starts { "the same starts" } else { "OTHER starts" };
    println!("{:<24} {:>10} {:>12.2}   {same}", "bare EASY loop", people(time), lines / time * 1e3);
    println!("easy is {:.1} times as fast as the bare loop", time / ours);
}

fn fastest<T>(mut call: impl FnMut() -> T) -> (f64, T) {
    let mut best: Option<(f64, T)> = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let value = call();
        let time = start.elapsed().as_nanos() as f64;
        if best.as_ref().is_none_or(|(least, _)| time < *least) {
            best = Some((time, value));
        }
    }
    best.expect("at least one round")
}

fn log() -> (PathBuf, &'static str) {
    let real =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces/SDSC-BLUE-2000-4.2-cln.swf.gz");
    if real.exists() {
        return (real, "SDSC Blue Horizon");
    }
    let setting = Setting { jobs: 243_306, processors: Capacity(1_152), load: Some(0.767), seed: 1 };
    let jobs = Lublin { setting, ..Lublin::default() }.generate().expect("a sound setting");
    let path = std::env::temp_dir().join("bookahead-bench.swf.gz");
    swf::write_file(&path, &header("lublin", &setting), &records(&jobs))
        .expect("a writable temporary folder");
    (path, "drawn from the Lublin-Feitelson model, of the size of SDSC Blue Horizon")
}
