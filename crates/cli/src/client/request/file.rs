//! A request from a file, in TOML or JSON. What is wrong with it is said with the name of the file and the line.

use super::build::{Fault, Place};
use super::described::Described;
use crate::client::failure::Usage;
use anyhow::{Context, Result};
use std::io::Read;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A description, and the text that it was read from.
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
        let cannot = || format!("{name} cannot be read; give the path of a request, see examples/requests");
        let mut text = String::new();
        if path == Path::new("-") {
            std::io::stdin().read_to_string(&mut text).with_context(cannot)?;
        } else {
            text = std::fs::read_to_string(path).with_context(cannot)?;
        }
        Ok(RequestFile::read(name, text)?)
    }

    /// Reads the text of a file of this name.
    pub(crate) fn read(name: String, text: String) -> Result<RequestFile, Usage> {
        let described = if is_json(&text) {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        } else {
            toml::from_str(&text).map_err(|error| error.to_string())
        };
        match described {
            Ok(described) => Ok(RequestFile { name, text, described }),
            Err(error) => Err(Usage(format!("{name} is no request: {error}"))),
        }
    }

    /// What is wrong with it, and where.
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

/// A table of TOML cannot begin with a brace.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The line on which a part or constraint begins, where the file is TOML.
fn line(text: &str, place: Place) -> Option<usize> {
    let (tables, at) = match place {
        Place::Whole => return None,
        Place::Part(at) => ("part", at),
        Place::Constraint(at) => ("constraint", at),
    };
    let file = DeTable::parse(text).ok()?;
    let DeValue::Array(tables) = file.get_ref().get(tables)?.get_ref() else { return None };
    let begin = tables.get(at)?.span().start;
    Some(text.get(..begin)?.matches('\n').count() + 1)
}
