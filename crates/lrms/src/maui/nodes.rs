//! Nodes, as `pbsnodes -x` shows them (pbsnodes(8B)): a set of states, virtual processors (`np`), properties.

use super::commands::{Commands, document};
use crate::batch::{Node, Place};
use crate::command::Command;
use crate::dialect::unreadable;
use crate::error::LrmsError;
use crate::text::xml::Element;

/// States in which no job is started. A node is in several states at once.
const UNUSABLE: [&str; 4] = ["down", "offline", "state-unknown", "unknown"];

/// All nodes that belong to a resource: those that have all of its features. Which nodes a queue uses Torque does not
/// tell, so it does not count here.
pub(super) fn all(commands: &Commands, places: &[Place]) -> Result<Vec<Node>, LrmsError> {
    let command = commands.torque.command("pbsnodes").arg("-x");
    let data = document(&command, &commands.torque.ask(&command)?)?;
    let nodes = data.all("Node").map(|element| node(element, places, &command));
    let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
    Ok(nodes.into_iter().filter(|node| !node.resources.is_empty()).collect())
}

fn node(element: &Element, places: &[Place], command: &Command) -> Result<Node, LrmsError> {
    let name = element.text_of("name").ok_or_else(|| unreadable(command, "a node has no name"))?;
    let state = element.text_of("state");
    let state = state.ok_or_else(|| unreadable(command, format!("node {name} has no state")))?;
    let properties: Vec<&str> = list(element.text_of("properties").unwrap_or_default()).collect();
    let has = |feature: &String| properties.contains(&feature.as_str());
    let belongs = |place: &&Place| place.features.iter().all(has);
    let asleep = element.text_of("power_state").is_some_and(|power| power != "Running");
    Ok(Node {
        name: name.into(),
        cores: element.text_of("np").and_then(|np| np.parse().ok()).unwrap_or(1),
        usable: !asleep && !list(state).any(|state| UNUSABLE.contains(&state)),
        resources: places.iter().filter(belongs).map(|place| place.resource.clone()).collect(),
    })
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}
