//! `bookahead demo --slurm`: two real Slurm clusters by one command, jobs that start at the promised time, and no
//! process left however it ends. Needs the Debian packages slurmctld, slurmd, slurm-client and munge, and fails without
//! them.

use crate::folder::{Folder, Ran, binary};
use bookahead_tests::polling::until_true;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A folder for the demo, by which its processes are found. Its path is short because it contains sockets.
fn folder() -> TempDir {
    tempfile::Builder::new().prefix("demo").tempdir_in("/tmp").unwrap()
}

fn demo(folder: &TempDir) -> Command {
    let mut command = binary();
    command.args(["demo", "--slurm", "--port", "0", "--state"]).arg(folder.path()).stdin(Stdio::null());
    command
}

#[test]
fn jobs_of_the_tour_start_when_it_was_promised_and_nothing_is_left() {
    let folder = folder();
    let ran = Ran::of("demo --slurm --once", demo(&folder).arg("--once").output().unwrap());
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.out, ran.err);
    for cluster in ["alpha", "beta"] {
        let begins = format!("{cluster}: promised ");
        let line = ran.out.lines().find(|line| line.starts_with(&begins));
        let line =
            line.unwrap_or_else(|| panic!("it does not say when the job at {cluster} started: {ran:?}"));
        let (_, late) = line.split_once(" s later").unwrap().0.rsplit_once(", ").unwrap();
        let late: i64 = late.parse().unwrap();
        // How late depends on the machine; it runs in its reservation.
        assert!(late >= 0, "{line}");
        assert!(line.contains(&format!("on {cluster} since ")), "{line}");
    }
    assert!(ran.out.contains("ReservationName=ba."), "Slurm has it while it is booked: {}", ran.out);
    assert_eq!(ran.out.matches("No reservations in the system").count(), 2, "and not after: {}", ran.out);
    assert_eq!(processes_of(folder.path()), Vec::<String>::new());
}

#[test]
fn a_demo_that_is_told_to_end_or_killed_leaves_no_process() {
    // While the clusters start, and when all services and jobs run.
    for (signal, ready) in [("TERM", false), ("INT", true), ("KILL", true)] {
        let folder = folder();
        let mut child = Started(demo(&folder).arg("--no-tour").stderr(Stdio::piped()).spawn().unwrap());
        if ready {
            let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().starts_with("The demo is running")), "it ended by itself");
        }
        // One of the processes is the demo itself.
        until_true("the clusters have processes", || processes_of(folder.path()).len() > 2);
        let told = Command::new("kill").args([&format!("-{signal}"), &child.0.id().to_string()]).status();
        assert!(told.unwrap().success());
        let status = child.0.wait().unwrap();
        assert_eq!(status.success(), signal != "KILL", "{signal}: {status}");
        if signal == "KILL" {
            until_true("no process is left", || processes_of(folder.path()).is_empty());
        }
        assert_eq!(processes_of(folder.path()), Vec::<String>::new(), "{signal}");
    }
}

#[test]
fn options_of_the_usual_demo_do_not_go_with_slurm() {
    for option in ["--speed 2", "--visitors 1", "--seed 1", "--for 1h", "--for 1h --json"] {
        Folder::new().run(&format!("demo --slurm {option}")).assert_refused(2, &["--slurm"]);
    }
}

#[test]
fn a_folder_that_is_too_long_for_sockets_is_refused_with_what_to_do() {
    let folder = folder();
    let long = folder.path().join("a".repeat(90));
    let line = format!("demo --slurm --once --port 0 --state {}", long.display());
    Folder::new().fail(&line, &["too long", "take a shorter one"]);
    assert_eq!(processes_of(folder.path()), Vec::<String>::new());
}

#[test]
fn without_slurm_it_says_which_packages_to_install() {
    let folder = folder();
    let output = demo(&folder).arg("--once").env("PATH", folder.path()).output().unwrap();
    let ran = Ran::of("demo --slurm --once without Slurm", output);
    ran.assert_refused(1, &["scontrol is not installed", "slurmctld, slurmd, slurm-client and munge"]);
}

/// Killed when the test ends, even if it fails.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes that have the folder in their arguments or environment, or as working folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let ours = folder.display().to_string();
    let names = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(&ours);
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let found = processes.filter_map(|process| {
        let read = |name: &str| fs::read(process.join(name)).unwrap_or_default();
        let inside = fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let arguments = read("cmdline");
        let shown = String::from_utf8_lossy(&arguments).replace('\0', " ");
        (inside || names(arguments) || names(read("environ"))).then_some(shown)
    });
    found.collect()
}
