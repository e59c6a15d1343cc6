//! The web pages in a real browser: headless Chromium, driven by chromedriver. `./test` installs both.

mod booking;
mod connection;
mod driver;
mod looks;
mod sign_in;

use crate::folder::Folder;
use bookahead_tests::polling::PATIENCE;
use driver::Driver;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Window of a desktop and of a phone.
const DESKTOP: (u32, u32) = (1400, 900);
const PHONE: (u32, u32) = (390, 844);

/// Pause between two looks at a page.
const PAUSE: Duration = Duration::from_millis(30);

/// A browser with one page.
struct Browser {
    driver: Driver,
}

impl Browser {
    fn start() -> Browser {
        Browser::with_window(DESKTOP)
    }

    fn with_window(size: (u32, u32)) -> Browser {
        Browser { driver: Driver::start(size) }
    }

    /// Opens a page and waits until it is drawn.
    fn open(&self, url: &str) {
        self.driver.go_to(url);
        self.until("document.documentElement.dataset.ready === 'true'");
    }

    /// The value of a JavaScript expression.
    fn value(&self, expression: &str) -> Value {
        self.driver.run(&format!("return ({expression})"), &[])
    }

    fn text_of(&self, css: &str) -> String {
        let text = self.value(&format!("document.querySelector({})?.innerText ?? ''", json!(css)));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    fn until(&self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while !is_true(&self.value(expression)) {
            if Instant::now() > end {
                let (log, page) = (self.driver.log(), self.text_of("body"));
                panic!("never true: {expression}\n{log:#?}\n{page}");
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until there is such an element.
    fn until_there(&self, css: &str) {
        self.until(&format!("document.querySelector({})", json!(css)));
    }

    /// Waits until a text contains words.
    fn until_says(&self, css: &str, words: &str) {
        let (css, words) = (json!(css), json!(words));
        self.until(&format!("document.querySelector({css})?.innerText.includes({words})"));
    }

    /// The attribute of an element.
    #[track_caller]
    fn attribute(&self, css: &str, name: &str) -> String {
        self.until_there(css);
        let value =
            self.value(&format!("document.querySelector({}).getAttribute({})", json!(css), json!(name)));
        value.as_str().unwrap_or_else(|| panic!("{css} has no {name}")).to_owned()
    }

    #[track_caller]
    fn click(&self, css: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.until_there(css);
            self.value(&format!(
                "document.querySelector({})?.scrollIntoView({{ block: 'center' }})",
                json!(css)
            ));
            match self.driver.click(css) {
                Ok(()) => return,
                // The page has drawn it again meanwhile.
                Err(why) if why.contains("stale") && Instant::now() < end => {}
                Err(why) => panic!("cannot click {css}: {why}\n{}", self.text_of("body")),
            }
        }
    }

    /// Replaces the text of a field.
    #[track_caller]
    fn fill(&self, css: &str, text: &str) {
        self.until_there(css);
        self.driver.fill(css, text);
    }

    /// Presses keys, wherever the focus is.
    fn press(&self, keys: &str) {
        self.driver.press(keys);
    }

    /// Nothing went wrong in the page. The browser itself reports refusals of the API and lost connections, which pages
    /// show to their users.
    #[track_caller]
    fn is_clean(&self) {
        let bad = |line: &String| {
            let of_network = line.contains("Failed to load resource") || line.contains("net::ERR_");
            (line.contains("SEVERE") || line.contains("WARNING")) && !of_network
        };
        let bad: Vec<String> = self.driver.log().into_iter().filter(bad).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }

    /// Chooses a user of a service without authentication.
    fn be(&self, url: &str, user: &str) {
        self.open(&format!("{url}/#/sign-in"));
        self.click(&format!("#choose-user [data-user={user}]"));
        self.until_says("#user", user);
        self.until("document.documentElement.dataset.view === 'timeline'");
    }

    /// Asks for capacity.
    fn ask(&self, capacity: &str, length: &str, (from, until): (&str, &str)) {
        self.fill("#ask-what", capacity);
        self.fill("#ask-length", length);
        self.fill("#ask-from", from);
        self.fill("#ask-until", until);
        self.click("#ask-send");
        self.until("document.querySelector('.offer') || document.querySelector('#refusal')");
    }

    /// Holds the first offer and returns the id of the reservation.
    fn hold_first(&self) -> String {
        self.click(".offer");
        self.click("#hold");
        self.attribute("[data-hold]", "data-hold")
    }

    #[track_caller]
    fn quit(self) {
        self.is_clean();
    }
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
        && value.as_str() != Some("")
        && value.as_f64() != Some(0.0)
}

/// A grid for demonstration, until it is dropped.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the demo. Its first line has the address of its broker.
fn demo(folder: &Folder) -> (Demo, String) {
    let mut command = folder.command("demo --no-tour --port 0");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let demo = Demo(child);
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let url = line.trim_end().rsplit(" is at ").next().unwrap().to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{line}");
    // A process that writes to a pipe without a reader blocks.
    std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    (demo, url)
}

/// A port that was free a moment ago, for a service that must be found again after its end.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A site with 64 processors.
fn site(port: u16, more: &str) -> String {
    format!(
        "name = \"north\"\nlisten = \"127.0.0.1:{port}\"\n{more}\n[[resource]]\nname = \"cluster\"\n\
         kind = \"processors\"\ncapacity = 64\n"
    )
}

/// Saves a picture of the page.
fn picture(browser: &Browser, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, browser.driver.picture()).unwrap();
}
