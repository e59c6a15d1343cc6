//! Requests from the command line: by options, for one part or several with `--part`, or from a file with `-f`, in TOML
//! or JSON. Errors in a file are reported with its name and line.

pub(crate) mod described;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use crate::client::dates::Dates;
use crate::client::refusal::Usage;
use crate::client::session::Session;
use crate::times::written;
use anyhow::{Context, Result};
use bookahead_api::when::When;
use bookahead_api::{self as api, Objective, OnLoss, Prefer};
use bookahead_plan::Seconds;
use clap::Args;
use described::{Constraint, Described, Fault, Part, Place};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::de::{DeTable, DeValue};
use values::{Amount, Lasting, Machine, Required, TresText, amount, lasting};

/// Options that describe a single part. They conflict with `--part` and `--file`.
const OF_ONE_PART: [&str; 6] = ["capacity", "kind", "measured_on", "require", "resource", "tres"];

#[derive(Args)]
pub(crate) struct Wanted {
    /// Capacity to reserve, such as the number of processors; 32..64 for as much as there is from 32 to 64
    #[arg(long, value_name = "N", required_unless_present_any = ["file", "part"], help_heading = "Request")]
    #[arg(value_parser = amount, allow_hyphen_values = true)]
    capacity: Option<Amount>,

    /// Duration (90m, 2h30m, 1d, PT2H); 1h..4h for as long as there is room; 'open' or 1h..open until you release it,
    /// at the latest until the end that you are told
    #[arg(long, value_name = "LENGTH", value_parser = lasting, help_heading = "Request")]
    duration: Option<Lasting>,

    /// What to gain first with a range of capacity or duration: capacity, duration, or earliest-begin (the begin that
    /// the least would have) [default: capacity]
    #[arg(long, value_name = "WHICH", value_parser = word::<Prefer>, help_heading = "Request")]
    prefer: Option<Prefer>,

    /// Earliest start ('tomorrow 9:00', 'monday 08:30 Europe/Berlin', '+2h', RFC 3339); without --until the exact
    /// start, and 'now' within a minute
    #[arg(long, value_name = "TIME", help_heading = "Request")]
    from: Option<When>,

    /// Latest end; without --from it may start from now on
    #[arg(long, value_name = "TIME", help_heading = "Request")]
    until: Option<When>,

    /// Machine that --duration was measured on, such as mhz=2600 or gflops=40: a resource whose slowest machine has half
    /// of that gets twice the time
    #[arg(long, value_name = "ATTRIBUTE=N", requires = "until", help_heading = "Request")]
    measured_on: Option<Machine>,

    /// Kind of resource: processors, seats, bandwidth, qpu, … [default: processors]
    #[arg(long, value_name = "KIND", help_heading = "Request")]
    kind: Option<String>,

    /// Requirement on the resource: 'gpus>=4', 'arch=x86_64|aarch64', gpus (quote it for the shell); may be
    /// repeated
    #[arg(long, value_name = "WHAT", help_heading = "Request")]
    require: Vec<Required>,

    /// Things beside the capacity, in total: 'gres/gpu:a100=2,mem=64G,license/qpu=1' (Slurm), 'ngpus=2,mem=64G' (PBS);
    /// `bookahead sites` lists what a resource has
    #[arg(long, value_name = "NAME=N", help_heading = "Request")]
    tres: Option<TresText>,

    /// Name of the resource, as the server lists it
    #[arg(long, value_name = "NAME", help_heading = "Request")]
    resource: Option<String>,

    /// How to choose among offers: earliest-end, best-availability, least-impact, lowest-cost
    #[arg(long, value_name = "WHICH", value_parser = word::<Objective>, help_heading = "Request")]
    objective: Option<Objective>,

    /// What a broker does when a site loses a part: heal (replace it at the same time), heal-any-time (if that fails,
    /// at any time that the request allows), keep, cancel [default: heal]
    #[arg(long, value_name = "WHAT", value_parser = word::<OnLoss>, help_heading = "Request")]
    on_loss: Option<OnLoss>,

    /// One part of a co-reservation, which gets all parts or none: 'capacity=64 duration=2h kind=processors
    /// require=gpus>=4', also name, from, until, resource, tres; may be repeated
    #[arg(long, value_name = "PART", conflicts_with_all = OF_ONE_PART, help_heading = "Request")]
    part: Vec<PartText>,

    /// Start all parts at the same time
    #[arg(long, requires = "part", help_heading = "Request")]
    together: bool,

    /// Read the request from a file in TOML or JSON ('-' for standard input); --from, --until, --duration,
    /// --objective and --on-loss override its defaults for all parts
    #[arg(short, long, value_name = "FILE", help_heading = "Request")]
    #[arg(conflicts_with_all = OF_ONE_PART, conflicts_with = "part")]
    file: Option<PathBuf>,
}

impl Wanted {
    /// Reads the request from the options or the file. Standard input cannot be read twice, so it is read here and not
    /// in the part of a command that may run again by the server's clock.
    pub(crate) fn read(&self) -> Result<Description> {
        Ok(match &self.file {
            Some(path) => {
                let mut file = RequestFile::open(path)?;
                self.replace_defaults(&mut file.described);
                Description::File(file)
            }
            None => Description::Options(self.described()),
        })
    }

    /// Whether it begins now, without a window.
    pub(crate) fn is_immediate(&self) -> bool {
        self.until.is_none() && self.from.as_ref().is_some_and(When::is_now)
    }

    /// Whether it ends when it is released.
    pub(crate) fn is_open(&self) -> bool {
        self.duration.is_some_and(|lasting| lasting.is_open())
    }

    fn replace_defaults(&self, described: &mut Described) {
        // Only the defaults are replaced: a part of the file that has a value of its own keeps it.
        described.from = self.from.clone().or(described.from.take());
        described.until = self.until.clone().or(described.until.take());
        described.duration = self.duration.or(described.duration);
        described.prefer = self.prefer.unwrap_or(described.prefer);
        described.objective = self.objective.unwrap_or(described.objective);
        described.on_loss = self.on_loss.unwrap_or(described.on_loss);
    }

    fn described(&self) -> Described {
        let single = || Part {
            kind: self.kind.clone(),
            capacity: self.capacity.unwrap_or_default(),
            require: self.require.clone(),
            resource: self.resource.clone(),
            measured_on: self.measured_on.clone(),
            tres: self.tres.clone(),
            ..Part::default()
        };
        let mut parts: Vec<Part> = self.part.iter().map(|text| text.0.clone()).collect();
        if parts.is_empty() {
            parts.push(single());
        }
        // The same names as `Names::of` gives, by which the constraint is resolved.
        let name = |(at, part): (usize, &Part)| part.name.clone().unwrap_or_else(|| (at + 1).to_string());
        let together =
            self.together.then(|| Constraint::Together(parts.iter().enumerate().map(name).collect()));
        let constraints = together.into_iter().collect();
        let mut described = Described { parts, constraints, ..Described::default() };
        self.replace_defaults(&mut described);
        described
    }
}

/// A request whose times are not resolved yet.
pub(crate) enum Description {
    File(RequestFile),
    Options(Described),
}

impl Description {
    /// Resolves the request by the clock of the session.
    pub(crate) fn request(&self, session: &Session) -> Result<api::Request, Usage> {
        let reader = session.reader();
        let request = match self {
            Description::File(file) => file.described.request(&reader).map_err(|fault| file.usage(&fault)),
            Description::Options(described) => {
                described.request(&reader).map_err(|Fault { what, .. }| Usage(what))
            }
        }?;
        // Only if it is complete: after an error nothing is sent, and its assumptions do not matter.
        session.has_read(&reader);
        Ok(request)
    }
}

/// A part in one text: `capacity=64 duration=2h`.
#[derive(Debug, Clone, PartialEq)]
struct PartText(Part);

#[derive(Debug, thiserror::Error)]
#[error(
    "{0}; write a part as 'capacity=64 duration=2h', optionally with name, kind, from, until, resource, measured-on, tres and require"
)]
struct BadPart(String);

impl FromStr for PartText {
    type Err = BadPart;

    fn from_str(text: &str) -> Result<PartText, BadPart> {
        let mut part = Part::default();
        // A value cannot contain blanks: a time such as `tomorrow 9:00` needs --from or a file.
        for word in text.split_whitespace() {
            // At the first '=', because a requirement contains another one: `require=gpus>=4`.
            let (key, value) =
                word.split_once('=').ok_or_else(|| BadPart(format!("'{word}' has no value")))?;
            match key {
                "name" => part.name = Some(value.to_owned()),
                "kind" => part.kind = Some(value.to_owned()),
                "resource" => part.resource = Some(value.to_owned()),
                "capacity" => part.capacity = amount(value).map_err(BadPart)?,
                "duration" => part.duration = Some(lasting(value).map_err(BadPart)?),
                "from" => part.from = Some(read(value)?),
                "until" => part.until = Some(read(value)?),
                "require" => part.require.push(read(value)?),
                "measured-on" => part.measured_on = Some(read(value)?),
                "tres" => part.tres = Some(read(value)?),
                other => return Err(BadPart(format!("'{other}' is unknown"))),
            }
        }
        if part.capacity == Amount::default() {
            Err(BadPart("'capacity' is missing or 0".to_owned()))
        } else {
            Ok(PartText(part))
        }
    }
}

fn read<T: FromStr<Err: std::fmt::Display>>(value: &str) -> Result<T, BadPart> {
    value.parse().map_err(|error| bad(value, error))
}

fn bad(value: &str, error: impl std::fmt::Display) -> BadPart {
    BadPart(format!("'{value}': {error}"))
}

/// Parses an enum value by its name in the API.
pub(crate) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// The `probe` or `reserve` options for a request of one part. None for several parts.
pub(crate) fn flags_of(request: &api::Request, dates: &Dates) -> Option<Vec<String>> {
    let [part] = request.parts.as_slice() else { return None };
    let mut words = terms_of(part, dates);
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    if part.kind.as_str() != "processors" {
        add("--kind", part.kind.to_string());
    }
    for requirement in &part.requirements {
        add("--require", Required(requirement.clone()).to_string());
    }
    if !part.tres.is_empty() {
        add("--tres", TresText(part.tres.clone()).to_string());
    }
    if let Some(resource) = &part.resource {
        add("--resource", resource.to_string());
    }
    if let Some(api::MeasuredOn { attribute, value }) = &part.measured_on {
        add("--measured-on", format!("{attribute}={value}"));
    }
    if let Some(up_to) = part.up_to.as_ref().filter(|up_to| up_to.prefer != Prefer::default()) {
        add("--prefer", name_of(up_to.prefer));
    }
    if request.objective != Objective::default() {
        add("--objective", name_of(request.objective));
    }
    if request.on_loss != OnLoss::default() {
        add("--on-loss", name_of(request.on_loss));
    }
    Some(words)
}

/// The name of an enum value in the API, the inverse of [`word`].
fn name_of(value: impl Serialize) -> String {
    serde_json::to_value(value).unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

/// The options for capacity and times.
pub(crate) fn terms_of(part: &api::Part, dates: &Dates) -> Vec<String> {
    let duration = Seconds(part.duration_seconds);
    let mut words = Vec::new();
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    let up_to = part.up_to.as_ref();
    let range =
        |least: String, most: Option<String>| most.map_or(least.clone(), |most| format!("{least}..{most}"));
    let longest = up_to.and_then(|up_to| up_to.duration_seconds);
    let most = up_to.and_then(|up_to| up_to.capacity).filter(|most| *most > part.capacity);
    add("--capacity", range(part.capacity.to_string(), most.map(|most| most.to_string())));
    let longer = longest.filter(|longest| *longest > part.duration_seconds);
    add("--duration", range(written(duration), longer.map(|longest| written(Seconds(longest)))));
    add("--from", dates.written(part.earliest_start));
    // Without --until the start is exact, which is the same for a window with no slack. If it may last longer, the end
    // would then move.
    let ends_there = longer.is_some() && up_to.is_some_and(|up_to| up_to.latest_end.is_none());
    let has_slack = part.earliest_start.time() + duration != part.latest_end.time();
    if has_slack || ends_there || part.measured_on.is_some() {
        add("--until", dates.written(part.latest_end));
    }
    words
}

/// A request file. The text is kept to find the line of an error.
#[derive(Debug)]
pub(crate) struct RequestFile {
    name: String,
    text: String,
    pub(crate) described: Described,
}

impl RequestFile {
    /// Reads a file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<RequestFile> {
        let name = path.display().to_string();
        let cannot = || format!("cannot read {name}; use the path of a request file, see examples/requests");
        let mut text = String::new();
        if path == Path::new("-") {
            std::io::stdin().read_to_string(&mut text).with_context(cannot)?;
        } else {
            text = std::fs::read_to_string(path).with_context(cannot)?;
        }
        Ok(RequestFile::read(name, text)?)
    }

    pub(crate) fn read(name: String, text: String) -> Result<RequestFile, Usage> {
        let described = if is_json(&text) {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        } else {
            toml::from_str(&text).map_err(|error| error.to_string())
        };
        match described {
            Ok(described) => Ok(RequestFile { name, text, described }),
            Err(error) => Err(Usage(format!("{name} is not a valid request: {error}"))),
        }
    }

    /// `request.toml:12: constraint 2: …`
    pub(crate) fn usage(&self, fault: &Fault) -> Usage {
        let place = match line(&self.text, fault.place) {
            Some(line) => format!("{}:{line}", self.name),
            None => self.name.clone(),
        };
        let about = match fault.place {
            Place::Constraint(at) => format!("constraint {}: ", at + 1),
            Place::Part(_) | Place::Whole => String::new(),
        };
        Usage(format!("{place}: {about}{}", fault.what))
    }
}

/// A TOML document cannot begin with a brace.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The line on which a part or constraint begins. None if the file is JSON.
fn line(text: &str, place: Place) -> Option<usize> {
    let (tables, at) = match place {
        Place::Whole => return None,
        Place::Part(at) => ("part", at),
        Place::Constraint(at) => ("constraint", at),
    };
    // Parsed a second time, and only after an error: the deserialized values have no positions.
    let file = DeTable::parse(text).ok()?;
    let DeValue::Array(tables) = file.get_ref().get(tables)?.get_ref() else { return None };
    let begin = tables.get(at)?.span().start;
    Some(text.get(..begin)?.matches('\n').count() + 1)
}
