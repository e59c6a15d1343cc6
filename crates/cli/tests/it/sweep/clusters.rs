//! The what-if workloads on a real Slurm, here and over ssh, and on a real HyperQueue: bit for bit the results of this
//! machine.

use super::{files, logged, rows, what_if};
use crate::batch::cluster::Cluster;
use crate::folder::Folder;
use bookahead_tests::polling::until_true;
use bookahead_tests::python::with_package;
use bookahead_tests::sshd::Sshd;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Slurm of a test, in the description of a sweep.
fn slurm(cluster: &mut Cluster, more: &str) -> String {
    let conf = cluster.daemons().conf().display().to_string();
    format!("[slurm]\noptions = [\"--time=5\"]\nenvironment = {{ SLURM_CONF = \"{conf}\" }}\n{more}")
}

/// The what-if workloads on this machine.
fn locally(folder: &Folder, seeds: usize) {
    folder.write("local.toml", what_if("local", seeds, ""));
    folder.succeed("sweep local.toml");
}

#[test]
fn the_what_if_workloads_on_slurm_are_bit_identical_to_those_of_this_machine() {
    let folder = Folder::new();
    let mut cluster = Cluster::of(2, 2);
    folder.write("slurm.toml", what_if("slurm", 1, &slurm(&mut cluster, "cpus = 1\n")));
    let ran = folder.succeed("sweep slurm.toml --on slurm");
    assert!(ran.err.contains("submitted 8 chunks to slurm as "), "{ran:?}");
    locally(&folder, 1);
    assert_eq!(rows(&folder.path("slurm/runs")).len(), 72);
    assert_eq!(files(&folder.path("slurm/runs")), files(&folder.path("local/runs")));
}

#[test]
fn a_chunk_that_slurm_kills_continues_over_ssh_and_nothing_runs_twice() {
    let folder = Folder::new();
    let (mut cluster, sshd) = (Cluster::of(1, 2), Sshd::start());
    let ssh = sshd.section("slurm.ssh");
    folder.write("slurm.toml", what_if("slurm", 6, &slurm(&mut cluster, &ssh)));
    let mut command = folder.command("sweep slurm.toml --on slurm");
    let first = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let out = folder.path("slurm");
    until_true("some runs have ended", || logged(&out) >= 4);
    // The chunks that run are killed at once; the others never start.
    cluster.tell(&["scancel", "--state=PENDING", "--partition=main"]);
    cluster.tell(&["scancel", "--signal=KILL", "--full", "--partition=main"]);
    let first = first.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert_eq!(first.status.code(), Some(1), "{said}");
    assert!(said.contains("ended early") && said.contains("  bookahead sweep chunk "), "{said}");
    let ended = logged(&out) + if out.join("runs").exists() { rows(&out.join("runs")).len() } else { 0 };
    assert!((4..432).contains(&ended), "{ended}: {said}");
    let last = folder.succeed("sweep slurm.toml --on slurm").err;
    assert!(last.contains(&format!("{ended} runs of 432 are done already")), "{last}");
    let left = (432 - ended).div_ceil(54);
    assert!(last.contains(&format!("submitted {left} chunk")), "{last}");
    locally(&folder, 6);
    assert_eq!(rows(&out.join("runs")), rows(&folder.path("local/runs")));
    // One for each of: submitting, waiting, and looking for earlier jobs; in two calls.
    assert!((1..=6).contains(&sshd.logins()), "connections are kept open: {}", sshd.logins());
}

#[test]
fn a_sweep_that_was_left_waits_for_its_jobs_and_submits_none_again() {
    let folder = Folder::new();
    let mut cluster = Cluster::of(1, 2);
    folder.write("slurm.toml", what_if("slurm", 6, &slurm(&mut cluster, "")));
    let mut command = folder.command("sweep slurm.toml --on slurm");
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let out = folder.path("slurm");
    until_true("some runs have ended", || logged(&out) >= 1);
    first.kill().unwrap();
    first.wait().unwrap();
    let second = folder.succeed("sweep slurm.toml").err;
    assert!(second.contains("which were submitted earlier") && !second.contains("submitted 8"), "{second}");
    assert_eq!(rows(&out.join("runs")).len(), 432);
}

/// A HyperQueue server with one worker, of the package `hyperqueue`. The package has no `hq`; a script stands for it.
struct HyperQueue {
    server: Child,
}

impl HyperQueue {
    fn start(folder: &Folder, python: &Path) -> HyperQueue {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sweep/hq.py");
        let bin = folder.path("bin");
        fs::create_dir(&bin).unwrap();
        folder.write("bin/hq", format!("#!/bin/sh\nexec {} {} \"$@\"\n", python.display(), script.display()));
        fs::set_permissions(bin.join("hq"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut server = Command::new(python);
        server.arg(&script).arg("server").arg(folder.path("server")).current_dir(folder.path(""));
        let server =
            server.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until_true("the server is ready", || folder.path("server/ready").exists());
        HyperQueue { server }
    }
}

impl Drop for HyperQueue {
    fn drop(&mut self) {
        let _gone = self.server.kill();
        let _status = self.server.wait();
    }
}

#[test]
fn the_what_if_workloads_through_hyperqueue_are_bit_identical_to_those_of_this_machine() {
    let Some(python) = with_package("hyperqueue") else { return };
    let folder = Folder::new();
    let _server = HyperQueue::start(&folder, &python);
    let here = folder.path("").display().to_string();
    let settings = format!(
        "[hyperqueue]\ncommands = \"{here}bin\"\nenvironment = {{ HQ_SERVER_DIR = \"{here}server\" }}\n"
    );
    folder.write("hq.toml", what_if("hq", 1, &settings));
    let ran = folder.succeed("sweep hq.toml --on hyperqueue");
    assert!(ran.err.contains("submitted 8 chunks to hyperqueue as 1"), "{ran:?}");
    locally(&folder, 1);
    assert_eq!(rows(&folder.path("hq/runs")).len(), 72);
    assert_eq!(files(&folder.path("hq/runs")), files(&folder.path("local/runs")));
}
