//! Runs one process on this machine. The process leads its own process group; if it exceeds its time or output limit,
//! the whole group is killed.
//!
//! The run ends when the process itself exits, even if children keep its pipes open: its own output is read in full,
//! later output of such children is not waited for.

#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use elsewhere::{Alive, Stop, run, stop};
#[cfg(unix)]
pub(super) use unix::{Alive, Stop, run, stop};

use std::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    pub(super) until: Instant,
    /// For each of standard output and standard error.
    pub(super) most_bytes: usize,
    /// Ends the process when its [`Alive`] is dropped.
    pub(super) stop: Option<&'a Stop>,
}

#[derive(Debug)]
pub(super) enum End {
    /// By itself, or by a signal that we did not send.
    Exited {
        code: Option<i32>,
        out: String,
        err: String,
    },
    TimedOut,
    /// It exceeded the limit on this output.
    TooMuch(&'static str),
    Stopped,
    /// The exit status could not be determined.
    Unknown(std::io::Error),
}

/// Without process groups a command could not be ended reliably, so every attempt to run one fails.
#[cfg(not(unix))]
mod elsewhere {
    use super::{End, Limits};
    use std::io;
    use std::process::Command;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
    use std::time::Duration;

    pub(in crate::command) type Alive = Sender<()>;

    #[derive(Debug)]
    pub(in crate::command) struct Stop(Receiver<()>);

    pub(in crate::command) fn stop() -> io::Result<(Stop, Alive)> {
        let (alive, stop) = channel();
        Ok((Stop(stop), alive))
    }

    impl Stop {
        pub(in crate::command) fn within(&self, time: Duration) -> bool {
            self.0.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "as where commands are run")]
    pub(in crate::command) fn run(_: Command, _: Option<&str>, _: Limits<'_>) -> io::Result<End> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "commands of batch systems can be run only on Unix"))
    }
}
