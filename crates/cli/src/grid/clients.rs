//! Clients from their descriptions: what they want, in parts with constraints between them, and what they do with what they
//! are promised.

use super::config::{self, Intent as IntentName, Objective as ObjectiveName, Requirement as Required};
use super::trouble::{Kind, Names};
use anyhow::{Context, Result, bail, ensure};
use bookahead_plan::{Capacity, Seconds, placement};
use bookahead_protocol::{Constraint, Millis, Objective, Part, Request, Requirement, Test, resource};
use bookahead_service::config::Length;
use bookahead_sim::grid::{Client, Step, Wish};
use std::collections::VecDeque;

/// How long a client wants to be held what it is promised, if it does not say.
const USUAL_HOLD: Millis = Millis::seconds(120);
/// Brokers have the numbers below.
const FIRST_MAKER: u64 = 1 << 32;

/// The client at this place of the file.
pub(crate) fn build(described: &config::Client, at: usize, names: &Names, end: Length) -> Result<Client> {
    let whose = format!("client {}", described.name);
    names.find(&described.asks, &[Kind::Site, Kind::Broker], &whose)?;
    let mut wishes = Vec::new();
    for (number, request) in described.requests.iter().enumerate() {
        let wish = wish(request, end).with_context(|| format!("{whose}, request {}", number + 1))?;
        wishes.push(wish);
    }
    Ok(Client::new(described.asks.as_str().into(), &described.name, FIRST_MAKER + at as u64, wishes))
}

fn wish(described: &config::Request, end: Length) -> Result<Wish> {
    ensure!(
        described.at <= end,
        "it would be asked after the simulation; give an earlier at, or a longer duration"
    );
    let request = request(described)?;
    request.check()?;
    Ok(Wish {
        at: described.at.moment(),
        request,
        hold_for: described.hold_for.map_or(USUAL_HOLD, |length| length.0),
        book: described.intent == IntentName::Book,
        steps: steps(described)?,
    })
}

/// What the client does with a hold, each step after the answer to the one before.
fn steps(described: &config::Request) -> Result<VecDeque<(Millis, Step)>> {
    let waits = !matches!(described.intent, IntentName::Book | IntentName::Forget);
    ensure!(
        waits || described.after.is_none(),
        "after means nothing to this intent, which does nothing later; leave it out, or take commit or cancel"
    );
    ensure!(
        described.intent == IntentName::CommitAndCancel || described.cancel_after.is_none(),
        "cancel_after is for the intent commit-and-cancel; leave it out"
    );
    let after = described.after.unwrap_or_default().0;
    let cancel_after = described.cancel_after.unwrap_or_default().0;
    Ok(VecDeque::from(match described.intent {
        IntentName::Book | IntentName::Forget => Vec::new(),
        IntentName::Commit => vec![(after, Step::Commit)],
        IntentName::ExtendAndCommit => vec![(after, Step::Hold), (after, Step::Commit)],
        IntentName::Cancel => vec![(after, Step::Cancel)],
        IntentName::CommitAndCancel => vec![(after, Step::Commit), (cancel_after, Step::Cancel)],
    }))
}

fn request(described: &config::Request) -> Result<Request> {
    let mut parts = Vec::new();
    let mut known = PartNames(Vec::new());
    for (at, part) in described.parts.iter().enumerate() {
        let name = part.name.clone().unwrap_or_else(|| (at + 1).to_string());
        ensure!(!known.0.contains(&name), "two parts are called {name}; give each a name of its own");
        parts.push(self::part(part, described.at).with_context(|| format!("part {name}"))?);
        known.0.push(name);
    }
    let mut constraints = Vec::new();
    for (at, constraint) in described.constraints.iter().enumerate() {
        let number = || format!("constraint {}", at + 1);
        constraints.extend(self::constraints(constraint, &known).with_context(number)?);
    }
    let objective = match described.objective {
        ObjectiveName::EarliestEnd => Objective::EarliestEnd,
        ObjectiveName::BestAvailability => Objective::BestAvailability,
        ObjectiveName::LeastImpact => Objective::LeastImpact,
        ObjectiveName::LowestCost => Objective::LowestCost,
    };
    Ok(Request { parts, constraints, objective })
}

fn part(described: &config::Part, asked: Length) -> Result<Part> {
    let duration = described.duration.seconds();
    let earliest_start = described.earliest.unwrap_or(asked).time();
    let latest_end = described.latest.map_or(earliest_start + duration, Length::time);
    ensure!(
        earliest_start + duration <= latest_end,
        "it cannot end by {latest_end} s if it begins at {earliest_start} s and takes {duration} s; give a later latest"
    );
    let wanted =
        placement::Request { earliest_start, latest_end, duration, capacity: Capacity(described.capacity) };
    let requirements = described.requirements.iter();
    let requirements = requirements.map(|(attribute, required)| {
        Ok(Requirement { attribute: attribute.as_str().into(), test: test(attribute, required)? })
    });
    let requirements = requirements.collect::<Result<_>>()?;
    Ok(Part { wanted, kind: described.kind.as_str().into(), requirements, resource: None })
}

fn test(attribute: &str, required: &Required) -> Result<Test> {
    Ok(match required {
        Required::Number(number) => Test::Is(resource::Value::Number(*number)),
        Required::Text(text) => Test::Is(resource::Value::Text(text.as_str().into())),
        Required::AtLeast { at_least } => Test::AtLeast(*at_least),
        Required::AtMost { at_most } => Test::AtMost(*at_most),
        Required::OneOf { one_of } => Test::OneOf(one_of.iter().cloned().map(Into::into).collect()),
        Required::Present { present: true } => Test::Present,
        Required::Present { present: false } => bail!("{attribute} can only be required to be present"),
    })
}

/// The names of the parts of a request, in order.
struct PartNames(Vec<String>);

impl PartNames {
    fn place(&self, name: &str) -> Result<usize> {
        let place = self.0.iter().position(|known| known == name);
        place.with_context(|| format!("there is no part {name}; take one of: {}", self.0.join(", ")))
    }

    fn places(&self, names: &[String]) -> Result<Vec<usize>> {
        ensure!(names.len() > 1, "it needs two parts or more");
        names.iter().map(|name| self.place(name)).collect()
    }
}

/// One that is written may be several of the protocol, which are between two parts each.
fn constraints(described: &config::Constraint, names: &PartNames) -> Result<Vec<Constraint>> {
    use config::Constraint as Described;
    let one = |constraint| Ok(vec![constraint]);
    match described {
        Described::Together { parts } => {
            let parts = names.places(parts)?;
            let pairs = parts[1..].iter();
            Ok(pairs.map(|&second| Constraint::Offset { first: parts[0], second, by: Seconds(0) }).collect())
        }
        Described::Offset { first, second, by } => one(Constraint::Offset {
            first: names.place(first)?,
            second: names.place(second)?,
            by: by.seconds(),
        }),
        Described::After { first, second, least, most } => one(Constraint::After {
            first: names.place(first)?,
            second: names.place(second)?,
            least: least.unwrap_or_default().seconds(),
            most: most.map(Length::seconds),
        }),
        Described::EndsBefore { first, second } => {
            one(Constraint::EndsBefore { first: names.place(first)?, second: names.place(second)? })
        }
        Described::SameSite { parts } => {
            let parts = names.places(parts)?;
            Ok(parts[1..].iter().map(|&other| Constraint::SameSite(parts[0], other)).collect())
        }
        Described::DifferentSites { parts } => {
            let parts = names.places(parts)?;
            let pairs = parts.iter().enumerate().flat_map(|(at, &one)| {
                parts[at + 1..].iter().map(move |&other| Constraint::DifferentSites(one, other))
            });
            Ok(pairs.collect())
        }
        Described::Joins { link, ends: [first, second] } => one(Constraint::Joins {
            link: names.place(link)?,
            ends: [names.place(first)?, names.place(second)?],
        }),
    }
}
