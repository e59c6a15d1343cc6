//! How the pages look and how fast they are: accessible in every theme and width, drawn at once, and smooth however much
//! there is to draw. `BOOKAHEAD_UPDATE=1` renews the pictures of the README.

use super::{Browser, DESKTOP, PHONE, demo, picture};
use crate::folder::Folder;
use crate::service::Service;
use bookahead_api as api;
use bookahead_client::{Client, Options};
use bookahead_plan::Time;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Longest time until the page of the demo is painted, in milliseconds.
const FIRST_PAINT: f64 = 300.0;

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
    let programs = std::env::var_os("BOOKAHEAD_PYTHON_PROGRAMS")?;
    let libraries = Path::new(&programs).parent()?.join("lib");
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
        assert!(std::env::var_os("BOOKAHEAD_TEST_QUICK").is_some(), "axe is missing; ./test installs it");
        return;
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

#[test]
fn the_page_of_the_demo_is_painted_with_its_data_at_once() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    let mut times = Vec::new();
    for _ in 0..5 {
        browser.driver.go_to("about:blank");
        browser.open(&url);
        let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        browser.until(paint);
        times.push(browser.value(paint).as_f64().unwrap());
    }
    times.sort_by(f64::total_cmp);
    println!("first paint after {times:.0?} ms");
    assert!(times[2] < FIRST_PAINT, "{times:?}");
    browser.quit();
}

/// Frames a second while the picture moves.
const LEAST_FRAMES: f64 = 30.0;

/// Boxes in the schedule: `./test --long` makes as many as the first number, and the usual run more than a browser is
/// ever sent at once, so that its work is the same.
const BOXES: (usize, usize) = (100_000, 12_000);

/// Moves or zooms the picture in every frame, as with a mouse, and tells the frames a second and the gaps between them.
const MOVING: &str = "
const done = arguments[arguments.length - 1], mode = arguments[0], lasts = arguments[1];
const canvas = document.querySelector('#timeline-canvas'), box = canvas.getBoundingClientRect();
const x = box.left + box.width / 2, y = box.top + Math.min(box.height, 500) / 2, gaps = [];
let frames = 0, moved = 0, begun = performance.now(), last = begun;
const point = (type, by) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 7, pointerType: 'mouse', clientX: x + by,
  clientY: y, bubbles: true, button: type === 'pointermove' ? -1 : 0 }));
if (mode === 'pan') point('pointerdown', 0);
function step(now) {
  if (frames) gaps.push(now - last);
  last = now;
  frames += 1;
  if (mode === 'pan') {
    moved += Math.floor(frames / 90) % 2 ? 12 : -12;
    point('pointermove', moved);
  } else if (mode === 'zoom') {
    const deltaY = Math.floor(frames / 40) % 2 ? -30 : 30;
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY, clientX: x, clientY: y, bubbles: true, cancelable: true }));
  }
  if (now - begun < lasts) return requestAnimationFrame(step);
  if (mode === 'pan') point('pointerup', moved);
  gaps.sort((one, other) => one - other);
  done([1000 * gaps.length / gaps.reduce((sum, gap) => sum + gap, 0), gaps[Math.floor(gaps.length * 0.95)]]);
}
requestAnimationFrame(step);";

/// Frames a second, and the milliseconds below which 95 % of the gaps between them are.
fn frames(browser: &Browser, mode: &str) -> (f64, f64) {
    let told = browser.driver.run_async(MOVING, &[json!(mode), json!(2_000)]);
    (told[0].as_f64().unwrap(), told[1].as_f64().unwrap())
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
    let boxes = if std::env::var_os("BOOKAHEAD_TEST_LONG").is_some() { BOXES.0 } else { BOXES.1 };
    let resource = |number| {
        format!("[[resource]]\nname = \"cluster-{number}\"\nkind = \"processors\"\ncapacity = 20000\n")
    };
    let resources: String = (0..4).map(resource).collect();
    let folder = Folder::with("wide.toml", format!("name = \"wide\"\nlisten = \"127.0.0.1:0\"\n{resources}"));
    let running = Service::start(&folder, "site --config wide.toml");
    fill(&running.url(), boxes);
    let browser = Browser::start();
    browser.be(&running.url(), "operator");
    for view in ["day", "week", "month"] {
        browser.click(&format!("#show-{view}"));
        browser.click("#go-today");
        browser.until("document.documentElement.dataset.schedule === 'loaded'");
        for mode in ["pan", "zoom"] {
            let is_smooth = (0..3).any(|_| {
                let still = frames(&browser, "still");
                let moving = frames(&browser, mode);
                println!(
                    "{boxes} boxes, {view}, {mode}: {moving:.0?} frames a second and ms, still {still:.0?}"
                );
                browser.click("#go-today");
                moving.0 >= LEAST_FRAMES.min(still.0 / 2.0)
            });
            assert!(is_smooth, "{view}, {mode}: three times too few frames a second, see above");
        }
    }
    browser.quit();
    running.stop();
}
