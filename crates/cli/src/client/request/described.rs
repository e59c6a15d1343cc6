//! A request as people describe it, in a file or by options: parts with names, what must hold between them, and defaults for
//! what parts do not say themselves. Values are read; whether they fit together is for [`super::build`].

use super::length::{Gap, Length};
use super::requirement::Required;
use crate::client::when::When;
use bookahead_api::Objective;
use serde::Deserialize;

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Described {
    /// Of parts that do not say when they may begin.
    pub(crate) from: Option<When>,
    /// Of parts that do not say when they must have ended.
    pub(crate) until: Option<When>,
    /// Of parts that do not say how long they take.
    pub(crate) duration: Option<Length>,
    /// Which of several solutions is the best.
    #[serde(default)]
    pub(crate) objective: Objective,
    #[serde(default, rename = "part")]
    pub(crate) parts: Vec<Part>,
    #[serde(default, rename = "constraint")]
    pub(crate) constraints: Vec<Constraint>,
}

/// One resource for one stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    /// By which constraints speak of it; `1`, `2` and so on where it has none.
    pub(crate) name: Option<String>,
    /// What kind of resource; processors where it is not said.
    pub(crate) kind: Option<String>,
    pub(crate) capacity: u32,
    pub(crate) duration: Option<Length>,
    pub(crate) from: Option<When>,
    pub(crate) until: Option<When>,
    #[serde(default)]
    pub(crate) require: Vec<Required>,
    /// This very resource.
    pub(crate) resource: Option<String>,
}

/// What must hold between parts, by their names: a table with one entry.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Constraint {
    /// All begin at the same time.
    Together(Vec<String>),
    /// The second begins so long after the begin of the first.
    Offset { first: String, second: String, by: Length },
    /// The second begins after the end of the first.
    After {
        first: String,
        second: String,
        /// At once or whenever, if it is not said.
        gap: Option<Gap>,
    },
    /// The first ends no later than the second.
    EndsBefore { first: String, second: String },
    /// All are at one site.
    SameSite(Vec<String>),
    /// No two are at one site.
    DifferentSites(Vec<String>),
    /// The link is one between the sites of the others.
    Joins { link: String, ends: [String; 2] },
}
