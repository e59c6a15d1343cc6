//! Owners are notified through the receiver of the documents, also of events just before the service was killed.

use super::asking::{Asker, book, new_id, now, part};
use super::grid::{Grid, site};
use super::runtime;
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::{Request, ReservationId};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The receiver of the documents, as a process.
pub(super) struct Receiver {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Receiver {
    /// None if Python is not installed.
    fn start(secret: &Path, port: &str) -> Option<Receiver> {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/notices/receiver.py");
        let mut command = Command::new("python3");
        command.arg(program).arg(secret).arg(port).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let says = BufReader::new(child.stdout.take().unwrap());
        Some(Receiver { child, says })
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the receiver has ended");
        line.trim().to_owned()
    }

    pub(super) fn notice(&mut self) -> api::Notice {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of a receiver that is down.
pub(super) struct Hook {
    folder: tempfile::TempDir,
    url: String,
}

impl Hook {
    /// None if Python is not installed.
    pub(super) fn new() -> Option<Hook> {
        let folder = tempfile::TempDir::new().unwrap();
        let hook = Hook { folder, url: String::new() };
        std::fs::write(hook.secret(), "0123456789abcdef").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(hook.secret(), private).unwrap();
        let url = Receiver::start(&hook.secret(), "0")?.line();
        Some(Hook { url, ..hook })
    }

    fn secret(&self) -> PathBuf {
        self.folder.path().join("portal.secret")
    }

    /// The configuration of a service that may notify it.
    pub(super) fn config(&self) -> String {
        let secret = self.secret();
        format!("[[notify.webhook]]\nprefix = \"{}\"\nsecret_file = \"{}\"\n", self.url, secret.display())
    }

    /// Starts the receiver.
    pub(super) fn receive(&self) -> Receiver {
        let port = self.url.rsplit(':').next().unwrap().split('/').next().unwrap();
        let mut receiver = Receiver::start(&self.secret(), port).unwrap();
        assert_eq!(receiver.line(), self.url);
        receiver
    }

    /// Books a request whose owner is notified.
    pub(super) async fn book(&self, asker: &Asker, request: Request) -> ReservationId {
        let request = Request { webhook: Some(format!("{}ada", self.url).into()), ..request };
        asker.get(book(new_id(), request)).await.id
    }
}

#[test]
fn what_happened_just_before_a_kill_is_told_after_it() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        // The receiver is down during an event.
        let Some(hook) = Hook::new() else { return eprintln!("left out: there is no python3") };
        grid.start("site", "north", &site("north", &hook.config()), None).await;
        let ada = grid.asker("north");
        let id = hook.book(&ada, Request::single(part(1, now() + Seconds(3_600), 60))).await;
        grid.of_mut("north").kill9();

        let mut receiver = hook.receive();
        grid.of_mut("north").restart().await;
        let notice = receiver.notice();
        assert_eq!((notice.reservation, notice.what.as_str()), (id, "committed"));
        grid.asker("north").client().cancel(id).await.unwrap();
        // The receiver drops repeated notices, so this is the next one.
        assert_eq!(receiver.notice().what, "cancelled");
        grid.check_journals();
    });
}
