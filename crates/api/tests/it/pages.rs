//! The table of problem codes in docs/api.md matches the code. With `BOOKAHEAD_UPDATE=1` in the environment the
//! test writes the table instead.

use bookahead_api::Code;
use std::path::Path;

/// The line before the table.
const MARK: &str = "<!-- codes: the table of crates/api/src/problem/code.rs -->\n\n";

fn table() -> String {
    let row = |code: &Code| {
        format!("| `{}` | {} | {} | {} |\n", code.word(), code.status(), code.title(), code.remedy())
    };
    let rows: String = Code::ALL.iter().map(row).collect();
    format!("| code | status | title | what to do |\n| --- | --- | --- | --- |\n{rows}")
}

/// The page with its table replaced.
fn with_table(page: &str) -> String {
    let (before, after) = page.split_once(MARK).expect("docs/api.md has the mark of the table of codes");
    let rest: String = after.split_inclusive('\n').skip_while(|line| line.starts_with('|')).collect();
    format!("{before}{MARK}{}{rest}", table())
}

#[test]
fn the_table_of_problem_codes_in_the_documents_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let current = with_table(&page);
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &current).unwrap();
        return;
    }
    assert!(
        page == current,
        "the table of codes in docs/api.md is not that of the code; run this test with BOOKAHEAD_UPDATE=1 to write it"
    );
}

#[test]
fn a_row_that_is_missing_changed_or_left_over_is_noticed() {
    let page = format!("# Page\n\n{MARK}{}\nThe rest.\n", table());
    assert_eq!(with_table(&page), page);
    for wrong in [
        page.replace("| `silence` | 504 ", "| `silence` | 503 "),
        page.replace("| `busy` |", "| `idle` |"),
        page.replace("\nThe rest", "| `more` | 400 | More | Less. |\n\nThe rest"),
        page.lines().filter(|line| !line.contains("`circle`")).map(|line| format!("{line}\n")).collect(),
    ] {
        assert_ne!(wrong, page);
        assert_eq!(with_table(&wrong), page);
    }
}
