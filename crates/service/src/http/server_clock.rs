//! The clock of the service in headers. Every answer tells its present, and its speed unless that is 1, so that clients
//! need no call of their own to learn them. A request whose times were computed for a clock of another speed is refused
//! before it has any effect. Relies on [`crate::clock`]; never changes a time that a request names.

use super::problem::Refusal;
use crate::clock::Clock;
use axum::http::{HeaderMap, HeaderValue};
use bookahead_api::{Code, Timestamp, header};

/// Adds what the clock shows to the headers of an answer. A time that has no date is left out.
pub(super) fn tell(clock: Clock, headers: &mut HeaderMap) {
    let now = Timestamp::try_from(clock.now().second()).ok();
    if let Some(now) = now.and_then(|now| HeaderValue::from_str(&now.to_string()).ok()) {
        headers.insert(header::NOW, now);
    }
    if clock.speed() != 1 {
        headers.insert(header::CLOCK_SPEED, clock.speed().into());
    }
}

/// Refuses a request that names another speed than the clock's. One that names none is taken as it is.
pub(super) fn check(clock: Clock, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(value) = headers.get(header::CLOCK_SPEED) else { return Ok(()) };
    let meant = value.to_str().ok().and_then(|text| text.trim().parse::<u32>().ok());
    let meant = meant.ok_or_else(|| Refusal::bad_request("Bookahead-Clock-Speed is not a whole number"))?;
    if meant == clock.speed() {
        return Ok(());
    }
    let why = format!(
        "the times of this request are for a clock of speed {meant}, and the clock here has speed {}; compute them by \
         Bookahead-Now and Bookahead-Clock-Speed of this answer",
        clock.speed()
    );
    Err(Refusal::new(Code::OtherClock, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_told_where_it_is_not_that_of_every_clock() {
        for (clock, speed) in [(Clock::WALL, None), (Clock::accelerated_from_now(60), Some("60"))] {
            let mut headers = HeaderMap::new();
            tell(clock, &mut headers);
            let now: Timestamp = headers[header::NOW].to_str().unwrap().parse().unwrap();
            assert!(now.time() <= clock.now().second());
            assert_eq!(headers.get(header::CLOCK_SPEED).map(|value| value.to_str().unwrap()), speed);
        }
    }

    #[test]
    fn times_for_a_clock_of_another_speed_are_refused() {
        let asked = |clock: Clock, speed: &str| {
            let headers = HeaderMap::from_iter([(
                header::CLOCK_SPEED.parse().unwrap(),
                HeaderValue::from_str(speed).unwrap(),
            )]);
            check(clock, &headers).map_err(|refusal| refusal.code().to_owned())
        };
        let fast = Clock::accelerated_from_now(60);
        assert_eq!(check(fast, &HeaderMap::new()), Ok(()));
        assert_eq!((asked(Clock::WALL, "1"), asked(fast, " 60")), (Ok(()), Ok(())));
        assert_eq!(asked(fast, "1"), Err("other-clock".into()));
        assert_eq!(asked(Clock::WALL, "60"), Err("other-clock".into()));
        assert_eq!(asked(Clock::WALL, "fast"), Err("bad-request".into()));
    }
}
