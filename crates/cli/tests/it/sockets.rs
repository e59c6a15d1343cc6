//! Services without tokens: on a Unix socket the caller is its account, programs of jobs do not run as root, and a
//! configuration that would give every user of the machine the rights of the service is refused.

use crate::asking::{Asking, SITE};
use crate::folder::Folder;
use crate::service::{PROGRAMS, Service};
use bookahead_service::security::{is_root, own_account};
use serde_json::Value;
use std::os::unix::process::CommandExt as _;

/// User id of the account `nobody`.
const NOBODY: u32 = 65_534;

/// Runs a command as another user of the machine; returns exit code and output.
fn as_nobody(asking: &Asking, arguments: &[&str]) -> (Option<i32>, String) {
    let output = asking.command(arguments).uid(NOBODY).gid(NOBODY).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

const BOOK: [&str; 9] =
    ["reserve", "--json", "--book", "--capacity", "4", "--duration", "1h", "--from", "+2h"];

#[test]
fn the_account_that_connects_is_the_user() {
    let asking = Asking::site(&format!("listen = \"unix:north.sock\"\n{SITE}"));
    assert!(asking.service.url().starts_with("unix:/"), "{}", asking.service.url());
    let own = own_account().unwrap();
    let mine = asking.document(&[&["reserve"], &BOOK[2..]].concat());
    assert_eq!(mine["owner"], own.as_str());
    let for_ada = asking.document(&[&["reserve"], &BOOK[2..], &["--user", "ada"]].concat());
    assert_eq!(for_ada["owner"], "ada", "the account of the service may speak for others");
    if !is_root() {
        return eprintln!("the rest needs root, to run as another account");
    }
    let (code, theirs) = as_nobody(&asking, &BOOK);
    assert_eq!((code, &json(&theirs)["owner"]), (Some(0), &Value::from("nobody")), "{theirs}");
    let (code, said) = as_nobody(&asking, &[&BOOK[..], &["--user", "ada"]].concat());
    assert!(code != Some(0) && said.contains("this requires the role broker"), "{said}");
    let id = mine["id"].as_str().unwrap();
    let (code, said) = as_nobody(&asking, &["cancel", id]);
    assert!(code != Some(0), "{said}");
    let (_, list) = as_nobody(&asking, &["list", "--json"]);
    let owners: Vec<Value> =
        json(&list)["reservations"].as_array().unwrap().iter().map(|one| one["owner"].clone()).collect();
    assert_eq!(owners, ["nobody"], "a user sees what is its own");
    let everything = asking.document(&["list"]);
    assert_eq!(
        everything["reservations"].as_array().unwrap().len(),
        3,
        "the account of the service is an operator"
    );
}

#[test]
fn nobody_else_reaches_the_socket_in_the_state_folder() {
    let asking = Asking::site(SITE);
    if !is_root() {
        return eprintln!("this needs root, to run as another account");
    }
    let (code, said) = as_nobody(&asking, &["list"]);
    assert!(code == Some(1) && said.contains("ermission denied"), "{said}");
}

#[test]
fn where_jobs_can_be_run_an_address_without_authentication_is_refused_unless_the_operator_says_so() {
    let open = format!("listen = \"127.0.0.1:0\"\n{PROGRAMS}\n{SITE}");
    let folder = Folder::with("site.toml", &open);
    for line in ["site --config site.toml", "site --config site.toml --check"] {
        let words = ["listen", "run programs as the account", "trust_local_users = true", "Unix socket"];
        folder.run(line).assert_refused(1, &words);
    }
    let slurm = SITE.replacen("\n\n", "\nlisten = \"127.0.0.1:0\"\n[batch]\nsystem = \"slurm\"\n\n", 1);
    folder.write("slurm.toml", slurm);
    folder.run("site --config slurm.toml --check").assert_refused(1, &["trust_local_users = true"]);
    folder.write("site.toml", format!("{open}\n[security]\ntrust_local_users = true\n"));
    let site = Service::start(&folder, "site --config site.toml");
    assert!(site.url().starts_with("http://127.0.0.1:"));
    site.signal("TERM");
    let (_, said) = site.ended();
    assert!(said.contains("open_to_local_users"), "{said}");
}

#[test]
fn a_broker_that_asks_nobody_has_no_credentials_to_lend() {
    let folder = Folder::with("own.token", "x");
    let peer = "listen = \"127.0.0.1:0\"\n[[peer]]\nname = \"north\"\nurl = ";
    for more in [
        format!("{peer}\"unix:north.sock\"\n"),
        format!("{peer}\"http://127.0.0.1:1\"\ntoken_file = \"own.token\"\n"),
        format!("{peer}\"http://127.0.0.1:1\"\n[calls]\ntoken_file = \"own.token\"\n"),
    ] {
        folder.write("grid.toml", format!("name = \"grid\"\n{more}"));
        let refused = folder.run("broker --config grid.toml --check");
        refused.assert_refused(1, &["act as any user at the sites", "trust_local_users"]);
    }
}

#[test]
fn programs_of_jobs_do_not_run_as_root() {
    if !is_root() {
        return eprintln!("this needs root");
    }
    let with = |jobs: &str| format!("jobs = {{ processes = true{jobs} }}\n{SITE}");
    let folder = Folder::with("site.toml", with(""));
    for (jobs, words) in [
        ("", ["runs as root", "account ="]),
        (", account = \"root\"", ["not run as root", "another account"]),
        (", account = \"no-such-account\"", ["no account", "no-such-account"]),
    ] {
        folder.write("site.toml", with(jobs));
        folder.run("site --config site.toml --check").assert_refused(1, &words);
        folder.run("site --config site.toml").assert_refused(1, &words);
    }
    let asking = Asking::site_with_programs(SITE);
    let script = "#!/bin/sh\nid -u; id -G; pwd\nfor file in journal.db identity socket; do\n\
                  cat \"$BOOKAHEAD_FOLDER/../../$file\" > /dev/null 2>&1 && echo \"read $file\"; done\n\
                  ls \"$BOOKAHEAD_FOLDER/..\" 2> /dev/null; echo x > ../job.json; echo x > ../progress.json\nexit 7\n";
    asking.folder.write("job.sh", script);
    let job = asking.document(&["submit", "--limit", "1m", "job.sh"]);
    let id = job["id"].as_str().unwrap();
    let over =
        asking.until(&["jobs"], |jobs| jobs["jobs"][0]["exit"] == 7 || jobs["jobs"][0]["state"] == "done");
    let run = asking.folder.path(&format!("bookahead-north/jobs/{id}/run"));
    let printed = std::fs::read_to_string(run.join("output")).unwrap();
    let expected = format!("{NOBODY}\n{NOBODY}\n{}\n", run.display());
    assert_eq!(printed, expected, "{over}");
    let record = std::fs::read_to_string(run.with_file_name("job.json")).unwrap();
    assert!(record.contains(id), "what the service notes of a job the job cannot write");
}
