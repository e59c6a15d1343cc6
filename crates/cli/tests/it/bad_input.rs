//! Invalid input files. Each error names the file and what to do about it; they never panic or succeed.

use crate::folder::{Folder, THREE_JOBS, columns, gzip};

/// Checks that every command that reads a trace refuses `bytes` with all of `words`.
#[track_caller]
fn check_trace(bytes: &[u8], words: &[&str]) {
    let folder = Folder::with("trace.swf", bytes);
    let words: Vec<&str> = words.iter().copied().chain(["trace.swf"]).collect();
    for line in ["simulate trace.swf", "workload info trace.swf --json", "workload convert trace.swf out.swf"]
    {
        folder.fail(line, &words);
    }
    assert!(!folder.path("out.swf").exists(), "nothing is written where nothing was read");
}

#[test]
fn what_is_not_there_or_no_file_is_named() {
    let folder = Folder::new();
    folder.fail("simulate none.swf", &["none.swf: cannot be opened", "check the path"]);
    folder.fail("simulate .", &["give a file, not a directory"]);
    folder.fail("workload info none/none.swf", &["none/none.swf: cannot be opened"]);
}

#[test]
fn a_file_without_jobs_is_no_trace() {
    for bytes in [&b""[..], b"\n\n", b"; just a comment\n", b"; MaxProcs: 10\n; UnixStartTime: 0\n"] {
        check_trace(bytes, &["there is no job in it", "Standard Workload Format"]);
    }
}

#[test]
fn a_machine_of_unknown_size_is_asked_for() {
    let job = "1 0 -1 100 8 -1 -1 8 100\n";
    for header in ["", "; MaxProcs: -1\n", "; MaxProcs: many\n", "; MaxProcs: 9223372036854775808\n"] {
        check_trace(format!("{header}{job}").as_bytes(), &["--processors"]);
    }
    for size in ["0", "9223372036854775807", "2147483648"] {
        check_trace(format!("; MaxProcs: {size}\n{job}").as_bytes(), &["is out of range", "give a number"]);
    }
}

#[test]
fn binary_garbage_is_no_trace() {
    let mut state = 1u32;
    let garbage: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(5000)
    .collect();
    check_trace(&garbage, &["trace.swf:1: not a log in Standard Workload Format", "18 numbers"]);
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    check_trace(png, &["trace.swf:1: not a log", "looks like an image"]);
    check_trace(&gzip(b"job,submit,run\n1,2,3\n"), &["trace.swf:1: not a log", "CSV"]);
    check_trace(b"{\"jobs\": []}\n", &["trace.swf:1: not a log", "JSON"]);
    let with_header = [b"; MaxProcs: 10\n".as_slice(), &garbage].concat();
    check_trace(&with_header, &["no job is left", "malformed-line", "check the file"]);
}

#[test]
fn a_gzip_file_cut_anywhere_is_said_to_be_cut() {
    let whole = gzip(THREE_JOBS.as_bytes());
    for length in [2, 5, 10, 20, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        check_trace(
            &whole[..length],
            &["cannot be read", "the compressed file is cut short, fetch it again"],
        );
    }
}

#[test]
fn garbage_behind_the_magic_of_gzip_is_said_to_be_damaged() {
    check_trace(b"\x1f\x8bthis is not what gzip looks like", &["the compressed file is damaged"]);
    let mut damaged = gzip(THREE_JOBS.as_bytes());
    let check_sum = damaged.len() - 8;
    damaged[check_sum] ^= 1;
    check_trace(&damaged, &["the compressed file is damaged"]);
}

#[test]
fn times_of_zero_and_less_are_dropped_and_counted() {
    let lines = "21 -5 -1 10 1 -1 -1 1 10\n22 0 -1 0 1 -1 -1 1 10\n23 0 -1 -7 1 -1 -1 1 10\n24 0 -1 10 0 -1 -1 0 10\n";
    let folder = Folder::with("trace.swf", format!("{THREE_JOBS}{lines}"));
    let ran = folder.succeed("simulate trace.swf --json");
    let dropped = &ran.json()["cleaning"]["dropped"];
    assert_eq!(
        (&dropped["no-submit-time"], &dropped["no-run-time"], &dropped["no-processors"]),
        (&1.into(), &2.into(), &1.into())
    );
    assert_eq!(ran.json()["schedulers"][0]["jobs"], 3);
    assert!(ran.err.contains("  4 dropped:\n"), "{ran:?}");
}

/// Numbers at and beyond the limits of integers.
const EXTREMES: [&str; 8] = [
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1099511627776",
    "1e300",
    "NaN",
    "inf",
    "0x10",
];

#[test]
fn an_extreme_number_in_any_field_harms_no_other_job() {
    let folder = Folder::new();
    let files = "--jobs-out jobs.csv --svg time.svg --gantt gantt.svg";
    for (value, field) in EXTREMES.iter().flat_map(|value| (0..18).map(move |field| (*value, field))) {
        folder.write("trace.swf", with_field(field, value));
        folder.succeed(&format!("simulate trace.swf {files}"));
        let jobs = columns(&folder.text("jobs.csv"), ["job", "end"]);
        for sound in [11, 13] {
            assert!(
                jobs.iter().any(|[job, end]| *job == sound && *end > 0),
                "{value} in field {field}: {jobs:?}"
            );
        }
    }
}

/// The three jobs, with `value` in a field of the second one.
fn with_field(field: usize, value: &str) -> String {
    let mut lines: Vec<String> = THREE_JOBS.lines().map(str::to_owned).collect();
    let mut fields: Vec<&str> = lines[3].split(' ').collect();
    fields[field] = value;
    lines[3] = fields.join(" ");
    lines.join("\n")
}

#[test]
fn extreme_numbers_in_the_header_do_no_harm() {
    let folder = Folder::new();
    for value in EXTREMES {
        for key in ["UnixStartTime", "MaxJobs", "MaxRecords"] {
            folder.write("trace.swf", format!("; {key}: {value}\n{THREE_JOBS}"));
            folder.succeed("simulate trace.swf --svg time.svg --gantt gantt.svg");
            folder.succeed("workload info trace.swf");
        }
    }
}

#[test]
fn a_calendar_time_needs_a_trace_that_knows_its_date() {
    let folder = Folder::with("trace.swf", THREE_JOBS.replace("; UnixStartTime: 1000000000\n", ""));
    let words = ["trace.swf", "UnixStartTime", "use seconds of the trace"];
    folder.fail("simulate trace.swf --from 2001-09-09T01:46:40Z", &words);
    folder.fail("simulate trace.swf --gantt g.svg --gantt-from 2001-09-09T01:46:40Z", &words);
}

#[track_caller]
fn check_requests(text: &str, words: &[&str]) {
    let folder = Folder::with("trace.swf", THREE_JOBS);
    folder.write("requests.csv", text);
    folder.fail("simulate trace.swf --reservations requests.csv", words);
}

#[test]
fn requests_are_read_strictly() {
    const HEAD: &str = "job,submit,earliest_start,latest_end,duration,processors";
    check_requests("", &["requests.csv:1", HEAD]);
    check_requests("job,submit\n1,0\n", &["requests.csv:1", HEAD]);
    let line = |line: &str| format!("{HEAD}\n1,0,0,10,10,1\n{line}\n");
    check_requests(&line("1,0,0,10"), &["requests.csv:3: 4 values instead of 6"]);
    check_requests(&line("1,0,0,10,ten,1"), &["requests.csv:3: the value of duration is not a whole number"]);
    check_requests(&line("1,0,0,10,0,1"), &["requests.csv:3: the value of duration is out of range"]);
    check_requests(&line("1,0,0,9,10,1"), &["requests.csv:3: the latest_end is before"]);
    check_requests(&line("1,5,0,20,10,1"), &["requests.csv:3: the earliest_start is before"]);
    check_requests(
        &line("1,9223372036854775807,0,20,10,1"),
        &["requests.csv:3: the value of submit is out of range"],
    );
    Folder::with("trace.swf", THREE_JOBS)
        .fail("simulate trace.swf --reservations none.csv", &["none.csv: cannot be opened"]);
}
