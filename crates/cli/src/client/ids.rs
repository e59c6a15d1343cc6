//! Full and abbreviated ids of reservations and jobs. The server resolves an abbreviated id; an ambiguous one is an
//! error that lists the candidates.

use super::refusal::Usage;
use super::session::Session;
use anyhow::Result;
use bookahead_api::{JobsQuery, ListQuery};
use bookahead_protocol::{JobId, ReservationId};
use std::fmt;
use std::str::FromStr;

/// Digits of an id in tables. With 10,000 reservations, two of them share these digits with a probability of about 1%.
const SHORT: usize = 8;

/// Length of the prefixes `rsv_` and `job_`.
const KIND: usize = 4;

/// Digits of a full id.
const WHOLE: usize = 32;

/// Candidates listed at most for an ambiguous id; they are only a hint.
const SHOWN: u32 = 4;

/// Fewer digits are not the begin of an id: a mistyped one must not stand for another reservation by chance.
const FEWEST: usize = 6;

/// A full id, or the first digits of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdText<T> {
    text: String,
    id: T,
}

impl<T: FromStr> FromStr for IdText<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<IdText<T>, T::Err> {
        let text = text.trim().to_ascii_lowercase();
        text.parse().map(|id| IdText { text, id })
    }
}

impl<T> fmt::Display for IdText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T: Copy + PartialEq + fmt::Display> IdText<T> {
    /// Whether it is taken as it is: a full id, or too few digits for the begin of one.
    fn is_exact(&self) -> bool {
        let digits = self.text.len().saturating_sub(KIND);
        !(FEWEST..WHOLE).contains(&digits)
    }

    /// Selects the id among those with this prefix. An unknown id is passed on, so that the server refuses it.
    fn chosen(&self, found: &[T]) -> Result<T> {
        match found {
            // Ids are printed without leading zeros, so a text of fewer digits may be a full id. It wins over
            // longer ids that begin with it.
            _ if found.contains(&self.id) => Ok(self.id),
            [] => Ok(self.id),
            [one] => Ok(*one),
            several => {
                let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                let why =
                    format!("{} is ambiguous; use more digits of one of: {}", self.text, several.join(", "));
                Err(Usage(why).into())
            }
        }
    }
}

impl Session {
    pub(crate) fn reservation_id(&self, id: &IdText<ReservationId>) -> Result<ReservationId> {
        if id.is_exact() {
            return Ok(id.id);
        }
        let query = ListQuery { id: Some(id.text.clone()), limit: Some(SHOWN), ..ListQuery::default() };
        let found = self.ask("looking", self.client.list(&query))?;
        let found: Vec<ReservationId> = found.reservations.iter().map(|reservation| reservation.id).collect();
        id.chosen(&found)
    }

    pub(crate) fn job_id(&self, id: &IdText<JobId>) -> Result<JobId> {
        if id.is_exact() {
            return Ok(id.id);
        }
        let query = JobsQuery { id: Some(id.text.clone()), limit: Some(SHOWN), ..JobsQuery::default() };
        let found = self.ask("looking", self.client.jobs(&query))?;
        let found: Vec<JobId> = found.jobs.iter().map(|job| job.id).collect();
        id.chosen(&found)
    }

    /// The form of an id in tables: the first digits, or all with `--full-ids`.
    pub(crate) fn short(&self, id: impl fmt::Display) -> String {
        let text = id.to_string();
        match text.get(..KIND + SHORT) {
            Some(short) if !self.full_ids => short.to_owned(),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_begin_of_an_id_stands_for_the_only_one_that_begins_so() {
        let id = |text: &str| text.parse::<IdText<ReservationId>>().unwrap();
        let (first, second) = (ReservationId(0x4f3c), ReservationId(0x4f3d));
        assert_eq!(id("rsv_4F3").chosen(&[first]).unwrap(), first);
        assert_eq!(id("rsv_4f3").chosen(&[]).unwrap(), ReservationId(0x4f3), "the server refuses it");
        assert_eq!(id("rsv_4f3c").chosen(&[second, first]).unwrap(), first, "a whole id may begin another");
        let several = id("rsv_4f3").chosen(&[first, second]).unwrap_err().to_string();
        assert_eq!(several, "rsv_4f3 is ambiguous; use more digits of one of: rsv_4f3c, rsv_4f3d");
        assert!("job_4f".parse::<IdText<ReservationId>>().is_err());
        assert!(id("rsv_753a2d0ded89d8bbb038ba84405d9ee3").is_exact());
        assert!(id("rsv_753a2").is_exact() && !id("rsv_753a2d").is_exact(), "six digits can stand for more");
    }
}
