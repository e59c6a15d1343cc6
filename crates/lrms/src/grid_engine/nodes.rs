//! Queue instances, which have the slots, and the places they belong to.

use crate::batch::{Node, Place};
use crate::command::{Command, Outcome};
use crate::dialect::xml::Element;
use crate::dialect::{Tools, failed};
use crate::error::LrmsError;
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// State letters with which no job starts on a queue instance: unknown, error, disabled (manually, by calendar),
/// suspended (manually, by a subordinating queue, by calendar), ambiguous, orphaned. A load alarm passes by itself.
const UNUSABLE: [char; 9] = ['u', 'E', 'd', 'D', 's', 'S', 'C', 'c', 'o'];

/// A queue instance from `qstat -f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) slots: u32,
    pub(super) usable: bool,
}

/// Resources of each queue instance.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues(BTreeMap<String, Vec<Name>>);

impl Instance {
    /// Parses a `Queue-List`; None if it has no name or slots.
    pub(super) fn read(element: &Element) -> Option<Instance> {
        let name = element.text_of("name").filter(|name| !name.is_empty())?;
        let slots = element.text_of("slots_total").and_then(|slots| slots.parse().ok())?;
        let state = element.text_of("state").unwrap_or("");
        Some(Instance { name: name.into(), slots, usable: !state.contains(UNUSABLE) })
    }
}

impl Queues {
    pub(super) fn resources(&self, instance: &str) -> &[Name] {
        self.0.get(instance).map_or(&[], Vec::as_slice)
    }

    /// The resources of the queues that a job requests; all if it requests none.
    pub(super) fn asked(&self, patterns: &[&str]) -> Vec<Name> {
        let asked = |instance: &str| {
            // Hosts in a pattern are ignored, as it may name a host group, whose members are unknown here.
            let queue = queue_of(instance);
            patterns.is_empty() || patterns.iter().any(|pattern| matches(queue_of(pattern), queue))
        };
        let instances = self.0.iter().filter(|(instance, _)| asked(instance));
        // A set: many instances have the same resource, and the job must count there once.
        let names: BTreeSet<&Name> = instances.flat_map(|(_, names)| names).collect();
        names.into_iter().cloned().collect()
    }
}

/// The nodes of all places among the existing queue instances.
pub(super) fn find(
    tools: &Tools,
    places: &[Place],
    instances: Vec<Instance>,
) -> Result<(Queues, Vec<Node>), LrmsError> {
    let selections: Vec<Command> = places.iter().filter_map(|place| selection(tools, place)).collect();
    // In parallel: a command of Grid Engine takes 120 to 220 ms, and there is one for each resource.
    let mut selected = tools.run_all(&selections).into_iter().zip(&selections);
    let mut queues = Queues::default();
    for place in places {
        // Only places with a selection have a result, in the same order.
        let members = match selection(tools, place).and_then(|_| selected.next()) {
            Some((outcome, command)) => chosen(command, &outcome?)?,
            None => of_queue(place.partition.as_deref(), &instances),
        };
        for instance in members {
            queues.0.entry(instance).or_default().push(place.resource.clone());
        }
    }
    let nodes = instances.into_iter().filter_map(|instance| {
        let resources = queues.resources(&instance.name).to_vec();
        let Instance { name, slots, usable } = instance;
        (!resources.is_empty()).then_some(Node { name, cores: slots, usable, resources })
    });
    let nodes = nodes.collect();
    Ok((queues, nodes))
}

/// All instances of a queue, or of all queues.
fn of_queue(queue: Option<&str>, instances: &[Instance]) -> BTreeSet<String> {
    let names = instances.iter().map(|instance| instance.name.clone());
    names.filter(|name| queue.is_none_or(|queue| queue_of(name) == queue)).collect()
}

/// The command that selects the queue instances of a place; None if the name of a queue, or none, is enough.
fn selection(tools: &Tools, place: &Place) -> Option<Command> {
    let is_name = |queue: &String| !queue.contains(['@', '*', '?', '[', '!', '|', '&']);
    if place.features.is_empty() && place.partition.as_ref().is_none_or(is_name) {
        return None;
    }
    let mut command = tools.command("qselect");
    if let Some(queue) = &place.partition {
        command = command.arg("-q").arg(queue);
    }
    for feature in &place.features {
        command = command.arg("-l").arg(feature);
    }
    Some(command)
}

/// The output of a selection. `qselect` fails silently if it finds nothing.
fn chosen(command: &Command, outcome: &Outcome) -> Result<BTreeSet<String>, LrmsError> {
    if !outcome.is_success() && !outcome.err.trim().is_empty() {
        return Err(failed(command, outcome));
    }
    Ok(outcome.out.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}

/// The queue of `queue@host`.
pub(super) fn queue_of(instance: &str) -> &str {
    instance.split_once('@').map_or(instance, |(queue, _)| queue)
}

/// Matches a pattern with `*` and `?`. It backtracks only to the last `*`, so it takes no exponential time.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[of] => {
                at += 1;
                of += 1;
            }
            _ => match &mut star {
                Some((star_at, covered)) => {
                    *covered += 1;
                    at = *star_at + 1;
                    of = *covered;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_of_queues_stand_for_what_they_should() {
        for (pattern, name, expected) in [
            ("all.q", "all.q", true),
            ("all.q", "all.q2", false),
            ("*", "all.q", true),
            ("*.q", "all.q", true),
            ("a*l*q", "all.q", true),
            ("?ll.q", "all.q", true),
            ("*.x", "all.q", false),
            ("", "all.q", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
