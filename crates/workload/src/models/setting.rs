//! Common parts of the models: number of jobs, machine, load and seed; assembly of drawn jobs, scaling to a load, and
//! conversion to a log; requested times for models that draw only run times (never less than the run time); and
//! arrivals with a daily cycle.

use crate::streams::Stream;
use crate::swf::{Header, Record};
use crate::trace::{Job, ScalingError, scale_to_load};
use crate::{LARGEST, LONGEST};
use bookahead_plan::{Capacity, Seconds, Time};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// Largest number of jobs that a model draws: they take 40 GB.
const MOST_JOBS: usize = 1_000_000_000;

/// Largest number of jobs for which memory is reserved in advance; a larger number grows as jobs are drawn.
const MOST_ROOM: usize = 1 << 20;

/// Parameters that all models share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Number of jobs.
    pub jobs: usize,
    /// Size of the machine.
    pub processors: Capacity,
    /// Offered load, reached by scaling the gaps between jobs; by default the load of the model.
    pub load: Option<f64>,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for Setting {
    /// Ten thousand jobs on 256 processors.
    fn default() -> Setting {
        Setting { jobs: 10_000, processors: Capacity(256), load: None, seed: 1 }
    }
}

/// Why a model cannot draw jobs.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ModelError {
    /// A parameter is out of range.
    #[error("{what} of {value} is out of range; give {wanted}")]
    BadParameter {
        /// Name of the parameter.
        what: &'static str,
        /// Given value.
        value: f64,
        /// Accepted values.
        wanted: &'static str,
    },
    /// A range is empty or too wide.
    #[error(
        "{what} from {low} to {high} are not a valid range; give the lower end first, within {least} to {most}"
    )]
    BadRange {
        /// Name of the range.
        what: &'static str,
        /// Given lower end.
        low: i64,
        /// Given upper end.
        high: i64,
        /// Smallest accepted lower end.
        least: i64,
        /// Largest accepted upper end.
        most: i64,
    },
    /// The submissions would span more than [`LONGEST`].
    #[error("the jobs would be submitted over more than 2^40 s; give fewer jobs or shorter gaps")]
    TooLong,
    /// The load cannot be reached.
    #[error(transparent)]
    Load(#[from] ScalingError),
}

/// The values that a model draws for one job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    /// Seconds after the start.
    pub(super) submit: f64,
    pub(super) processors: u32,
    pub(super) run: i64,
    pub(super) request: i64,
}

impl Setting {
    pub(super) fn check(&self) -> Result<(), ModelError> {
        check_range("numbers of jobs", self.jobs as f64, 1.0..=MOST_JOBS as f64, "1 to 1000000000")?;
        let processors = f64::from(self.processors.0);
        check_range("a machine", processors, 1.0..=LARGEST as f64, "1 to 2147483647 processors")?;
        check_range("a load", self.load.unwrap_or(1.0), 1e-6..=1e6, "a number above 0, such as 0.7")
    }

    /// Draws all jobs, numbered from 1, and scales them to the load.
    pub(super) fn draw(&self, mut one: impl FnMut() -> Drawn) -> Result<Vec<Job>, ModelError> {
        let mut jobs = Vec::with_capacity(self.jobs.min(MOST_ROOM));
        for number in (1..).take(self.jobs) {
            jobs.push(job(number, &one())?);
        }
        if let Some(load) = self.load {
            // Only possible after the last draw: the load depends on all run times and on the last
            // submission.
            scale_to_load(&mut jobs, self.processors, load)?;
        }
        Ok(jobs)
    }
}

fn job(number: i64, drawn: &Drawn) -> Result<Job, ModelError> {
    // This also refuses NaN.
    if !(0.0..=LONGEST as f64).contains(&drawn.submit) {
        return Err(ModelError::TooLong);
    }
    Ok(Job {
        number,
        submit: Time(drawn.submit as i64),
        // Models draw run times as real numbers; one below a second becomes 0 when it is cut to whole
        // seconds.
        run: Seconds(drawn.run.clamp(1, LONGEST)),
        request: Seconds(drawn.request.clamp(1, LONGEST)),
        processors: Capacity(drawn.processors.max(1)),
        user: 0,
    })
}

/// Refuses a value outside its range, and NaN.
pub(super) fn check_range(
    what: &'static str,
    value: f64,
    range: RangeInclusive<f64>,
    wanted: &'static str,
) -> Result<(), ModelError> {
    if range.contains(&value) { Ok(()) } else { Err(ModelError::BadParameter { what, value, wanted }) }
}

/// Refuses an empty range, and one that exceeds `least` to `most`.
pub(super) fn check_ends(
    what: &'static str,
    (low, high): (i64, i64),
    least: i64,
    most: i64,
) -> Result<(), ModelError> {
    if least <= low && low <= high && high <= most {
        return Ok(());
    }
    Err(ModelError::BadRange { what, low, high, least, most })
}

/// The jobs as lines of a log.
pub fn records(jobs: &[Job]) -> Vec<Record> {
    jobs.iter().map(|job| job.record(1)).collect()
}

/// A header for the jobs that `model` drew under `setting`.
pub fn header(model: &str, setting: &Setting) -> Header {
    let mut header = Header::default();
    header.push("Version", "2.2");
    header.push("Computer", format_args!("none, drawn from the {model} model"));
    header.push("Note", format_args!("seed {}", setting.seed));
    header.push("MaxJobs", setting.jobs);
    header.push("MaxRecords", setting.jobs);
    header.push("MaxNodes", setting.processors);
    header.push("MaxProcs", setting.processors);
    header
}

/// Requested times that users prefer, in minutes. Longer ones are whole days.
pub const POPULAR_MINUTES: [i64; 22] = [
    5, 10, 15, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 720, 900, 1080, 1440, 2160, 2880, 4320, 7200,
    10_080,
];

const DAY: i64 = 86_400;

/// Smallest ratio of run time to requested time before rounding; see [`RequestModel::Popular`].
const LEAST_ACCURACY: f64 = 0.1;

/// How requested times are made from run times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum RequestModel {
    /// Equal to the run time.
    Exact,
    /// A multiple of the run time, rounded up; the factor is at least 1.
    Factor(f64),
    /// The run time divided by an accuracy that is uniform from a tenth to one, as in the flat middle of the
    /// histograms of Mu'alem and Feitelson (IEEE TPDS 12(6), 2001), rounded up to the next of
    /// [`POPULAR_MINUTES`].
    #[default]
    Popular,
}

/// An unknown model of requested times.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown requested times '{0}'; use exact, popular or factor:F with F of at least 1")]
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

/// A clock that runs by the weights of the parts of a day, which have equal lengths: fast in parts with a high weight,
/// so that gaps drawn for a constant rate become short at noon and long at night. The mean rate over a day does not
/// change.
#[derive(Debug, Clone)]
pub(super) struct DailyCycle<const PARTS: usize> {
    weights: [f64; PARTS],
    /// Complete parts of a day since the start, and points spent within the present part.
    parts: f64,
    spent: f64,
}

impl<const PARTS: usize> DailyCycle<PARTS> {
    /// Starts at midnight. The weights must be positive; only their ratios matter.
    pub(super) fn new(weights: [f64; PARTS]) -> DailyCycle<PARTS> {
        let mean = weights.iter().sum::<f64>() / PARTS as f64;
        DailyCycle { weights: weights.map(|weight| weight / mean), parts: 0.0, spent: 0.0 }
    }

    /// Advances by `gap` seconds of a day without a cycle; returns the seconds since the start.
    pub(super) fn advance(&mut self, gap: f64) -> f64 {
        let part = DAY as f64 / PARTS as f64;
        let mut points = self.spent + gap / part;
        // Weights have a mean of one, so a whole day costs as many points as it has parts.
        let days = (points / PARTS as f64).floor();
        points -= days * PARTS as f64;
        self.parts += days * PARTS as f64;
        while points > self.weight() {
            points -= self.weight();
            self.parts += 1.0;
        }
        self.spent = points;
        part * (self.parts + points / self.weight())
    }

    fn weight(&self) -> f64 {
        let index = (self.parts % PARTS as f64) as usize;
        self.weights.get(index).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused() {
        let setting = Setting::default();
        assert_eq!(setting.check(), Ok(()));
        assert!(Setting { jobs: 0, ..setting }.check().is_err());
        assert!(Setting { processors: Capacity(0), ..setting }.check().is_err());
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Setting { load: Some(load), ..setting }.check().is_err());
        }
    }

    #[test]
    fn the_header_tells_the_machine() {
        assert_eq!(header("test", &Setting::default()).processors(), Some(256));
    }

    #[test]
    fn an_endless_workload_is_an_error() {
        let drawn = Drawn { submit: 1e300, processors: 1, run: 1, request: 1 };
        assert_eq!(Setting::default().draw(|| drawn), Err(ModelError::TooLong));
    }
}

#[cfg(test)]
mod requested_tests {
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

#[cfg(test)]
mod daily_tests {
    use super::*;

    #[test]
    fn equal_weights_leave_time_as_it_is() {
        let mut clock = DailyCycle::new([3.0; 24]);
        for gap in [10.0, 3600.0, 100_000.0, 1e6] {
            let mut fresh = DailyCycle::new([3.0; 24]);
            assert!((fresh.advance(gap) - gap).abs() < 1e-6);
        }
        assert!((clock.advance(5000.0) - 5000.0).abs() < 1e-9);
        assert!((clock.advance(5000.0) - 10_000.0).abs() < 1e-9);
    }

    #[test]
    fn time_passes_faster_for_less_weight() {
        let mut clock = DailyCycle::new([1.0, 3.0]);
        // The first half of the day has a weight of one half: two seconds pass for each.
        assert!((clock.advance(100.0) - 200.0).abs() < 1e-9);
        // What is left of it lasts 43,000 s and costs 21,500; then one and a half points buy a second.
        assert!((clock.advance(21_500.0 + 300.0) - 43_400.0).abs() < 1e-6);
        // A whole day passes in a day.
        assert!((clock.advance(86_400.0) - 43_400.0 - 86_400.0).abs() < 1e-6);
    }
}
