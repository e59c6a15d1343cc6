//! Reads the times of a command: by the clock of whoever is asked and in the zone of whoever asks. What it had to assume it
//! remembers, so that the answer can say so.

use super::dates::Dates;
use super::when::{Clock, Unclear, When};
use bookahead_api::Timestamp;
use bookahead_plan::Time;
use std::cell::RefCell;

/// One clock and one zone for all times of a command.
#[derive(Debug)]
pub(crate) struct Reader {
    clock: Clock,
    dates: Dates,
    now: Timestamp,
    assumed: RefCell<Vec<String>>,
}

impl Reader {
    /// None where the clock shows a time that no document can say.
    pub(crate) fn new(clock: Clock) -> Option<Reader> {
        let now = Timestamp::try_from(Time(clock.now.as_second())).ok()?;
        let dates = Dates::new(clock.zone.clone());
        Some(Reader { clock, dates, now, assumed: RefCell::default() })
    }

    /// What time it is for whoever is asked.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The instant that is meant.
    pub(crate) fn read(&self, when: &When) -> Result<Timestamp, Unclear> {
        let time = when.resolve(&self.clock)?;
        let instant = Timestamp::try_from(time).map_err(|_| Unclear::Beyond(when.to_string()))?;
        if when.assumes_zone() {
            let note =
                format!("'{when}' is read in {}: {}", self.dates.zone_name(), self.dates.both(instant));
            let mut assumed = self.assumed.borrow_mut();
            if !assumed.contains(&note) {
                assumed.push(note);
            }
        }
        Ok(instant)
    }

    /// An instant as an answer shows it.
    pub(crate) fn shown(&self, at: Timestamp) -> String {
        self.dates.wall(at)
    }

    /// What was assumed since somebody last asked.
    pub(crate) fn take_assumed(&self) -> Vec<String> {
        std::mem::take(&mut self.assumed.borrow_mut())
    }
}
