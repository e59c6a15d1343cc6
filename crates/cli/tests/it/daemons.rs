//! `bookahead site`, `broker`, `journal` and `token` as processes: ready messages, stopping by signals, refused
//! configurations, and checking, exporting and compacting of journals.

use crate::folder::Folder;
use crate::service::Service;
use bookahead_tests::polling::until_true;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const NORTH: &str = "name = \"north\"\nlisten = \"127.0.0.1:0\"\n\n[[resource]]\nname = \"cluster\"\n\
                     kind = \"processors\"\ncapacity = 64\n";

fn north() -> Folder {
    Folder::with("north.toml", NORTH)
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/services").join(name)
}

#[test]
fn a_site_says_when_it_is_ready_and_ends_when_it_is_told_to() {
    let folder = north();
    for (options, signal) in [("", "TERM"), ("--json", "INT")] {
        let site = Service::start(&folder, &format!("site --config north.toml {options}"));
        if options.is_empty() {
            assert!(site.ready.starts_with("north is ready at http://127.0.0.1:"), "{}", site.ready);
        } else {
            let ready: Value = serde_json::from_str(&site.ready).unwrap();
            assert_eq!((ready["name"].as_str(), ready["role"].as_str()), (Some("north"), Some("site")));
        }
        assert_eq!(site.ask("GET", "/v1/health", "", "").status, 200);
        site.signal(signal);
        let (status, said) = site.ended();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("ended"), "{said}");
    }
    assert!(folder.path("bookahead-north/journal.db").exists(), "state is beside the configuration");
}

#[test]
fn the_log_is_for_people_or_programs_and_as_long_as_one_wants() {
    let folder = north();
    let said = |options: &str, variable: &str| {
        let mut command = folder.command(&format!("site --config north.toml {options}"));
        command.env("BOOKAHEAD_LOG", variable);
        let site = Service::of(command);
        site.signal("TERM");
        site.ended().1
    };
    assert!(said("", "").contains(" INFO "));
    assert!(said("", "error").is_empty());
    let lines = said("--log-format json --log info", "error");
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{lines}");
    folder.fail("site --config north.toml --log =nonsense=", &["invalid log filter"]);
}

#[test]
fn a_configuration_is_checked_and_printed_without_starting_anything() {
    let folder = north();
    let checked = folder.succeed("site --config north.toml --check");
    assert!(checked.out.contains("the configuration of north is valid"), "{checked:?}");
    let printed =
        folder.succeed("site --config north.toml --listen 127.0.0.1:9 --state kept --print-config").out;
    assert!(printed.contains("listen = \"127.0.0.1:9\"") && printed.contains("# Longest hold"), "{printed}");
    folder.write("printed.toml", &printed);
    assert_eq!(folder.succeed("site --config printed.toml --print-config").out, printed);
    folder.write("broker.toml", "name = \"grid\"\n");
    folder.write("printed.toml", folder.succeed("broker --config broker.toml --print-config").out);
    folder.succeed("broker --config printed.toml --check");
    folder.write("wrong.toml", NORTH.replace("64", "0"));
    folder
        .fail("site --config wrong.toml --check", &["wrong.toml, line 7", "resource[1].capacity", "give 1"]);
    folder.fail("site --config none.toml", &["none.toml cannot be read"]);
    folder.fail("site --config north.toml --listen 0.0.0.0:0 --check", &["north.toml", "security.keys"]);
    assert!(!folder.path("bookahead-north").exists(), "nothing was started");
}

#[test]
fn the_examples_are_as_they_should_be() {
    let folder = Folder::new();
    for name in ["north.toml", "south.toml", "grid-broker.toml"] {
        let role = if name.contains("broker") { "broker" } else { "site" };
        folder.succeed(&format!("{role} --config {} --check", example(name).display()));
    }
}

#[test]
fn two_cannot_have_one_journal() {
    let folder = north();
    let site = Service::start(&folder, "site --config north.toml");
    folder.fail("site --config north.toml", &["journal.db is in use by process", "another journal"]);
    folder.fail("journal compact --config north.toml", &["in use by process"]);
    site.stop();
    Service::start(&folder, "site --config north.toml").stop();
}

#[test]
fn what_was_written_down_can_be_looked_through_and_shortened_and_means_the_same() {
    let folder = north();
    let site = Service::start(&folder, "site --config north.toml");
    let booked: Vec<String> = (0..3)
        .map(|key| {
            let booked = site.book(key);
            assert_eq!(booked.status, 201, "{booked:?}");
            booked.body
        })
        .collect();
    let running = folder.succeed("journal check bookahead-north");
    assert!(
        running.out.contains("journal of site north") && running.out.contains("in use by"),
        "{running:?}"
    );
    site.stop();

    let exported = folder.succeed("journal export bookahead-north/journal.db").out;
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line["sequence"].is_number()), "{exported}");
    let compacted = folder.succeed("journal compact --config north.toml");
    assert!(compacted.err.contains(&format!("records dropped: {}", lines.len())), "{compacted:?}");
    let checked = folder.succeed("journal check bookahead-north");
    assert!(
        checked.out.contains("0 records") && checked.out.contains("checksums are correct"),
        "{checked:?}"
    );
    folder.succeed("journal export bookahead-north --out lines.json");
    assert_eq!(folder.text("lines.json").lines().count(), 1, "a snapshot replaces all records");

    let site = Service::start(&folder, "site --config north.toml");
    let listed: Value = serde_json::from_str(&site.ask("GET", "/v1/reservations", "", "").body).unwrap();
    assert_eq!(listed["reservations"].as_array().unwrap().len(), 3, "{listed}");
    assert_eq!(site.book(2).body, booked[2], "a repeated call gets the answer of the first time");
    site.stop();
}

#[test]
fn a_damaged_journal_is_explained_and_refused() {
    let folder = north();
    Service::start(&folder, "site --config north.toml").stop();
    let mut bytes = folder.bytes("bookahead-north/journal.db");
    bytes.truncate(bytes.len() / 2);
    folder.write("bookahead-north/journal.db", bytes);
    let checked = folder.run("journal check bookahead-north");
    assert_eq!(checked.code, Some(1), "{checked:?}");
    folder.fail("site --config north.toml", &["journal.db"]);
    folder.fail("journal check nowhere.db", &["nowhere.db"]);
    folder.fail("journal compact --config nowhere.toml", &["cannot read nowhere.toml"]);
}

/// The system limits the size of the files of the site, as on a full disk.
#[cfg(unix)]
#[test]
fn a_site_that_cannot_write_its_journal_answers_nothing_more_and_ends_with_the_cause() {
    let folder = north();
    let mut command = Command::new("sh");
    command.arg("-c").arg("trap '' XFSZ; ulimit -f 200; exec \"$@\"").arg("sh");
    command.arg(env!("CARGO_BIN_EXE_bookahead")).args(["site", "--config", "north.toml"]);
    command.current_dir(folder.path(""));
    let site = Service::of(command);
    let acknowledged = (0..2_000).take_while(|key| site.book(*key).status == 201).count();
    assert!((1..2_000).contains(&acknowledged), "{acknowledged}");
    let (status, said) = site.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("error: ") && said.contains("start again; acknowledged calls are safe"), "{said}");

    let site = Service::start(&folder, "site --config north.toml");
    let listed: Value =
        serde_json::from_str(&site.ask("GET", "/v1/reservations?limit=1000", "", "").body).unwrap();
    let there = listed["reservations"].as_array().unwrap().len();
    assert!(there >= acknowledged, "{there} of {acknowledged} are there");
    site.stop();
}

#[test]
fn a_token_is_believed_by_the_site_that_has_its_secret() {
    let folder = Folder::with("secured.toml", std::fs::read(example("secured-site.toml")).unwrap());
    folder.succeed("token --new-secret secret.key");
    folder.fail("token --new-secret secret.key", &["secret.key already exists"]);
    folder.succeed("token --keys secret.key --user alice --audience secured --out alice.token");
    #[cfg(unix)]
    for name in ["secret.key", "alice.token"] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777,
            0o600,
            "{name}"
        );
    }
    let minted = folder.succeed(
        "token --keys secret.key --user bob --role reader --role operator --for 5m --audience secured",
    );
    assert!(
        minted.out.lines().count() == 1 && minted.err.contains("bob, as operator and reader, until"),
        "{minted:?}"
    );

    let site = Service::start(&folder, "site --config secured.toml --listen 127.0.0.1:0");
    let asks = |token: &str| {
        let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
        site.ask("GET", "/v1/reservations", &bearer, "").status
    };
    assert_eq!(site.ask("GET", "/v1/reservations", "", "").status, 401);
    assert_eq!(asks(&folder.text("alice.token")), 200);
    assert_eq!(asks(&minted.out), 200);
    assert_eq!(asks(&folder.succeed("token --keys secret.key --user eve").out), 401, "it has no audience");

    std::fs::rename(folder.path("secret.key"), folder.path("old.key")).unwrap();
    folder.succeed("token --new-secret secret.key");
    let fresh = folder.succeed("token --keys secret.key --user alice --audience secured").out;
    assert_eq!(
        (asks(&folder.text("alice.token")), asks(&fresh)),
        (200, 401),
        "keys are not read all the time"
    );
    site.signal("HUP");
    until_true("the new keys are in use", || asks(&fresh) == 200);
    assert_eq!(asks(&folder.text("alice.token")), 401);
    site.stop();
}

#[test]
fn a_site_without_its_issuer_says_so_and_one_without_an_audience_does_not_start() {
    let site = |security: &str| format!("{NORTH}\n[security]\nissuer = \"http://127.0.0.1:1\"\n{security}");
    let folder = Folder::with("north.toml", site("audience = \"north\"\n"));
    folder.write("careless.toml", site(""));
    folder.fail("site --config careless.toml --check", &["security.audience"]);
    folder.fail("site --config careless.toml", &["security.audience"]);
    folder.succeed("site --config north.toml --check");
    let site = Service::start(&folder, "site --config north.toml --log info --log-format json");
    let token = "Authorization: Bearer eyJhbGciOiJFZERTQSIsImtpZCI6IngifQ.e30.AAAA\r\n";
    assert_eq!(site.ask("GET", "/v1/reservations", token, "").status, 503);
    assert_eq!(site.ask("GET", "/v1/reservations", "", "").status, 401);
    site.signal("TERM");
    let said = site.ended().1;
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failed = events.iter().filter(|line| line["fields"]["event"] == "provider_fetch_failed");
    let failed: Vec<&Value> = failed.collect();
    assert!(
        failed.len() == 1 && failed[0]["level"] == "WARN",
        "one warning however often it is tried: {said}"
    );
    assert_eq!(failed[0]["fields"]["issuer"], "http://127.0.0.1:1");
}

#[test]
fn the_log_says_from_where_somebody_came_who_was_refused() {
    let folder = Folder::with("secured.toml", std::fs::read(example("secured-site.toml")).unwrap());
    folder.succeed("token --new-secret secret.key");
    let token = |options: &str| {
        folder.succeed(&format!("token --keys secret.key --audience secured {options}")).out.trim().to_owned()
    };
    let (ada, rita) = (token("--user ada"), token("--user rita --role reader"));
    let site = Service::start(
        &folder,
        "site --config secured.toml --listen 127.0.0.1:0 --log info --log-format json",
    );
    let reservation = format!("/v1/reservations/rsv_{:032x}", 7);
    let refused = [
        ("GET", "/v1/reservations", String::new(), 401, "unauthenticated", None),
        ("DELETE", &reservation, "Authorization: Bearer x.y.z\r\n".into(), 401, "unauthenticated", None),
        (
            "GET",
            "/v1/reservations",
            format!("Authorization: Bearer {ada}\r\nBookahead-User: bob\r\n"),
            403,
            "forbidden",
            None,
        ),
        ("DELETE", &reservation, format!("Authorization: Bearer {rita}\r\n"), 403, "forbidden", Some("rita")),
        (
            "GET",
            "/v1/reservations?owner=bob",
            format!("Authorization: Bearer {ada}\r\n"),
            403,
            "forbidden",
            Some("ada"),
        ),
    ];
    for (method, path, headers, status, ..) in &refused {
        assert_eq!(site.ask(method, path, headers, "").status, *status, "{method} {path}");
    }
    assert_eq!(
        site.ask("GET", "/v1/reservations", &format!("Authorization: Bearer {ada}\r\n"), "").status,
        200
    );
    site.signal("TERM");
    let said = site.ended().1;
    let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let audit: Vec<Value> =
        lines.filter(|line| line["target"] == "audit").map(|line| line["fields"].clone()).collect();
    assert_eq!(audit.len(), refused.len(), "{said}");
    for (line, (method, path, _, _, outcome, user)) in audit.iter().zip(refused) {
        assert_eq!(
            (line["outcome"].as_str(), line["method"].as_str()),
            (Some(outcome), Some(method)),
            "{path}"
        );
        assert_eq!(line["user"].as_str(), user, "{path}: {line}");
        let address = line["address"].as_str().unwrap_or_else(|| panic!("{path}: no address in {line}"));
        assert!(address.starts_with("127.0.0.1:"), "{line}");
    }
    assert!(!said.contains(&ada) && !said.contains(&rita), "{said}");
}

#[test]
fn tokens_that_could_not_be_used_are_not_made() {
    let folder = Folder::new();
    folder.run("token").assert_refused(2, &["--keys"]);
    folder.run("token --new-secret a --user b").assert_refused(2, &["--new-secret"]);
    folder.fail("token --keys none --user a", &["none"]);
    folder.write("public.pem", "-----BEGIN PUBLIC KEY-----\n");
    folder.fail("token --keys public.pem --user a", &["public.pem"]);
    folder.succeed("token --new-secret secret.key");
    for name in ["a b", "", "ada\u{fe0f}", "\u{3164}"] {
        let named = folder.command("token --keys secret.key --user").arg(name).output().unwrap();
        assert_eq!(named.status.code(), Some(1), "{name:?}");
    }
}
