//! `bookahead journal` with a journal in PostgreSQL, and a password that nothing prints.

use crate::folder::{Folder, Ran};
use crate::service::Service;
use bookahead_tests::postgres::Server;
use serde_json::Value;

const NORTH: &str = "name = \"north\"\nlisten = \"127.0.0.1:0\"\n\n[[resource]]\nname = \"cluster\"\n\
                     kind = \"processors\"\ncapacity = 64\n";
const PASSWORD: &str = "only-for-tests";

/// The configuration of a site with its journal in a database.
fn in_database(url: &str) -> String {
    format!("state = \"{url}\"\nlease = \"1s\"\n{NORTH}")
}

/// Runs a command that must succeed and not print the password.
#[track_caller]
fn quietly(folder: &Folder, line: &str) -> Ran {
    let ran = folder.succeed(line);
    assert!(!ran.out.contains(PASSWORD) && !ran.err.contains(PASSWORD), "{ran:?}");
    ran
}

/// Ids and states of the reservations at a site, which then stops.
#[track_caller]
fn kept(site: Service) -> Vec<(String, String)> {
    let listed = site.ask("GET", "/v1/reservations", "", "");
    assert_eq!(listed.status, 200, "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.body).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all: Vec<_> = listed["reservations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["id"]), text(&one["state"])))
        .collect();
    all.sort();
    site.signal("TERM");
    let (status, said) = site.ended();
    assert!(status.success() && !said.contains(PASSWORD), "{said}");
    all
}

#[test]
fn a_journal_moves_to_postgresql_and_back_and_the_site_continues_with_the_copy() {
    let server = Server::start(&[]);
    let url = server.database("moved");
    let folder = Folder::with("north.toml", NORTH);
    folder.write("moved.toml", in_database(&url));
    let site = Service::start(&folder, "site --config north.toml");
    (0..3).for_each(|key| assert_eq!(site.book(key).status, 201));
    let before = kept(site);

    quietly(&folder, &format!("journal copy bookahead-north {url}"));
    let checked = quietly(&folder, &format!("journal check {url}?party=north"));
    assert!(checked.out.contains("checksums are correct"), "{checked:?}");
    let exported = quietly(&folder, &format!("journal export {url}"));
    assert_eq!(exported.out, folder.succeed("journal export bookahead-north").out);
    let again = folder.run(&format!("journal copy bookahead-north {url}"));
    again.assert_refused(1, &["already", "nothing was copied"]);
    assert!(!again.err.contains(PASSWORD), "{again:?}");

    let site = Service::start(&folder, "site --config moved.toml --log debug");
    assert_eq!(site.book(3).status, 201);
    assert_eq!(site.book(0).status, 201, "the answer to an earlier call");
    let moved = kept(site);
    assert_eq!(moved.len(), 4);
    assert!(before.iter().all(|one| moved.contains(one)), "{before:?} in {moved:?}");

    std::fs::create_dir(folder.path("back")).unwrap();
    quietly(&folder, &format!("journal copy {url}?party=north back"));
    let exported = quietly(&folder, &format!("journal export {url}")).out;
    assert_eq!(folder.succeed("journal export back").out, exported);
    assert_eq!(kept(Service::start(&folder, "site --config north.toml --state back")), moved);
    quietly(&folder, "journal compact --config moved.toml");
    assert_eq!(kept(Service::start(&folder, "site --config moved.toml")), moved);
}

#[test]
fn a_journal_in_use_is_read_but_neither_copied_nor_compacted() {
    let server = Server::start(&[]);
    let url = server.database("used");
    let folder = Folder::with("north.toml", in_database(&url));
    let site = Service::start(&folder, "site --config north.toml");
    assert_eq!(site.book(0).status, 201);
    quietly(&folder, &format!("journal check {url}"));
    quietly(&folder, &format!("journal export {url}"));
    for line in [format!("journal copy {url} copy.db"), "journal compact --config north.toml".to_owned()] {
        let refused = folder.run(&line);
        refused.assert_refused(1, &["in use by"]);
        assert!(!refused.err.contains(PASSWORD), "{refused:?}");
    }
    assert!(!folder.path("copy.db").exists());
    assert_eq!(site.book(1).status, 201);
    assert_eq!(kept(site).len(), 2);
}

#[test]
fn a_password_in_the_url_of_a_database_is_not_printed() {
    let server = Server::start(&[]);
    let url = server.database("secret");
    let folder = Folder::with("north.toml", in_database(&url));
    folder.write("broker.toml", format!("name = \"grid\"\nstate = \"{url}\"\n"));
    for line in ["site --config north.toml", "broker --config broker.toml"] {
        quietly(&folder, &format!("{line} --check"));
        let printed = quietly(&folder, &format!("{line} --print-config")).out;
        let shown = url.replace(&format!(":{PASSWORD}"), "");
        assert!(printed.contains(&format!("state = \"{shown}\"")), "{printed}");
    }
    let in_query = url.replace(&format!(":{PASSWORD}"), "") + "?password=only-for-tests&connect_timeout=9";
    folder.write("query.toml", in_database(&in_query));
    let printed = quietly(&folder, "site --config query.toml --print-config").out;
    assert!(printed.contains("/secret?connect_timeout=9\""), "{printed}");
    // The password of another user, a server that is gone, and a URL that cannot be read.
    let port = server.port().to_string();
    for wrong in [url.replace("bookahead:", "nobody:"), url.replace(&port, "1"), url.replace(&port, "x")] {
        folder.write("wrong.toml", in_database(&wrong));
        for line in ["site --config wrong.toml".to_owned(), format!("journal check {wrong}")] {
            let refused = folder.run(&line);
            assert_eq!(refused.code, Some(1), "{refused:?}");
            let said = (!refused.out.contains(PASSWORD), !refused.err.contains(PASSWORD));
            assert_eq!(said, (true, true), "{refused:?}");
        }
    }
}
