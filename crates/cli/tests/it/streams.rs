//! Data goes to standard output, messages to standard error; and commands whose output is closed.

use crate::folder::{Folder, OVERRUN, Ran, THREE_JOBS};
use std::process::Stdio;

#[test]
fn with_json_standard_output_is_json_and_nothing_else() {
    let folder = Folder::with("trace.swf", OVERRUN);
    for line in [
        "simulate trace.swf --json",
        "simulate trace.swf --json --compare --jobs-out j.csv --svg t.svg --gantt g.svg",
        "workload info trace.swf --json",
    ] {
        let ran = folder.succeed(line);
        assert!(ran.json().is_object());
        assert_eq!(ran.json()["cleaning"]["mended"]["run-cut-at-request"], 1);
        assert!(ran.err.starts_with("trace.swf: 3 of 3 jobs kept\n  repaired:\n"), "{ran:?}");
        assert!(ran.err.contains("1  the job ran longer than it asked for and was cut there\n"), "{ran:?}");
    }
}

#[test]
fn files_written_are_named_on_standard_error_only() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    let ran = folder.succeed("simulate trace.swf --jobs-out j.csv --svg t.svg");
    assert!(ran.err.contains("wrote j.csv\nwrote t.svg\n") && !ran.out.contains("wrote"), "{ran:?}");
    let ran = folder.succeed("workload convert trace.swf -");
    assert_eq!(ran.out, THREE_JOBS);
    assert_eq!(ran.err, "trace.swf: 3 of 3 jobs kept\n");
}

/// Commands that write to standard output, one for each code path that does so.
const TALKATIVE: [&str; 7] = [
    "simulate trace.swf",
    "simulate trace.swf --json",
    "workload info trace.swf",
    "workload info trace.swf --json",
    "workload convert trace.swf -",
    "workload reservations trace.swf --block 1",
    "workload generate --jobs 2000",
];

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    for line in TALKATIVE {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = folder.command(line).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let ran = Ran::of(line, output);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.err.contains("error") && !ran.err.contains("panicked"), "{ran:?}");
    }
}

#[test]
fn nobody_needs_to_listen_to_the_talk() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    for line in TALKATIVE {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = folder.command(line).stdout(Stdio::piped()).stderr(writer).output().unwrap();
        let ran = Ran::of(line, output);
        assert!(ran.code == Some(0) && !ran.out.is_empty(), "{ran:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    for line in TALKATIVE {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(line).stdout(full).stderr(Stdio::piped()).output().unwrap();
        Ran::of(line, output).assert_refused(1, &["No space left"]);
    }
}
