//! The time that a party lives in, as it is described; and the one place that knows what a faster clock does to waits.

use super::length::Length;
use super::wrong::Wrong;
use crate::clock::Clock;
use bookahead_api::Timestamp;
use bookahead_protocol::{Millis, Moment};
use serde::Deserialize;

/// No clock is faster: a real millisecond should still be less than a minute of plans.
pub const FASTEST: u32 = 50_000;

/// A clock. All parties that talk to each other need the same one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockConfig {
    /// How many times as fast as the time of day.
    pub speed: u32,
    /// Where it agrees with the time of day.
    pub origin: Option<Timestamp>,
}

impl Default for ClockConfig {
    fn default() -> ClockConfig {
        ClockConfig { speed: 1, origin: None }
    }
}

impl ClockConfig {
    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), Wrong> {
        let why = match self {
            ClockConfig { speed: 1, origin: None } => return Ok(()),
            ClockConfig { speed: 2..=FASTEST, origin: Some(_) } => return Ok(()),
            ClockConfig { speed: 1, .. } => {
                let why = "the time of day has no origin; leave it out, or give a speed above 1";
                return Err(Wrong::new("origin", why).within("clock"));
            }
            ClockConfig { speed: 2..=FASTEST, .. } => {
                "a faster clock needs an origin, where it agrees with the time of day, the same for all parties: \
                 write origin = \"2026-11-16T00:00:00Z\" with a date of these days"
                    .to_owned()
            }
            ClockConfig { speed, .. } => {
                format!("speed = {speed} is no speed; give 1 for the time of day, or up to {FASTEST}")
            }
        };
        Err(Wrong::new("speed", why).within("clock"))
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        match self.origin {
            Some(origin) => Clock::accelerated(Moment::of(origin.time()), self.speed),
            None => Clock::WALL,
        }
    }
}

/// How long something is by a clock of this speed that waits for round trips and for people: these take real time, however
/// fast the clock is.
pub fn in_its_time(length: Length, speed: u32) -> Millis {
    Millis(length.0.0.saturating_mul(i64::from(speed)))
}
