//! What jobs print, and their events: at their site, and through a broker.

use crate::asking::{Asking, SITE};
use crate::folder::{Folder, Ran};
use crate::service::{PROGRAMS, Service};
use bookahead_service::security::is_root;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

const SCRIPT: &str =
    "#!/bin/sh\necho one\necho oh >&2\nsleep 2\necho two\nprintf 'no end \\033[31m'\nexit 3\n";
const PRINTED: &str = "one\ntwo\nno end \u{1b}[31m";

/// Submits the script and returns the id of the job.
fn submit(asking: &Asking, words: &[&str]) -> String {
    submit_script(asking, words, SCRIPT)
}

fn submit_script(asking: &Asking, words: &[&str], script: &str) -> String {
    asking.folder.write("job.sh", script);
    let job = asking.document(&[&["submit", "--limit", "1m"], words, &["job.sh"]].concat());
    job["id"].as_str().unwrap().to_owned()
}

fn events(ran: &Ran) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[test]
fn what_a_job_prints_is_followed_to_its_end_and_read_by_nobody_else() {
    let asking = Asking::site_with_programs(SITE);
    let id = submit(&asking, &["--capacity", "1"]);
    let followed = asking.ends(0, &["logs", &id, "--follow"]);
    assert_eq!((followed.out.as_str(), followed.err.as_str()), (PRINTED, ""));
    assert_eq!(asking.ends(0, &["logs", &id[..12]]).out, PRINTED);
    assert_eq!(asking.ends(0, &["logs", &id, "--stderr"]).out, "oh\n");
    assert_eq!(asking.ends(0, &["logs", &id, "--tail", "2"]).out, "two\nno end \u{1b}[31m");
    assert_eq!(asking.ends(0, &["logs", &id, "--tail", "0"]).out, "");
    let part = asking.service.ask("GET", &format!("/v1/jobs/{id}/output?from=4"), "", "");
    assert_eq!((part.status, part.body.as_str()), (200, &PRINTED[4..]));
    let other = asking.ends(3, &["logs", &id, "--user", "grace"]);
    assert!(other.err.contains("error: unknown-job: "), "{other:?}");
    let unknown = asking.ends(3, &["logs", "job_77"]);
    assert!(unknown.err.contains("error: unknown-job: "), "{unknown:?}");
}

#[test]
fn a_job_that_waits_has_printed_nothing_and_one_that_never_ran_has_no_output() {
    let asking = Asking::site_with_programs(SITE);
    asking.document(&["submit", "--capacity", "64", "--limit", "1m", "--", "/bin/sleep", "30"]);
    let id = submit(&asking, &["--capacity", "64"]);
    let waits = asking.ends(0, &["logs", &id]);
    assert!(waits.out.is_empty() && waits.err.contains("the job is not over"), "{waits:?}");
    asking.ends(0, &["cancel", &id]);
    let never = asking.ends(3, &["logs", &id]);
    assert!(never.err.contains("error: no-output: there is no file"), "{never:?}");
}

#[test]
fn jobs_have_events_of_their_own_and_those_of_their_reservation() {
    let asking = Asking::site_with_programs(SITE);
    let words = ["reserve", "--book", "--capacity", "8", "--duration", "1h", "--until", "+3h"];
    let reservation = asking.document(&words)["id"].as_str().unwrap().to_owned();
    // It ends when it is watched.
    let go = asking.folder.path("go");
    let waits = SCRIPT.replace("sleep 2", &format!("while [ ! -e '{}' ]; do sleep 0.1; done", go.display()));
    let id = submit_script(&asking, &["--reservation", &reservation], &waits);
    let mut watching = asking.command(&["watch", &id, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut watched = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert_eq!(watched.next().unwrap()["kind"], "state");
    asking.folder.write("go", "");
    let last = watched.last().unwrap();
    watching.wait().unwrap();
    assert_eq!(
        (&last["kind"], &last["job_state"], &last["exit"]),
        (&"job-failed".into(), &"done".into(), &3.into())
    );
    assert_eq!((&last["job"], &last["reservation"]), (&id.as_str().into(), &reservation.as_str().into()));
    assert_eq!(last["state"], Value::Null, "that of the reservation is no news");
    let all = events(&asking.ends(0, &["watch", &id, "--after", "0", "--json"]));
    assert_eq!(kinds(&all), ["job-submitted", "job-started", "job-failed"]);
    let text = asking.ends(0, &["watch", &id, "--after", "0"]).out;
    assert!(text.contains(&format!("job-started  {id}  in {reservation}  of ")), "{text}");
    assert!(text.contains("now done, exit code 3"), "{text}");
    let over = asking.ends(0, &["watch", &id]);
    assert!(over.out.contains("state") && over.out.contains("exit code 3"), "{over:?}");
    asking.ends(0, &["cancel", &reservation]);
    let of_reservation = events(&asking.ends(0, &["watch", &reservation, "--after", "0", "--json"]));
    let kinds = kinds(&of_reservation);
    assert!(kinds.contains(&"job-started") && kinds.last() == Some(&"terminated"), "{kinds:?}");
}

#[test]
fn a_broker_passes_on_what_a_job_prints_and_tells_of_its_events() {
    let folder = Folder::with("broker.toml", "name = \"grid\"\nheartbeat = \"200ms\"\n");
    let broker = Service::start(&folder, "broker --config broker.toml");
    let asking = Asking { folder, service: broker };
    let site = format!(
        "{PROGRAMS}\nheartbeat = \"200ms\"\n{SITE}\n[[broker]]\nurl = \"{}\"\n",
        asking.service.url()
    );
    asking.folder.write("north.toml", site);
    let _north = Service::start(&asking.folder, "site --config north.toml");
    asking.until(&["sites"], |known| known["sites"].as_array().unwrap().len() == 2);
    for mode in [&["--capacity", "1"][..], &["--capacity", "1", "--mode", "flood"]] {
        let id = submit(&asking, mode);
        assert_eq!(asking.ends(0, &["logs", &id, "-f"]).out, PRINTED, "{mode:?}");
        asking.until(&["show", &id], |job| job["state"] == "done");
        let told = events(&asking.ends(0, &["watch", &id, "--after", "0", "--json"]));
        let told = kinds(&told);
        assert_eq!((told[0], *told.last().unwrap()), ("job-submitted", "job-failed"), "{told:?}");
    }
}

#[test]
fn the_socket_of_a_site_is_closed_to_other_users_also_if_jobs_may_pass_through_its_folder() {
    let folder = Folder::with(
        "north.toml",
        format!(
            "name = \"north\"\n{PROGRAMS}\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 4\n"
        ),
    );
    let site = Service::start(&folder, "site --config north.toml");
    let url = site.url();
    let socket = url.strip_prefix("unix:").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(Path::new(socket)), 0o600);
    if is_root() {
        assert_eq!(mode(Path::new(socket).parent().unwrap()), 0o711, "jobs pass through it");
        std::fs::set_permissions(folder.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut other = Command::new("setpriv");
        other.args(["--reuid=daemon", "--regid=daemon", "--clear-groups", "--", "test", "-w", socket]);
        assert_eq!(other.status().unwrap().code(), Some(1), "another user may connect");
    }
    assert_eq!(folder.succeed(&format!("list --server {url} --json")).json()["total"], 0);
}
