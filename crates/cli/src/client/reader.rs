//! Reads the times of a command by one clock and in the zone of the user. What it had to assume it remembers, so that the
//! answer can say so. Never reads a clock: the present is given.

use super::dates::Dates;
use super::when::{Clock, Unclear, When};
use bookahead_api::Timestamp;
use bookahead_plan::Time;
use jiff::tz::TimeZone;
use std::cell::{Cell, RefCell};

/// One clock and one zone for all times of a command.
#[derive(Debug)]
pub(crate) struct Reader {
    clock: Clock,
    dates: Dates,
    assumed: RefCell<Vec<String>>,
    used_now: Cell<bool>,
}

impl Reader {
    pub(crate) fn new(now: Timestamp, zone: TimeZone) -> Reader {
        let dates = Dates::new(zone.clone());
        let Time(second) = now.time();
        // Every timestamp of a document is one of the calendar.
        let clock = Clock { now: jiff::Timestamp::from_second(second).unwrap_or_default(), zone };
        Reader { clock, dates, assumed: RefCell::default(), used_now: Cell::new(false) }
    }

    /// The present.
    pub(crate) fn now(&self) -> Timestamp {
        self.used_now.set(true);
        Timestamp::nearest(Time(self.clock.now.as_second()))
    }

    /// Whether anything that was read depends on the present.
    pub(crate) fn has_used_now(&self) -> bool {
        self.used_now.get()
    }

    /// The instant that is meant.
    pub(crate) fn read(&self, when: &When) -> Result<Timestamp, Unclear> {
        self.used_now.set(self.used_now.get() || when.needs_now());
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
