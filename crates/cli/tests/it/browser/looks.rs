//! How the pages look: accessible in every theme and width, drawn with their data before they ask for any, and smooth
//! however much there is to draw. `BOOKAHEAD_UPDATE=1` renews the pictures of the README.

use super::{Browser, DESKTOP, PHONE, demo, picture};
use crate::folder::Folder;
use crate::service::Service;
use bookahead_api as api;
use bookahead_client::{Client, Options};
use bookahead_plan::Time;
use bookahead_tests::cases::{long, quick};
use bookahead_tests::polling::PATIENCE;
use bookahead_tests::python;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

const VIEWS: [&str; 6] = ["timeline", "mine", "jobs", "sites", "usage", "sign-in"];

/// Where pictures are written.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures")
}

fn prefer(browser: &Browser, theme: &str) {
    let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
    browser.driver.tool("Emulation.setEmulatedMedia", &features);
}

/// The program that checks accessibility, if `./test` has installed it.
fn axe() -> Option<String> {
    let python = python::program("python")?;
    let libraries = python.parent()?.parent()?.join("lib");
    let python = std::fs::read_dir(libraries).ok()?.next()?.ok()?.path();
    std::fs::read_to_string(python.join("site-packages/axe_playwright_python/axe.min.js")).ok()
}

/// Serious findings of a check of the current page.
fn findings(browser: &Browser, axe: &str) -> Vec<String> {
    // The protocol of the driver is not bound by the policy of the page, which forbids foreign scripts.
    browser.driver.run(axe, &[]);
    let run = "const done = arguments[arguments.length - 1]; axe.run().then(found => done(found.violations), why => done(String(why)))";
    let found = browser.driver.run_async(run, &[]);
    let serious = |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical"));
    let all = found.as_array().unwrap_or_else(|| panic!("{found}"));
    let told = |one: &Value| format!("{}: {} ({})", one["id"], one["help"], one["nodes"][0]["html"]);
    all.iter().filter(serious).map(told).collect()
}

#[test]
fn every_page_is_accessible_in_each_theme_and_width() {
    let Some(axe) = axe() else {
        return assert!(quick(), "axe is missing; ./test installs it");
    };
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.ask("64", "2h", ("in 2 hours", "+20h"));
    let id = browser.hold_first();
    let reservation = format!("reservation/{id}");
    for (window, size) in [("desktop", DESKTOP), ("phone", PHONE)] {
        browser.driver.resize(size);
        for theme in ["light", "dark"] {
            prefer(&browser, theme);
            for view in VIEWS.into_iter().chain([reservation.as_str()]) {
                browser.driver.go_to("about:blank");
                browser.open(&format!("{url}/#/{view}"));
                let found = findings(&browser, &axe);
                assert!(found.is_empty(), "{view}, {theme}, {window}: {found:#?}");
                let wide = browser.value("document.documentElement.scrollWidth - innerWidth");
                assert!(wide.as_i64().unwrap() <= 0, "{view}, {theme}, {window} is {wide} pixels too wide");
                let name = view.split('/').next().unwrap();
                picture(&browser, &pictures().join(format!("{name}-{theme}-{window}.png")));
            }
        }
    }
    browser.quit();
}

#[test]
fn the_pictures_of_the_readme_are_of_the_demo() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.ask("256", "3h", ("in 1 hour", "+20h"));
    // The earliest offer delays others, which the picture should show.
    browser.value("(sort => { sort.value = 'earliest-end'; sort.dispatchEvent(new Event('change')); })(document.querySelector('#sort'))");
    browser.click(".offer");
    browser.until_says("#effect", "job");
    let ask = pictures().join("dashboard.png");
    picture(&browser, &ask);
    prefer(&browser, "dark");
    browser.click("#hold");
    browser.until_there("[data-hold]");
    let held = pictures().join("dashboard-dark.png");
    picture(&browser, &held);
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    for made in [ask, held] {
        let stored = images.join(made.file_name().unwrap());
        if std::env::var_os("BOOKAHEAD_UPDATE").is_some() {
            std::fs::copy(&made, &stored).unwrap();
        }
        // What they show changes with the time; that they are pictures of a whole page does not.
        for path in [&made, &stored] {
            let bytes = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            let side = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(&bytes[..4], b"\x89PNG");
            assert!(side(16) == DESKTOP.0 && bytes.len() > 30_000, "{}", path.display());
        }
    }
    browser.quit();
}

/// Notes the answers of the API that a page has when it is drawn for the first time.
const NOTE_ANSWERS: &str = "
new MutationObserver(() => {
  if (document.documentElement.dataset.ready !== 'true') return;
  window.drawnWith ??= performance.getEntriesByType('resource').map((one) => one.name).filter((name) => name.includes('/v1/'));
}).observe(document, { subtree: true, attributes: true, attributeFilter: ['data-ready'] });";

/// A page that waits for an answer before it draws has that answer when it is drawn.
#[test]
fn the_page_of_the_demo_is_painted_with_its_data_at_once() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.driver.tool("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": NOTE_ANSWERS }));
    let end = Instant::now() + PATIENCE;
    loop {
        browser.driver.go_to("about:blank");
        browser.open(&url);
        assert_eq!(browser.value("window.drawnWith"), json!([]), "the page asks before it draws");
        browser.until_there(".names [data-lane]");
        // A service that is too busy leaves the data out, and the page asks for them.
        let data = "JSON.parse(document.querySelector('#first-data').textContent)";
        if browser.value(&format!("{data}.schedule?.resources.length > 0")) == json!(true) {
            break;
        }
        assert!(Instant::now() < end, "the page never has its data");
    }
    browser.quit();
}

/// A schedule with very many boxes gives at least this share of the frames that one with a few gives. Both move in the
/// same way, one after the other, so that a slow or busy machine slows down both.
const LEAST_FRAMES: f64 = 1.0 / 3.0;

/// Boxes in the schedule: `./test --long` makes as many as the first number, and the usual run more than a browser is
/// ever sent at once, so that its work is the same.
const BOXES: (usize, usize) = (100_000, 12_000);

/// Boxes in the schedule to compare with.
const FEW: usize = 12;

/// Moves or zooms the picture in every frame, as with a mouse, and tells the frames a second.
const MOVING: &str = "
const done = arguments[arguments.length - 1], mode = arguments[0], lasts = arguments[1];
const canvas = document.querySelector('#timeline-canvas'), box = canvas.getBoundingClientRect();
const x = box.left + box.width / 2, y = box.top + Math.min(box.height, 500) / 2;
let frames = 0, moved = 0, begun = 0;
const point = (type, by) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 7, pointerType: 'mouse', clientX: x + by,
  clientY: y, bubbles: true, button: type === 'pointermove' ? -1 : 0 }));
if (mode === 'pan') point('pointerdown', 0);
function step(now) {
  begun ||= now;
  frames += 1;
  if (mode === 'pan') {
    moved += Math.floor(frames / 90) % 2 ? 12 : -12;
    point('pointermove', moved);
  } else {
    const deltaY = Math.floor(frames / 40) % 2 ? -30 : 30;
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY, clientX: x, clientY: y, bubbles: true, cancelable: true }));
  }
  if (now - begun < lasts) return requestAnimationFrame(step);
  if (mode === 'pan') point('pointerup', moved);
  done(1000 * (frames - 1) / (now - begun));
}
requestAnimationFrame(step);";

/// Frames a second while the schedule of a site moves.
fn frames(browser: &Browser, site: &Service, view: &str, mode: &str) -> f64 {
    browser.open(&format!("{}/#/timeline", site.url()));
    browser.click(&format!("#show-{view}"));
    browser.click("#go-today");
    browser.until("document.documentElement.dataset.schedule === 'loaded'");
    browser.driver.run_async(MOVING, &[json!(mode), json!(1_500)]).as_f64().unwrap()
}

/// Books boxes of an hour to six over sixty days on four resources.
fn fill(url: &str, boxes: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = Options { user: Some("ada".into()), ..Options::default() };
        let client = Client::new(url, options).unwrap();
        let now = jiff::Timestamp::now().as_second();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..32 {
            let client = client.clone();
            tasks.spawn(async move {
                for number in (task..boxes).step_by(32) {
                    // Steps without a common factor spread begins, lengths and sizes evenly.
                    let begin = now + 3_600 + (number as i64 * 7_919 * 60) % (60 * 86_400);
                    let length = 3_600 + (number as i64 * 1_237) % 18_000;
                    let at = |second: i64| api::Timestamp::nearest(Time(second));
                    let part = json!({ "capacity": 1 + number % 16, "duration_seconds": length,
                        "earliest_start": at(begin), "latest_end": at(begin + length),
                        "resource": format!("cluster-{}", number % 4) });
                    let reserve = json!({ "request": { "parts": [part] }, "book": true });
                    let reserve = serde_json::from_value(reserve).unwrap();
                    client.reserve(&reserve, &format!("box-{number}")).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
}

#[test]
fn a_schedule_of_very_many_boxes_moves_smoothly() {
    let many = if long() { BOXES.0 } else { BOXES.1 };
    let resource = |number| {
        format!("[[resource]]\nname = \"cluster-{number}\"\nkind = \"processors\"\ncapacity = 20000\n")
    };
    let resources: String = (0..4).map(resource).collect();
    let folder = Folder::new();
    let sites = [("small", FEW), ("wide", many)].map(|(name, boxes)| {
        let config = format!("name = \"{name}\"\nlisten = \"127.0.0.1:0\"\n{resources}");
        folder.write(&format!("{name}.toml"), config);
        let site = Service::start(&folder, &format!("site --config {name}.toml"));
        fill(&site.url(), boxes);
        site
    });
    let browser = Browser::start();
    for view in ["day", "week", "month"] {
        for mode in ["pan", "zoom"] {
            let is_smooth = (0..3).any(|_| {
                let [few, all] = [0, 1].map(|at| frames(&browser, &sites[at], view, mode));
                println!("{view}, {mode}: {all:.0} frames a second with {many} boxes, {few:.0} with {FEW}");
                all >= few * LEAST_FRAMES
            });
            assert!(is_smooth, "{view}, {mode}: three times too few frames a second, see above");
        }
    }
    browser.quit();
    sites.into_iter().for_each(Service::stop);
}
