//! The rules in a site's file that decide where and whether it places a reservation: the weights of what-if, local jobs
//! preferred, the shortest notice, and machines of different speed. Each through a running site and the command line.

use crate::asking::Asking;
use crate::service::Service;
use jiff::Timestamp;
use serde_json::Value;

fn site(resource: &str) -> String {
    format!(
        "name = \"north\"\n\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 2\n{resource}\n"
    )
}

/// Submits a placeholder for this many processors and seconds, and returns its id.
#[track_caller]
fn submit(asking: &Asking, capacity: u32, seconds: u32) -> String {
    let (capacity, length) = (capacity.to_string(), format!("{seconds}s"));
    let job = asking.document(&["submit", "--pretend", &length, "--limit", &length, "--capacity", &capacity]);
    job["id"].as_str().unwrap().to_owned()
}

fn seconds(time: &Value) -> i64 {
    time.as_str()
        .and_then(|text| text.parse::<Timestamp>().ok())
        .unwrap_or_else(|| panic!("{time}"))
        .as_second()
}

fn at(second: i64) -> String {
    Timestamp::from_second(second).unwrap().to_string()
}

/// Waits until a job runs, and returns its start.
#[track_caller]
fn started(asking: &Asking, job: &str) -> i64 {
    seconds(&asking.until(&["show", job], |shown| shown["started"].is_string())["started"])
}

/// A busy site: one job runs for 1000 s on both processors. A job of 10 s, one of 10,000 s and two of 100 s wait for one
/// each. Returns the end of the running job.
#[track_caller]
fn busy(resource: &str) -> (Asking, i64) {
    // Slots every ten seconds, because everything here takes minutes.
    let asking = Asking::site(&site(&format!("method = \"what-if\"\ngap = \"10s\"\n{resource}")));
    let running = submit(&asking, 2, 1_000);
    let end = started(&asking, &running) + 1_000;
    for length in [10, 10_000, 100, 100] {
        submit(&asking, 1, length);
    }
    (asking, end)
}

/// Asks for both processors for 500 s, from 10 s to at most 210 s after the end of the running job. Each start delays
/// the long job: with the first one the last job ends earliest, with a later one the short jobs are not delayed.
fn words(end: i64) -> Vec<String> {
    let (from, until) = (at(end + 10), at(end + 710));
    let words = ["--capacity", "2", "--duration", "500s", "--from", &from, "--until", &until];
    words.into_iter().chain(["--objective", "best-availability"]).map(str::to_owned).collect()
}

#[track_caller]
fn chosen((asking, end): &(Asking, i64)) -> i64 {
    let words = words(*end);
    let words: Vec<&str> =
        ["reserve", "--book"].into_iter().chain(words.iter().map(String::as_str)).collect();
    seconds(&asking.document(&words)["slots"][0]["begin"]) - end
}

#[test]
fn the_weights_of_makespan_and_completion_time_choose_the_slot() {
    let by_makespan = chosen(&busy("makespan_weight = 1.0"));
    assert_eq!(by_makespan, 10, "the earliest start, after which the long job ends first");
    let by_completion = chosen(&busy("makespan_weight = 0.0"));
    assert!((100..=210).contains(&by_completion), "both short jobs run before it: {by_completion}");
}

#[test]
fn with_local_jobs_preferred_no_local_job_is_postponed_by_a_reservation() {
    let (asking, end) = busy("admission = \"local-jobs-preferred\"");
    let words = words(end);
    let words: Vec<&str> = ["reserve"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let refused = asking.ends(3, &words);
    assert!(refused.err.contains("not-admitted: there is room, but taking it would delay"), "{refused:?}");
    // After all waiting jobs it is welcome.
    let later = at(end + 10_000);
    asking.ends(0, &["reserve", "--capacity", "2", "--duration", "500s", "--from", &later]);
    // The other word, which is the default, places it before the long job.
    assert_eq!(chosen(&busy("admission = \"reservations-first\"")), chosen(&busy("")));
}

/// The refusal of a reservation that begins in ten seconds, as the API tells it.
#[track_caller]
fn too_soon(service: &Service) -> Value {
    let begin = Timestamp::now().as_second() + 10;
    let part = format!(
        r#"{{"capacity":1,"duration_seconds":60,"earliest_start":"{}","latest_end":"{}"}}"#,
        at(begin),
        at(begin + 60)
    );
    let answer = service.ask("POST", "/v1/probes", "", &format!(r#"{{"request":{{"parts":[{part}]}}}}"#));
    let problem: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"));
    assert_eq!((answer.status, &problem["code"]), (403, &"limit".into()), "{problem}");
    problem
}

#[test]
fn a_reservation_is_accepted_only_with_as_much_notice_as_the_mean_wait_of_queued_jobs() {
    // The factor makes minutes out of the seconds that the jobs of a test wait.
    let mut asking = Asking::site(&site("notice = { predicted = \"mean\", factor = 100 }"));
    asking.ends(0, &["reserve", "--capacity", "1", "--duration", "60s", "--from", "+10s"]);
    let first = submit(&asking, 2, 4);
    let second = submit(&asking, 2, 1);
    let waited = started(&asking, &second) - started(&asking, &first);
    assert!(waited >= 4, "{waited}");

    let refused = asking.ends(3, &["reserve", "--capacity", "1", "--duration", "60s", "--from", "+10s"]);
    for word in ["limit: not before ", "jobs waited ", " on average lately (2 jobs)", "of notice here"] {
        assert!(refused.err.contains(word), "'{word}' is missing: {refused:?}");
    }
    let problem = too_soon(&asking.service);
    let now = Timestamp::now().as_second();
    // The mean of both waits, rounded up: two seconds at least.
    assert!((now + 199..now + 6_000).contains(&seconds(&problem["not_before"])), "{problem}");
    let offered = &problem["counter_offers"][0];
    assert_eq!(offered["change"]["type"], "later", "{problem}");
    let body = format!(r#"{{"request":{},"book":true}}"#, offered["request"]);
    let granted = asking.service.ask("POST", "/v1/reservations", "Idempotency-Key: \"1\"\r\n", &body);
    assert_eq!(granted.status, 201, "{granted:?}");

    // The history is in the journal: after a crash the same wait is predicted from the same jobs.
    asking.service.signal("KILL");
    let told = problem["reason"]["TooSoon"].clone();
    asking.service = Service::start(&asking.folder, "site --config site.toml");
    let again = too_soon(&asking.service)["reason"]["TooSoon"].clone();
    for field in ["notice", "wait", "jobs", "basis"] {
        assert!(told[field] == again[field] && !told[field].is_null(), "{field}: {told} and then {again}");
    }
}

#[test]
fn a_notice_of_fixed_length_is_told_as_before() {
    let asking = Asking::site(&site("notice = \"1h\""));
    let refused = asking.ends(3, &["reserve", "--capacity", "1", "--duration", "60s", "--from", "+10s"]);
    assert!(refused.err.contains("must be requested at least 1h before its start here"), "{refused:?}");
    assert!(refused.err.contains("it would fit if it may end 1h "), "{refused:?}");
    asking.ends(0, &["reserve", "--capacity", "1", "--duration", "60s", "--from", "+61m"]);
}

/// The length of the slot of a reservation, in seconds, and its resource.
fn length(reservation: &Value) -> (i64, &str) {
    let slot = &reservation["slots"][0];
    (seconds(&slot["end"]) - seconds(&slot["begin"]), slot["resource"].as_str().unwrap())
}

const TEN_MINUTES: [&str; 10] = [
    "reserve",
    "--capacity",
    "1",
    "--duration",
    "10m",
    "--measured-on",
    "mhz=2600",
    "--from",
    "+1h",
    "--until",
];

#[test]
fn in_case_of_a_heterogeneous_machine_the_slowest_clock_rate_is_used() {
    let machines = "machines = [{ capacity = 1, mhz = 2600 }, { capacity = 1, mhz = 1300 }]";
    let asking = Asking::site(&site(machines));
    let resources = asking.service.ask("GET", "/v1/resources", "", "").body;
    let resources: Value = serde_json::from_str(&resources).unwrap();
    assert_eq!(resources["resources"][0]["attributes"]["mhz"], 1_300, "{resources}");
    let words = [&TEN_MINUTES[..], &["+3h"]].concat();
    assert_eq!(length(&asking.document(&words)), (1_200, "cluster"), "half as fast takes twice as long");
    let refused = asking.ends(3, &[&words[..], &["--require", "mhz>=2600"]].concat());
    assert!(refused.err.contains("no-such-resource"), "which machines it gets is not known: {refused:?}");
    let refused = asking.ends(3, &[&TEN_MINUTES[..], &["+75m"]].concat());
    assert!(refused.err.contains("it would fit if it may end 5m"), "{refused:?}");
    asking.ends(3, &[&words[..5], &["--measured-on", "gflops=40", "--until", "+3h"]].concat());
}

#[test]
fn of_two_resources_the_one_with_the_faster_machines_ends_first() {
    let fast = "attributes = { mhz = 1300 }\n\n[[resource]]\nname = \"fast\"\nkind = \"processors\"\ncapacity = 2\n\
                attributes = { mhz = 5200 }";
    let asking = Asking::site(&site(fast));
    let words = [&TEN_MINUTES[..], &["+3h"]].concat();
    let first = asking.document(&[&words[..], &["--book"]].concat());
    assert_eq!(length(&first), (300, "fast"));
    // What is scaled once is not scaled again.
    let id = first["id"].as_str().unwrap();
    assert_eq!(length(&asking.document(&["change", id, "--duration", "20m"])), (1_200, "fast"));
}
