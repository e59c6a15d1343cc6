//! The policy twin: what a site did is exported as a log, and its own configuration is replayed on it.

use crate::asking::Asking;
use crate::folder::columns;
use serde_json::Value;
use std::collections::BTreeMap;

/// One hour in four seconds.
const SPEED: u32 = 900;

fn site() -> Asking {
    // A configuration has whole seconds.
    let origin = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    Asking::site(&format!(
        "name = \"north\"\nretention = \"10d\"\nclock = {{ speed = {SPEED}, origin = \"{origin}\" }}\n\n[limits]\n\
         horizon = \"30d\"\ncount = 100\n\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 10\n\
         policy = \"easy\"\nmethod = \"earliest\"\n"
    ))
}

#[track_caller]
fn submit(asking: &Asking, capacity: &str, limit: &str, run: &str) {
    let words = ["submit", "--capacity", capacity, "--limit", limit, "--pretend", run];
    let id = asking.document(&words)["id"].as_str().unwrap().to_owned();
    // Until its scheduler knows the job: then the order of the queue is that of the submissions.
    asking.until(&["show", &id], |job| {
        ["started", "expected_start"].iter().any(|time| !job[*time].is_null()) || job["state"] == "done"
    });
}

#[track_caller]
fn reserve(asking: &Asking, capacity: &str, from: &str, duration: &str, until: &str) -> String {
    let window = ["--from", from, "--duration", duration, "--until", until];
    let booked = asking.document(&[&["reserve", "--book", "--capacity", capacity], &window[..]].concat());
    booked["id"].as_str().unwrap().to_owned()
}

/// Jobs and reservations that push each other around: a job that waits for the end of a reservation, two that fill
/// gaps, two that must not, one in the reservation, and one that a cancelled reservation would have delayed.
fn what_happens(asking: &Asking) {
    submit(asking, "8", "170m", "100m");
    let reservation = reserve(asking, "6", "+3h", "1h", "+4h");
    asking.document(&["submit", "--reservation", &reservation, "--pretend", "30m"]);
    submit(asking, "10", "100m", "20m");
    submit(asking, "2", "4h", "1h");
    submit(asking, "2", "2h", "80m");
    submit(asking, "4", "100m", "60m");
    let given_back = reserve(asking, "9", "+400m", "6h", "+760m");
    asking.ends(0, &["cancel", &given_back]);
    submit(asking, "5", "4h", "20m");
    asking.until(&["jobs"], |listed| {
        let jobs = listed["jobs"].as_array().unwrap();
        jobs.len() == 7 && jobs.iter().all(|job| job["state"] == "done")
    });
}

/// Submission and start of each job of the queue, by number.
fn in_log(log: &str) -> BTreeMap<i64, [i64; 2]> {
    let lines = log.lines().filter(|line| !line.starts_with(';'));
    let fields = lines.map(|line| line.split(' ').map(|field| field.parse().unwrap()).collect::<Vec<i64>>());
    fields.filter(|job| job[14] == 1).map(|job| (job[0], [job[1], job[1] + job[2]])).collect()
}

fn replayed(asking: &Asking, options: &str) -> (Value, BTreeMap<i64, i64>) {
    let line = format!(
        "simulate --site site.toml --log log.swf --reservations requests.csv --jobs-out replay.csv --json {options}"
    );
    let results = asking.folder.succeed(&line).json();
    let jobs = columns(&asking.folder.text("replay.csv"), ["job", "start"]);
    (results, jobs.into_iter().map(|[job, start]| (job, start)).collect())
}

#[test]
fn a_site_replayed_on_its_own_history_does_what_it_did() {
    let asking = site();
    what_happens(&asking);
    asking.ends(0, &["export", "log.swf", "--reservations-out", "requests.csv"]);
    let log = asking.folder.text("log.swf");
    let jobs = in_log(&log);
    assert_eq!((jobs.len(), log.lines().filter(|line| !line.starts_with(';')).count()), (6, 7), "{log}");

    let (results, starts) = replayed(&asking, "");
    assert_eq!(results["schedulers"][0]["reservations"]["granted"], 2, "{results}");
    let told = &results["site"];
    assert_eq!((&told["used"]["policy"], &told["used"]["limits.horizon"]), (&"easy".into(), &"30d".into()));
    let ignored = told["ignored"].as_array().unwrap();
    for setting in ["clock", "retention", "limits.count", "resource.kind"] {
        assert!(ignored.contains(&setting.into()), "{told}");
    }

    // What is known of a submission is when the site took it. Its scheduler learns of it some milliseconds later,
    // which are seconds on this clock, and a job that can start at once starts then. All other differences follow from
    // that: a job that waits for the end of another is late by as much as that one was. The second for rounding.
    let at_once = [1, 5].map(|job| jobs[&job][1] - jobs[&job][0]);
    let tolerance = at_once.into_iter().max().unwrap() + 1;
    let shown = format!("tolerance {tolerance}\n{log}\n{starts:?}");
    for (job, [_, start]) in &jobs {
        assert!((start - starts[job]).abs() <= tolerance, "job {job} began at {start}: {shown}");
    }
    // The log is one in which the configuration matters: under another policy it would have gone differently.
    let (_, fcfs) = replayed(&asking, "--scheduler fcfs");
    assert!(
        jobs.iter().any(|(job, [_, start])| (start - fcfs[job]).abs() > 600 + tolerance),
        "{shown}\n{fcfs:?}"
    );

    let requests = asking.folder.text("requests.csv");
    asking.service.stop();
    asking.folder.succeed("export --config site.toml offline.swf --reservations-out offline.csv");
    assert_eq!((asking.folder.text("offline.swf"), asking.folder.text("offline.csv")), (log, requests));
}

#[test]
fn an_exported_log_has_names_only_on_request_and_a_user_gets_its_own_jobs() {
    let asking = site();
    for user in ["ada", "bob"] {
        asking.ends(0, &["submit", "--user", user, "--limit", "10m", "--pretend", "1m"]);
    }
    asking.until(&["jobs"], |listed| {
        listed["jobs"].as_array().unwrap().iter().all(|job| job["state"] == "done")
    });
    let exported = |options: &[&str]| asking.ends(0, &[&["export", "-"], options].concat()).out;
    let log = exported(&[]);
    assert!(!log.contains("ada") && log.contains("; MaxProcs: 10\n"), "{log}");
    assert_eq!(in_log(&log).len(), 2, "{log}");
    assert!(exported(&["--names"]).contains("; User: 1 "), "{log}");
    let own = exported(&["--names", "--user", "ada"]);
    assert!(own.contains("; User: 1 ada\n") && !own.contains("bob") && in_log(&own).len() == 1, "{own}");
    let nothing = asking.ends(1, &["export", "-", "--until", "2020-01-01 0:00"]);
    assert!(nothing.err.contains("no job or reservation"), "{nothing:?}");
    let unknown = asking.ends(1, &["export", "-", "--resource", "elsewhere"]);
    assert!(unknown.err.contains("cluster"), "{unknown:?}");
}
