//! A request as it is written on the command line: `processors=64,duration=2h,ahead=4h,window=8h`.

use crate::times::length;
use bookahead_plan::placement::Request;
use bookahead_plan::{Capacity, Seconds, Time};
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestText {
    processors: u32,
    duration: Seconds,
    ahead: Seconds,
    window: Seconds,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}; a request is processors=64,duration=2h, and where wanted ahead=4h and window=8h")]
pub(crate) struct BadRequest(String);

impl FromStr for RequestText {
    type Err = BadRequest;

    fn from_str(text: &str) -> Result<RequestText, BadRequest> {
        let (mut processors, mut duration) = (None, None);
        let (mut ahead, mut window) = (Seconds::ZERO, Seconds::ZERO);
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                return Err(BadRequest(format!("'{part}' has no value")));
            };
            let time = || length(value.trim()).map_err(|error| BadRequest(error.to_string()));
            match key.trim() {
                "processors" => {
                    let number = value.trim().parse().ok().filter(|&number| number > 0);
                    processors = Some(
                        number.ok_or_else(|| BadRequest(format!("'{value}' is no number of processors")))?,
                    );
                }
                "duration" => duration = Some(time()?),
                "ahead" => ahead = time()?,
                "window" => window = time()?,
                other => return Err(BadRequest(format!("'{other}' is unknown"))),
            }
        }
        let missing = |what: &str| BadRequest(format!("'{what}' is missing"));
        let duration = duration.ok_or_else(|| missing("duration"))?;
        if duration <= Seconds::ZERO {
            return Err(BadRequest("a duration of 0 holds nothing".to_owned()));
        }
        Ok(RequestText {
            processors: processors.ok_or_else(|| missing("processors"))?,
            duration,
            ahead,
            window,
        })
    }
}

impl RequestText {
    /// Made at `now`, on a machine counted in units of `unit` processors.
    pub(crate) fn at(&self, now: Time, unit: u32) -> Request {
        let earliest_start = now + self.ahead;
        Request {
            earliest_start,
            latest_end: earliest_start + self.duration + self.window,
            duration: self.duration,
            capacity: Capacity(self.processors.div_ceil(unit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let request: RequestText = "processors=60, duration=2h,window=30m".parse().expect("a request");
        let expected = Request {
            earliest_start: Time(100),
            latest_end: Time(100 + 7_200 + 1_800),
            duration: Seconds(7_200),
            capacity: Capacity(8),
        };
        assert_eq!(request.at(Time(100), 8), expected);
        for text in [
            "",
            "processors=4",
            "duration=2h",
            "processors=0,duration=2h",
            "processors=4,duration=0",
            "cpus=4",
        ] {
            assert!(text.parse::<RequestText>().is_err(), "{text}");
        }
    }
}
