//! The commands of PBS: by which words they say that the server does not answer, and the JSON that they print, in which a number may
//! be a text.

use super::Settings;
use crate::command::{Command, Runner};
use crate::dialect::{Tools, unreadable};
use crate::error::LrmsError;
use serde_json::Value;

/// What they say where the server does not answer.
const DOWN: [&str; 4] =
    ["cannot connect to server", "Connection refused", "Communication failure", "End of File"];

/// How the commands are run.
pub(super) fn tools(runner: Runner, settings: &Settings) -> Tools {
    let conf = settings.conf.as_ref().map(|conf| conf.to_string_lossy().into_owned());
    let environment = conf.map(|conf| ("PBS_CONF_FILE".to_owned(), conf)).into_iter().collect();
    Tools::new(runner, settings.bin.clone(), environment, &DOWN).probed_by("qstat", &["-B"])
}

/// Runs a command that only asks, and reads the JSON that it prints.
pub(super) fn ask_json(tools: &Tools, command: &Command) -> Result<Value, LrmsError> {
    object(command, &tools.ask(command)?)
}

/// What a command printed, as an object of JSON.
pub(super) fn object(command: &Command, out: &str) -> Result<Value, LrmsError> {
    let value: Value = serde_json::from_str(out).map_err(|why| unreadable(command, why.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(unreadable(command, "it is no object")) }
}

/// A text, however it is written.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(if *truth { "True" } else { "False" }.into()),
        _ => None,
    }
}

/// A whole number, however it is written.
pub(super) fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// How many processors something has: JSON leaves out what is zero.
pub(super) fn count(value: &Value) -> u32 {
    number(value).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}
