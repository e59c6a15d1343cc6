//! Logs of the Parallel Workloads Archive, if they are present, compared with published counts.

use std::io::Read;
use std::path::{Path, PathBuf};

use bookahead_plan::Capacity;
use bookahead_workload::{LoadOptions, Reason, Trace};
use flate2::read::MultiGzDecoder;

/// The log `name`; `None` with a message if it is missing.
pub(crate) fn log(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {name} is not at hand");
    None
}

#[test]
fn kth_keeps_28467_of_28476_jobs() {
    let Some(path) = log("KTH-SP2-1996-2.1-cln.swf.gz") else { return };
    let options = LoadOptions { processors: Some(Capacity(100)), ..LoadOptions::default() };
    let trace = Trace::load(&path, &options).unwrap();
    assert_eq!((trace.report.read, trace.report.kept), (28_476, 28_467));
    assert_eq!(trace.header.unix_start_time(), Some(843_480_031));
}

#[test]
fn blue_horizon_loses_the_10770_jobs_that_did_not_run() {
    let Some(path) = log("SDSC-BLUE-2000-4.2-cln.swf.gz") else { return };
    let trace = Trace::load(&path, &LoadOptions::default()).unwrap();
    assert_eq!((trace.report.read, trace.report.dropped()), (243_306, 10_770));
    assert_eq!(trace.report.count(Reason::NoRunTime), 10_770);
    assert_eq!(trace.machine, Capacity(1152));
    let nodes = Trace::load(&path, &LoadOptions { unit: 8, ..LoadOptions::default() }).unwrap();
    assert_eq!((nodes.machine, nodes.jobs.len()), (Capacity(144), trace.jobs.len()));
    let whole_nodes = |(node, job): (&bookahead_workload::Job, &bookahead_workload::Job)| {
        node.processors.0 * 8 == job.processors.0
    };
    assert!(nodes.jobs.iter().zip(&trace.jobs).all(whole_nodes));
}

#[test]
fn ctc_takes_its_sizes_from_the_allocated_processors() {
    let Some(path) = log("CTC-SP2-1996-3.1-cln.swf.gz") else { return };
    let options = LoadOptions { first: Some(20_000), ..LoadOptions::default() };
    let trace = Trace::load(&path, &options).unwrap();
    assert_eq!((trace.machine, trace.jobs.len()), (Capacity(338), 20_000));
    assert_eq!(trace.report.count(Reason::ProcessorsFromAllocated), 20_000);
}

#[test]
fn the_header_of_gaia_is_read_although_it_is_indented() {
    let Some(path) = log("UniLu-Gaia-2014-1.swf.gz") else { return };
    let trace = Trace::load(&path, &LoadOptions::default()).unwrap();
    assert_eq!((trace.machine, trace.report.read), (Capacity(2004), 51_987));
    assert_eq!(trace.header.get("TimeZoneString").as_deref(), Some("Europe/Luxembourg"));
}

#[test]
fn the_first_2000_jobs_of_blue_horizon_are_those_of_the_reference() {
    let Some(path) = log("SDSC-BLUE-2000-4.2-cln.swf.gz") else { return };
    let Ok(packed) = std::fs::read(path.with_file_name("../oracles/blue-2000.easy.csv.gz")) else {
        println!("skipped: the reference is not at hand");
        return;
    };
    let mut reference = String::new();
    MultiGzDecoder::new(packed.as_slice()).read_to_string(&mut reference).unwrap();
    let trace = Trace::load(&path, &LoadOptions { first: Some(2000), ..LoadOptions::default() }).unwrap();
    let lines: Vec<_> = reference.lines().skip(1).collect();
    assert_eq!(lines.len(), 2000);
    for (job, line) in trace.jobs.iter().zip(lines) {
        let expected = format!("{},{},", job.number, job.submit);
        assert!(line.starts_with(&expected), "{line} does not start with {expected}");
    }
}
