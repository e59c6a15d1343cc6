//! A temporary folder for each test, in which the real binary runs, and the small traces that the tests share. Nothing
//! outside that folder is used, and nothing is left behind.

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Ten processors; under every scheduler the jobs start at 0, 100 and 110.
pub(crate) const THREE_JOBS: &str = "\
; MaxProcs: 10
; UnixStartTime: 1000000000
11 0 -1 100 8 -1 -1 8 100 -1 1 1 1 1 1 1 -1 -1
12 0 -1 10 10 -1 -1 10 10 -1 1 1 1 1 1 1 -1 -1
13 0 -1 1000 2 -1 -1 2 1000 -1 1 1 1 1 1 1 -1 -1
";

/// Ten processors; the three schedulers give three different schedules of these jobs.
pub(crate) const FIVE_JOBS: &str = "\
; MaxProcs: 10
1 0 -1 100 6 -1 -1 6 100 -1 1 1 1 1 1 1 -1 -1
2 0 -1 100 8 -1 -1 8 100 -1 1 1 1 1 1 1 -1 -1
3 0 -1 100 10 -1 -1 10 100 -1 1 1 1 1 1 1 -1 -1
4 0 -1 1000 2 -1 -1 2 1000 -1 1 1 1 1 1 1 -1 -1
5 0 -1 100 2 -1 -1 2 100 -1 1 1 1 1 1 1 -1 -1
";

/// Ten processors; the second job ran twice as long as it requested.
pub(crate) const OVERRUN: &str = "\
; MaxProcs: 10
1 0 -1 100 8 -1 -1 8 100 -1 1 1 1 1 1 1 -1 -1
2 0 -1 200 2 -1 -1 2 100 -1 1 1 1 1 1 1 -1 -1
3 10 -1 50 3 -1 -1 3 100 -1 1 1 1 1 1 1 -1 -1
";

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bookahead"))
}

/// A folder that jobs of another account can write to, and whose subfolders they can reach.
pub(crate) fn shared_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    share(folder.path());
    folder
}

/// Makes a folder writable for all users.
pub(crate) fn share(folder: &Path) {
    std::fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
}

/// A folder with files, which is the working folder of commands.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(shared_folder())
    }

    pub(crate) fn with(name: &str, bytes: impl AsRef<[u8]>) -> Folder {
        let folder = Folder::new();
        folder.write(name, bytes);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Makes a file readable by its owner only.
    pub(crate) fn make_private(&self, name: &str) {
        std::fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// The binary with the words of `line` as arguments.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = binary();
        command.args(line.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs the words of `line`; any exit code is accepted.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, line: &str, input: &str) -> Ran {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that fails before it reads its input closes the pipe; only its output matters.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::of(line, child.wait_with_output().unwrap())
    }

    /// Runs the words of `line`, which must succeed.
    #[track_caller]
    pub(crate) fn succeed(&self, line: &str) -> Ran {
        let ran = self.run(line);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    }

    /// Runs the words of `line`, which must fail with exit code 1 and print all of `words` to standard error.
    #[track_caller]
    pub(crate) fn fail(&self, line: &str, words: &[&str]) {
        self.run(line).assert_refused(1, words);
    }

    /// The start of each job, as `simulate` writes it with these options on `trace.swf`.
    #[track_caller]
    pub(crate) fn starts(&self, options: &str) -> Vec<(i64, i64)> {
        self.succeed(&format!("simulate trace.swf --jobs-out starts.csv {options}"));
        columns(&self.text("starts.csv"), ["job", "start"])
            .into_iter()
            .map(|[job, start]| (job, start))
            .collect()
    }
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    #[expect(dead_code, reason = "shown where a test fails")]
    line: String,
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(line: &str, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran {
            line: line.to_owned(),
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Checks that it ended with `code`, printed no data, and printed all of `words` to standard error.
    #[track_caller]
    pub(crate) fn assert_refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.out.is_empty(), "no data where it failed: {self:?}");
        assert!(self.err.contains("error: ") && !self.err.contains("panicked"), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "'{word}' is missing: {self:?}");
        }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The named columns of a CSV file of whole numbers.
#[track_caller]
pub(crate) fn columns<const N: usize>(text: &str, names: [&str; N]) -> Vec<[i64; N]> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let places = names.map(|name| head.iter().position(|column| *column == name).unwrap());
    let row = |line: &str| {
        let cells: Vec<i64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        places.map(|place| cells[place])
    };
    lines.map(row).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[track_caller]
pub(crate) fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}
