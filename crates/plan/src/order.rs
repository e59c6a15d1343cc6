//! The order of the queue: which waiting job goes first among those of one priority.
//!
//! A job's priority always comes first; an order decides among equal priorities, then the submit time, then
//! the order of submission. Scores are exact fractions of integers, so an order is the same on every machine.
//!
//! # Orders that change with time
//! First come, first served and shortest job first compare facts that never change. All other orders depend
//! on the time that jobs have waited or on what their owners have used, so the scheduler sorts the whole queue
//! at the beginning of each pass, with the values of that instant, and keeps this order until the pass ends.
//! Promises follow the order: they are withdrawn and made again in each pass. Under EASY another job may
//! become the first, so a job that waited with a promise can be overtaken by one whose score grew faster.
//!
//! # Own orders
//! Implement [`Rank`] for a type without state and use it as [`Order::Own`]; everything that takes a
//! [`Policy`](crate::Policy) then uses it: the scheduler, plans, what-if and the simulator.

use crate::policy::Waiting;
use crate::units::{Capacity, Seconds, Time};
use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Wait after which a job's age no longer adds to its multifactor score: seven days, as in Slurm.
pub const OLDEST: Seconds = Seconds(7 * 86_400);

/// Scale of multifactor factors: each is a whole number of millionths from 0 to 1.
const WHOLE: u128 = 1_000_000;

/// Fractional bits of the logarithm in UNICEF's score.
const LOG_BITS: u32 = 16;

/// What an order may know besides the job itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The instant of the pass.
    pub now: Time,
    /// Capacity of the resource.
    pub capacity: Capacity,
    /// Capacity-seconds that the job's owner has used, see [`crate::usage`].
    pub used: u64,
    /// Largest `used` of all owners of waiting jobs.
    pub most_used: u64,
}

/// A non-negative fraction; the larger score goes first. A denominator of zero counts as one.
#[derive(Debug, Clone, Copy)]
pub struct Score {
    numerator: u128,
    denominator: u128,
}

impl Score {
    /// `numerator / denominator`, exactly.
    pub fn new(numerator: u128, denominator: u128) -> Score {
        Score { numerator, denominator: denominator.max(1) }
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        let left = (self.numerator, other.denominator);
        let right = (other.numerator, self.denominator);
        match (left.0.checked_mul(left.1), right.0.checked_mul(right.1)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => wide_product(left.0, left.1).cmp(&wide_product(right.0, right.1)),
        }
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

/// The product as its upper and lower 128 bits.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    let half = |value: u128| (value >> 64, value & u128::from(u64::MAX));
    let ((a_high, a_low), (b_high, b_low)) = (half(a), half(b));
    let low = a_low * b_low;
    // Neither sum overflows: a product of two halves is at most 2^128 - 2^65 + 1.
    let middle = a_high * b_low + (low >> 64);
    let (middle_high, middle_low) = half(middle);
    let middle = a_low * b_high + middle_low;
    let high = a_high * b_high + middle_high + (middle >> 64);
    (high, (middle << 64) | (low & u128::from(u64::MAX)))
}

/// An order of the queue in Rust code. The larger score goes first; equal scores go by submit time.
///
/// `score` must depend on its arguments only. It is called for each waiting job in each pass.
pub trait Rank: Sync {
    /// Name in tables and file names.
    fn name(&self) -> &'static str;
    /// Score of a waiting job at the instant of a pass.
    fn score(&self, job: &Waiting, standing: &Standing) -> Score;
}

/// Weights of the multifactor order. Each factor is between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Factors {
    /// Of the time waited, as a share of [`OLDEST`].
    pub age: u32,
    /// Of the required capacity, as a share of the resource.
    pub size: u32,
    /// Of how little the owner has used, compared with the owner of a waiting job who used most.
    pub fairshare: u32,
}

impl Factors {
    /// Equal weights.
    pub const EVEN: Factors = Factors { age: 1, size: 1, fairshare: 1 };
}

/// The order of jobs of equal priority.
#[derive(Clone, Copy, Default)]
pub enum Order {
    /// First come, first served.
    #[default]
    Submit,
    /// Shortest job first, by the requested time.
    Sjf,
    /// Largest expansion factor first: (wait + request) / request.
    Lxf,
    /// WFP3: (wait / request)³ × size. Large and old jobs go first.
    Wfp3,
    /// UNICEF: wait / (log₂ size × request). Small jobs go first. A size of 1 counts as 2, whose logarithm is 1.
    Unicef,
    /// Least used owner first.
    FairShare,
    /// Largest weighted sum of age, size and fair share first.
    Multifactor(Factors),
    /// An order in Rust code.
    Own(&'static dyn Rank),
}

impl Order {
    /// The orders that have a name, multifactor with equal weights.
    pub const NAMED: [Order; 7] = [
        Order::Submit,
        Order::Sjf,
        Order::Lxf,
        Order::Wfp3,
        Order::Unicef,
        Order::FairShare,
        Order::Multifactor(Factors::EVEN),
    ];

    /// Its name, without weights.
    pub fn name(&self) -> &'static str {
        match self {
            Order::Submit => "submit",
            Order::Sjf => "sjf",
            Order::Lxf => "lxf",
            Order::Wfp3 => "wfp3",
            Order::Unicef => "unicef",
            Order::FairShare => "fairshare",
            Order::Multifactor(_) => "multifactor",
            Order::Own(rank) => rank.name(),
        }
    }

    /// Whether two waiting jobs may change places while they wait.
    pub fn changes_with_time(&self) -> bool {
        !matches!(self, Order::Submit | Order::Sjf)
    }

    /// Whether it depends on what owners have used.
    pub fn needs_usage(&self) -> bool {
        matches!(self, Order::FairShare | Order::Multifactor(_) | Order::Own(_))
    }

    /// Score of a job; the larger goes first.
    pub fn score(&self, job: &Waiting, standing: &Standing) -> Score {
        let wait = seconds((standing.now - job.submit).0);
        let request = seconds(job.estimate.0).max(1);
        let size = u128::from(job.capacity.0);
        match self {
            Order::Submit => Score::new(0, 1),
            Order::Sjf => Score::new(1, request),
            Order::Lxf => Score::new(wait + request, request),
            Order::Wfp3 => Score::new(wait.pow(3) * size, request.pow(3)),
            Order::Unicef => Score::new(wait << LOG_BITS, log2(job.capacity.0.max(2)) * request),
            Order::FairShare => Score::new(1, u128::from(standing.used) + 1),
            Order::Multifactor(factors) => Score::new(factors.sum(job, wait, standing), 1),
            Order::Own(rank) => rank.score(job, standing),
        }
    }

    /// The job that goes first at `now`, with the usage that the jobs themselves tell.
    pub fn first<'a>(
        &self,
        jobs: impl Iterator<Item = &'a Waiting> + Clone,
        now: Time,
        capacity: Capacity,
    ) -> Option<&'a Waiting> {
        let most_used = jobs.clone().map(|job| job.owner.used).max().unwrap_or(0);
        jobs.min_by_key(|job| {
            let standing = Standing { now, capacity, used: job.owner.used, most_used };
            (Reverse((job.priority, self.score(job, &standing))), job.submit)
        })
    }

    /// Whether `job` stays before one submitted later. Always, if the order changes with time.
    pub(crate) fn keeps_before(&self, job: &Waiting, later: &Waiting) -> bool {
        // Compared crosswise where less goes first.
        match self {
            Order::Sjf => {
                (job.priority, later.estimate, later.submit) >= (later.priority, job.estimate, job.submit)
            }
            Order::Submit => (job.priority, later.submit) >= (later.priority, job.submit),
            // Sorted in each pass.
            _ => true,
        }
    }
}

impl Factors {
    fn sum(self, job: &Waiting, wait: u128, standing: &Standing) -> u128 {
        let share = |part: u128, whole: u128| WHOLE * part.min(whole) / whole.max(1);
        let age = share(wait, seconds(OLDEST.0));
        let size = share(u128::from(job.capacity.0), u128::from(standing.capacity.0));
        let fairshare = WHOLE - share(u128::from(standing.used), u128::from(standing.most_used));
        u128::from(self.age) * age + u128::from(self.size) * size + u128::from(self.fairshare) * fairshare
    }
}

/// Between 0 and 2^32 - 1 (136 years), so that no score overflows.
fn seconds(value: i64) -> u128 {
    value.clamp(0, i64::from(u32::MAX)) as u128
}

/// The binary logarithm of a number of 1 or more, with [`LOG_BITS`] fractional bits, by repeated squaring.
fn log2(number: u32) -> u128 {
    let whole = number.ilog2();
    // Between 1 and 2, with 62 fractional bits; its square fits.
    let mut rest = u128::from(number) << (62 - whole);
    let mut log = u128::from(whole);
    for _ in 0..LOG_BITS {
        rest = (rest * rest) >> 62;
        let bit = rest >> 63;
        rest >>= bit;
        log = (log << 1) | bit;
    }
    log
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Order::Multifactor(Factors { age, size, fairshare }) = self {
            write!(f, ",age={age},size={size},fairshare={fairshare}")?;
        }
        Ok(())
    }
}

/// Own orders are equal if their names are.
impl PartialEq for Order {
    fn eq(&self, other: &Order) -> bool {
        match (self, other) {
            (Order::Multifactor(one), Order::Multifactor(two)) => one == two,
            _ => {
                matches!(self, Order::Own(_)) == matches!(other, Order::Own(_)) && self.name() == other.name()
            }
        }
    }
}

impl Eq for Order {}

impl Hash for Order {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Owner;

    fn job(submit: i64, estimate: i64, capacity: u32) -> Waiting {
        let owner = Owner::NONE;
        Waiting {
            submit: Time(submit),
            estimate: Seconds(estimate),
            capacity: Capacity(capacity),
            priority: 0,
            owner,
        }
    }

    fn score(order: Order, job: &Waiting) -> Score {
        let standing = Standing { now: Time(1_000), capacity: Capacity(100), used: 0, most_used: 0 };
        order.score(job, &standing)
    }

    #[test]
    fn scores_by_hand() {
        let waited = job(700, 100, 8);
        assert_eq!(score(Order::Sjf, &waited), Score::new(1, 100));
        assert_eq!(score(Order::Lxf, &waited), Score::new(4, 1), "(300 + 100) / 100");
        assert_eq!(score(Order::Wfp3, &waited), Score::new(27 * 8, 1), "3³ × 8");
        assert_eq!(score(Order::Unicef, &waited), Score::new(1, 1), "300 / (3 × 100)");
        assert_eq!(score(Order::Unicef, &job(700, 100, 1)), Score::new(3, 1), "a size of 1 counts as 2");
        let factors = Factors { age: 604_800, size: 10, fairshare: 1 };
        let sum = 300 * WHOLE / 604_800 * 604_800 + 10 * 80_000 + WHOLE;
        assert_eq!(score(Order::Multifactor(factors), &waited), Score::new(sum, 1));
    }

    #[test]
    fn logarithms_are_right_to_their_last_bit_or_one_beside() {
        for number in [1, 2, 3, 5, 7, 100, 1_000, 65_535, 65_536, u32::MAX] {
            let exact = f64::from(number).log2() * f64::from(1 << LOG_BITS);
            assert!((log2(number) as f64 - exact).abs() <= 1.5, "{number}");
        }
    }

    #[test]
    fn the_largest_scores_are_compared_exactly() {
        let huge = score(Order::Wfp3, &job(i64::MIN, 1, u32::MAX));
        let less = score(Order::Wfp3, &job(i64::MIN, 1, u32::MAX - 1));
        assert!(huge > less);
        assert!(score(Order::Wfp3, &job(i64::MIN, i64::MAX, u32::MAX)) < less);
        assert_eq!(wide_product(u128::MAX, u128::MAX), (u128::MAX - 1, 1));
        assert_eq!(wide_product(u128::MAX, 2), (1, u128::MAX - 1));
        assert!(Score::new(u128::MAX, u128::MAX - 1) > Score::new(u128::MAX - 1, u128::MAX - 1));
    }
}
