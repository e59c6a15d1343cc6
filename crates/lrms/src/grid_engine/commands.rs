//! The commands of Grid Engine: in which environment they run, and by which words they say that the master does not answer.

use super::Settings;
use crate::command::Runner;
use crate::dialect::Tools;

/// What they say where the master does not answer.
const DOWN: [&str; 4] = [
    "unable to send message to qmaster",
    "unable to contact qmaster",
    "commlib error",
    "can't get answer from",
];

/// How the commands are run.
pub(super) fn tools(runner: Runner, settings: &Settings) -> Tools {
    let variables = [
        ("SGE_ROOT", settings.root.as_ref().map(|root| root.to_string_lossy().into_owned())),
        ("SGE_CELL", settings.cell.clone()),
        ("SGE_QMASTER_PORT", settings.qmaster_port.map(|port| port.to_string())),
        ("SGE_EXECD_PORT", settings.execd_port.map(|port| port.to_string())),
    ];
    let given = variables.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Tools::new(runner, settings.bin.clone(), given.collect(), &DOWN).probed_by("qconf", &["-sql"])
}
