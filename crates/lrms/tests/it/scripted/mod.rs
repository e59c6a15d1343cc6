//! Commands of a batch system that cannot run here, or that must give unusual answers: links to one small script,
//! which records its calls and prints the answers prepared by a test. No file is written and then executed: a child
//! that another test starts at that moment could have it open for writing, and the execution would fail ("text file
//! busy").

use bookahead_lrms::LrmsError;
use bookahead_lrms::command::Runner;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder with such commands.
pub(crate) struct Scripted {
    folder: tempfile::TempDir,
    answers: RefCell<BTreeMap<String, u32>>,
}

/// Makes a folder in which each of these programs is a script of the tests. The script knows its name by `$0`.
pub(crate) fn link(folder: &Path, script: &str, programs: &[&str]) {
    fs::create_dir(folder).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(script);
    for program in programs {
        symlink(&script, folder.join(program)).unwrap();
    }
}

impl Scripted {
    /// These commands, without answers yet.
    pub(crate) fn new(programs: &[&str]) -> Scripted {
        let scripted = Scripted { folder: tempfile::tempdir().unwrap(), answers: RefCell::default() };
        link(&scripted.bin(), "scripted/answer.sh", programs);
        scripted
    }

    /// The folder of the commands.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Runs them with a generous timeout.
    pub(crate) fn runner(&self) -> Runner {
        Runner::local(Duration::from_secs(20))
    }

    /// Adds an answer.
    pub(crate) fn answers(&self, program: &str, out: &str, err: &str, code: i32) {
        self.answers_bytes(program, out.as_bytes(), err, code);
    }

    /// Adds an answer, which need not be text.
    pub(crate) fn answers_bytes(&self, program: &str, out: &[u8], err: &str, code: i32) {
        let number = self.answers.borrow().get(program).map_or(1, |number| number + 1);
        self.write(program, number, "out", out);
        self.write(program, number, "err", err.as_bytes());
        self.write(program, number, "code", code.to_string().as_bytes());
        self.answers.borrow_mut().insert(program.into(), number);
    }

    /// Adds a successful answer.
    pub(crate) fn says(&self, program: &str, out: &str) {
        self.answers(program, out, "", 0);
    }

    /// Adds an error.
    pub(crate) fn refuses(&self, program: &str, err: &str) {
        self.answers(program, "", err, 255);
    }

    /// Stops answering.
    pub(crate) fn hangs(&self, program: &str) {
        self.says(program, "");
        let number = self.answers.borrow()[program];
        self.write(program, number, "hangs", b"");
    }

    /// Delays the last answer by this many seconds.
    pub(crate) fn takes(&self, program: &str, seconds: &str) {
        let number = self.answers.borrow()[program];
        self.write(program, number, "takes", seconds.as_bytes());
    }

    /// Removes all answers.
    pub(crate) fn forget(&self, program: &str) {
        for number in 1..=self.answers.borrow_mut().remove(program).unwrap_or(0) {
            for end in ["out", "err", "code", "hangs", "takes", "used"] {
                let _none = fs::remove_file(self.path(program, number, end));
            }
        }
    }

    /// Gives only this answer from now on: on standard error if the code is not zero.
    pub(crate) fn prints(&self, program: &str, code: i32, text: &str) {
        self.prints_in_turn(program, &[(code, text)]);
    }

    /// Gives these answers in turn from now on, then the last one again and again.
    pub(crate) fn prints_in_turn(&self, program: &str, turns: &[(i32, &str)]) {
        self.forget(program);
        for (code, text) in turns {
            let (out, err) = if *code == 0 { (*text, "") } else { ("", *text) };
            self.answers(program, out, err, *code);
        }
    }

    fn write(&self, program: &str, number: u32, end: &str, text: &[u8]) {
        fs::write(self.path(program, number, end), text).unwrap();
    }

    fn path(&self, program: &str, number: u32, end: &str) -> PathBuf {
        self.folder.path().join(format!("{program}.{number}.{end}"))
    }

    /// The calls, one line each, with words separated by `|`.
    pub(crate) fn calls(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().map(|line| line.trim_end_matches('\t').replace('\t', "|")).collect()
    }

    /// The calls of one command.
    pub(crate) fn calls_of(&self, program: &str) -> Vec<String> {
        let begin = format!("{program}|");
        let of = |call: &String| *call == program || call.starts_with(&begin);
        self.calls().into_iter().filter(of).collect()
    }

    /// The standard input of the last call of a command.
    pub(crate) fn input(&self, program: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("{program}.input"))).unwrap()
    }
}

/// The exit code and output of a job's script, run in the environment of a job with this number.
pub(crate) fn run_job(script: &str, number: (&str, &str)) -> (Option<i32>, String) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut shell = Command::new("/bin/sh");
    shell.env(number.0, number.1).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// The message of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, LrmsError>) -> String {
    match result.unwrap_err() {
        LrmsError::Refused { said, .. } => said,
        other => panic!("refused otherwise: {other:?}"),
    }
}
