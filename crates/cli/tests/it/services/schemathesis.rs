//! The API is tested against its OpenAPI document by schemathesis (PyPI): no request that can be derived from the
//! document causes a server error, an undocumented status, or an invalid document. `./test` installs it; if it is not
//! installed, the test is skipped with a message.

use super::asking::{Asker, book, hold, new_id, now, part, together};
use super::grid::{Grid, Shape, knows};
use super::runtime;
use bookahead_client::make;
use bookahead_plan::Seconds;
use bookahead_protocol::{Call, Millis};
use bookahead_tests::cases::quick;
use bookahead_tests::python;
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Schemathesis does not support Unix sockets.
pub(super) const TCP: &str = "listen = \"127.0.0.1:0\"";

/// Tests a server with requests that also use these reservations and jobs.
fn try_out(url: &str, known: &[String], more: &[&str]) {
    let Some(program) = python::program("schemathesis") else { return };
    let folder = tempfile::tempdir().unwrap();
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/services/schemathesis");
    let examples = if quick() { "3" } else { "25" };
    let mut command = Command::new(program);
    command.current_dir(folder.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("SCHEMATHESIS_HOOKS", beside.join("hooks.py")).env("BOOKAHEAD_KNOWN", known.join(","));
    command.arg("--config-file").arg(beside.join("schemathesis.toml"));
    command
        .args(["--no-color", "run", &format!("{url}/openapi.json"), "--max-examples", examples])
        .args(more);
    let tried = command.output().unwrap();
    let said = String::from_utf8_lossy(&tried.stdout);
    assert!(tried.status.success(), "{said}\n{}", String::from_utf8_lossy(&tried.stderr));
    let cases = said.lines().find(|line| line.contains(" generated, ")).unwrap_or("nothing").trim();
    eprintln!("{url}: {cases}");
}

/// Creates reservations in several states, and a job, so that requests find some.
async fn something_there(asker: &Asker) -> Vec<String> {
    let mut known = Vec::new();
    for hour in 2..14 {
        let id = new_id();
        known.push(id.to_string());
        let request = together(vec![part(2, now() + Seconds(hour * 3_600), 3_600)]);
        match hour % 4 {
            0 => drop(asker.get(hold(id, request)).await),
            1 => drop(asker.get(Call::Reserve { id, request, hold_for: Millis(1), book: false }).await),
            _ => drop(asker.get(book(id, request)).await),
        }
        if hour % 4 == 3 {
            asker.get(Call::Cancel { id }).await;
        }
    }
    let work = json!({"type": "pretended", "run_seconds": 600});
    let job = json!({"capacity": 1, "limit_seconds": 600, "work": work});
    let key = make::key().unwrap().to_string();
    let job = asker.client().submit(&serde_json::from_value(job).unwrap(), &key).await.unwrap();
    known.push(job.id.to_string());
    known
}

#[test]
fn a_site_answers_every_request_as_its_description_says() {
    let runtime = runtime();
    let (grid, known) = runtime.block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &super::grid::site("north", TCP), None).await;
        let known = something_there(&grid.asker("north")).await;
        (grid, known)
    });
    try_out(&grid.of("north").url(), &known, &[]);
    grid.check_journals();
}

#[test]
fn a_broker_answers_every_request_as_its_description_says() {
    let runtime = runtime();
    let (grid, known) = runtime.block_on(async {
        // Registration is disabled, because invented peers could not be reached.
        let (grid, _) = Grid::of_three(
            Shape::Flat,
            &format!("{TCP}\nopen = false\n[security]\ntrust_local_users = true"),
            &[],
        )
        .await;
        let broker = grid.asker("grid");
        knows(&broker, &Shape::Flat.offered()).await;
        let known = something_there(&broker).await;
        (grid, known)
    });
    try_out(&grid.of("grid").url(), &known, &[]);
    grid.check_journals();
}

#[test]
fn whoever_registers_with_a_broker_is_shown_as_the_description_says() {
    let mut grid = Grid::new();
    runtime().block_on(grid.start("broker", "grid", &format!("name = \"grid\"\n{TCP}\n"), None));
    let only = "--include-operation-id register_site --include-operation-id list_sites --phases examples,coverage,fuzzing";
    try_out(&grid.of("grid").url(), &[], &only.split(' ').collect::<Vec<_>>());
}
