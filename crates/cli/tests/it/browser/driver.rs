//! A browser by the WebDriver protocol: chromedriver and the Chromium that it starts. Written here because the crates for
//! it change what is tested: `thirtyfour` sets a feature of `serde_json` that reorders every document, and `fantoccini`
//! brings second versions of 25 crates. One connection for each command; everything but clicks and keys is a script.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Keys of the WebDriver protocol.
pub(super) const ENTER: &str = "\u{e007}";
pub(super) const TAB: &str = "\u{e004}";
pub(super) const SELECT_ALL: &str = "\u{e009}a";

/// Name of the field with the id of an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Longest time of a command. A page may be busy for a while on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running browser. Dropping it kills it, even if the test fails.
pub(super) struct Driver {
    child: Child,
    /// The folder of the browser, which also names its processes.
    profile: TempDir,
    port: u16,
    session: String,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser is a grandchild, in a group of its own.
        let profile = self.profile.path().display().to_string();
        let _ = Command::new("pkill").args(["-KILL", "-f", &profile]).status();
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}

/// Status line and body of an answer. Its length tells where it ends: chromedriver keeps connections open.
fn answer(mut stream: impl BufRead) -> std::io::Result<(String, Vec<u8>)> {
    let (mut status, mut length) = (String::new(), 0);
    stream.read_line(&mut status)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status, body))
}

impl Driver {
    pub(super) fn start((width, height): (u32, u32)) -> Driver {
        let profile = TempDir::new().unwrap();
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("chromedriver is missing; ./test installs it");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let port = port.expect("chromedriver does not start");
        let mut driver = Driver { child, profile, port, session: String::new() };
        let options = [
            "--headless=new".to_owned(),
            // Root has no sandbox, and containers often have a small /dev/shm.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--force-device-scale-factor=1".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", driver.profile.path().display()),
        ];
        let wanted =
            json!({ "goog:chromeOptions": { "args": options }, "goog:loggingPrefs": { "browser": "ALL" } });
        let begun = driver.send("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        let begun = begun.unwrap_or_else(|why| panic!("the browser does not start: {why}"));
        driver.session = begun["sessionId"].as_str().unwrap().to_owned();
        driver
    }

    /// The value of an answer. The error is its message.
    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|why| why.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
        let (status, body) = answer(BufReader::new(stream)).map_err(|why| why.to_string())?;
        let mut document: Value = serde_json::from_slice(&body).map_err(|why| why.to_string())?;
        let value = document["value"].take();
        if status.contains(" 200 ") {
            return Ok(value);
        }
        Err(value["message"].as_str().unwrap_or(&status).to_owned())
    }

    /// A command of the session.
    #[track_caller]
    fn ask(&self, method: &str, what: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{what}", self.session);
        self.send(method, &path, body).unwrap_or_else(|why| panic!("{what}: {why}"))
    }

    pub(super) fn go_to(&self, url: &str) {
        self.ask("POST", "url", &json!({ "url": url }));
    }

    pub(super) fn reload(&self) {
        self.ask("POST", "refresh", &json!({}));
    }

    /// What a script returns.
    #[track_caller]
    pub(super) fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.ask("POST", "execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// What a script passes to its last argument, a function.
    #[track_caller]
    pub(super) fn run_async(&self, script: &str, arguments: &[Value]) -> Value {
        self.ask("POST", "execute/async", &json!({ "script": script, "args": arguments }))
    }

    fn element(&self, css: &str) -> Result<String, String> {
        let path = format!("/session/{}/element", self.session);
        let found = self.send("POST", &path, &json!({ "using": "css selector", "value": css }))?;
        Ok(format!("{path}/{}", found[ELEMENT].as_str().unwrap_or_default()))
    }

    /// Clicks as a user does. The error says why that is impossible, such as another element in front.
    pub(super) fn click(&self, css: &str) -> Result<(), String> {
        self.send("POST", &format!("{}/click", self.element(css)?), &json!({})).map(drop)
    }

    #[track_caller]
    pub(super) fn fill(&self, css: &str, text: &str) {
        let element = self.element(css).unwrap();
        self.send("POST", &format!("{element}/clear"), &json!({})).unwrap();
        self.send("POST", &format!("{element}/value"), &json!({ "text": text })).unwrap();
    }

    /// Presses keys one after another, wherever the focus is. Control stays down until the end.
    pub(super) fn press(&self, keys: &str) {
        let press = |key: char| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        };
        let held = keys.strip_prefix('\u{e009}');
        let mut actions: Vec<Value> = held.unwrap_or(keys).chars().flat_map(press).collect();
        if held.is_some() {
            actions.insert(0, json!({ "type": "keyDown", "value": "\u{e009}" }));
            actions.push(json!({ "type": "keyUp", "value": "\u{e009}" }));
        }
        self.ask(
            "POST",
            "actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    pub(super) fn resize(&self, (width, height): (u32, u32)) {
        self.ask("POST", "window/rect", &json!({ "x": 0, "y": 0, "width": width, "height": height }));
    }

    /// A picture of the page, PNG.
    pub(super) fn picture(&self) -> Vec<u8> {
        let text = self.ask("GET", "screenshot", &json!({}));
        STANDARD.decode(text.as_str().unwrap()).unwrap()
    }

    /// A command of Chromium's developer tools.
    pub(super) fn tool(&self, command: &str, parameters: &Value) {
        self.ask("POST", "goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    /// Messages of the browser since the last call.
    pub(super) fn log(&self) -> Vec<String> {
        let all = self.ask("POST", "se/log", &json!({ "type": "browser" }));
        let text = |entry: &Value| format!("{} {}", entry["level"], entry["message"]);
        all.as_array().unwrap().iter().map(text).collect()
    }
}
