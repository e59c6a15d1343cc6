//! The command reference in the documents is the `--help` output of the binary. With `BOOKAHEAD_UPDATE=1` in the
//! environment the test writes it instead of comparing.

use crate::folder::binary;
use std::path::Path;

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

/// All commands in the order of the help, each before its subcommands.
fn commands(above: &str) -> Vec<String> {
    let mut all = vec![above.to_owned()];
    let help = help(above);
    // The first help lists commands in groups, between the usage and the options.
    let list = match above {
        "" => help.split_once("\n\nBook:\n").and_then(|(_, rest)| rest.split("Options:").next()),
        _ => help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()),
    };
    let list = list.unwrap_or_default();
    let entries = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in entries.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        all.extend(commands(format!("{above} {name}").trim_start()));
    }
    all
}

#[test]
fn commands_below_commands_are_found() {
    let all = commands("");
    for command in ["", "simulate", "workload", "workload info", "journal compact"] {
        assert!(all.iter().any(|found| found == command), "{command} is missing in {all:?}");
    }
}

fn page() -> String {
    let mut page =
        "# Commands\n\nWhat `--help` says of each command; a test keeps this page current.\n".to_owned();
    for command in commands("") {
        let name = format!("bookahead {command}");
        page += &format!("\n## `{}`\n\n```text\n{}```\n", name.trim_end(), help(&command));
    }
    page
}

/// The help with a fixed line width and without trailing blanks.
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
