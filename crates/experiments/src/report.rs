//! The report as one self-contained HTML file: each experiment is a page with text, tables, claims and figures. This
//! module never reads or writes a file.

use crate::claim::totals;
use crate::{Claim, Estimate, Scale};
use bookahead_figure::LinePoint;
use std::fmt::Write;

/// One experiment in the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Name on the command line and HTML anchor: `what-if`.
    pub id: &'static str,
    /// Plain text; escaped on output.
    pub title: String,
    /// Contents, from top to bottom.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// A heading of level 2.
    Heading(String),
    /// A paragraph of plain text.
    Text(String),
    /// A table, with a caption.
    Table(Table),
    /// An SVG image, which is also written to its own file.
    Figure {
        /// File name, such as `fig3-what-if.svg`.
        file: String,
        /// Plain text below the image.
        caption: String,
        /// SVG source, embedded without escaping.
        svg: String,
    },
    /// Claims of the paper beside our results.
    Claims(Vec<Claim>),
}

/// A table, which is also written as CSV.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// File name of the CSV, such as `table1.csv`.
    pub file: String,
    /// Plain text above the table.
    pub caption: String,
    /// Column names.
    pub head: Vec<String>,
    /// Cells; each row has as many as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// As CSV, with quotes if needed.
    pub fn to_csv(&self) -> String {
        let cell = |text: &String| {
            // RFC 4180: a cell with a separator, a quote or a line break is quoted, and its quotes are
            // doubled.
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.clone()
            }
        };
        let line = |row: &Vec<String>| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
        std::iter::once(&self.head).chain(&self.rows).map(line).collect()
    }
}

impl Page {
    /// All claims on the page, in order.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.sections.iter().flat_map(|section| match section {
            Section::Claims(claims) => &claims[..],
            _ => &[],
        })
    }

    /// Takes back the verdicts that the page has, because these runs cannot judge its claims.
    pub(crate) fn not_judged(mut self, reason: &str) -> Page {
        for section in &mut self.sections {
            if let Section::Claims(claims) = section {
                claims.iter_mut().for_each(|claim| claim.not_judged(reason));
            }
        }
        self
    }

    /// Takes back the verdicts if the run was a quick one.
    pub(crate) fn judged_at(self, scale: &Scale) -> Page {
        if scale.quick {
            self.not_judged("quick run: too small to judge claims; run it without --quick")
        } else {
            self
        }
    }

    /// The page as an HTML fragment.
    pub fn to_html(&self) -> String {
        let mut html = format!("<section id=\"{}\">\n<h1>{}</h1>\n", self.id, escape(&self.title));
        for section in &self.sections {
            html += &section.to_html(self.id);
        }
        html + "</section>\n"
    }

    /// The page as a file of its own, with links to its headings.
    pub fn to_file(&self) -> String {
        let headings = self.sections.iter().filter_map(|section| match section {
            Section::Heading(text) => Some((anchor(self.id, text), text.clone())),
            _ => None,
        });
        file_html(&self.title, &headings.collect::<Vec<_>>(), &self.to_html())
    }
}

impl Section {
    pub(crate) fn heading(text: &str) -> Section {
        Section::Heading(text.to_owned())
    }

    pub(crate) fn text(text: impl Into<String>) -> Section {
        Section::Text(text.into())
    }

    pub(crate) fn figure(file: impl Into<String>, caption: impl Into<String>, svg: String) -> Section {
        Section::Figure { file: file.into(), caption: caption.into(), svg }
    }

    pub(crate) fn table<H: Into<String>>(
        file: impl Into<String>,
        caption: impl Into<String>,
        head: impl IntoIterator<Item = H>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Section {
        Section::Table(Table {
            file: file.into(),
            caption: caption.into(),
            head: head.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
        })
    }

    /// `page` is the name of its page.
    fn to_html(&self, page: &str) -> String {
        match self {
            Section::Heading(text) => {
                format!("<h2 id=\"{}\">{}</h2>\n", escape(&anchor(page, text)), escape(text))
            }
            Section::Text(text) => format!("<p>{}</p>\n", escape(text)),
            Section::Table(table) => table_html("", &table.caption, &table.head, &table.rows),
            Section::Figure { caption, svg, .. } => {
                format!("<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>\n", escape(caption))
            }
            Section::Claims(claims) => claims_html(claims),
        }
    }
}

/// The HTML anchor of a heading. It begins with the name of the page, since a report may have several pages.
fn anchor(page: &str, heading: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("{page}-{}", heading.chars().map(letter).collect::<String>())
}

/// A row of a table: its name, then its cells.
pub(crate) fn row(name: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.into()).chain(cells).collect()
}

pub(crate) fn point(x: f64, estimate: Estimate) -> LinePoint {
    LinePoint { x, y: estimate.mean, margin: estimate.margin }
}

fn table_html(attributes: &str, caption: &str, head: &[String], rows: &[Vec<String>]) -> String {
    // Cells of the claims are text that begins with a number at most by chance.
    let numbers: Vec<bool> = (0..head.len()).map(|at| attributes.is_empty() && is_number(rows, at)).collect();
    let class = |at: usize| if numbers.get(at) == Some(&true) { " class=\"number\"" } else { "" };
    let mut html = format!(
        "<div class=\"wide\">\n<table{attributes}>\n<caption>{}</caption>\n<thead><tr>",
        escape(caption)
    );
    for (at, name) in head.iter().enumerate() {
        let _ = write!(html, "<th{}>{}</th>", class(at), escape(name));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in rows {
        html += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(html, "<td{}>{}</td>", class(at), escape(cell));
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table>\n</div>\n"
}

/// Whether all cells of a column are numbers, or nothing.
fn is_number(rows: &[Vec<String>], column: usize) -> bool {
    let cells = || rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.trim());
    let digit =
        |cell: &str| cell.trim_start_matches(['+', '-', '−']).starts_with(|c: char| c.is_ascii_digit());
    // Dashes stand for missing values. A column of dashes only is not aligned as numbers.
    cells().any(digit) && cells().all(|cell| digit(cell) || matches!(cell, "" | "-" | "–"))
}

/// The rule of judgement, as below every table of claims.
const RULE: &str = "Reproduced: each number of the paper lies in our 95% interval, of which at most a tenth of the \
    number counts on each side, or our mean is within half a unit of its last printed digit; each order or bound that \
    the paper states holds with the whole interval; values that it calls equal differ by at most 5%. Direction only: \
    the orders hold on average, but a number differs, or the interval includes the opposite, or a single seed gives no \
    interval. The rule is the same for all papers.";

fn claims_html(claims: &[Claim]) -> String {
    let head = ["claim", "where", "paper", "ours", "verdict"].map(str::to_owned);
    let row = |claim: &Claim| {
        let statement = format!("{} ({}; {})", claim.statement, claim.id, claim.rule);
        vec![statement, claim.source.into(), claim.paper.into(), claim.ours.clone(), claim.show_verdict()]
    };
    let rows: Vec<Vec<String>> = claims.iter().map(row).collect();
    let caption = format!("Claims of the paper and our results: {}", totals(claims));
    table_html(" class=\"claims\"", &caption, &head, &rows) + &format!("<p>{}</p>\n", escape(RULE))
}

/// Builds the report from `(anchor, title, HTML fragment)` of its pages.
pub fn report_html(pages: &[(String, String, String)]) -> String {
    let links: Vec<_> = pages.iter().map(|(id, title, _)| (id.clone(), title.clone())).collect();
    let body: String = pages.iter().map(|(_, _, fragment)| fragment.as_str()).collect();
    file_html("Bookahead experiments", &links, &body)
}

/// An HTML file with a title, and links to anchors of its body.
fn file_html(title: &str, links: &[(String, String)], body: &str) -> String {
    let mut html = HEAD.replace("TITLE", &escape(title));
    html += "<nav>";
    for (id, title) in links {
        let _ = write!(html, "<a href=\"#{}\">{}</a> ", escape(id), escape(title));
    }
    html + "</nav>\n" + body + "</body>\n</html>\n"
}

/// The beginning of a file, up to its body; `TITLE` stands for the title.
const HEAD: &str = include_str!("report_head.html");

/// Escapes text for HTML content and attributes in double quotes.
pub fn escape(text: &str) -> String {
    // The ampersand first: later it would also change those of the other replacements.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_what_it_shows_and_keeps_figures_as_they_are() {
        let table = Table {
            file: "t.csv".into(),
            caption: "a < b".into(),
            head: vec!["x".into()],
            rows: vec![vec!["a,\"2\"".into()]],
        };
        assert_eq!(table.to_csv(), "x\n\"a,\"\"2\"\"\"\n");
        let figure = Section::Figure { file: "f.svg".into(), caption: "c".into(), svg: "<svg></svg>".into() };
        let page = Page { id: "p", title: "A & B".into(), sections: vec![Section::Table(table), figure] };
        let html = page.to_html();
        assert!(
            html.contains("<h1>A &amp; B</h1>") && html.contains("a &lt; b") && html.contains("<svg></svg>")
        );
        assert!(!html.contains("class=\"number\""), "text");
        let figures = ["a", "1.5 ± 0.1", "-2"].map(str::to_owned).to_vec();
        let figures = Table {
            head: ["", "x", "y"].map(str::to_owned).to_vec(),
            rows: vec![figures],
            ..Table::default()
        };
        let html = Section::Table(figures).to_html("p");
        assert!(html.contains("<td>a</td><td class=\"number\">1.5 ± 0.1</td><td class=\"number\">-2</td>"));
        let html = page.to_html();
        let report = report_html(&[("p".into(), page.title.clone(), html)]);
        assert!(report.starts_with("<!DOCTYPE html>") && report.ends_with("</html>\n"));
        assert!(report.contains("<a href=\"#p\">A &amp; B</a>"));
        assert!(report.contains("<title>Bookahead experiments</title>"));
        let page = Page { sections: vec![Section::heading("Wait, s")], ..page };
        let file = page.to_file();
        assert!(file.contains("<title>A &amp; B</title>"), "{file}");
        assert!(file.contains("<a href=\"#p-wait--s\">Wait, s</a>"), "{file}");
        assert!(file.contains("<h2 id=\"p-wait--s\">Wait, s</h2>"), "{file}");
    }
}
