//! Signals to processes of a test.

use crate::polling::until_true;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Sends a signal, such as `KILL`, to a process that runs. After `STOP` it waits until all threads have stopped: on a
/// busy machine some go on for a moment.
pub fn signal(process: u32, name: &str) {
    let told = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(told.is_ok_and(|status| status.success()), "process {process} does not get {name}");
    if name == "STOP" {
        until_true("all threads have stopped", || has_stopped(process));
    }
}

fn has_stopped(process: u32) -> bool {
    let tasks = fs::read_dir(Path::new("/proc").join(process.to_string()).join("task"));
    tasks.into_iter().flatten().flatten().all(|task| {
        let text = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in brackets. A thread that has just ended has none.
        text.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['T', 'Z', 'X']))
    })
}
