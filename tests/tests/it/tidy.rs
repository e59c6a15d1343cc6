//! Repository rules that a program can check: imports between crates, file heads, leftovers of unfinished work, and
//! links and titles of documents.

use crate::markdown::Page;
use crate::repository::{File, cargo, files, output, packages, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Workspace packages that each package may import. Benches and tests may import anything.
const IMPORTS: [(&str, &[&str]); 12] = [
    ("bookahead-plan", &[]),
    ("bookahead-protocol", &["bookahead-plan"]),
    ("bookahead-party", &["bookahead-plan", "bookahead-protocol"]),
    ("bookahead-workload", &["bookahead-plan"]),
    ("bookahead-figure", &["bookahead-plan"]),
    ("bookahead-api", &["bookahead-plan", "bookahead-protocol"]),
    ("bookahead-lrms", &["bookahead-plan", "bookahead-protocol", "bookahead-party"]),
    ("bookahead-client", &["bookahead-protocol", "bookahead-api"]),
    (
        "bookahead-service",
        &[
            "bookahead-plan",
            "bookahead-protocol",
            "bookahead-party",
            "bookahead-workload",
            "bookahead-api",
            "bookahead-lrms",
            "bookahead-client",
        ],
    ),
    ("bookahead-sim", &["bookahead-plan", "bookahead-protocol", "bookahead-party", "bookahead-workload"]),
    (
        "bookahead-experiments",
        &["bookahead-plan", "bookahead-protocol", "bookahead-workload", "bookahead-figure", "bookahead-sim"],
    ),
    (
        "bookahead",
        &[
            "bookahead-plan",
            "bookahead-protocol",
            "bookahead-party",
            "bookahead-workload",
            "bookahead-figure",
            "bookahead-sim",
            "bookahead-experiments",
            "bookahead-api",
            "bookahead-lrms",
            "bookahead-client",
            "bookahead-service",
        ],
    ),
];
const IMPORT_ANYTHING: [&str; 3] = ["bookahead-benches", "bookahead-tests", "own-policy"];

/// External packages that the decision code may import.
const DECIDING: [&str; 3] = ["bookahead-plan", "bookahead-protocol", "bookahead-party"];
const DECIDING_IMPORTS: [&str; 3] = ["serde", "siphasher", "thiserror"];

/// Longest source file of a crate, in lines; a longer one should be split.
const MOST_LINES: usize = 600;

/// Words that mark unfinished work, spelled so that this file does not contain them.
const LEFTOVERS: [&str; 6] = [
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
];

/// Fails with all of `problems`, not just the first.
#[track_caller]
fn assert_none(rule: &str, problems: impl IntoIterator<Item = String>) {
    let problems: Vec<String> = problems.into_iter().collect();
    assert!(problems.is_empty(), "{rule}:\n  {}", problems.join("\n  "));
}

#[test]
fn packages_import_only_what_they_may() {
    let packages = packages();
    let problems =
        packages.iter().filter(|package| !IMPORT_ANYTHING.contains(&name(package))).flat_map(|package| {
            let Some((_, allowed)) = IMPORTS.iter().find(|(importer, _)| *importer == name(package)) else {
                return vec![format!("{} has no line in the table of imports", name(package))];
            };
            let foreign = imports(package, true).into_iter().filter(|import| !allowed.contains(import));
            foreign.map(|import| format!("{} imports {import}", name(package))).collect()
        });
    assert_none("an import points the wrong way", problems);
}

#[test]
fn the_deciding_code_imports_next_to_nothing() {
    let packages = packages();
    let deciding = packages.iter().filter(|package| DECIDING.contains(&name(package)));
    let problems = deciding.flat_map(|package| {
        let foreign = imports(package, false).into_iter().filter(|import| !DECIDING_IMPORTS.contains(import));
        foreign.map(move |import| format!("{} imports {import}", name(package)))
    });
    assert_none("the decision code imports more than it may", problems);
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// Imports of a package in a build: from this workspace (they have a path) or external.
fn imports(package: &Value, from_here: bool) -> Vec<&str> {
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    let built_with = dependencies.filter(|dependency| dependency["kind"] != "dev");
    built_with.filter(|dependency| dependency["path"].is_string() == from_here).map(name).collect()
}

#[test]
fn every_source_file_says_at_its_head_what_it_is() {
    let sources = files(".rs");
    let ours = sources.iter().filter(|file| file.is_in_crate_source() || file.name.starts_with("benches/"));
    let headless = ours.filter(|file| !file.text.starts_with("//!"));
    assert_none("a file does not begin with a //! head", headless.map(|file| file.name.clone()));
}

#[test]
fn nothing_unfinished_is_left() {
    let sources = files(".rs");
    let found = sources.iter().flat_map(|file| {
        let lines = file.text.lines().enumerate();
        lines.flat_map(move |(at, line)| {
            let words = LEFTOVERS.iter().filter(move |word| line.contains(**word));
            words.map(move |word| format!("{}:{}: {word}", file.name, at + 1))
        })
    });
    assert_none("unfinished work is left", found);
}

/// `./test` builds without optimisation only, and runs no examples of comments.
#[test]
fn everything_that_could_break_is_compiled_by_the_tests() {
    let sources = files(".rs");
    let found = sources.iter().flat_map(|file| {
        let mut in_example = false;
        let lines = file.text.lines().enumerate();
        lines.filter_map(move |(at, line)| {
            let fence = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim();
            let language = fence.strip_prefix("```")?;
            in_example = !in_example;
            (in_example && language.is_empty()).then(|| format!("{}:{}: an example", file.name, at + 1))
        })
    });
    let release_only = concat!("cfg(not(", "debug_assertions");
    let hidden = sources.iter().filter(|file| file.text.contains(release_only));
    let hidden = hidden.map(|file| format!("{}: {release_only}", file.name));
    assert_none("code that no test compiles; use text, console or cfg!()", found.chain(hidden));
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    let takes = |file: &File| file.text.replace("\r\n", "\n").contains("\n[lints]\nworkspace = true\n");
    let manifests = files("/Cargo.toml");
    let without = manifests.iter().filter(|file| !takes(file));
    assert_none("a package does not say [lints] workspace = true", without.map(|file| file.name.clone()));
}

/// Otherwise the tests of one package would compile most dependencies a second time, with fewer features. Examples are
/// for copying, so they have only what they need.
#[test]
fn one_package_is_tested_with_the_dependencies_that_all_have_in_common() {
    let together = features(&["--workspace"]);
    assert_none(
        "name the features in tests/Cargo.toml, or in the dev-dependencies of the package",
        packages().iter().filter(|package| name(package).starts_with("bookahead")).flat_map(|package| {
            let alone = features(&["--package", name(package)]);
            let other = alone.difference(&together).cloned().collect::<Vec<_>>();
            other.into_iter().map(|other| format!("{} alone has {other}", name(package)))
        }),
    );
}

/// Dependencies in tests, each with its version and features.
fn features(packages: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]"];
    let listed = output(cargo().args(tree).args(packages));
    listed.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn no_source_file_is_too_long() {
    let sources = files(".rs");
    let lengths =
        sources.iter().filter(|file| file.is_in_crate_source()).map(|file| (file, file.text.lines().count()));
    let long = lengths.filter(|(_, lines)| *lines > MOST_LINES);
    assert_none(
        "a file is longer than 600 lines; make it two",
        long.map(|(file, lines)| format!("{}: {lines} lines", file.name)),
    );
}

#[test]
fn crates_that_must_not_read_the_clock_have_a_lint_against_it() {
    let problems = ["crates/plan", "crates/protocol", "crates/workload"].into_iter().flat_map(|folder| {
        let rules = std::fs::read_to_string(root().join(folder).join("clippy.toml")).unwrap_or_default();
        let clocks = ["std::time::SystemTime::now", "std::time::Instant::now"];
        let allowed = clocks.into_iter().filter(move |clock| !rules.contains(&format!("\"{clock}\"")));
        allowed.map(move |clock| format!("{folder}/clippy.toml does not ban {clock}"))
    });
    assert_none("a clock can be read where time is an argument", problems);
}

#[test]
fn every_document_has_one_title() {
    let problems = files(".md").into_iter().filter_map(|file| {
        let titles = Page::of(&file.text).titles().len();
        // In the contents of a book these are the names of its parts.
        let is_contents = file.name.ends_with("SUMMARY.md");
        (titles != 1 && !is_contents).then(|| format!("{}: {titles} titles of level 1", file.name))
    });
    assert_none("a document must have one title", problems);
}

/// The last column of the table of attacks names tests.
#[test]
fn every_line_of_the_threat_model_has_a_test() {
    let sources: String = files(".rs").into_iter().map(|file| file.text).collect();
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let table = page.split("| who | tries to |").nth(1).unwrap().split("\n\n").next().unwrap();
    let lines: Vec<&str> = table.lines().skip(2).collect();
    assert!(lines.len() > 20, "the table was not found");
    let missing = lines.iter().flat_map(|line| {
        let tests = line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        let unknown = names.iter().filter(|name| !sources.contains(&format!("fn {name}()")));
        let none = names.is_empty().then(|| format!("{line}: no test"));
        unknown.map(|name| format!("{line}: no test {name}")).chain(none).collect::<Vec<_>>()
    });
    assert_none("each line of the threat model names tests that exist", missing);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let problems = files(".md").into_iter().flat_map(|file| {
        let folder = root().join(&file.name).parent().unwrap().to_owned();
        let page = Page::of(&file.text);
        let broken = page.links().into_iter().filter(|link| !leads_somewhere(&folder, link));
        broken.map(|link| format!("{}: {link}", file.name)).collect::<Vec<_>>()
    });
    assert_none("a link is broken", problems);
}

/// Web addresses and links within the page are not checked.
fn leads_somewhere(folder: &Path, link: &str) -> bool {
    let target = link.split('#').next().unwrap_or_default();
    let elsewhere = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
    elsewhere || folder.join(target).exists()
}
