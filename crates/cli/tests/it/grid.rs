//! `simulate-grid`: the examples run and settle, results are available as text and JSON, diagrams are drawn, and an
//! inconsistent description is refused with advice.

use crate::folder::Folder;
use serde_json::Value;
use std::path::Path;

/// One site, one broker, one client that books two parts together; `{}` are placeholders for more lines of the request,
/// and at the end.
const SMALL: &str = r#"
seed = 1
duration = "1h"

[[site]]
name = "a"
[[site.resource]]
name = "cluster"
kind = "processors"
capacity = 8

[[site]]
name = "b"
[[site.resource]]
name = "cluster"
kind = "processors"
capacity = 8
jobs = { per_hour = 10, size = [1, 4], run = ["1m", "10m"] }

[[broker]]
name = "broker"
peers = ["a", "b"]

[[client]]
name = "ana"
asks = "broker"
[[client.request]]
at = "10s"
intent = "book"
[[client.request.part]]
name = "one"
kind = "processors"
capacity = 6
duration = "10m"
latest = "50m"
[[client.request.part]]
name = "two"
kind = "processors"
capacity = 6
duration = "10m"
latest = "50m"
[[client.request.constraint]]
together = ["one", "two"]
"#;

fn folder(description: &str) -> Folder {
    Folder::with("grid.toml", description)
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grid").join(name).display().to_string()
}

fn outcomes(results: &Value) -> Vec<&str> {
    results["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["outcome"].as_str().unwrap())
        .collect()
}

#[test]
fn the_examples_run_and_settle_and_keep_the_invariants() {
    for (name, expected) in [
        ("two-clusters.toml", &["completed", "completed", "refused", "expired"][..]),
        ("tele-immersion.toml", &["completed"]),
        ("broker-of-brokers.toml", &["completed", "completed"]),
    ] {
        let ran = Folder::new().succeed(&format!("simulate-grid {} --json", example(name)));
        let results = ran.json();
        assert_eq!(outcomes(&results), expected, "{name}");
        assert!(results["settled_at"].is_number() && results["violations"].as_array().unwrap().is_empty());
    }
}

#[test]
fn parts_that_belong_together_begin_together_and_a_link_joins_what_was_chosen() {
    let results =
        Folder::new().succeed(&format!("simulate-grid {} --json", example("tele-immersion.toml"))).json();
    let parts = &results["requests"][0]["parts"];
    let begin = |part: usize| parts[part]["placed"]["begin"].as_i64().unwrap();
    assert_eq!(begin(1), begin(2));
    assert_eq!(begin(1), begin(0) + 900);
    assert_eq!(parts[1]["placed"]["site"], "museum");
    assert_eq!(parts[2]["placed"]["resource"], "to-museum");
}

#[test]
fn a_grid_is_a_function_of_its_description_and_seed() {
    let folder =
        folder(&SMALL.replace("seed = 1", "seed = 1\nnetwork = { lost = 20, doubled = 20, delayed = 10 }"));
    let run = |seed: u32| folder.succeed(&format!("simulate-grid grid.toml --json --seed {seed}")).json();
    assert_eq!(run(7), run(7));
    assert_ne!(run(7)["resources"], run(8)["resources"]);
}

#[test]
fn the_tables_say_what_became_of_requests_and_resources() {
    let out = folder(SMALL).succeed("simulate-grid grid.toml").out;
    for words in
        ["ana     0:00:10  completed", "a/cluster", "b/cluster", "1 completed", "the invariants hold"]
    {
        assert!(out.contains(words), "'{words}' is missing in:\n{out}");
    }
}

#[test]
fn diagrams_are_printed_and_drawn_for_a_stretch_of_time() {
    let folder = folder(SMALL);
    let ran = folder.succeed("simulate-grid grid.toml --trace-events --trace-svg all.svg --until 30s");
    for word in ["book", "probe", "offers", "held", "committed"] {
        assert!(ran.out.contains(word), "{word} is missing in:\n{}", ran.out);
    }
    assert!(folder.text("all.svg").starts_with("<svg") && folder.text("all.svg").contains("probe"));
    let later = folder.succeed("simulate-grid grid.toml --trace-events --from 30s").out;
    assert!(!later.contains("probe"));
    folder.fail("simulate-grid grid.toml --from 30s", &["--trace-events"]);
}

#[test]
fn a_site_can_be_asked_without_a_broker() {
    let one_part = SMALL.replace("asks = \"broker\"", "asks = \"a\"");
    let one_part = one_part.split("[[client.request.part]]\nname = \"two\"").next().unwrap().to_owned();
    let results = folder(&one_part).succeed("simulate-grid grid.toml --json").json();
    assert_eq!(outcomes(&results), ["completed"]);
    assert!(results["requests"][0]["attempts"].is_null());
}

#[test]
fn somebody_who_stays_down_is_not_settled() {
    let folder = folder(&format!("{SMALL}\n[[fault]]\nkind = \"crash\"\nat = \"30m\"\nparty = \"a\"\n"));
    let ran = folder.run("simulate-grid grid.toml");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("not settled") && ran.err.contains("a is down"), "{ran:?}");
    assert!(ran.err.contains("error: 1 violation"), "{ran:?}");
}

#[test]
fn what_does_not_hang_together_is_refused_with_what_to_do() {
    let replaced = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        SMALL.replacen(from, to, 1)
    };
    let added = |more: &str| format!("{SMALL}\n{more}\n");
    for (description, words) in [
        (
            replaced("peers = [\"a\", \"b\"]", "peers = [\"a\", \"c\"]"),
            &["peers of broker broker", "no c", "a, b"][..],
        ),
        (replaced("peers = [\"a\", \"b\"]", "peers = [\"ana\"]"), &["ana is a client", "a, b"]),
        (
            replaced("peers = [\"a\", \"b\"]", "peers = [\"a\", \"broker\"]"),
            &["must not form a cycle", "broker asks broker"],
        ),
        (replaced("asks = \"broker\"", "asks = \"brokr\""), &["client ana", "no brokr", "broker"]),
        (
            replaced("together = [\"one\", \"two\"]", "together = [\"one\", \"three\"]"),
            &["constraint 1", "three", "one, two"],
        ),
        (replaced("name = \"b\"", "name = \"a\""), &["two parties are called a"]),
        (replaced("name = \"b\"", "name = \"a/b\""), &["a/b"]),
        (replaced("duration = \"1h\"", "duration = \"1 houre\""), &["line 3", "1 houre", "2h30m"]),
        (
            replaced("duration = \"1h\"", "duration = \"5s\""),
            &["request 1", "after the end of the simulation"],
        ),
        (replaced("latest = \"50m\"", "latest = \"5m\""), &["part one", "use a later latest"]),
        (replaced("capacity = 8", "capacity = 0"), &["site a", "cluster", "capacity of 0"]),
        (replaced("intent = \"book\"", "intent = \"buy\""), &["buy", "commit-and-cancel"]),
        (replaced("intent = \"book\"", "intent = \"book\"\nafter = \"5s\""), &["after does not apply"]),
        (replaced("per_hour = 10", "perhour = 10"), &["unknown field `perhour`", "per_hour"]),
        (replaced("per_hour = 10,", "per_hour = 1e9,"), &["site b", "use fewer"]),
        (
            replaced("per_hour = 10, size = [1, 4], run = [\"1m\", \"10m\"]", "swf = \"none.swf\""),
            &["none.swf"],
        ),
        (replaced("capacity = 8", "capacity = 8\npolicy = \"sjf\""), &["sjf", "easy"]),
        (added("[[fault]]\nkind = \"crash\"\nat = \"1m\"\nparty = \"ana\""), &["fault 1", "ana is a client"]),
        (
            added("[[fault]]\nkind = \"crash\"\nat = \"59m\"\nparty = \"a\"\nfor = \"5m\""),
            &["longer duration"],
        ),
        (
            added(
                "[[fault]]\nkind = \"lose\"\nat = \"1m\"\nparty = \"a\"\nresource = \"link\"\ncapacity = 1",
            ),
            &["a has no resource link", "cluster"],
        ),
        (added("[network]\nlost = 120"), &["network.lost must be a percentage", "0 to 100", "120"]),
        (added("[network]\nloss = 1"), &["unknown field `loss`", "lost"]),
    ] {
        folder(&description).fail("simulate-grid grid.toml", words);
    }
    Folder::new().fail("simulate-grid missing.toml", &["cannot read missing.toml"]);
}

#[test]
fn a_circle_of_brokers_is_told_by_name() {
    let more =
        "[[broker]]\nname = \"x\"\npeers = [\"y\"]\n[[broker]]\nname = \"y\"\npeers = [\"a\", \"x\"]\n";
    folder(&format!("{SMALL}\n{more}")).fail("simulate-grid grid.toml", &["x asks y asks x"]);
}

#[test]
fn a_generated_grid_with_given_costs_gives_the_same_figures_each_time() {
    let folder = Folder::new();
    let run = || {
        let line = "simulate-grid --sites 12 --brokers 3 --requests-per-hour 7200 --duration 10s";
        let mut results =
            folder.succeed(&format!("{line} --cost-per-input broker=1ms,site=100us --json")).json();
        let simulation = results["simulation"].take();
        assert!(simulation["processor_time"].as_f64().unwrap() > 0.0);
        results
    };
    let results = run();
    assert_eq!(results, run());
    assert_eq!(results["booked"], results["requests"]);
    let levels = results["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 3, "two levels of brokers, and the sites");
    assert!(levels[0]["busiest"].as_f64().unwrap() > levels[2]["busiest"].as_f64().unwrap());
    assert_eq!(levels[0]["kinds"]["book"]["microseconds"], 1000.0);
}

#[test]
fn the_cost_of_decisions_in_a_generated_grid_can_be_measured() {
    let line = "simulate-grid --sites 5 --duration 30s --requests-per-hour 3600 --probe-first 2";
    let out = Folder::new().succeed(&format!("{line} --cost-per-input measured --cost-per-event 20us")).out;
    for words in ["5 sites, 1 broker", "answered after p50", "messages and 1.00 tries", "the invariants hold"]
    {
        assert!(out.contains(words), "'{words}' is missing in:\n{out}");
    }
}

#[test]
fn impossible_generated_grids_are_refused() {
    let folder = folder(SMALL);
    for (code, options, words) in [
        (2, "", &["CONFIG"][..]),
        (1, "--sites 0", &["--sites", "10000"]),
        (1, "--sites 10 --brokers 20", &["--brokers", "at most as many as sites"]),
        (1, "--sites 10 --requests-per-hour 1e9", &["1000000", "shorter duration"]),
        (2, "--sites 10 --cost-per-input 5", &["20us"]),
        (2, "--sites 10 --cost-per-input client=5us", &["broker=TIME"]),
        (1, "--sites 10 --probe-first 0", &["--probe-first", "at least 1"]),
        (1, "--sites 10 --trace-events", &["diagram"]),
        (2, "grid.toml --sites 10", &["--sites"]),
        (2, "grid.toml --parts 2", &["--parts"]),
    ] {
        folder.run(&format!("simulate-grid {options}")).assert_refused(code, words);
    }
}
