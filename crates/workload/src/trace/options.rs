//! What may be chosen when a log is loaded. The defaults are the rules under which Bookahead's results are
//! compared with others; nothing here touches a file.

use std::str::FromStr;

use bookahead_plan::{Capacity, Interval};
use thiserror::Error;

/// What becomes of a job that ran longer than it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overruns {
    /// Its run time is cut at the request, as a site that kills such jobs would.
    #[default]
    Cut,
    /// It runs on beyond its request.
    Keep,
    /// It leaves the trace.
    Drop,
}

/// A word that names no rule for overruns.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no rule for jobs that run longer than they asked for; give cut, keep or drop")]
pub struct OverrunsError(String);

impl FromStr for Overruns {
    type Err = OverrunsError;

    fn from_str(text: &str) -> Result<Overruns, OverrunsError> {
        match text {
            "cut" => Ok(Overruns::Cut),
            "keep" => Ok(Overruns::Keep),
            "drop" => Ok(Overruns::Drop),
            _ => Err(OverrunsError(text.to_owned())),
        }
    }
}

/// How a log is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// The size of the machine in processors; by default what the header says.
    pub processors: Option<Capacity>,
    /// The size of a node in processors: machine and jobs are counted in nodes of this size.
    pub unit: u32,
    /// What becomes of jobs that ran longer than they asked for.
    pub overruns: Overruns,
    /// Stop after so many sound jobs, in the order of the file.
    pub first: Option<usize>,
    /// Take only jobs submitted within.
    pub range: Option<Interval>,
    /// Take the first job that is dropped or mended for an error.
    pub strict: bool,
    /// Keep the full record of every job.
    pub keep_records: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            processors: None,
            unit: 1,
            overruns: Overruns::Cut,
            first: None,
            range: None,
            strict: false,
            keep_records: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_overruns_are_named() {
        assert_eq!("cut".parse(), Ok(Overruns::Cut));
        assert_eq!("keep".parse(), Ok(Overruns::Keep));
        assert_eq!("drop".parse(), Ok(Overruns::Drop));
        assert!("kill".parse::<Overruns>().unwrap_err().to_string().contains("cut, keep or drop"));
    }
}
