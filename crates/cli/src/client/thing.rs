//! What commands are about that take a reservation as well as a job, by its identity.

use bookahead_protocol::{JobId, ReservationId};
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    Reservation(ReservationId),
    Job(JobId),
}

#[derive(Debug, thiserror::Error)]
#[error("'{0}' is the id of neither a reservation (rsv_4f3c2b1a) nor a job (job_9d8e7f)")]
pub(crate) struct BadThing(String);

impl FromStr for Thing {
    type Err = BadThing;

    fn from_str(text: &str) -> Result<Thing, BadThing> {
        let reservation = || text.parse().map(Thing::Reservation);
        let job = || text.parse().map(Thing::Job);
        reservation().or_else(|_| job()).map_err(|_| BadThing(text.to_owned()))
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Reservation(id) => id.fmt(f),
            Thing::Job(id) => id.fmt(f),
        }
    }
}
