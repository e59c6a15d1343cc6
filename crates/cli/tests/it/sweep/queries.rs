//! The how-to page about sweeps: its description works, and its queries run in DuckDB.

use crate::folder::Folder;
use bookahead_tests::python::with_package;
use std::path::Path;
use std::process::Command;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/sweeps.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks of the page in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The sweep of the page, on a small trace.
fn swept() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("examples")).unwrap();
    folder.succeed("workload generate --jobs 200 --seed 3 --output examples/week.swf");
    let page = page();
    folder.write("examples/sweep.toml", blocks(&page, "toml")[0]);
    folder.succeed("sweep examples/sweep.toml");
    folder
}

#[test]
fn the_sweep_of_the_page_is_the_example_and_runs() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sweep.toml");
    let example = std::fs::read_to_string(example).unwrap();
    assert_eq!(example.split_once('\n').unwrap().1, blocks(&page(), "toml")[0]);
    let folder = swept();
    folder.succeed("sweep report results");
    assert!(folder.text("results/report/index.html").contains("<svg"));
}

#[test]
fn the_queries_of_the_page_run_in_duckdb() {
    let Some(python) = with_package("duckdb") else { return };
    let folder = swept();
    let page = page();
    let queries = blocks(&page, "sql");
    assert_eq!(queries.len(), 3);
    let script = "import duckdb, sys, json\nprint(json.dumps(duckdb.sql(sys.argv[1]).fetchall()))";
    let run = |query: &str| -> Vec<Vec<serde_json::Value>> {
        let mut command = Command::new(&python);
        let output = command.args(["-c", script, query]).current_dir(folder.path("")).output().unwrap();
        assert!(output.status.success(), "{query}\n{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Two schedulers and three loads.
    let means = run(queries[0]);
    assert_eq!(means.len(), 6, "{means:?}");
    // Five seeds on each of three loads.
    let better = run(queries[1]);
    assert_eq!(better.len(), 3, "{better:?}");
    assert!(
        better.iter().all(|row| row[1].as_i64().is_some_and(|wins| (0..=5).contains(&wins))),
        "{better:?}"
    );
    // Sizes of jobs, from the table with one row a job.
    let sizes = run(queries[2]);
    assert!(!sizes.is_empty());
    let all = run("SELECT count(*) FROM read_parquet('results/jobs/**/*.parquet')");
    let jobs: i64 = sizes.iter().map(|row| row[2].as_i64().unwrap()).sum();
    assert_eq!(Some(jobs), all[0][0].as_i64(), "{sizes:?}");
}
