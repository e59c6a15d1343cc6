//! Where there are no groups of processes no command is run, and whoever tries is told so.

use super::{End, Limits};
use std::io;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// As long as this is there [`Stop`] says nothing.
pub(in super::super) type Going = Sender<()>;

/// Says that something should end, once its [`Going`] is dropped.
#[derive(Debug)]
pub(in super::super) struct Stop(Receiver<()>);

/// Both ends.
pub(in super::super) fn stop() -> io::Result<(Stop, Going)> {
    let (going, stop) = channel();
    Ok((Stop(stop), going))
}

impl Stop {
    /// Waits so long; answers whether something should end.
    pub(in super::super) fn within(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }
}

/// Runs nothing.
#[expect(clippy::needless_pass_by_value, reason = "as where commands are run")]
pub(in super::super) fn run(_: Command, _: Option<&str>, _: Limits<'_>) -> io::Result<End> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "commands of batch systems are run on Unix"))
}
