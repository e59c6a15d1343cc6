//! Options that describe a reservation or job: `--name`, `--note`, `--label`, `--priority`; the first as filters of lists; and `--with`,
//! which shares a reservation.

use bookahead_api::{Labels, Request};
use bookahead_protocol::Name;
use bookahead_protocol::description::{check_class, check_label};
use clap::Args;
use std::collections::BTreeMap;

#[derive(Args, Clone, Default)]
pub(crate) struct About {
    /// Name, shown in lists and as the title in calendars
    #[arg(long, value_name = "TEXT", help_heading = "Description")]
    pub(crate) name: Option<String>,

    /// Note; may have several lines
    #[arg(long, value_name = "TEXT", help_heading = "Description")]
    pub(crate) note: Option<String>,

    /// Label to search for, such as course=mpi; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, help_heading = "Description")]
    pub(crate) labels: Vec<(String, String)>,

    /// Priority class of the site [default: the site's own]
    #[arg(long, value_name = "CLASS", value_parser = class, help_heading = "Description")]
    pub(crate) priority: Option<String>,
}

#[derive(Args, Clone, Default)]
pub(crate) struct Sharing {
    /// Other users, separated by commas, that may see the reservation and run jobs in it; only you can change or
    /// cancel it. project:NAME stands for the users of a project
    #[arg(long, value_name = "USERS", value_delimiter = ',', help_heading = "Description")]
    pub(crate) with: Option<Vec<String>>,
}

/// Filters of lists by name and label.
#[derive(Args, Clone, Default)]
pub(crate) struct Search {
    /// Only those whose name contains this text, in capital or small letters
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,

    /// Only those with this label; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
}

/// `key=value`.
fn label(text: &str) -> Result<(String, String), String> {
    // At the first '=': a value may contain more of them, a key none.
    let (key, value) = text.split_once('=').ok_or("write a label as KEY=VALUE, such as course=mpi")?;
    check_label(key, value).map_err(|wrong| wrong.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn class(text: &str) -> Result<String, String> {
    check_class(text).map_err(|wrong| wrong.to_string())?;
    Ok(text.to_owned())
}

impl About {
    /// The options as they were given.
    pub(crate) fn words(&self) -> Vec<String> {
        let About { name, note, labels, priority } = self;
        let labels = labels.iter().map(|(key, value)| ("--label", format!("{key}={value}")));
        let given = [("--name", name), ("--note", note), ("--priority", priority)];
        let given = given.into_iter().filter_map(|(option, value)| Some((option, value.clone()?)));
        given.chain(labels).flat_map(|(option, value)| [option.to_owned(), value]).collect()
    }

    pub(crate) fn is_given(&self) -> bool {
        self.priority.is_some() || self.name.is_some() || self.note.is_some() || !self.labels.is_empty()
    }

    /// Adds what is given. An empty name or note, and a label with an empty value, remove an earlier one.
    pub(crate) fn add_to(
        &self,
        name: &mut Option<String>,
        note: &mut Option<String>,
        labels: &mut BTreeMap<String, String>,
        priority: &mut Option<String>,
    ) {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        if let Some(given) = &self.name {
            *name = some(given);
        }
        if let Some(given) = &self.note {
            *note = some(given);
        }
        if self.priority.is_some() {
            priority.clone_from(&self.priority);
        }
        for (key, value) in &self.labels {
            if value.is_empty() {
                labels.remove(key);
            } else {
                labels.insert(key.clone(), value.clone());
            }
        }
    }

    pub(crate) fn describe(&self, request: &mut Request) {
        self.add_to(&mut request.name, &mut request.note, &mut request.labels, &mut request.priority);
    }
}

impl Sharing {
    /// The option as it was given.
    pub(crate) fn words(&self) -> Vec<String> {
        self.with.iter().flat_map(|users| ["--with".to_owned(), users.join(",")]).collect()
    }

    /// Replaces the users that a request is shared with, if some are given. An empty list removes all.
    pub(crate) fn share(&self, request: &mut Request) {
        if let Some(users) = &self.with {
            let users = users.iter().map(|user| user.trim()).filter(|user| !user.is_empty());
            request.shared_with = users.map(Name::from).collect();
        }
    }
}

impl Search {
    pub(crate) fn name(&self) -> Option<String> {
        self.name.clone()
    }

    pub(crate) fn labels(&self) -> Option<Labels> {
        let labels: BTreeMap<_, _> = self.labels.iter().cloned().collect();
        (!labels.is_empty()).then_some(Labels(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_texts_replace_earlier_ones_and_empty_ones_remove_them() {
        let mut request = Request::new(Vec::new(), Vec::new());
        let labels = vec![label("course=mpi").unwrap(), label("room=a=b").unwrap()];
        let (name, note) = (Some("Course".into()), Some("bring a laptop".into()));
        let about = About { name, note, labels, priority: Some("urgent".into()) };
        about.describe(&mut request);
        assert_eq!(
            (request.name.as_deref(), request.note.as_deref()),
            (Some("Course"), Some("bring a laptop"))
        );
        assert_eq!(request.labels.get("room").map(String::as_str), Some("a=b"));
        let about =
            About { name: Some(String::new()), labels: vec![label("room=").unwrap()], ..About::default() };
        about.describe(&mut request);
        assert_eq!((request.name, request.note.is_some(), request.labels.len()), (None, true, 1));
        assert_eq!(request.priority.as_deref(), Some("urgent"));
        assert!(class("very urgent").is_err());
        assert!(label("course").is_err() && label("a b=c").is_err());
    }
}
