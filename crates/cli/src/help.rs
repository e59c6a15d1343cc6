//! The help of `bookahead` itself, with the commands in groups.

use crate::table::wrapped;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// Commands by what they are for. Every command is in one group; a test holds that.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Book",
        &[
            "probe", "reserve", "commit", "hold", "extend", "change", "release", "cancel", "show", "list",
            "schedule", "watch", "wait", "sites", "accept", "decline", "block", "unblock", "calendar",
            "usage", "sign-out",
        ],
    ),
    ("Jobs", &["submit", "jobs", "logs"]),
    ("Run services", &["demo", "site", "broker", "token", "journal", "export"]),
    (
        "Study",
        &["simulate", "whatif", "workload", "simulate-grid", "faults", "torture", "experiment", "sweep"],
    ),
];

/// Commands about the program itself, at the end.
const OTHERS: (&str, &[&str]) = ("Other", &["completions", "man", "help"]);

/// Width of the list of commands: that of the narrowest usual terminal, since a template is not wrapped.
const WIDTH: usize = 80;

/// The command line, whose help lists the commands in groups.
pub(crate) fn command() -> Command {
    let command = crate::Cli::command();
    // Built in a copy, only to read the texts: building adds the `help` command, which the list contains.
    // Clap builds the original itself, with the template.
    let mut built = command.clone();
    built.build();
    let widest = built.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut groups = String::new();
    for (group, names) in GROUPS.into_iter().chain([OTHERS]) {
        let _ = writeln!(groups, "{group}:");
        for name in names {
            let about = built.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            // Two blanks before the name and two behind it.
            for (at, line) in wrapped(&about, WIDTH - widest - 4).iter().enumerate() {
                let name = if at == 0 { name } else { &"" };
                let _ = writeln!(groups, "  {name:<widest$}  {line}");
            }
        }
        groups.push('\n');
    }
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}");
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = crate::Cli::command();
        command.build();
        let all: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.into_iter().chain([OTHERS]).flat_map(|(_, names)| names).copied().collect();
        grouped.sort_unstable();
        assert_eq!(grouped, all.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_help_fits_a_terminal() {
        let help = command().render_help().to_string();
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(long, [""; 0]);
    }
}
