//! The description of a sweep in TOML: the command, its input, its parameters, and where the results go. Errors name
//! the line.

use super::MOST_RUNS;
use super::batch::Settings;
use super::grid::Parameter;
use super::values::{Kind, Value, range};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The command that each run executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Command {
    Simulate,
    SimulateGrid,
    Experiment,
}

impl Command {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Command::Simulate => "simulate",
            Command::SimulateGrid => "simulate-grid",
            Command::Experiment => "experiment",
        }
    }
}

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    command: Command,
    input: Option<String>,
    out: PathBuf,
    #[serde(default)]
    jobs: bool,
    chunk: Option<Spanned<u64>>,
    #[serde(default)]
    partition: Vec<Spanned<String>>,
    #[serde(default)]
    parameters: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
    #[serde(default)]
    slurm: Settings,
    #[serde(default)]
    hyperqueue: Settings,
}

/// A sweep: one run for each combination of the values of its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sweep {
    pub(crate) command: Command,
    /// A trace, the description of a grid, or the name of an experiment; empty for generated grids.
    pub(crate) input: String,
    /// Folder of the results.
    pub(crate) out: PathBuf,
    /// Whether results have one row a job too.
    pub(crate) jobs: bool,
    /// Runs in a chunk, which has one file of results.
    pub(crate) chunk: usize,
    /// Those of `partition` first; the last changes fastest.
    pub(crate) parameters: Vec<Parameter>,
    /// The first parameters that are folders of the results.
    pub(crate) partition: usize,
    pub(crate) slurm: Settings,
    pub(crate) hyperqueue: Settings,
}

/// Most runs in a chunk. More would lose much time if a chunk is killed and its log is lost.
const MOST_IN_CHUNK: u64 = 100_000;
/// Most folders of results. File systems and readers become slow with more.
const MOST_FOLDERS: usize = 1_000;

/// The default number of runs in a chunk: about a hundred chunks, but not so many that their files are tiny, nor so few
/// that one takes very long.
fn usual_chunk(runs: usize) -> usize {
    runs.div_ceil(100).clamp(10, 10_000)
}

/// The text of a description, to turn offsets into line numbers.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn at(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or_default();
        format!("{}, line {}", self.name, before.matches('\n').count() + 1)
    }
}

impl Sweep {
    /// Reads a description. Relative paths start at the folder of the file.
    pub(crate) fn read(path: &Path) -> Result<(Sweep, String)> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {name}; use the description of a sweep"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((Sweep::parse(&text, &name, folder)?, text))
    }

    pub(crate) fn parse(text: &str, name: &str, folder: &Path) -> Result<Sweep> {
        let source = Source { name, text };
        let written: Written = toml::from_str(text).with_context(|| {
            format!("{name} is not a valid description of a sweep; see docs/how-to/sweeps.md")
        })?;
        let mut parameters = parameters(&source, &written)?;
        let partition = arrange(&source, &written.partition, &mut parameters)?;
        let runs = parameters.iter().try_fold(1_usize, |runs, parameter| {
            runs.checked_mul(parameter.values.len()).filter(|runs| *runs <= MOST_RUNS)
        });
        let runs = runs.with_context(|| {
            let counts: Vec<String> = parameters.iter().map(Parameter::size).collect();
            format!("{name}: more than {MOST_RUNS} runs ({}); use fewer values", counts.join(" × "))
        })?;
        let chunk = match &written.chunk {
            Some(chunk) => {
                let given = *chunk.get_ref();
                let at = || source.at(chunk.span().start);
                ensure!((1..=MOST_IN_CHUNK).contains(&given), "{}: chunk must be 1 to {MOST_IN_CHUNK}", at());
                usize::try_from(given)?
            }
            None => usual_chunk(runs),
        };
        let input = match (written.command, &written.input) {
            (Command::Experiment, Some(input)) => input.clone(),
            (_, Some(input)) => text_of(&folder.join(input))?,
            (Command::SimulateGrid, None) => String::new(),
            (Command::Simulate, None) => bail!("{name}: input is missing; set it to a trace"),
            (Command::Experiment, None) => {
                bail!("{name}: input is missing; set it to the name of an experiment")
            }
        };
        let Written { command, out, jobs, slurm, hyperqueue, .. } = written;
        ensure!(!jobs || command == Command::Simulate, "{name}: jobs = true is for command = \"simulate\"");
        let out = folder.join(out);
        Ok(Sweep { command, input, out, jobs, chunk, parameters, partition, slurm, hyperqueue })
    }
}

/// A path as text, for a command line.
pub(crate) fn text_of(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not valid UTF-8", path.display()))
}

/// The parameters in the order of the file.
fn parameters(source: &Source<'_>, written: &Written) -> Result<Vec<Parameter>> {
    let mut found: Vec<_> = written.parameters.iter().collect();
    found.sort_by_key(|(name, _)| name.span().start);
    let mut parameters: Vec<Parameter> = Vec::new();
    for (name, value) in found {
        let at = source.at(name.span().start);
        let (name, wrong) = (name.get_ref(), |why: String| anyhow!("{at}: parameter {name}: {why}"));
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        ensure!(!name.is_empty() && name.chars().all(legal), "{at}: {name:?} is not a name of a parameter");
        let parameter = Parameter::new(name, values(value.get_ref()).map_err(wrong)?);
        let twice = parameters.iter().any(|other| other.column == parameter.column);
        ensure!(!twice, "{at}: parameter {name} is given twice");
        ensure!(
            !OWN_COLUMNS.contains(&&*parameter.column),
            "{at}: {name} is the name of a column; rename it"
        );
        parameters.push(parameter);
    }
    Ok(parameters)
}

/// Columns of every table of results.
pub(crate) const OWN_COLUMNS: [&str; 3] = ["key", "version", "command"];

/// Moves the parameters of `partition` to the front, and returns their number.
fn arrange(
    source: &Source<'_>,
    partition: &[Spanned<String>],
    parameters: &mut Vec<Parameter>,
) -> Result<usize> {
    for (to, name) in partition.iter().enumerate() {
        let at = || source.at(name.span().start);
        let wanted = name.get_ref().replace(['-', '.'], "_");
        let Some(from) = parameters.iter().skip(to).position(|parameter| parameter.column == wanted) else {
            bail!("{}: partition names {}, which is not a parameter, or twice", at(), name.get_ref());
        };
        let parameter = parameters.remove(to + from);
        parameters.insert(to, parameter);
    }
    let folders: usize =
        parameters[..partition.len()].iter().map(|parameter| parameter.values.len()).product();
    ensure!(
        folders <= MOST_FOLDERS,
        "{}: partition gives {folders} folders; at most {MOST_FOLDERS}, use parameters with fewer values",
        source.name
    );
    Ok(partition.len())
}

/// The values of one parameter: a single value, a list, a range in a text, or a list of all these.
fn values(written: &toml::Value) -> Result<Vec<Value>, String> {
    let mut values = Vec::new();
    match written {
        toml::Value::Array(items) => {
            for item in items {
                add(item, &mut values)?;
            }
        }
        single => add(single, &mut values)?,
    }
    if values.is_empty() {
        return Err("it has no value".into());
    }
    same_kind(values)
}

fn add(written: &toml::Value, values: &mut Vec<Value>) -> Result<(), String> {
    match written {
        toml::Value::Boolean(flag) => values.push(Value::Flag(*flag)),
        toml::Value::Integer(number) => values.push(Value::Int(*number)),
        toml::Value::Float(number) if number.is_finite() => values.push(Value::Float(*number)),
        toml::Value::String(text) => match range(text) {
            Some(range) => values.extend(range?),
            None => values.push(Value::Text(text.clone())),
        },
        other => return Err(format!("{other} is not a number, a text or true or false")),
    }
    if values.len() > MOST_RUNS { Err(format!("it has more than {MOST_RUNS} values")) } else { Ok(()) }
}

/// Checks that all values have one kind and none is there twice. Whole numbers among others become floating point.
fn same_kind(mut values: Vec<Value>) -> Result<Vec<Value>, String> {
    if values.iter().any(|value| value.kind() == Kind::Float) {
        for value in &mut values {
            if let Value::Int(number) = value {
                *value = Value::Float(*number as f64);
            }
        }
    }
    if let Some(other) = values.iter().find(|value| value.kind() != values[0].kind()) {
        return Err(format!("{} and {other} have different types", values[0]));
    }
    let mut texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.sort_unstable();
    match texts.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("it has {} twice", pair[0])),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "command = \"simulate\"\ninput = \"a.swf\"\nout = \"o\"\n";

    fn parse(rest: &str) -> Result<Sweep> {
        Sweep::parse(&format!("{HEAD}{rest}"), "s.toml", Path::new("dir"))
    }

    #[test]
    fn parameters_keep_their_order_and_paths_start_at_the_file() {
        let sweep = parse("[parameters]\nwindow = \"2h\"\nload = [1, 1.5]\nseed = \"1..3\"\n").unwrap();
        let names: Vec<&str> = sweep.parameters.iter().map(|parameter| &*parameter.name).collect();
        assert_eq!(names, ["window", "load", "seed"]);
        assert_eq!(sweep.parameters[1].values, [Value::Float(1.0), Value::Float(1.5)]);
        assert_eq!((sweep.input.as_str(), sweep.out.as_path()), ("dir/a.swf", Path::new("dir/o")));
        assert_eq!((sweep.runs(), sweep.chunk), (6, 10));
    }

    #[test]
    fn a_partition_goes_first() {
        let sweep = parse(
            "partition = [\"book-ahead\"]\n[parameters]\nload = [1, 2]\nbook_ahead = [\"1h\", \"2h\"]\n",
        );
        let sweep = sweep.unwrap();
        assert_eq!((sweep.partition, &*sweep.parameters[0].column), (1, "book_ahead"));
    }

    #[test]
    fn errors_name_the_line() {
        for (rest, expected) in [
            ("[parameters]\nload = []\n", "s.toml, line 5: parameter load: it has no value"),
            ("[parameters]\nload = [1, \"a\"]\n", "line 5: parameter load: 1 and a have different types"),
            ("[parameters]\nload = [1, 1.0]\n", "line 5: parameter load: it has 1 twice"),
            ("[parameters]\nload = \"3..1\"\n", "line 5: parameter load: the range 3..1 is empty"),
            ("[parameters]\nload = 1\n\"a b\" = 2\n", "line 6: \"a b\" is not a name"),
            ("[parameters]\na-b = 1\na_b = 2\n", "line 6: parameter a_b is given twice"),
            ("[parameters]\nkey = 1\n", "line 5: key is the name of a column"),
            ("[parameters]\na = { b = 1 }\n", "line 5: parameter a: { b = 1 } is not a number"),
            ("chunk = 0\n", "line 4: chunk must be 1 to 100000"),
            ("partition = [\"x\"]\n", "line 4: partition names x, which is not a parameter"),
            ("[parameters]\na = \"1..4000\"\nb = \"1..4000\"\n", "more than 10000000 runs (a 4000 × b 4000)"),
        ] {
            let why = format!("{:#}", parse(rest).unwrap_err());
            assert!(why.contains(expected), "{rest}: {why}");
        }
        let why = format!("{:#}", parse("colour = 1\n").unwrap_err());
        assert!(why.contains("line 4") && why.contains("colour"), "{why}");
    }
}
