//! A whole log through the simulator, on one core: reading and cleaning, then each scheduler, beside a bare
//! EASY loop of the plainest kind on the same jobs.

use bookahead_benches::people;
use bookahead_plan::Policy;
use bookahead_sim::{Fate, Job, Overrun, Site, simulate};
use bookahead_workload::{LoadOptions, Trace};
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 5;

fn best<T>(mut call: impl FnMut() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut result = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let value = call();
        best = best.min(start.elapsed().as_nanos() as f64);
        result = Some(value);
    }
    (best, result.expect("at least one round"))
}

fn main() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces/SDSC-BLUE-2000-4.2-cln.swf.gz");
    let (load, trace) = best(|| Trace::load(&path, &LoadOptions::default()).expect("loads"));
    let jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
    println!("{} jobs", jobs.len());
    println!("load {}", people(load));
    for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE] {
        let site = Site { policy, capacity: trace.machine, overrun: Overrun::Kill };
        let (time, outcome) = best(|| simulate(site, &jobs, &[], |_| {}));
        let ran = outcome.jobs.iter().filter(|fate| matches!(fate, Fate::Ran(_))).count();
        println!(
            "{policy} {} for {ran}: {:.2} M jobs/s; with load {:.2}",
            people(time),
            ran as f64 / time * 1e3,
            trace.report.read as f64 / (time + load) * 1e3
        );
    }
}
