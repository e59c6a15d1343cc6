//! Priority classes of a site and orders of the queue, from the command line.

use crate::asking::{Asking, SITE};
use crate::folder::Folder;
use crate::service::Service;
use serde_json::Value;

const CLASSES: &str = "
[security.projects]
physics = [\"eve\"]
[priorities.normal]
number = 10
default = true
[priorities.urgent]
number = 100
users = [\"ada\"]
projects = [\"physics\"]
[priorities.low]
number = -10
";

/// Three jobs that need all ten processors: the first runs for 100 s, the second requests 50 s, the third 20 s.
const TRACE: &str = "; MaxProcs: 10
1 0 -1 100 10 -1 -1 10 100 -1 1 1 1 -1 1 -1 -1 -1
2 1 -1 50 10 -1 -1 10 50 -1 1 1 1 -1 1 -1 -1 -1
3 2 -1 20 10 -1 -1 10 20 -1 1 2 1 -1 2 -1 -1 -1
";

fn submit<'a>(user: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["submit", "--pretend", "1h", "--limit", "1h", "--capacity", "64", "--user", user];
    [&words[..], more].concat()
}

#[test]
fn queue_scheduling_utilizes_priority_management() {
    let asking = Asking::site(&format!("{SITE}{CLASSES}"));
    asking.document(&submit("bob", &[]));
    let id = |job: Value| job["id"].as_str().unwrap().to_owned();
    let low = id(asking.document(&submit("bob", &["--priority", "low"])));
    let usual = asking.document(&submit("bob", &[]));
    assert_eq!(usual["priority"], "normal", "the default class");
    let usual = id(usual);
    let urgent = id(asking.document(&submit("ada", &["--priority", "urgent"])));
    let starts = |id: &str, user| {
        let waits = |job: &Value| job["expected_start"].is_string();
        asking.until(&["show", id, "--user", user], waits)["expected_start"].as_str().unwrap().to_owned()
    };
    let last = starts(&low, "bob");
    let in_order = |job: &Value| job["expected_start"].as_str().is_some_and(|start| start < last.as_str());
    asking.until(&["show", &usual, "--user", "bob"], in_order);
    assert!(starts(&urgent, "ada") < starts(&usual, "bob"));
    assert!(starts(&usual, "bob") < starts(&low, "bob"));
    let shown = asking.ends(0, &["show", &urgent, "--user", "ada"]).out;
    assert!(shown.lines().any(|line| line.contains("priority") && line.contains("urgent")), "{shown}");
}

#[test]
fn a_broker_passes_the_class_on_and_the_site_decides_who_may_use_it() {
    let folder = Folder::with("broker.toml", "name = \"grid\"\nheartbeat = \"200ms\"\n");
    let service = Service::start(&folder, "broker --config broker.toml");
    let asking = Asking { folder, service };
    let link = format!("[[broker]]\nurl = \"{}\"\n", asking.service.url());
    asking.folder.write("north.toml", format!("heartbeat = \"200ms\"\n{SITE}\n{link}{CLASSES}"));
    let _north = Service::start(&asking.folder, "site --config north.toml");
    asking.until(&["sites"], |known| known["sites"].as_array().unwrap().len() == 2);
    let reserve = ["reserve", "--book", "--capacity", "8", "--duration", "1h", "--until", "+9h"];
    let reserve = [&reserve[..], &["--priority", "urgent", "--user"]].concat();
    let booked = asking.document(&[&reserve[..], &["ada"]].concat());
    assert_eq!(booked["priority"], "urgent");
    asking.ends(3, &[&reserve[..], &["bob"]].concat());
    let job = asking.document(&submit("ada", &["--priority", "urgent"]));
    assert_eq!(job["priority"], "urgent");
}

#[test]
fn a_class_is_used_by_those_who_may_and_a_refusal_names_the_others() {
    let asking = Asking::site(&format!("{SITE}{CLASSES}"));
    let refused = asking.ends(3, &submit("bob", &["--priority", "urgent"]));
    let said = "you may not use the priority class urgent here; use one of: low, normal";
    assert!(refused.err.contains(said), "{refused:?}");
    asking.ends(0, &submit("eve", &["--priority", "urgent"]));
    let reserve =
        ["reserve", "--book", "--capacity", "8", "--duration", "1h", "--from", "tomorrow 9:00", "--priority"];
    let refused = asking.ends(3, &[&reserve[..], &["urgent", "--user", "bob"]].concat());
    assert!(refused.err.contains(said), "{refused:?}");
    let booked = asking.document(&[&reserve[..], &["urgent", "--user", "ada"]].concat());
    assert_eq!(booked["priority"], "urgent");
    let id = booked["id"].as_str().unwrap();
    let changed = asking.document(&["change", id, "--priority", "low", "--user", "ada"]);
    assert_eq!(changed["priority"], "low");
    let shown = asking.ends(0, &["show", id, "--user", "ada"]).out;
    assert!(shown.lines().any(|line| line.contains("priority") && line.contains("low")), "{shown}");
    let refused = asking.ends(3, &submit("ada", &["--priority", "nope"]));
    assert!(refused.err.contains("use one of: low, normal, urgent"), "{refused:?}");
    asking.ends(2, &submit("ada", &["--priority", "very urgent"]));
}

#[test]
fn a_site_without_classes_says_so() {
    let asking = Asking::site(SITE);
    let refused = asking.ends(3, &submit("ada", &["--priority", "urgent"]));
    assert!(refused.err.contains("there is none for you: leave it out"), "{refused:?}");
}

#[test]
fn a_trace_is_simulated_in_each_order() {
    let folder = Folder::with("trace.swf", TRACE);
    assert_eq!(folder.starts(""), [(1, 0), (2, 100), (3, 150)]);
    for order in ["sjf", "lxf", "wfp3", "unicef", "fairshare"] {
        let starts = folder.starts(&format!("--scheduler easy[order={order}]"));
        assert_eq!(starts, [(1, 0), (2, 120), (3, 100)], "{order}");
    }
    let aged = folder.starts("--scheduler easy[order=multifactor,age=1,size=0,fairshare=0]");
    assert_eq!(aged, [(1, 0), (2, 100), (3, 150)]);
    let fair = folder.starts("--scheduler easy[order=multifactor,age=0,size=0,fairshare=1]");
    assert_eq!(fair, [(1, 0), (2, 120), (3, 100)]);
    let list = "easy,easy[order=multifactor,age=2,size=0,fairshare=1],fcfs[order=sjf]";
    let results = folder.succeed(&format!("simulate trace.swf --json --compare {list}")).json();
    let names =
        results["schedulers"].as_array().unwrap().iter().map(|run| run["scheduler"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>().join(","), list);
}

#[test]
fn a_trace_gets_priorities_from_its_queues_or_users() {
    let folder = Folder::with("trace.swf", TRACE);
    folder.write("queues.toml", "[queues]\n2 = 5\n");
    assert_eq!(folder.starts("--priorities queues.toml"), [(1, 0), (2, 120), (3, 100)]);
    folder.write("users.toml", "[queues]\n2 = 5\n[users]\n1 = 7\n");
    assert_eq!(folder.starts("--priorities users.toml"), [(1, 0), (2, 100), (3, 150)]);
    folder.write("wrong.toml", "[queues]\nbatch = 5\n");
    let wrong = folder.run("simulate trace.swf --priorities wrong.toml");
    assert!(wrong.code != Some(0) && wrong.err.contains("\"batch\" is no number"), "{wrong:?}");
}
