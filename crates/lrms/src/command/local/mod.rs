//! One process on this machine, from its start to its end. It leads a group of its own; if it takes too long or writes too
//! much, the whole group is killed.
//!
//! A process is over when it ends by itself, even if it leaves others behind that have its pipes: what it wrote is
//! read, what those may write is not waited for.

#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(super) use elsewhere::{Alive, Stop, run, stop};
#[cfg(unix)]
pub(super) use unix::{Alive, Stop, run, stop};

use std::time::Instant;

/// Within what a process has to stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    pub(super) until: Instant,
    /// On each of its outputs.
    pub(super) most_bytes: usize,
    /// It is ended if this says so.
    pub(super) stop: Option<&'a Stop>,
}

/// How a process ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself, or by a signal of somebody else.
    Exited {
        code: Option<i32>,
        out: String,
        err: String,
    },
    TimedOut,
    /// It wrote too much, to this output.
    TooMuch(&'static str),
    Stopped,
    /// The system does not say, for that reason.
    Unknown(std::io::Error),
}

/// Where there are no groups of processes no command is run, and whoever tries is told so.
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
        Err(io::Error::new(io::ErrorKind::Unsupported, "commands of batch systems are run on Unix"))
    }
}
