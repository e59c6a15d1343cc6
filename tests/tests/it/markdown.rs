//! The subset of Markdown that the rules for documents need: titles, links, tables, and the commands in `console`
//! blocks. It knows fenced blocks and inline code, but not indented blocks, HTML, or `|` in a cell of a table.

/// A page, split into its prose lines and the commands of its `console` blocks.
pub(crate) struct Page<'a> {
    prose: Vec<&'a str>,
    /// In the order shown, without the prompt; lines that end in a backslash are joined.
    pub(crate) commands: Vec<String>,
}

impl<'a> Page<'a> {
    pub(crate) fn of(text: &'a str) -> Page<'a> {
        let mut page = Page { prose: Vec::new(), commands: Vec::new() };
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else {
                page.prose.push(line);
                continue;
            };
            let block = lines.by_ref().take_while(|line| line.trim() != "```");
            if language.trim() == "console" {
                page.take_commands(block);
            } else {
                block.for_each(drop);
            }
        }
        page
    }

    fn take_commands(&mut self, mut block: impl Iterator<Item = &'a str>) {
        while let Some(line) = block.next() {
            let Some(begin) = line.trim_start().strip_prefix("$ ") else { continue };
            let mut command = begin.to_owned();
            while command.ends_with('\\') {
                command.pop();
                command += block.next().unwrap_or_default().trim_start().trim_start_matches("> ");
            }
            self.commands.push(command);
        }
    }

    /// Titles of level 1.
    pub(crate) fn titles(&self) -> Vec<&'a str> {
        self.prose.iter().filter_map(|line| line.strip_prefix("# ")).collect()
    }

    /// Cells of all tables, row by row, without the heads.
    pub(crate) fn rows(&self) -> Vec<Vec<&'a str>> {
        let tables = self.prose.split(|line| !line.starts_with('|'));
        tables.flat_map(|table| table.iter().skip(2)).map(|row| cells_of(row)).collect()
    }

    /// Targets of links and pictures, without their titles.
    pub(crate) fn links(&self) -> Vec<&'a str> {
        self.prose.iter().flat_map(|line| links_of(line)).collect()
    }
}

fn cells_of(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// Targets in the parts of a line that are not code.
fn links_of(line: &str) -> Vec<&str> {
    let parts = line.split('`').step_by(2);
    // If the text of a link is code, the part after it begins with the target.
    let targets = parts.flat_map(|part| part.split("](").skip(1));
    targets.filter_map(|rest| rest.split([')', ' ']).next()).collect()
}

#[test]
fn titles_and_links_in_code_do_not_count() {
    let text = "# One\ntext [a](b.md#part) ![`code`](c.svg \"C\") `[d](e)`\n```sh\n# [f](g)\n```\n## Two\n";
    let page = Page::of(text);
    assert_eq!(page.titles(), ["One"]);
    assert_eq!(page.links(), ["b.md#part", "c.svg"]);
}

#[test]
fn commands_are_read_from_console_blocks_only() {
    let text = "```console\n$ first --option\noutput\n$ second \\\n    --more\n```\n\n```sh\n$ third\n```\n";
    assert_eq!(Page::of(text).commands, ["first --option", "second --more"]);
}

#[test]
fn tables_are_read_without_their_heads() {
    let text = "| a | b |\n| --- | --- |\n| 1 | `x y` |\n| 2 | |\ntext\n\n| c |\n| --- |\n| 3 |\n";
    let rows: [&[&str]; 3] = [&["1", "`x y`"], &["2", ""], &["3"]];
    assert_eq!(Page::of(text).rows(), rows);
}
