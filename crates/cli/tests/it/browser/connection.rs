//! Pages of services that end and return, and pages behind the prefix of a portal.

use super::{Browser, free_port, site};
use crate::folder::Folder;
use crate::service::Service;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Books at the site, as another client.
fn book(folder: &Folder, url: &str, credential: &str, name: &str) {
    folder.succeed(&format!(
        "reserve --capacity 4 --duration 1h --from +2h --until +20h --name {name} --book --server {url} {credential}"
    ));
}

#[test]
fn a_page_says_that_its_service_is_gone_and_catches_up_when_it_is_back() {
    let port = free_port();
    let folder = Folder::with("north.toml", site(port, ""));
    let url = format!("http://127.0.0.1:{port}");
    let running = Service::start(&folder, "site --config north.toml");
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.open(&format!("{url}/#/mine"));
    browser.until("document.documentElement.dataset.live === 'live'");
    running.signal("KILL");
    let _ = running.ended();
    browser.until("document.documentElement.dataset.live !== 'live'");
    browser.until_says("body", "ffline");

    let running = Service::start(&folder, "site --config north.toml");
    book(&folder, &url, "--user ada", "while-away");
    browser.until("document.documentElement.dataset.live === 'live'");
    browser.until_says("body", "while-away");
    browser.quit();
    running.stop();
}

/// The stand-in for Open OnDemand, which starts the app of `examples/ondemand`. Ends when dropped.
struct Portal {
    child: Child,
    url: String,
}

impl Portal {
    fn start(service: &str, token: &Path) -> Portal {
        let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ondemand");
        let mut command = Command::new("python3");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BOOKAHEAD_")) {
            command.env_remove(name);
        }
        let mut child = command
            .arg(app.join("test/portal.py"))
            .arg("--app")
            .arg(&app)
            .args(["--port", "0"])
            .env("BOOKAHEAD_URL", service)
            .env("BOOKAHEAD_TOKEN_FILE", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Portal { child, url: format!("http://127.0.0.1:{}", port.trim()) }
    }

    /// Ends it, and returns what it told.
    fn ended(mut self) -> String {
        drop(self.child.stdin.take());
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        let _ = self.child.wait();
        told
    }
}

impl Drop for Portal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_pages_work_below_the_prefix_of_a_portal_that_passes_a_token_on() {
    let folder = Folder::with("north.toml", site(0, "[security]\nkeys = \"secret\"\n"));
    folder.succeed("token --new-secret secret");
    folder.succeed("token --keys secret --user ada --out token");
    let running = Service::start(&folder, "site --config north.toml");
    let portal = Portal::start(&running.url(), &folder.path("token"));
    let below = format!("{}/pun/sys/bookahead", portal.url);

    let browser = Browser::start();
    browser.driver.go_to(&format!("{}/login", portal.url));
    browser.until(&format!("location.href.startsWith('{below}/')"));
    browser.until_says("#user", "ada");
    browser.until("document.documentElement.dataset.live === 'live'");
    browser.ask("16", "1h", ("in 2 hours", "+20h"));
    let id = browser.hold_first();
    browser.click("[data-action=commit]");
    browser.until("!document.querySelector('[data-hold]')");
    let shown = folder.succeed(&format!("show {id} --server {} --token-file token --json", running.url()));
    assert_eq!(
        (shown.json()["state"].as_str(), shown.json()["owner"].as_str()),
        (Some("committed"), Some("ada"))
    );
    // Live events come through the proxy as well.
    browser.open(&format!("{below}/#/mine"));
    book(&folder, &running.url(), "--token-file token", "beside");
    browser.until_says("body", "beside");
    let outside = browser
        .value(&format!(
            "performance.getEntriesByType('resource').map(one => one.name).filter(one => !one.startsWith('{below}/'))"
        ));
    assert_eq!(outside, serde_json::json!([]));
    // A portal signs its users in and out, not the page.
    browser.open(&format!("{below}/#/sign-in"));
    browser.until_says("#sign-in", "Your portal has signed you in");
    assert_eq!(browser.value("document.querySelectorAll('#sign-out, #token-form').length"), 0);
    browser.quit();
    let told = portal.ended();
    assert!(!told.contains("outside of the app"), "{told}");
    running.stop();
}

#[test]
fn a_portal_explains_a_missing_token_and_refuses_what_another_page_has_sent() {
    let folder = Folder::with("north.toml", site(0, "[security]\nkeys = \"secret\"\n"));
    folder.succeed("token --new-secret secret");
    let running = Service::start(&folder, "site --config north.toml");
    let portal = Portal::start(&running.url(), &folder.path("token"));
    let browser = Browser::start();
    browser.driver.go_to(&format!("{}/login", portal.url));
    browser.until_says("body", "there is no file");
    folder.succeed("token --keys secret --user ada --out token");
    browser.driver.go_to(&format!("{}/pun/sys/bookahead/", portal.url));
    browser.until_says("#user", "ada");
    let forged = "fetch('v1/reservations', { method: 'POST', body: '{}' }).then(answer => { window.told = answer.status; })";
    browser.value(&format!("({forged}, true)"));
    browser.until("window.told === 403");
    drop(portal);
    browser.quit();
    running.stop();
}
