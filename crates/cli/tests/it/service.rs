//! A site or broker as a process, started as a user starts it and called over its socket. A process that is still
//! running when a test ends is killed, even if the test fails.

use crate::folder::Folder;
use bookahead_tests::polling::{PATIENCE, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// A running service.
pub(crate) struct Service {
    child: Child,
    pub(crate) ready: String,
    /// Its standard error.
    said: Option<JoinHandle<String>>,
}

/// An answer of the service.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Service {
    /// Starts the words of `line` in a folder and waits until the service is ready.
    #[track_caller]
    pub(crate) fn start(folder: &Folder, line: &str) -> Service {
        Service::of(folder.command(line))
    }

    /// The same for a prepared command.
    #[track_caller]
    pub(crate) fn of(mut command: Command) -> Service {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let lines = first_line(&mut child);
        let mut service = Service { child, ready: String::new(), said: Some(said) };
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if !line.is_empty() => service.ready = line.trim_end().to_owned(),
            _ => panic!("it is not ready: {}", service.killed()),
        }
        service
    }

    /// The address that it listens on.
    pub(crate) fn url(&self) -> String {
        match serde_json::from_str::<Value>(&self.ready) {
            Ok(ready) => ready["url"].as_str().unwrap().to_owned(),
            Err(_) => self.ready.split(" is ready at ").nth(1).unwrap().to_owned(),
        }
    }

    /// Sends it a signal, like `kill`.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        let told = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(told.unwrap().success());
    }

    /// Waits until it has ended, and returns its standard error.
    #[track_caller]
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = until(|| self.child.try_wait().unwrap().ok_or("it does not end"));
        (status, self.said.take().unwrap().join().unwrap())
    }

    /// Stops it with SIGTERM, like an operator.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.signal("TERM");
        let (status, said) = self.ended();
        assert_eq!(status.code(), Some(0), "{said}");
    }

    /// Sends it a request.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = connect(&self.url());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        // A service that ends during the request closes the connection; only the received data matters.
        let _ = stream.read_to_string(&mut text);
        let status = text.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        Answer { status, body }
    }

    /// Books four processors for an hour, at any time of the next day. The same key makes it the same request.
    pub(crate) fn book(&self, key: u32) -> Answer {
        let in_hours =
            |hours: i64| jiff::Timestamp::from_second(begun() + hours * 3_600).unwrap().to_string();
        let (from, until) = (in_hours(1), in_hours(24));
        let part = format!(
            r#"{{"capacity":4,"duration_seconds":3600,"earliest_start":"{from}","latest_end":"{until}"}}"#
        );
        let body = format!(r#"{{"request":{{"parts":[{part}]}},"book":true}}"#);
        self.ask("POST", "/v1/reservations", &format!("Idempotency-Key: \"{key}\"\r\n"), &body)
    }

    /// Kills it, and returns its standard error.
    fn killed(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.said.take().map_or_else(String::new, |said| said.join().unwrap_or_default())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.killed();
    }
}

/// A connection, over TCP or a Unix socket.
pub(crate) trait Connection: Read + Write {}

impl<S: Read + Write> Connection for S {}

/// Connects to the address of a service.
pub(crate) fn connect(url: &str) -> Box<dyn Connection> {
    if let Some(path) = url.strip_prefix("unix:") {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        return Box::new(stream);
    }
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Box::new(stream)
}

/// `[jobs]` of a site that runs programs, in one line. If the tests run as root, the programs do not.
pub(crate) const PROGRAMS: &str = "jobs = { processes = true, account = \"nobody\" }";

/// The time when the tests began.
fn begun() -> i64 {
    static BEGUN: OnceLock<i64> = OnceLock::new();
    *BEGUN.get_or_init(|| jiff::Timestamp::now().as_second())
}

/// The first line of standard output, as soon as it arrives.
fn first_line(child: &mut Child) -> Receiver<String> {
    let (tell, lines) = channel();
    let out = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(out).read_line(&mut line);
        let _ = tell.send(line);
    });
    lines
}
