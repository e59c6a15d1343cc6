//! What a service is told by the system: to end, or to read its keys anew.

use std::io;

/// What was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    End,
    Reload,
}

/// Everything that is told from now on.
#[cfg(unix)]
pub(super) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }

    /// Waits until it is told to end.
    pub(super) async fn end(&mut self) {
        while self.next().await != Told::End {}
    }
}

/// Elsewhere there is only the key that interrupts.
#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        Ok(Signals)
    }

    pub(super) async fn next(&mut self) -> Told {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Told::End
    }

    /// Waits until it is told to end.
    pub(super) async fn end(&mut self) {
        while self.next().await != Told::End {}
    }
}
