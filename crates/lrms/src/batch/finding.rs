//! What an examination of a batch system tells an operator: what was looked at, how well that is, and what to do about it.
//! It relies on nothing, and decides nothing.

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in a few words.
    pub what: String,
    /// How well that is.
    pub grade: Grade,
    /// What was seen.
    pub seen: String,
    /// What to do about it, where there is something to do.
    pub advice: Option<String>,
}

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// As it should be.
    Well,
    /// It works, with a drawback.
    Doubtful,
    /// It does not work.
    Wrong,
}

impl Finding {
    /// As it should be.
    pub fn well(what: impl Into<String>, seen: impl Into<String>) -> Finding {
        Finding { what: what.into(), grade: Grade::Well, seen: seen.into(), advice: None }
    }

    /// It works, with a drawback.
    pub fn doubtful(what: impl Into<String>, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { what: what.into(), grade: Grade::Doubtful, seen: seen.into(), advice: Some(advice.into()) }
    }

    /// It does not work.
    pub fn wrong(what: impl Into<String>, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { what: what.into(), grade: Grade::Wrong, seen: seen.into(), advice: Some(advice.into()) }
    }
}
