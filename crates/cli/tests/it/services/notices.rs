//! Owners are notified through the receiver of the documents, also of events just before the service was killed.

use super::asking::{now, part};
use super::grid::{Grid, site};
use super::runtime;
use bookahead_api as api;
use bookahead_client::make;
use bookahead_plan::Seconds;
use bookahead_protocol as protocol;
use bookahead_protocol::Request;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The receiver of the documents, as a process.
struct Receiver {
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

    fn notice(&mut self) -> api::Notice {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_happened_just_before_a_kill_is_told_after_it() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        let folder = tempfile::TempDir::new().unwrap();
        let secret = folder.path().join("portal.secret");
        std::fs::write(&secret, "0123456789abcdef").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&secret, private).unwrap();
        let Some(mut receiver) = Receiver::start(&secret, "0") else {
            return eprintln!("left out: there is no python3");
        };
        let url = receiver.line();
        let port = url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
        // The receiver is down during an event.
        drop(receiver);
        let webhook =
            format!("[[notify.webhook]]\nprefix = \"{url}\"\nsecret_file = \"{}\"\n", secret.display());
        grid.start("site", "north", &site("north", &webhook), None).await;
        let ada = grid.asker("north");
        let request = Request::single(part(1, now() + Seconds(3_600), 60));
        let request = protocol::Request { webhook: Some(format!("{url}ada").into()), ..request };
        let request = api::Request::try_from(request).unwrap();
        let id = make::reservation_id().unwrap();
        let reserve =
            api::Reserve { id: Some(id), request, hold_for_seconds: api::FineSeconds(60_000), book: true };
        let key = || make::key().unwrap().to_string();
        ada.client().reserve(&reserve, &key()).await.unwrap();
        grid.of_mut("north").kill9();

        let mut receiver = Receiver::start(&secret, &port).unwrap();
        assert_eq!(receiver.line(), url);
        grid.of_mut("north").restart().await;
        let notice = receiver.notice();
        assert_eq!((notice.reservation, notice.what.as_str()), (id, "committed"));
        grid.asker("north").client().cancel(id).await.unwrap();
        // The receiver drops repeated notices, so this is the next one.
        assert_eq!(receiver.notice().what, "cancelled");
        grid.check_journals();
    });
}
