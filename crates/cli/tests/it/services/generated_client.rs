//! A Python client is generated from the OpenAPI document (openapi-python-client, PyPI), and goes through the whole flow
//! at a running broker. `./test` installs the generator; a quick run may go without it.

use super::grid::{Grid, Shape, knows};
use super::runtime;
use super::schemathesis::TCP;
use bookahead_tests::python;
use std::path::Path;
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    out.into_owned()
}

#[test]
fn a_generated_client_goes_through_the_whole_flow() {
    let Some(generator) = python::program("openapi-python-client") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (package, settings) = (folder.path().join("package"), folder.path().join("settings.yaml"));
    std::fs::write(&settings, "package_name_override: bookahead_client\npost_hooks: []\n").unwrap();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = manifest.join("../../openapi/bookahead.json");
    let said = run(Command::new(&generator)
        .arg("generate")
        .arg("--path")
        .arg(document)
        .arg("--output-path")
        .arg(&package)
        .arg("--config")
        .arg(&settings));
    // Metrics are for Prometheus; the generator does not know their format.
    let left_out = said.matches("WARNING").count() - said.matches("WARNING parsing GET /metrics").count();
    assert_eq!(left_out, 0, "{said}");
    let grid = runtime().block_on(async {
        let settings = format!("{TCP}\nopen = false\n[security]\ntrust_local_users = true");
        let (grid, _) = Grid::of_three(Shape::Flat, &settings, &[]).await;
        knows(&grid.asker("grid"), &Shape::Flat.offered()).await;
        grid
    });
    let python = generator.with_file_name("python3");
    let flow = manifest.join("tests/it/services/generated_client/flow.py");
    let said = run(Command::new(python)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(flow)
        .arg(&package)
        .arg(grid.of("grid").url()));
    assert_eq!(said.trim(), "the whole flow");
    grid.check_journals();
}
