//! The page on the source papers: each row of its tables has a command that shows what the paper describes, or says why
//! there is none. The commands are run after those of the block at the head of the page.

use crate::documents::{Demo, pages, run_all, run_in};
use crate::markdown::Page;
use crate::repository::root;
use std::collections::BTreeSet;
use std::fs;

const PAGE: &str = "docs/papers.md";

/// Begin of the second cell in a row without a command.
const REASONS: [&str; 2] = ["not implemented: ", "no command: "];

struct Row<'a> {
    described: &'a str,
    here: &'a str,
    command: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn of(cells: &[&'a str]) -> Row<'a> {
        let &[described, here, last] = cells else { panic!("{PAGE}: {cells:?} is not a row of three cells") };
        let code = last.strip_prefix('`').and_then(|rest| rest.split('`').next());
        Row { described, here, command: code.filter(|code| code.starts_with("bookahead ")) }
    }

    /// Whether it has a command and a link to its explanation, or a reason.
    fn is_complete(&self) -> bool {
        match self.command {
            Some(_) => self.here.contains("]("),
            None => REASONS.iter().any(|reason| self.here.starts_with(reason)),
        }
    }
}

fn text() -> String {
    fs::read_to_string(root().join(PAGE)).unwrap()
}

fn rows(text: &str) -> Vec<Row<'_>> {
    Page::of(text).rows().iter().map(|cells| Row::of(cells)).collect()
}

#[test]
fn every_row_on_the_papers_has_a_command_or_a_reason() {
    let text = text();
    let rows = rows(&text);
    assert!(!rows.is_empty(), "{PAGE} has no tables");
    let incomplete: Vec<&str> =
        rows.iter().filter(|row| !row.is_complete()).map(|row| row.described).collect();
    assert!(
        incomplete.is_empty(),
        "{PAGE}: a row needs a link and a command, or begins with one of {REASONS:?}: {incomplete:?}"
    );
}

/// A command that is in a block of any page as well is run by the test of all pages, not here.
#[test]
fn the_commands_that_show_what_the_papers_describe_work() {
    let _demo = Demo::start();
    let text = text();
    let folder = run_all(PAGE, &text);
    let mut seen: BTreeSet<String> =
        pages().iter().flat_map(|page| Page::of(&fs::read_to_string(page).unwrap()).commands).collect();
    let commands = rows(&text).into_iter().filter_map(|row| row.command.map(str::to_owned));
    run_in(PAGE, commands.filter(|command| seen.insert(command.clone())), folder.path());
}
