//! The command reference in the documents is what the binary says about itself. With `BOOKAHEAD_UPDATE=1` in the
//! environment the test writes it instead of comparing.

use crate::folder::binary;
use std::path::Path;

/// All commands, in the order of the page.
const COMMANDS: [&str; 11] = [
    "",
    "simulate",
    "whatif",
    "simulate-grid",
    "faults",
    "experiment",
    "workload",
    "workload info",
    "workload generate",
    "workload convert",
    "workload reservations",
];

#[test]
fn the_command_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let rendered = page();
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &rendered).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == rendered,
        "docs/commands.md is not what the commands say; run this test with BOOKAHEAD_UPDATE=1 to write it"
    );
}

#[test]
fn no_command_is_missing_from_the_reference() {
    let listed = |command: &str| -> Vec<String> {
        let help = help(command);
        let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        let entries = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        entries
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .filter(|name| name != "help")
            .collect()
    };
    assert_eq!(listed(""), ["simulate", "whatif", "simulate-grid", "faults", "experiment", "workload"]);
    let all: Vec<String> = listed("workload").iter().map(|name| format!("workload {name}")).collect();
    assert_eq!(all, &COMMANDS[7..]);
}

fn page() -> String {
    let mut page =
        "# Commands\n\nWhat `--help` says of each command; a test keeps this page current.\n".to_owned();
    for command in COMMANDS {
        let name = ["bookahead", command].join(" ");
        page += &format!("\n## `{}`\n\n```text\n{}```\n", name.trim_end(), help(command));
    }
    page
}

/// The help, in lines of a fixed width and without blanks at their ends.
fn help(command: &str) -> String {
    let output = binary()
        .args(command.split_whitespace())
        .arg("--help")
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
