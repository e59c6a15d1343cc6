//! Compares start times with those on which independent simulators agree, if the files are present beside the project.

use crate::run;
use bookahead_plan::Policy;
use bookahead_sim::{Fate, Job, Overrun, Site};
use bookahead_workload::{LoadOptions, Trace};
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

fn shared(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(file);
    if !path.exists() {
        eprintln!("left out: no {file} beside the project");
        return None;
    }
    Some(path)
}

/// Lines of `job,submit,start`.
fn oracle(path: &Path) -> Vec<[i64; 3]> {
    let lines = BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines().skip(1);
    let numbers = |line: String| -> Vec<i64> { line.split(',').map(|n| n.parse().unwrap()).collect() };
    lines.map(|line| numbers(line.unwrap()).try_into().unwrap()).collect()
}

fn equals(trace: &str, oracle_name: &str, first: Option<usize>, mean_wait: f64) {
    let policy: Policy = oracle_name.rsplit('.').next().unwrap().parse().unwrap();
    let (Some(trace), Some(expected)) =
        (shared(&format!("traces/{trace}.swf.gz")), shared(&format!("oracles/{oracle_name}.csv.gz")))
    else {
        return;
    };
    let trace = Trace::load(&trace, &LoadOptions { first, ..LoadOptions::default() }).unwrap();
    let jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
    let outcome = run(Site { policy, capacity: trace.machine, overrun: Overrun::Kill }, &jobs);
    let ours: Vec<[i64; 3]> = trace
        .jobs
        .iter()
        .zip(&outcome.jobs)
        .map(|(job, fate)| match fate {
            Fate::Ran(ran) => [job.number, job.submit.0, ran.start.0],
            Fate::TooWide => panic!("job {} was dropped by the reader if it is too wide", job.number),
        })
        .collect();
    let expected = oracle(&expected);
    assert_eq!(ours.len(), expected.len());
    for (ours, expected) in ours.iter().zip(&expected) {
        assert_eq!(ours, expected, "{oracle_name}: job, submit, start");
    }
    let waits: i64 = ours.iter().map(|[_, submit, start]| start - submit).sum();
    assert!((waits as f64 / ours.len() as f64 - mean_wait).abs() < 0.001);
}

const KTH: &str = "KTH-SP2-1996-2.1-cln";
const BLUE: &str = "SDSC-BLUE-2000-4.2-cln";
const CTC: &str = "CTC-SP2-1996-3.1-cln";

#[test]
fn fcfs_on_all_of_kth() {
    equals(KTH, "kth.fcfs", None, 353_949.932);
}

#[test]
fn easy_on_all_of_kth() {
    equals(KTH, "kth.easy", None, 6_837.485);
}

#[test]
fn conservative_on_all_of_kth() {
    equals(KTH, "kth.conservative", None, 7_939.611);
}

#[test]
fn fcfs_on_the_first_2000_of_blue() {
    equals(BLUE, "blue-2000.fcfs", Some(2_000), 4_747.043);
}

#[test]
fn easy_on_the_first_2000_of_blue() {
    equals(BLUE, "blue-2000.easy", Some(2_000), 1_004.129);
}

#[test]
fn conservative_on_the_first_2000_of_blue() {
    equals(BLUE, "blue-2000.conservative", Some(2_000), 1_076.508);
}

#[test]
fn easy_on_the_first_20000_of_ctc() {
    equals(CTC, "ctc-20000.easy", Some(20_000), 12_686.538);
}

#[test]
fn conservative_on_the_first_20000_of_ctc() {
    equals(CTC, "ctc-20000.conservative", Some(20_000), 18_502.559);
}
