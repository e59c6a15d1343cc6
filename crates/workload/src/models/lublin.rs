//! The model of U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the
//! characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003, pages
//! 1105-1122: sizes two-stage uniform in the logarithm, run times hyper-gamma with a mixture that depends on
//! the size, gaps gamma with a daily cycle. It draws no requested times, so these have a model of their own.

use super::setting::{DailyCycle, Drawn, ModelError, RequestModel, Setting, check_range};
use crate::streams::Stream;
use crate::trace::Job;

/// Half hours of a day.
const PARTS: usize = 48;

/// The authors begin the day at this half hour, in the early morning, when few jobs arrive.
const DAY_BEGINS: usize = 11;

/// Run times above e^12 s (about 45 hours) are drawn again, as in the authors' program.
const LONGEST_RUN_LOG: f64 = 12.0;

/// Gaps above e^13 s (about 5 days) are drawn again, as in the authors' program.
const LONGEST_GAP_LOG: f64 = 13.0;

/// The parameters of the model, with the names of the paper. Gamma distributions are given by shape and
/// scale; those of run times and gaps are of the natural logarithm of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LublinParameters {
    /// Share of serial jobs.
    pub serial: f64,
    /// Share of parallel jobs whose size is a power of two.
    pub power_of_two: f64,
    /// `ulow`: base-2 logarithm of the smallest parallel size.
    pub size_low: f64,
    /// `uhi - umed`: distance below the machine, in base-2 logarithms, at which the two uniforms meet.
    pub size_break: f64,
    /// `uprob`: share of the lower uniform.
    pub size_low_share: f64,
    /// `a1, b1`: gamma distribution of short run times.
    pub short_run: (f64, f64),
    /// `a2, b2`: gamma distribution of long run times.
    pub long_run: (f64, f64),
    /// `pa, pb`: the share of short run times is pa x processors + pb.
    pub short_share: (f64, f64),
    /// `aarr, barr`: gamma distribution of gaps in the rush hours.
    pub gap: (f64, f64),
    /// `arar`: factor of the shape of that distribution for the whole day.
    pub gap_ratio: f64,
    /// `anum, bnum`: gamma distribution of the half hours at which jobs arrive.
    pub daily: (f64, f64),
}

impl LublinParameters {
    /// As published for all jobs together.
    pub const ALL: LublinParameters = LublinParameters {
        serial: 0.244,
        power_of_two: 0.576,
        size_low: 0.8,
        size_break: 2.5,
        size_low_share: 0.86,
        short_run: (4.2, 0.94),
        long_run: (312.0, 0.03),
        short_share: (-0.0054, 0.78),
        gap: (10.2303, 0.4871),
        gap_ratio: 1.0225,
        daily: (8.1737, 3.9631),
    };

    /// As published for batch jobs only.
    pub const BATCH: LublinParameters = LublinParameters {
        serial: 0.2927,
        power_of_two: 0.6686,
        size_low: 1.2,
        size_break: 2.0,
        size_low_share: 0.875,
        short_run: (6.57, 0.823),
        long_run: (639.1, 0.0156),
        short_share: (-0.003, 0.6986),
        gap: (6.0415, 0.8531),
        gap_ratio: 1.0519,
        daily: (6.1271, 5.2740),
    };
}

/// The model of Lublin and Feitelson.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lublin {
    /// Number of jobs, machine, load and seed.
    pub setting: Setting,
    /// Parameters of the distributions.
    pub parameters: LublinParameters,
    /// Model of requested times, which the paper does not cover.
    pub requests: RequestModel,
}

impl Default for Lublin {
    fn default() -> Lublin {
        Lublin {
            setting: Setting::default(),
            parameters: LublinParameters::ALL,
            requests: RequestModel::default(),
        }
    }
}

impl Lublin {
    /// Draws the jobs, in order of submission.
    pub fn generate(&self) -> Result<Vec<Job>, ModelError> {
        self.setting.check()?;
        self.requests.check()?;
        self.parameters.check()?;
        let seed = self.setting.seed;
        let mut gaps = Stream::new(seed, "lublin/gaps");
        let mut sizes = Stream::new(seed, "lublin/sizes");
        let mut runs = Stream::new(seed, "lublin/runs");
        let mut requests = Stream::new(seed, "lublin/requests");
        let mut clock = DailyCycle::new(self.parameters.half_hours());
        self.setting.draw(|| {
            let processors = self.parameters.size(self.setting.processors.0, &mut sizes);
            let run = self.parameters.run(processors, &mut runs);
            Drawn {
                submit: clock.advance(self.parameters.gap(&mut gaps)),
                processors,
                run,
                request: self.requests.request(run, &mut requests),
            }
        })
    }
}

impl LublinParameters {
    fn check(&self) -> Result<(), ModelError> {
        const SHARE: &str = "a share from 0 to 1";
        check_range("a share of serial jobs", self.serial, 0.0..=1.0, SHARE)?;
        check_range("a share of powers of two", self.power_of_two, 0.0..=1.0, SHARE)?;
        check_range("a share of the lower sizes", self.size_low_share, 0.0..=1.0, SHARE)?;
        check_range("a logarithm of the smallest size", self.size_low, 0.0..=31.0, "0 to 31")?;
        check_range("a logarithm of the break in sizes", self.size_break, 0.0..=31.0, "0 to 31")?;
        check_range("a slope of the share of short runs", self.short_share.0, -1.0..=1.0, "-1 to 1")?;
        check_range("a share of short runs", self.short_share.1, 0.0..=1.0, SHARE)?;
        for (shape, scale) in [self.short_run, self.long_run, self.rush_gap()] {
            // With a mean above 12 most draws would be rejected, and drawing might not end.
            check_range("a shape of a gamma distribution", shape, 0.01..=1e4, "0.01 to 10000")?;
            check_range("a mean logarithm of seconds", shape * scale, 0.01..=LONGEST_RUN_LOG, "0.01 to 12")?;
        }
        check_range("a shape of the daily cycle", self.daily.0, 1.0..=100.0, "1 to 100")?;
        check_range("a scale of the daily cycle", self.daily.1, 0.5..=100.0, "0.5 to 100")
    }

    fn rush_gap(&self) -> (f64, f64) {
        (self.gap.0 * self.gap_ratio, self.gap.1)
    }

    /// A size: 1, or two to a power drawn from two uniforms, rounded to a whole power for some.
    fn size(&self, machine: u32, stream: &mut Stream) -> u32 {
        let kind = stream.unit();
        let high = libm::log2(f64::from(machine));
        let low = self.size_low.min(high);
        let middle = (high - self.size_break).max(low);
        // Drawn for serial jobs too, so that every job takes the same number of draws.
        let lower = stream.unit() <= self.size_low_share;
        let power = if lower { stream.uniform(low, middle) } else { stream.uniform(middle, high) };
        if kind <= self.serial {
            1
        } else if kind <= self.serial + self.power_of_two {
            1 << (power.round() as u32).min(machine.ilog2())
        } else {
            (libm::exp2(power).round() as u32).clamp(1, machine)
        }
    }

    /// A run time in seconds, shorter for small jobs than for large ones.
    fn run(&self, processors: u32, stream: &mut Stream) -> i64 {
        let short_share = self.short_share.0 * f64::from(processors) + self.short_share.1;
        loop {
            let (shape, scale) = if stream.unit() <= short_share { self.short_run } else { self.long_run };
            let logarithm = stream.gamma(shape, scale);
            if logarithm <= LONGEST_RUN_LOG {
                return libm::exp(logarithm) as i64;
            }
        }
    }

    /// A gap in seconds, before the daily cycle is applied.
    fn gap(&self, stream: &mut Stream) -> f64 {
        let (shape, scale) = self.rush_gap();
        loop {
            let logarithm = stream.gamma(shape, scale);
            if logarithm <= LONGEST_GAP_LOG {
                return libm::exp(logarithm);
            }
        }
    }

    /// Weights of the half hours, from midnight on.
    fn half_hours(&self) -> [f64; PARTS] {
        let (shape, scale) = self.daily;
        let below = |half_hour: f64| gamma_share(shape, half_hour / scale);
        let mut weights = [0.0; PARTS];
        for place in DAY_BEGINS..DAY_BEGINS + PARTS {
            let middle = place as f64;
            // A weight of zero would stop the clock of the daily cycle.
            weights[(place - 1) % PARTS] = (below(middle + 0.5) - below(middle - 0.5)).max(1e-6);
        }
        weights
    }
}

/// Share of a gamma distribution of scale 1 below `x`, by its power series: all terms are positive, so no precision is
/// lost by cancellation.
fn gamma_share(shape: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut divisor) = (1.0 / shape, 1.0 / shape, shape);
    while term > sum * 1e-15 {
        divisor += 1.0;
        term *= x / divisor;
        sum += term;
    }
    (sum * libm::exp(shape * libm::log(x) - x - libm::lgamma(shape))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_shares_are_those_of_the_tables() {
        for (shape, x, share) in
            [(1.0, 1.0, 0.632_120_558_8), (2.0, 3.0, 0.800_851_726_5), (8.0, 8.0, 0.547_039_190_5)]
        {
            assert!((gamma_share(shape, x) - share).abs() < 1e-9, "{}", gamma_share(shape, x));
        }
    }

    #[test]
    fn sizes_fit_any_machine() {
        let mut stream = Stream::new(1, "test");
        for machine in [1, 2, 3, 5, 100, 256, i32::MAX as u32] {
            for _ in 0..1000 {
                assert!((1..=machine).contains(&LublinParameters::ALL.size(machine, &mut stream)));
            }
        }
    }

    #[test]
    fn most_jobs_arrive_by_day() {
        let weights = LublinParameters::ALL.half_hours();
        let noon = weights[26];
        assert!(weights.iter().all(|weight| *weight > 0.0));
        assert!(noon > 4.0 * weights[6], "{weights:?}");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters| Lublin { parameters, ..Lublin::default() }.generate().is_err();
        let all = LublinParameters::ALL;
        assert!(!refused(LublinParameters::BATCH));
        assert!(refused(LublinParameters { serial: 1.5, ..all }));
        assert!(refused(LublinParameters { serial: f64::NAN, ..all }));
        assert!(refused(LublinParameters { short_run: (0.0, 1.0), ..all }));
        assert!(refused(LublinParameters { long_run: (1000.0, 1.0), ..all }));
        assert!(refused(LublinParameters { gap: (10.0, f64::INFINITY), ..all }));
        assert!(refused(LublinParameters { daily: (0.0, 1.0), ..all }));
    }
}
