//! A complete log through the simulator, on one core: reading and cleaning, then each scheduler; for comparison a plain
//! EASY loop and conservative backfilling that plans everything again; the command `bookahead simulate` as a process,
//! beside a plain program's way of reading and simulating (`cargo build --release` first); and its steps, from the
//! file to the summary, for logs of growing size. The log is SDSC Blue Horizon if it is present beside the project, else
//! as many jobs drawn from tables of its figures, at its load.

use bookahead_benches::{CpuTime, Guard, Outcome, Report, bare_easy, guard, people, replanned_conservative};
use bookahead_plan::metrics::{Completed, Summary};
use bookahead_plan::notice::{NoticeRule, Predictor};
use bookahead_plan::{Capacity, Owner, Policy, Seconds, Time, Waiting};
use bookahead_sim::{EarliestFit, Fate, Job, Overrun, Site, WithNotice, simulate};
use bookahead_workload::models::{Calibrated, Lublin, ModelError, Setting, Tables, header, records};
use bookahead_workload::trace::scale_load;
use bookahead_workload::{LoadOptions, Trace, swf};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const REAL: &str = "SDSC Blue Horizon";
const DRAWN: &str = "drawn like SDSC Blue Horizon";
const ROUNDS: usize = 7;
/// Slow calls are not repeated after this time.
const ENOUGH: Duration = Duration::from_secs(4);

const OVERLOAD: &str = "overloaded, conservative";

pub(crate) fn main() -> Report {
    guard("simulate", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
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
    let (plain, (machine, plain_jobs)) = fastest(|| plainly_read(&path));
    guard.times(format!("{name}, reading"), load, plain);
    let (bare, _) = fastest(|| bare_easy(machine, &plain_jobs));
    guard.times(format!("{name}, FCFS"), schedule(Policy::FCFS, &trace).0, bare);
    compare_easy(guard, name, &mut trace);
    whole_command(guard, name, &path);
    compare_conservative(guard, name, &path, &mut trace);
    if guard.wants(OVERLOAD) {
        overload(guard);
    }
    if guard.wants("drawn jobs") {
        grow(guard);
    }
    let other = if name == REAL { DRAWN } else { REAL };
    guard.not_run(other, "another log was used");
    Ok(())
}

fn compare_easy(guard: &mut Guard, log: &str, trace: &mut Trace) {
    println!("\nEASY compared with a plain loop over lists, both without reading");
    println!("{:<24} {:>10} {:>10} {:>7}", "", "ours", "bare loop", "ratio");
    for factor in [1.0, 1.2, 1.4] {
        scale_load(&mut trace.jobs, factor).expect("a sound factor");
        compare(guard, [log, &format!("load times {factor}")], Policy::EASY, trace, bare_easy);
        scale_load(&mut trace.jobs, 1.0 / factor).expect("a sound factor");
    }
}

fn compare_conservative(guard: &mut Guard, log: &str, path: &Path, trace: &mut Trace) {
    println!("\nconservative backfilling compared with planning everything again, both without reading");
    println!("{:<24} {:>10} {:>10} {:>7}", "", "ours", "again", "ratio");
    compare(guard, [log, "load times 1"], Policy::CONSERVATIVE, trace, replanned_conservative);
    let curie = path.with_file_name("CEA-Curie-2011-2.1-cln.swf.gz");
    if curie.exists() {
        let curie = Trace::load(&curie, &LoadOptions::default()).expect("a sound log");
        compare(guard, ["CEA Curie"; 2], Policy::CONSERVATIVE, &curie, replanned_conservative);
    }
    if bookahead_tests::cases::long() {
        scale_load(&mut trace.jobs, 1.3).expect("a sound factor");
        compare(guard, [log, "load times 1.3"], Policy::CONSERVATIVE, trace, replanned_conservative);
    }
    // If one of these was measured, this has no effect.
    guard.not_run("CEA Curie", "the log is missing");
    guard.not_run(&format!("{log}, conservative, load times 1.3"), "only with BOOKAHEAD_TEST_LONG=1");
}

/// The queue grows with the number of jobs: about 15 % of them wait at the last submission. One run each.
fn overload(guard: &mut Guard) {
    println!("\nconservative backfilling compared with EASY at a load of 2, of logs drawn from a model");
    println!("{:<24} {:>10} {:>10} {:>10} {:>7}", "jobs", "ours", "per job", "EASY", "ratio");
    for number in [50_000, 100_000, 200_000] {
        let setting = Setting { jobs: number, processors: Capacity(1_024), load: Some(2.0), seed: 1 };
        let drawn = Lublin { setting, ..Lublin::default() }.generate().expect("a sound setting");
        let jobs: Vec<Job> = drawn.iter().map(Job::from).collect();
        let [ours, easy] = [Policy::CONSERVATIVE, Policy::EASY].map(|policy| {
            let site = Site { policy, capacity: setting.processors, overrun: Overrun::Kill };
            let start = Instant::now();
            simulate(site, &jobs, &[], &mut EarliestFit, |_| {});
            start.elapsed().as_nanos() as f64
        });
        guard.times(format!("{OVERLOAD}, {number} jobs, compared with EASY"), ours, easy);
        let [time, per_job, other] = [ours, ours / number as f64, easy].map(people);
        println!("{number:<24} {time:>10} {per_job:>10} {other:>10} {:>7.1}", ours / easy);
    }
}

fn compare(
    guard: &mut Guard,
    [log, name]: [&str; 2],
    policy: Policy,
    trace: &Trace,
    baseline: fn(u32, &[Job]) -> Vec<i64>,
) {
    let row = format!("{log}, {policy}, {name}");
    if !guard.wants(&row) {
        return;
    }
    let (time, starts) = schedule(policy, trace);
    let jobs = jobs(trace);
    let (bare, plain_starts) = fastest(|| baseline(trace.machine.0, &jobs));
    let same = plain_starts == starts;
    // A wrong schedule has no ratio, and fails.
    guard.times(row, if same { time } else { f64::NAN }, bare);
    let ratio = if same { format!("{:.1}", bare / time) } else { "other starts!".to_owned() };
    println!("{name:<24} {:>10} {:>10} {ratio:>7}", people(time), people(bare));
}

/// The command as users run it. A plain program unpacks the log, splits its lines, and schedules with lists.
fn whole_command(guard: &mut Guard, log: &str, path: &Path) {
    let here = std::env::current_exe().expect("a bench has a path");
    let program = here.ancestors().nth(2).expect("the folder of the profile").join("bookahead");
    println!("\n`bookahead simulate` as a process, compared with plain reading and a plain loop");
    if !program.exists() {
        guard.not_run(&format!("{log}, as a process"), "`cargo build --release` makes its program");
        return println!("not measured: {} is missing; `cargo build --release` makes it", program.display());
    }
    println!("{:<24} {:>10} {:>10} {:>7}", "", "ours", "plain", "share");
    let (ours, said) = fastest_by_the_clock(|| {
        let run = Command::new(&program).args(["simulate", "--json"]).arg(path).output();
        run.expect("a program that was just built")
    });
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let (plain, _) = fastest_by_the_clock(|| plain_command(path));
    guard.times(format!("{log}, as a process"), ours, plain);
    println!("{:<24} {:>10} {:>10} {:>7.2}", "under EASY", people(ours), people(plain), ours / plain);
}

fn plain_command(path: &Path) -> Vec<i64> {
    let (machine, jobs) = plainly_read(path);
    bare_easy(machine, &jobs)
}

fn plainly_read(path: &Path) -> (u32, Vec<Job>) {
    let unpacked = flate2::read::MultiGzDecoder::new(std::fs::File::open(path).expect("a log"));
    let mut machine = 0;
    let mut jobs = Vec::new();
    for line in BufReader::new(unpacked).lines() {
        let line = line.expect("a sound log");
        if let Some(processors) = line.strip_prefix("; MaxProcs:") {
            machine = processors.trim().parse().expect("a number");
        }
        let fields: Vec<i64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [_, submit, _, run, used, _, _, asked, limit, ..] = fields[..] else { continue };
        let capacity = if asked > 0 { asked } else { used };
        if run < 0 || capacity <= 0 {
            continue;
        }
        let estimate = Seconds(if limit > 0 { limit } else { run }.max(1));
        let (submit, capacity) = (Time(submit), Capacity(u32::try_from(capacity).expect("a small number")));
        let asked = Waiting { submit, estimate, capacity, priority: 0, owner: Owner::NONE };
        jobs.push(Job { asked, run: Seconds(run.min(estimate.0)) });
    }
    jobs.retain(|job| job.asked.capacity.0 <= machine);
    (machine, jobs)
}

/// Time must grow with the number of jobs, and not faster.
fn grow(guard: &mut Guard) {
    println!("\nreading, EASY and the summary, as `bookahead simulate` does, of logs drawn from a model");
    println!("{:<24} {:>10} {:>12}", "jobs", "time", "per job");
    // The plain program's time per job, of the smallest log.
    let mut plain = None;
    for number in [250_000, 500_000, 1_000_000, 2_000_000] {
        let path = drawn(Setting { jobs: number, load: Some(0.7), ..Setting::default() });
        let (time, _) = fastest(|| command(&path));
        let plain = *plain.get_or_insert_with(|| fastest(|| plain_command(&path)).0 / number as f64);
        guard.times(format!("drawn jobs, {number}"), time / number as f64, plain);
        println!("{number:<24} {:>10} {:>12}", people(time), people(time / number as f64));
        std::fs::remove_file(&path).expect("it was just written");
    }
}

/// The steps of `bookahead simulate` with a file and no options.
fn command(path: &Path) -> Summary {
    let trace = Trace::load(path, &LoadOptions::default()).expect("a sound log");
    let jobs = jobs(&trace);
    let site = Site { policy: Policy::EASY, capacity: trace.machine, overrun: Overrun::Kill };
    let no_notice = NoticeRule { predictor: Predictor::Mean, percent: 0 };
    let outcome = simulate(site, &jobs, &[], &mut WithNotice::new(no_notice, EarliestFit), |_| {});
    let ran = |(job, fate): (&Job, &Fate)| match fate {
        Fate::Ran(ran) => Some(job.completed(*ran)),
        Fate::TooWide => None,
    };
    let completed: Vec<Completed> = jobs.iter().zip(&outcome.jobs).filter_map(ran).collect();
    Summary::of(&completed, trace.machine)
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
    shortest(|| {
        let start = CpuTime::now();
        let value = call();
        (start.elapsed(), value)
    })
}

/// Waiting counts, too.
fn fastest_by_the_clock<T>(mut call: impl FnMut() -> T) -> (f64, T) {
    shortest(|| {
        let start = Instant::now();
        let value = call();
        (start.elapsed(), value)
    })
}

/// The shortest of several rounds; slow calls are repeated less.
fn shortest<T>(mut timed: impl FnMut() -> (Duration, T)) -> (f64, T) {
    let mut best: Option<(f64, T)> = None;
    let begin = Instant::now();
    for round in 0..ROUNDS {
        if round >= 1 && begin.elapsed() > ENOUGH {
            break;
        }
        let (time, value) = timed();
        let time = time.as_nanos() as f64;
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
        return (real, REAL);
    }
    // Jobs and load of the whole log, on its nodes of eight processors.
    let setting = Setting { jobs: 243_306, processors: Capacity(144), load: Some(0.767), seed: 1 };
    let Setting { jobs, load, seed, .. } = setting;
    let jobs = Calibrated { tables: Tables::blue_horizon(), jobs, load, seed }.generate();
    (written("blue-horizon", &setting, jobs), DRAWN)
}

fn drawn(setting: Setting) -> PathBuf {
    written("lublin", &setting, Lublin { setting, ..Lublin::default() }.generate())
}

fn written(
    model: &str,
    setting: &Setting,
    jobs: Result<Vec<bookahead_workload::Job>, ModelError>,
) -> PathBuf {
    let path = std::env::temp_dir().join(format!("bookahead-bench-{model}.swf.gz"));
    let records = records(&jobs.expect("a sound setting"));
    swf::write_file(&path, &header(model, setting), &records).expect("a writable temporary folder");
    path
}
