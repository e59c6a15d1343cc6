//! Runs of `simulate-grid` with a description: each is a process of this program on a copy of the description, in which parameters with a
//! dot in their name replace values: `network.lost`, or `client.0.every` for the first client.

use crate::sweep::description::Sweep;
use crate::sweep::grid::Setting;
use crate::sweep::table::{Cell, Row};
use crate::sweep::values::{Kind, Value};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) struct Grid {
    path: PathBuf,
    /// The description, with absolute paths of the files it names.
    description: toml::Table,
    files: Vec<PathBuf>,
}

impl Grid {
    pub(super) fn read(sweep: &Sweep) -> Result<Grid> {
        let path = PathBuf::from(&sweep.input);
        let name = path.display();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {name}; set input to the description of a grid"))?;
        let mut description: toml::Table =
            toml::from_str(&text).with_context(|| format!("{name} is not a valid description of a grid"))?;
        let folder = std::path::absolute(&path)?.parent().map(Path::to_owned).unwrap_or_default();
        let mut files = BTreeSet::new();
        description.iter_mut().for_each(|(_, value)| make_absolute(value, &folder, &mut files));
        let files = [path.clone()].into_iter().chain(files).collect();
        Ok(Grid { path, description, files })
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// The description of a run, and its seed.
    pub(super) fn described(&self, setting: &Setting<'_>) -> Result<(String, Option<i64>)> {
        let mut description = toml::Value::Table(self.description.clone());
        let mut seed = None;
        for (parameter, value) in setting {
            if let ("seed", Value::Int(number)) = (&*parameter.name, value) {
                seed = Some(*number);
                continue;
            }
            // Keys of a description have underscores.
            let path = parameter.name.replace('-', "_");
            *find(&mut description, &path).with_context(|| self.path.display().to_string())? = written(value);
        }
        Ok((toml::to_string(&description)?, seed))
    }

    pub(super) fn run(&self, setting: &Setting<'_>) -> Result<Row> {
        let (description, seed) = self.described(setting)?;
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
        file.write_all(description.as_bytes())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("simulate-grid").arg(file.path()).arg("--json").stdin(Stdio::null());
        if let Some(seed) = seed {
            command.arg(format!("--seed={seed}"));
        }
        let output = command.output().context("cannot run bookahead simulate-grid")?;
        let said = String::from_utf8_lossy(&output.stderr);
        // Violations are a result; other failures print no JSON.
        let results: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|_| anyhow!("simulate-grid: {}", said.trim()))?;
        Ok(row(&results))
    }
}

/// Makes each text absolute that names a file beside the description.
fn make_absolute(value: &mut toml::Value, folder: &Path, files: &mut BTreeSet<PathBuf>) {
    match value {
        toml::Value::Table(table) => {
            table.iter_mut().for_each(|(_, value)| make_absolute(value, folder, files));
        }
        toml::Value::Array(values) => values.iter_mut().for_each(|value| make_absolute(value, folder, files)),
        toml::Value::String(text) if !text.is_empty() => {
            let path = folder.join(&*text);
            if path.is_file()
                && let Some(absolute) = path.to_str()
            {
                *text = absolute.to_owned();
                files.insert(path);
            }
        }
        _ => {}
    }
}

/// The place of a value. Tables are made if they are missing; numbers select elements of a list.
fn find<'a>(value: &'a mut toml::Value, path: &str) -> Result<&'a mut toml::Value> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let inner = match value {
        toml::Value::Table(table) => {
            let empty = || toml::Value::Table(toml::Table::new());
            table.entry(first.to_owned()).or_insert_with(empty)
        }
        toml::Value::Array(values) => {
            let count = values.len();
            let at: usize =
                first.parse().with_context(|| format!("{first} is not the number of an element"))?;
            values.get_mut(at).with_context(|| format!("there is no element {at}; there are {count}"))?
        }
        _ => bail!("there is no {first} inside of a single value"),
    };
    if rest.is_empty() { Ok(inner) } else { find(inner, rest) }
}

fn written(value: &Value) -> toml::Value {
    match value {
        Value::Flag(flag) => toml::Value::Boolean(*flag),
        Value::Int(number) => toml::Value::Integer(*number),
        Value::Float(number) => toml::Value::Float(*number),
        Value::Text(text) => toml::Value::String(text.clone()),
    }
}

/// Requests by outcome, times to the answer, and use of the resources.
fn row(results: &serde_json::Value) -> Row {
    let list = |name: &str| results[name].as_array().cloned().unwrap_or_default();
    let requests = list("requests");
    let with = |outcome: &str| requests.iter().filter(|request| request["outcome"] == outcome).count();
    let mut took: Vec<f64> = requests.iter().filter_map(|request| request["took"].as_f64()).collect();
    took.sort_by(f64::total_cmp);
    let attempts: u64 = requests.iter().filter_map(|request| request["attempts"].as_u64()).sum();
    let at = |share: f64| {
        let place = ((took.len() as f64 * share).ceil() as usize).saturating_sub(1);
        took.get(place).copied()
    };
    let optional = |name: &'static str, value: Option<f64>| {
        value.map_or(Cell::none(name, Kind::Float), |value| Cell::float(name, value))
    };
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let of_resources = |name: &str| {
        let values: Vec<f64> =
            list("resources").iter().filter_map(|resource| resource[name].as_f64()).collect();
        mean(&values)
    };
    let refused = with("refused") + with("rejected");
    let unanswered = with("unanswered") + with("requested");
    let ended = with("expired") + with("cancelled");
    let lost = with("lost") + with("part lost");
    vec![
        Cell::int("requests", requests.len()),
        Cell::int("granted", requests.len() - refused - unanswered - ended - lost),
        Cell::int("refused", refused),
        Cell::int("unanswered", unanswered),
        Cell::int("expired_or_cancelled", ended),
        Cell::int("lost", lost),
        Cell::int("attempts", attempts),
        optional("mean_answer", mean(&took)),
        optional("median_answer", at(0.5)),
        optional("p95_answer", at(0.95)),
        optional("used_by_jobs", of_resources("used_by_jobs")),
        optional("used_by_reservations", of_resources("used_by_reservations")),
        optional("settled_at", results["settled_at"].as_f64()),
        Cell::int("violations", list("violations").len()),
    ]
}
