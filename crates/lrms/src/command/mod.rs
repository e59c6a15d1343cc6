//! Running the commands of a batch system: with a time-out, without a shell, in the language and time zone that their
//! output is read in. Nothing here knows what a command means.

use crate::error::LrmsError;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A command to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// A program: a path, or a name that is looked for in `PATH`.
    pub program: String,
    /// As the program will see them.
    pub arguments: Vec<String>,
    /// In addition to `LC_ALL=C` and `TZ=UTC`.
    pub environment: BTreeMap<String, String>,
    /// What it reads.
    pub input: Option<String>,
    /// As whom it runs; None for the account of the service.
    pub account: Option<String>,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its exit code; None where a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to its standard output.
    pub out: String,
    /// What it wrote to its standard error.
    pub err: String,
}

/// Where commands run, and within what time.
#[derive(Debug, Clone)]
pub struct Runner {
    time_out: Duration,
}

impl Command {
    /// A program without arguments.
    pub fn new(program: impl Into<String>) -> Command {
        let (arguments, environment) = (Vec::new(), BTreeMap::new());
        Command { program: program.into(), arguments, environment, input: None, account: None }
    }

    /// With one more argument.
    pub fn arg(mut self, argument: impl Into<String>) -> Command {
        self.arguments.push(argument.into());
        self
    }

    /// With more arguments.
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// With something to read.
    pub fn input(mut self, text: impl Into<String>) -> Command {
        self.input = Some(text.into());
        self
    }

    /// As an account of the cluster.
    pub fn account(mut self, account: Option<String>) -> Command {
        self.account = account;
        self
    }
}

impl Outcome {
    /// Whether it says that all went well.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// What it said, for people: its standard error, or else its standard output, without blanks around.
    pub fn said(&self) -> &str {
        let err = self.err.trim();
        if err.is_empty() { self.out.trim() } else { err }
    }
}

impl Runner {
    /// On this machine.
    pub fn local(time_out: Duration) -> Runner {
        Runner { time_out }
    }

    /// Runs a command and waits for its end, whatever its exit code. One that takes too long is ended, and it is not known
    /// what came of it: [`LrmsError::Silent`].
    pub fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let failed = |source| LrmsError::CannotRun { program: command.program.clone(), source };
        let mut process = std::process::Command::new(&command.program);
        process.args(&command.arguments).envs(&command.environment).env("LC_ALL", "C").env("TZ", "UTC");
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process.spawn().map_err(failed)?;
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let text = command.input.clone().unwrap_or_default();
        let writing = std::thread::spawn(move || {
            let _ = input.map(|mut input| input.write_all(text.as_bytes()));
        });
        let (out, err) = (read(out), read(err));
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status;
            }
            if began.elapsed() > self.time_out {
                let _ = child.kill();
                let _ = child.wait();
                return Err(LrmsError::Silent { what: command.program.clone(), after: self.time_out });
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let _ = writing.join();
        let text = |bytes: std::thread::JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&bytes.join().unwrap_or_default()).into_owned()
        };
        Ok(Outcome { code: status.code(), out: text(out), err: text(err) })
    }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        bytes
    })
}
