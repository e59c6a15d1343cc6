//! The commands of Maui and Torque: by which words they say that their daemon does not answer, and what it means that they print
//! nothing.

use super::Settings;
use crate::command::{Command, Runner};
use crate::dialect::{self, Tools};
use crate::error::LrmsError;
use crate::text::xml::Element;

/// What they say where their daemon does not answer.
const DOWN: [&str; 7] = [
    "cannot connect to",
    "cannot request service",
    "lost connection",
    "Connection refused",
    "Connection timed out",
    "Unable to communicate with",
    "Communication failure",
];

/// How the commands are run.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) maui: Tools,
    pub(super) torque: Tools,
}

impl Commands {
    pub(super) fn new(runner: Runner, settings: &Settings) -> Commands {
        let tools =
            |runner, bin: &Option<_>| Tools::new(runner, bin.clone(), settings.environment.clone(), &DOWN);
        Commands {
            maui: tools(runner.clone(), &settings.maui_bin).probed_by("showq", &[]),
            torque: tools(runner, &settings.torque_bin),
        }
    }

    /// The same, in slots that orders cannot take.
    pub(super) fn for_looks(&self) -> Commands {
        Commands { maui: self.maui.for_looks(), torque: self.torque.for_looks() }
    }
}

/// What a command of Torque printed, as XML; nothing at all is an empty document.
pub(super) fn document(command: &Command, out: &str) -> Result<Element, LrmsError> {
    if out.trim().is_empty() { Ok(Element::default()) } else { dialect::document(command, out) }
}
