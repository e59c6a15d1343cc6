//! Booking in the pages: from the question to a reservation, and what becomes of it.

use super::driver::{ENTER, SELECT_ALL, TAB};
use super::{Browser, demo, site};
use crate::folder::Folder;
use crate::service::Service;
use bookahead_tests::polling::until_true;
use serde_json::{Value, json};

/// State of a reservation, as the command line shows it.
fn state(folder: &Folder, url: &str, id: &str) -> Value {
    folder.succeed(&format!("show {id} --server {url} --user ada --json")).json()
}

#[test]
fn a_booking_is_asked_for_held_committed_prolonged_and_cancelled() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.fill("#ask-name", "beamline run");
    browser.ask("64", "2h", ("in 2 hours", "+20h"));
    browser.click(".offer");
    browser.until_says("#effect", "job");
    browser.click("#hold");
    let id = browser.attribute("[data-hold]", "data-hold");
    assert_eq!(state(&folder, &url, &id)["state"], "held");
    browser.click("[data-action=commit]");
    browser.until("!document.querySelector('[data-hold]')");
    assert_eq!(state(&folder, &url, &id)["state"], "committed");

    // Selected in the timeline, with its details beside it.
    browser.open(&format!("{url}/#/reservation/{id}"));
    browser.click("#to-timeline");
    browser.until("document.documentElement.dataset.view === 'timeline'");
    browser.until_says("#details", "beamline run");

    browser.open(&format!("{url}/#/reservation/{id}"));
    let end = |shown: &Value| shown["slots"][0]["end"].as_str().unwrap().to_owned();
    let before = end(&state(&folder, &url, &id));
    browser.click("[data-action=extend]");
    browser.click("dialog [data-action=extend]");
    browser.until("!document.querySelector('dialog[open]')");
    // The dialog is closed before the service has answered.
    until_true("the reservation is longer", || end(&state(&folder, &url, &id)) > before);
    browser.click("[data-action=cancel]");
    browser.click("dialog [data-action=cancel]");
    browser.until("document.querySelector('.page-head .badge')?.dataset.state === 'cancelled'");
    assert_eq!(state(&folder, &url, &id)["state"], "cancelled");
    browser.until_says("#history", "cancelled");
    browser.quit();
}

#[test]
fn ranges_a_machine_and_a_priority_class_are_asked_for_and_the_reservation_has_the_terms() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.click("details.attributes summary");
    browser.fill("#ask-machine", "mhz=2600");
    browser.fill("#ask-priority", "urgent");
    browser.ask("4..16", "1h..2h", ("in 2 hours", "+20h"));
    let id = browser.hold_first();
    let held = state(&folder, &url, &id);
    assert_eq!((&held["slots"][0]["capacity"], &held["priority"]), (&16.into(), &"urgent".into()), "{held}");
    browser.quit();
}

#[test]
fn gpus_and_a_licence_are_asked_for_with_the_nodes_and_shown() {
    let tres = "tres = { \"gres/gpu:a100\" = 8, \"license/qpu\" = 1 }\n";
    let folder = Folder::with("site.toml", format!("{}{tres}", site(0, "")));
    let service = Service::start(&folder, "site --config site.toml");
    let browser = Browser::start();
    browser.be(&service.url(), "ada");
    browser.click("details.attributes summary");
    browser.fill("#ask-tres", "gres/gpu:a100=four");
    browser.click("#ask-send");
    browser.until_says("[data-error]", "is not an amount");
    browser.fill("#ask-tres", "gres/gpu:a100=4, license/qpu=1");
    browser.ask("4", "1h", ("in 2 hours", "+20h"));
    let id = browser.hold_first();
    let held = state(&folder, &service.url(), &id);
    assert_eq!(held["slots"][0]["tres"], json!({"gres/gpu:a100": 4, "license/qpu": 1}), "{held}");
    browser.open(&format!("{}/#/reservation/{id}", service.url()));
    browser.until_says("#parts", "gres/gpu:a100=4, license/qpu=1");
    browser.quit();
}

#[test]
fn a_job_that_went_back_to_the_queue_says_so_on_its_page() {
    let folder = Folder::with("north.toml", site(0, ""));
    let running = Service::start(&folder, "site --config north.toml");
    let url = running.url();
    let ask = |words: &str| folder.succeed(&format!("{words} --server {url} --user ada --json")).json();
    let booked = ask("reserve --book --capacity 4 --duration 1h --from +2h");
    let id = booked["id"].as_str().unwrap();
    let job = ask(&format!("submit --reservation {id} --pretend 30m --limit 40m --capacity 2 --restartable"));
    ask(&format!("cancel {id}"));
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.open(&format!("{url}/#/job/{}", job["id"].as_str().unwrap()));
    browser.until_says("main", "Went back to the queue");
    browser.until_says("main", "once");
    browser.quit();
    running.stop();
}

#[test]
fn a_refusal_offers_what_is_possible_and_an_offer_is_accepted() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.ask("500", "2h", ("in 20 minutes", "+3h"));
    browser.until_there("#refusal [data-counter]");
    browser.click("#refusal [data-counter]");
    browser.until_there(".offer");
    let id = browser.hold_first();
    browser.click("[data-action=commit]");
    browser.until("!document.querySelector('[data-hold]')");
    assert_eq!(state(&folder, &url, &id)["state"], "committed");
    browser.quit();
}

#[test]
fn what_another_client_does_is_seen_at_once() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.be(&url, "ada");
    browser.open(&format!("{url}/#/mine"));
    browser.until("document.documentElement.dataset.live === 'live'");
    let booked = folder.succeed(&format!(
        "reserve --capacity 8 --duration 1h --from +2h --until +20h --name elsewhere --book --server {url} --user ada --json"
    ));
    let id = booked.json()["id"].as_str().unwrap().to_owned();
    browser.until_there(&format!(".booking[data-reservation='{id}'][data-state=committed]"));
    folder.succeed(&format!("cancel {id} --server {url} --user ada"));
    browser.until(&format!(
        "!document.querySelector(\".booking[data-reservation='{id}'][data-state=committed]\")"
    ));
    browser.quit();
}

#[test]
fn an_invitation_is_accepted_or_declined_in_the_page_and_its_owner_blocked() {
    let folder = Folder::with("site.toml", site(0, ""));
    let service = Service::start(&folder, "site --config site.toml");
    let url = service.url();
    let book = |name: &str| {
        let reserve =
            format!("reserve --book --capacity 1 --duration 1h --from +2h --until +20h --name {name}");
        let booked = folder.succeed(&format!("{reserve} --with bob --server {url} --user ada --json"));
        booked.json()["id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (book("course"), book("unwanted"));
    let browser = Browser::start();
    browser.be(&url, "bob");
    browser.open(&format!("{url}/#/mine"));
    browser.until_there(&format!("[data-reservation='{first}'] [data-state=invitation]"));
    browser.open(&format!("{url}/#/reservation/{first}"));
    browser.click("[data-action=accept]");
    browser
        .until("document.querySelector('.page-head') && !document.querySelector('[data-state=invitation]')");
    assert_eq!(state(&folder, &url, &first)["consents"], json!({"bob": "accepted"}));
    browser.open(&format!("{url}/#/reservation/{second}"));
    browser.click("[data-action=decline]");
    browser.click("dialog [data-action=block]");
    browser.until_there("[data-unblock=ada]");
    assert_eq!(state(&folder, &url, &second)["consents"], json!({"bob": "declined"}));
    let third = book("later");
    browser.until_there(&format!(".booking[data-reservation='{first}']"));
    for hidden in [&second, &third] {
        browser.until(&format!("!document.querySelector(\"[data-reservation='{hidden}']\")"));
    }
    browser.click("[data-unblock=ada]");
    browser.until_there(&format!(".booking[data-reservation='{third}']"));
    browser.quit();
}

#[test]
fn all_of_it_works_with_the_keyboard_alone() {
    let folder = Folder::new();
    let (_demo, url) = demo(&folder);
    let browser = Browser::start();
    browser.be(&url, "ada");
    // The key `/` leads to the form; from there on only Tab, Enter and letters.
    browser.press("/");
    browser.until("document.activeElement?.closest('#ask-form')");
    to(&browser, "#ask-what");
    type_over(&browser, "16");
    to(&browser, "#ask-length");
    type_over(&browser, "1h");
    to(&browser, "#ask-from");
    type_over(&browser, "in 2 hours");
    to(&browser, "#ask-until");
    type_over(&browser, "+20h");
    browser.press(ENTER);
    browser.until_there(".offer");
    to(&browser, ".offer");
    browser.press(ENTER);
    browser.until_there("#hold");
    to(&browser, "#hold");
    browser.press(ENTER);
    browser.until_there("[data-hold]");
    let id = browser.attribute("[data-hold]", "data-hold");
    to(&browser, "[data-action=commit]");
    browser.press(ENTER);
    browser.until("!document.querySelector('[data-hold]')");
    assert_eq!(state(&folder, &url, &id)["state"], "committed");
    browser.open(&format!("{url}/#/reservation/{id}"));
    to(&browser, "[data-action=cancel]");
    browser.press(ENTER);
    browser.until_there("dialog[open]");
    to(&browser, "dialog [data-action=cancel]");
    browser.press(ENTER);
    browser.until("document.querySelector('.page-head .badge')?.dataset.state === 'cancelled'");
    browser.quit();
}

/// Moves the focus with Tab until it is on such an element.
fn to(browser: &Browser, css: &str) {
    browser.until_there(css);
    let there = format!("document.activeElement?.matches({})", serde_json::json!(css));
    for _ in 0..200 {
        if browser.value(&there) == true {
            return;
        }
        browser.press(TAB);
    }
    panic!("Tab does not lead to {css}");
}

fn type_over(browser: &Browser, text: &str) {
    browser.press(SELECT_ALL);
    browser.press(text);
}

#[test]
fn maintenance_is_in_the_timeline_by_name_and_named_by_a_refusal() {
    let own = "[[maintenance]]\nname = \"filter change\"\nrule = \"FREQ=DAILY\"\nfrom = \"00:00\"\nto = \"23:59\"\n\
               zone = \"UTC\"\n";
    let folder = Folder::with("site.toml", format!("{}{own}", site(0, "")));
    let running = Service::start(&folder, "site --config site.toml");
    let browser = Browser::start();
    browser.be(&running.url(), "ada");
    browser.click("#show-table");
    browser.until_says("#timeline-table", "filter change");
    browser.until_says("#timeline-table", "maintenance");
    browser.click("#show-table");
    browser.ask("8", "2h", ("in 2 hours", "+20h"));
    browser.until_says("#refusal", "maintenance `filter change` until");
    browser.until_says("#blockers", "maintenance “filter change”");
    assert!(!browser.text_of("#refusal").contains("Z:"), "times are by the clock of the reader");
    // A single minute of each day is left.
    browser.ask("8", "1m", ("in 1 minute", "+30h"));
    browser.until_there(".offer");
    browser.until_says(".maintenance", "filter change");
    browser.quit();
    running.stop();
}
