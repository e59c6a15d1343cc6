//! A request as described in a file or by options: named parts, constraints between them, and defaults for all parts.
//! It is turned into the request of the API: times become instants and names of parts become indices. Contradictions
//! are refused with advice. Nothing is sent here.

use super::values::{Amount, Gap, Lasting, Machine, Required, TresText, lasting_or_none, signed};
use crate::client::dates::Reader;
use crate::client::refusal::counted;
use bookahead_api::when::When;
use bookahead_api::{self as api, Length, Objective, OnLoss, Prefer, Timestamp};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol as protocol;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Described {
    /// Default earliest start of parts.
    pub(crate) from: Option<When>,
    /// Default latest end of parts.
    pub(crate) until: Option<When>,
    /// Default duration of parts.
    #[serde(default, deserialize_with = "lasting_or_none")]
    pub(crate) duration: Option<Lasting>,
    /// What parts with ranges of capacity or duration gain first.
    #[serde(default)]
    pub(crate) prefer: Prefer,
    /// How to choose among solutions.
    #[serde(default)]
    pub(crate) objective: Objective,
    /// What a broker does when a part is lost.
    #[serde(default)]
    pub(crate) on_loss: OnLoss,
    /// URL that is notified of events of the reservation.
    pub(crate) webhook: Option<String>,
    /// Name for lists and calendars.
    pub(crate) name: Option<String>,
    pub(crate) note: Option<String>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    /// Priority class of the site.
    pub(crate) priority: Option<String>,
    /// Other users that may see the reservation and run jobs in it.
    #[serde(default, rename = "with")]
    pub(crate) shared_with: Vec<String>,
    /// Whether jobs of the owner run in it that do not name it.
    #[serde(default)]
    pub(crate) attract: bool,
    #[serde(default, rename = "part")]
    pub(crate) parts: Vec<Part>,
    #[serde(default, rename = "constraint")]
    pub(crate) constraints: Vec<Constraint>,
}

/// One resource for one interval.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    /// Used in constraints. Default: `1`, `2` and so on, in the order of the parts.
    pub(crate) name: Option<String>,
    /// Kind of resource. Default: processors.
    pub(crate) kind: Option<String>,
    pub(crate) capacity: Amount,
    #[serde(default, deserialize_with = "lasting_or_none")]
    pub(crate) duration: Option<Lasting>,
    pub(crate) from: Option<When>,
    pub(crate) until: Option<When>,
    #[serde(default)]
    pub(crate) require: Vec<Required>,
    /// Name of a particular resource.
    pub(crate) resource: Option<String>,
    /// Machine that the duration was measured on.
    pub(crate) measured_on: Option<Machine>,
    /// Things beside the capacity.
    pub(crate) tres: Option<TresText>,
}

/// A constraint between parts, by their names. In a file: a table with one entry.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Constraint {
    /// All start at the same time.
    Together(Vec<String>),
    /// The second starts `by` after the start of the first.
    Offset {
        first: String,
        second: String,
        #[serde(deserialize_with = "signed")]
        by: Length,
    },
    /// The second starts after the end of the first.
    After {
        first: String,
        second: String,
        /// Default: any gap of zero or more.
        gap: Option<Gap>,
    },
    /// The first ends no later than the second.
    EndsBefore { first: String, second: String },
    /// All are at one site.
    SameSite(Vec<String>),
    /// No two are at one site.
    DifferentSites(Vec<String>),
    /// The link connects the sites of the two other parts.
    Joins { link: String, ends: [String; 2] },
}

/// An error in a description, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the request as a whole.
    Whole,
    /// Counted from 0.
    Part(usize),
    /// Counted from 0.
    Constraint(usize),
}

impl Described {
    /// Builds the API request; `reader` resolves the times.
    pub(crate) fn request(&self, reader: &Reader) -> Result<api::Request, Fault> {
        let whole = |what: String| Fault { place: Place::Whole, what };
        let names = Names::of(self.parts.iter().map(|part| part.name.as_deref()));
        let names = names.map_err(|(at, what)| Fault { place: Place::Part(at), what })?;
        let mut parts = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let fault = |what| Fault { place: Place::Part(at), what: names.about(at, what) };
            parts.push(self.part(part, reader).map_err(fault)?);
        }
        let mut constraints = Vec::new();
        for (at, constraint) in self.constraints.iter().enumerate() {
            let fault = |what| Fault { place: Place::Constraint(at), what };
            constraints.extend(between(constraint, &names).map_err(fault)?);
        }
        let (objective, on_loss, webhook) = (self.objective, self.on_loss, self.webhook.clone());
        let (name, note, labels) = (self.name.clone(), self.note.clone(), self.labels.clone());
        let shared_with = self.shared_with.iter().map(|user| user.as_str().into()).collect();
        let request = api::Request {
            parts,
            constraints,
            objective,
            on_loss,
            webhook,
            name,
            note,
            labels,
            priority: self.priority.clone(),
            shared_with,
            consents: Default::default(),
            attract: self.attract,
        };
        // The same check as on the server, so that a contradiction is reported before anything is sent.
        protocol::Request::from(request.clone())
            .check()
            .map_err(|wrong| whole(counted(&wrong.to_string(), Some(request.parts.len()))))?;
        Ok(request)
    }

    fn part(&self, part: &Part, reader: &Reader) -> Result<api::Part, String> {
        let missing =
            "the duration is missing; add one, or use 'open' for a reservation until you release it";
        let lasting = part.duration.or(self.duration).ok_or(missing)?;
        let duration = lasting.least.seconds();
        // It may be negative, because it is parsed like the offset between two parts.
        if duration < Seconds(1) {
            return Err("the duration must be at least one second".to_owned());
        }
        if part.capacity.least == 0 {
            return Err("the capacity must be at least 1".to_owned());
        }
        let (earliest_start, latest_end) = self.window(part, duration, reader)?;
        Ok(api::Part {
            kind: part.kind.as_deref().unwrap_or("processors").into(),
            capacity: part.capacity.least,
            duration_seconds: duration.0,
            earliest_start,
            latest_end,
            requirements: part.require.iter().map(|required| required.0.clone()).collect(),
            resource: part.resource.as_deref().map(Into::into),
            replaces: None,
            changes: None,
            measured_on: part.measured_on.as_ref().map(|machine| machine.0.clone()),
            up_to: self.up_to(part, lasting, latest_end),
            tres: part.tres.clone().unwrap_or_default().0,
        })
    }

    /// How far the part may grow, if it has a range of capacity or duration.
    fn up_to(&self, part: &Part, lasting: Lasting, end: Timestamp) -> Option<api::UpTo> {
        let Amount { least, most } = part.capacity;
        if least == most && lasting.least == lasting.most {
            return None;
        }
        let longer = Seconds(lasting.most.seconds().0.saturating_sub(lasting.least.seconds().0));
        let is_window = part.until.as_ref().or(self.until.as_ref()).is_some();
        // Without a latest end the start stays as it is, and the end moves.
        let latest_end = if is_window { None } else { ending(end, longer).ok() };
        Some(api::UpTo {
            capacity: (least != most).then_some(most),
            duration_seconds: (longer > Seconds::ZERO).then_some(lasting.most.seconds().0),
            latest_end: latest_end.filter(|_| longer > Seconds::ZERO),
            prefer: self.prefer,
        })
    }

    /// Earliest start and latest end. With `from` alone the start is exact; with `until` alone it is from now on.
    fn window(
        &self,
        part: &Part,
        duration: Seconds,
        reader: &Reader,
    ) -> Result<(Timestamp, Timestamp), String> {
        let read = |when| reader.read(when).map_err(|unclear| unclear.to_string());
        let from = part.from.as_ref().or(self.from.as_ref());
        let until = part.until.as_ref().or(self.until.as_ref());
        let mut begin = from.map_or_else(|| Ok(reader.now()), read)?;
        let end = match (from, until) {
            (_, Some(until)) => read(until)?,
            // By the time that a site has the request, an exact start of "now" would be in the past.
            (Some(from), None) if from.is_now() => ending(begin, duration + IMMEDIATE)?,
            (Some(_), None) => ending(begin, duration)?,
            (None, None) => {
                return Err(
                    "the time is missing; use from (exact start), until (latest end), or both for a window"
                        .to_owned(),
                );
            }
        };
        if until.is_some() && from.is_none_or(When::is_relative) {
            begin = at_whole_minute(begin, duration, end);
        }
        // A window may start in the past and then starts now; a window that is entirely in the past is a mistake.
        let last = until.map_or((from, begin), |until| (Some(until), end));
        if let (Some(when), at) = last
            && let Some(why) = reader.in_the_past(when, at)
        {
            return Err(why);
        }
        if begin.time() + duration > end.time() {
            let (begin, end) = (reader.shown(begin), reader.shown(end));
            let takes = crate::times::written(duration);
            return Err(format!(
                "it cannot end by {end} if it begins at {begin} and takes {takes}; use a later until"
            ));
        }
        Ok((begin, end))
    }
}

/// How much later an immediate reservation may begin.
const IMMEDIATE: Seconds = Seconds(60);

/// Shortest duration with a window that begins at a whole minute. A shorter reservation is a trial or a short job, for
/// which up to a minute is a long wait.
const ROUNDED_FROM: Seconds = Seconds(600);

/// The next whole minute, if the reservation fits behind it. Otherwise a window from now on, or `+2h`, would yield starts
/// such as 09:00:17.
fn at_whole_minute(begin: Timestamp, duration: Seconds, end: Timestamp) -> Timestamp {
    let Time(second) = begin.time();
    let Some(minute) = second.checked_add(59).map(|second| Time(second.div_euclid(60) * 60)) else {
        return begin;
    };
    let fits = duration >= ROUNDED_FROM && minute + duration <= end.time();
    if fits { Timestamp::try_from(minute).unwrap_or(begin) } else { begin }
}

fn ending(begin: Timestamp, duration: Seconds) -> Result<Timestamp, String> {
    let Time(second) = begin.time() + duration;
    Timestamp::try_from(Time(second)).map_err(|error| error.to_string())
}

/// The names of the parts, in order.
pub(crate) struct Names(Vec<String>);

impl Names {
    /// Fails with the index of the first part whose name is already taken.
    pub(crate) fn of<'a>(parts: impl Iterator<Item = Option<&'a str>>) -> Result<Names, (usize, String)> {
        let mut names: Vec<String> = Vec::new();
        for (at, name) in parts.enumerate() {
            let name = name.map_or_else(|| (at + 1).to_string(), str::to_owned);
            if names.contains(&name) {
                return Err((at, format!("two parts are called {name}; use different names")));
            }
            names.push(name);
        }
        Ok(Names(names))
    }

    /// `what`, with the name of the part in front if there are several.
    pub(crate) fn about(&self, at: usize, what: String) -> String {
        match self.0.get(at) {
            Some(name) if self.0.len() > 1 => format!("part {name}: {what}"),
            _ => what,
        }
    }

    fn place(&self, name: &str) -> Result<usize, String> {
        let place = self.0.iter().position(|known| known == name);
        place.ok_or_else(|| format!("there is no part {name}; use one of: {}", self.0.join(", ")))
    }

    fn places(&self, names: &[String]) -> Result<Vec<usize>, String> {
        if names.len() < 2 {
            return Err("it needs at least two parts".to_owned());
        }
        names.iter().map(|name| self.place(name)).collect()
    }

    fn pair(&self, first: &str, second: &str) -> Result<(usize, usize), String> {
        let (first_place, second_place) = (self.place(first)?, self.place(second)?);
        if first_place == second_place {
            return Err(format!("it relates {first} to itself; use two different parts"));
        }
        Ok((first_place, second_place))
    }
}

/// Constraints of the API relate two parts each, so that one described constraint may become several.
pub(crate) fn between(constraint: &Constraint, names: &Names) -> Result<Vec<api::Constraint>, String> {
    Ok(match constraint {
        Constraint::Together(parts) => {
            // Equal starts are transitive: it is enough to relate each part to the first.
            let with_first = |first, second| api::Constraint::Offset { first, second, by_seconds: 0 };
            first_with_others(&names.places(parts)?, with_first)
        }
        Constraint::Offset { first, second, by } => {
            let (first, second) = names.pair(first, second)?;
            vec![api::Constraint::Offset { first, second, by_seconds: by.seconds().0 }]
        }
        Constraint::After { first, second, gap } => {
            let (first, second) = names.pair(first, second)?;
            let least_seconds = gap.map_or(0, |gap| gap.least.0);
            let most_seconds = gap.and_then(|gap| gap.most).map(|most| most.0);
            vec![api::Constraint::After { first, second, least_seconds, most_seconds }]
        }
        Constraint::EndsBefore { first, second } => {
            let (first, second) = names.pair(first, second)?;
            vec![api::Constraint::EndsBefore { first, second }]
        }
        Constraint::SameSite(parts) => first_with_others(&names.places(parts)?, |first, second| {
            api::Constraint::SameSite { first, second }
        }),
        Constraint::DifferentSites(parts) => {
            // Unlike the same site, different sites are not transitive: every pair needs a constraint.
            let parts = names.places(parts)?;
            let with_later = |(at, first): (usize, &usize)| {
                let pair = |first, second| api::Constraint::DifferentSites { first, second };
                parts[at + 1..].iter().map(|&second| pair(*first, second)).collect::<Vec<_>>()
            };
            parts.iter().enumerate().flat_map(with_later).collect()
        }
        Constraint::Joins { link, ends: [one, other] } => {
            let (first, second) = names.pair(one, other)?;
            vec![api::Constraint::Joins { link: names.place(link)?, ends: [first, second] }]
        }
    })
}

fn first_with_others(
    places: &[usize],
    pair: impl Fn(usize, usize) -> api::Constraint,
) -> Vec<api::Constraint> {
    let Some((&first, others)) = places.split_first() else { return Vec::new() };
    others.iter().map(|&other| pair(first, other)).collect()
}
