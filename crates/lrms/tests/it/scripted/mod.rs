//! Commands of a batch system that cannot run here: links to one small script, which notes how it is called and answers what a test
//! laid down.

use bookahead_lrms::command::Runner;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

/// A folder with such commands.
pub(crate) struct Scripted {
    folder: tempfile::TempDir,
    answers: RefCell<BTreeMap<String, u32>>,
}

impl Scripted {
    /// These commands, none of which has an answer yet.
    pub(crate) fn new(programs: &[&str]) -> Scripted {
        let folder = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/scripted/answer.sh");
        fs::create_dir(folder.path().join("bin")).unwrap();
        for program in programs {
            symlink(script, folder.path().join("bin").join(program)).unwrap();
        }
        Scripted { folder, answers: RefCell::default() }
    }

    /// Where the commands are.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Runs them with time enough.
    pub(crate) fn runner(&self) -> Runner {
        Runner::local(Duration::from_secs(20))
    }

    /// Its next answer.
    pub(crate) fn answers(&self, program: &str, out: &str, err: &str, code: i32) {
        let mut answers = self.answers.borrow_mut();
        let number = answers.entry(program.into()).or_default();
        *number += 1;
        let write = |end: &str, text: &str| {
            fs::write(self.folder.path().join(format!("{program}.{number}.{end}")), text).unwrap();
        };
        write("out", out);
        write("err", err);
        write("code", &code.to_string());
    }

    /// Its next answer is this, and all is well.
    pub(crate) fn says(&self, program: &str, out: &str) {
        self.answers(program, out, "", 0);
    }

    /// Its next answer is an error.
    pub(crate) fn refuses(&self, program: &str, err: &str) {
        self.answers(program, "", err, 255);
    }

    /// It does not answer any more.
    pub(crate) fn hangs(&self, program: &str) {
        self.says(program, "");
        let number = self.answers.borrow()[program];
        fs::write(self.folder.path().join(format!("{program}.{number}.hangs")), "").unwrap();
    }

    /// How the commands were called, one line for each call, words apart by `|`.
    pub(crate) fn calls(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().map(|line| line.trim_end_matches('\t').replace('\t', "|")).collect()
    }

    /// How one of them was called.
    pub(crate) fn calls_of(&self, program: &str) -> Vec<String> {
        let begin = format!("{program}|");
        let of = |call: &String| *call == program || call.starts_with(&begin);
        self.calls().into_iter().filter(of).collect()
    }

    /// What a command read when it was last called.
    pub(crate) fn input(&self, program: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("{program}.input"))).unwrap()
    }
}
