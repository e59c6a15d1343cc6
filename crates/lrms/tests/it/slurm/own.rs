//! The private cluster.

use super::{cores, plain};
use bookahead_lrms::batch::BatchSystem;
use bookahead_lrms::slurm::{OwnCluster, OwnClusterError, OwnClusterSettings};
use bookahead_tests::polling::until_true;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// With it, this test holds a cluster in this folder until it is killed.
const HOLD: &str = "BOOKAHEAD_TEST_HOLDS_A_CLUSTER";

/// The commands of all processes related to a folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let processes =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()));
    let about = |file: std::path::PathBuf| {
        String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
    };
    let all = processes.filter_map(|entry| {
        let (command, environment) =
            (about(entry.path().join("cmdline")), about(entry.path().join("environ")));
        let other = entry.file_name().to_str() != Some(&std::process::id().to_string());
        (other && (command.contains(&name) || environment.contains(&name))).then_some(command)
    });
    all.collect()
}

#[test]
fn a_cluster_leaves_no_process_behind_not_even_those_of_jobs() {
    let mut site = plain(&cores());
    let folder = site.cluster.folder().to_owned();
    assert_eq!(
        site.look().nodes.iter().map(|node| (node.cores, node.usable)).collect::<Vec<_>>(),
        [(4, true); 2]
    );
    site.local_job(&["-n2", "-t5"]);
    assert!(processes_of(&folder).len() >= 5);
    site.cluster.stop();
    assert_eq!(processes_of(&folder), Vec::<String>::new());
}

#[test]
fn a_cluster_whose_owner_is_killed_ends_too() {
    if let Some(folder) = std::env::var_os(HOLD) {
        let mut settings = OwnClusterSettings::new("held", folder);
        settings.nodes = 1;
        let _cluster = OwnCluster::start(&settings).unwrap();
        println!("\nready");
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let folder = tempfile::Builder::new().prefix("ba").tempdir().unwrap();
    let this = "slurm::own::a_cluster_whose_owner_is_killed_ends_too";
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this, "--nocapture"])
        .env(HOLD, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(owner.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line == "ready"), "it did not start");
    assert!(processes_of(folder.path()).len() >= 3);
    owner.kill().unwrap();
    owner.wait().unwrap();
    until_true("all of it is gone", || processes_of(folder.path()).is_empty());
}

#[test]
fn what_cannot_be_is_said_before_anything_starts() {
    let long = format!("/tmp/{}", "x".repeat(90));
    let why = OwnCluster::start(&OwnClusterSettings::new("c", long)).unwrap_err();
    assert!(matches!(why, OwnClusterError::FolderTooLong { .. }), "{why}");
    assert!(why.to_string().contains("take a shorter one"), "{why}");
    for (name, folder, nodes) in
        [("a b", "/tmp/c", 1), ("c", "relative", 1), ("c", "/tmp/a b", 1), ("c", "/tmp/c", 0)]
    {
        let settings = OwnClusterSettings { nodes, ..OwnClusterSettings::new(name, folder) };
        assert!(
            matches!(OwnCluster::start(&settings), Err(OwnClusterError::Malformed(_))),
            "{name} {folder} {nodes}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings = OwnClusterSettings::new("c", folder.path());
    settings.programs = Some("/nonexistent".into());
    let why = OwnCluster::start(&settings).unwrap_err().to_string();
    assert!(why.contains("slurmctld is not installed; install Debian's packages"), "{why}");
}

#[test]
fn a_daemon_that_does_not_start_shows_its_log() {
    let folder = tempfile::Builder::new().prefix("ba").tempdir().unwrap();
    let mut settings = OwnClusterSettings::new("c", folder.path());
    settings.extra = vec!["PartitionName=odd Nodes=nonexistent".into()];
    let why = OwnCluster::start(&settings).unwrap_err().to_string();
    assert!(why.contains("exited unexpectedly") && why.contains("nonexistent"), "{why}");
    assert_eq!(processes_of(folder.path()), Vec::<String>::new());
}

#[test]
fn several_clusters_run_side_by_side() {
    let (mut one, two) = (plain(&cores()), plain(&cores()));
    let id = one.local_job(&["-n1", "-t5"]);
    assert!(one.job(&id).is_some());
    assert_eq!(two.slurm.look().unwrap().jobs, []);
}
