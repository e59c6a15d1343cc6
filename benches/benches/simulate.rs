//! A complete log through the simulator, on one core: reading and cleaning, then each scheduler, and a plain EASY loop
//! on the same jobs for comparison. The log is SDSC Blue Horizon if it is present beside the project, else one of the
//! same size drawn from a model.

use bookahead_benches::{bare_easy, people};
use bookahead_plan::{Capacity, Policy};
use bookahead_sim::{EarliestFit, Fate, Job, Overrun, Site, simulate};
use bookahead_workload::models::{Lublin, Setting, header, records};
use bookahead_workload::trace::scale_load;
use bookahead_workload::{LoadOptions, Trace, swf};
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROUNDS: usize = 7;

fn main() {
    let (path, name) = log();
    let (load, mut trace) = fastest(|| Trace::load(&path, &LoadOptions::default()).expect("a sound log"));
    let lines = trace.report.read as f64;
    println!("{name}: {} job lines, {} jobs, {} processors", lines, trace.jobs.len(), trace.machine);
    println!("{:<24} {:>10} {:>12} {:>24}", "", "time", "Mjobs/s", "with reading, Mjobs/s");
    println!("{:<24} {:>10} {:>12.2}", "reading and cleaning", people(load), lines / load * 1e3);
    for policy in [Policy::FCFS, Policy::CONSERVATIVE, Policy::EASY] {
        let (time, _) = schedule(policy, &trace);
        let speed = |time: f64| lines / time * 1e3;
        println!(
            "{:<24} {:>10} {:>12.2} {:>24.2}",
            policy.to_string(),
            people(time),
            speed(time),
            speed(time + load)
        );
    }
    println!("\nEASY compared with a plain loop over lists, both without reading");
    println!("{:<24} {:>10} {:>10} {:>7}", "", "ours", "bare loop", "ratio");
    for factor in [1.0, 1.2, 1.4] {
        scale_load(&mut trace.jobs, factor).expect("a sound factor");
        let (time, starts) = schedule(Policy::EASY, &trace);
        let start = Instant::now();
        let same = bare_easy(trace.machine.0, &jobs(&trace)) == starts;
        let bare = start.elapsed().as_nanos() as f64;
        let times = format!("load times {factor}");
        let ratio = if same { format!("{:.1}", bare / time) } else { "other starts!".to_owned() };
        println!("{times:<24} {:>10} {:>10} {ratio:>7}", people(time), people(bare));
        scale_load(&mut trace.jobs, 1.0 / factor).expect("a sound factor");
    }
}

fn jobs(trace: &Trace) -> Vec<Job> {
    trace.jobs.iter().map(Job::from).collect()
}

/// Duration, and the start of every job.
fn schedule(policy: Policy, trace: &Trace) -> (f64, Vec<i64>) {
    let jobs = jobs(trace);
    let site = Site { policy, capacity: trace.machine, overrun: Overrun::Kill };
    let (time, outcome) = fastest(|| simulate(site, &jobs, &[], &mut EarliestFit, |_| {}));
    let start = |fate: &Fate| if let Fate::Ran(ran) = fate { ran.start.0 } else { -1 };
    (time, outcome.jobs.iter().map(start).collect())
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
