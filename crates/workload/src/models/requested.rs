//! How long jobs ask to run when a model draws only how long they do run: exactly that, a multiple, or what
//! users do, who overestimate and then pick a round number. An estimate is never below the run time.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::setting::{ModelError, check_range};
use crate::LONGEST;
use crate::streams::Stream;

/// The requested times that users pick, in minutes. Beyond the last, whole days are picked.
pub const POPULAR_MINUTES: [i64; 22] = [
    5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 720, 900, 1080, 1440, 2160, 2880, 4320, 7200,
    10_080,
];

const DAY: i64 = 86_400;

/// The smallest share of its requested time that a job uses before rounding.
const LEAST_ACCURACY: f64 = 0.1;

/// How requested times are made from run times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum RequestModel {
    /// The run time.
    Exact,
    /// So many times the run time, rounded up; at least 1.
    Factor(f64),
    /// The run time over an accuracy that is uniform from a tenth to one, as in the flat middle of the
    /// histograms of Mu'alem and Feitelson (IEEE TPDS 12(6), 2001), rounded up to the next of
    /// [`POPULAR_MINUTES`].
    #[default]
    Popular,
}

/// Text that names no model of requested times.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' names no requested times; give exact, popular or factor:F with F of at least 1")]
pub struct RequestModelError(String);

impl RequestModel {
    pub(super) fn check(self) -> Result<(), ModelError> {
        match self {
            RequestModel::Factor(factor) => {
                check_range("a factor of the run time", factor, 1.0..=1e9, "a number of at least 1")
            }
            RequestModel::Exact | RequestModel::Popular => Ok(()),
        }
    }

    /// The requested time of a job that runs for `run` seconds.
    pub(super) fn request(self, run: i64, stream: &mut Stream) -> i64 {
        match self {
            RequestModel::Exact => run,
            RequestModel::Factor(factor) => rounded_up(run as f64 * factor),
            RequestModel::Popular => {
                let accuracy = stream.uniform(LEAST_ACCURACY, 1.0);
                next_popular(rounded_up(run as f64 / accuracy))
            }
        }
    }
}

fn rounded_up(seconds: f64) -> i64 {
    (seconds.ceil() as i64).min(LONGEST)
}

/// The first popular value that is not below `seconds`.
fn next_popular(seconds: i64) -> i64 {
    let popular = POPULAR_MINUTES.into_iter().map(|minutes| minutes * 60).find(|value| *value >= seconds);
    popular.unwrap_or_else(|| (seconds + DAY - 1) / DAY * DAY)
}

impl FromStr for RequestModel {
    type Err = RequestModelError;

    fn from_str(text: &str) -> Result<RequestModel, RequestModelError> {
        let unknown = || RequestModelError(text.to_owned());
        let model = match (text, text.strip_prefix("factor:")) {
            ("exact", _) => RequestModel::Exact,
            ("popular", _) => RequestModel::Popular,
            (_, Some(number)) => RequestModel::Factor(number.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        };
        model.check().map(|()| model).map_err(|_| unknown())
    }
}

impl fmt::Display for RequestModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestModel::Exact => f.write_str("exact"),
            RequestModel::Factor(factor) => write!(f, "factor:{factor}"),
            RequestModel::Popular => f.write_str("popular"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_popular_value_is_not_below() {
        for (seconds, popular) in [(1, 300), (300, 300), (301, 600), (86_400, 86_400), (86_401, 129_600)] {
            assert_eq!(next_popular(seconds), popular);
        }
        assert_eq!(next_popular(8 * DAY - 5), 8 * DAY);
    }

    #[test]
    fn requests_are_never_below_the_run_time() {
        let mut stream = Stream::new(1, "test");
        for model in [RequestModel::Exact, RequestModel::Factor(1.5), RequestModel::Popular] {
            for run in (1..20).map(|power| 3_i64.pow(power)) {
                assert!(model.request(run, &mut stream) >= run);
            }
        }
    }

    #[test]
    fn a_name_gives_the_model_and_back() {
        for text in ["exact", "popular", "factor:2.5"] {
            assert_eq!(text.parse::<RequestModel>().unwrap().to_string(), text);
        }
        for text in ["", "factor:0.5", "factor:nan", "actual"] {
            assert!(text.parse::<RequestModel>().is_err(), "{text}");
        }
    }
}
