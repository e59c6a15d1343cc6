//! Time zones as fixed offsets: a user writes wall-clock times of her own zone, a resource lives in its own, and
//! instants are the same everywhere. It knows no calendar and no daylight saving time: an offset already has it.

use bookahead_plan::{Seconds, Time};

/// A zone, by how far its wall clocks are ahead of the common time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Zone {
    ahead: Seconds,
}

/// What a wall clock shows, in seconds; means an instant only together with a [`Zone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(pub i64);

impl Zone {
    /// So many seconds ahead of the common time; negative in the west.
    pub const fn ahead_by(ahead: Seconds) -> Zone {
        Zone { ahead }
    }

    /// So many hours ahead of the common time; negative in the west.
    pub const fn hours(hours: i64) -> Zone {
        Zone { ahead: Seconds(hours.saturating_mul(3600)) }
    }

    /// What the clocks of the zone show at an instant.
    pub fn local(self, instant: Time) -> LocalTime {
        LocalTime((instant + self.ahead).0)
    }

    /// The instant at which the clocks of the zone show this.
    pub fn instant(self, shown: LocalTime) -> Time {
        Time(shown.0) - self.ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_two_zones_show_one_instant_differently() {
        let (melbourne, chicago) = (Zone::hours(10), Zone::hours(-5));
        let noon = LocalTime(12 * 3600);
        let instant = melbourne.instant(noon);
        assert_eq!(instant, Time(2 * 3600));
        assert_eq!(chicago.local(instant), LocalTime(-3 * 3600));
        assert_eq!(chicago.instant(chicago.local(instant)), instant);
    }
}
