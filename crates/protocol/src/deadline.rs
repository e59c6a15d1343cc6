//! How long a hold should last, and how long to wait for an answer. Pure arithmetic on milliseconds, without
//! a clock.
//!
//! A requester needs a hold until it has heard from all sites: the *technical* part of a deadline, from round
//! trips ([`RoundTrips`], [`technical`]), plus time to negotiate. A site wants short holds, because a hold
//! that is never confirmed blocks its capacity for the whole hold time. [`Adaptive`] grants as much as the
//! share of unconfirmed holds allows.

use crate::clock::Millis;
use serde::{Deserialize, Serialize};

/// First timeout of a peer without measurements.
pub const FIRST_PATIENCE: Millis = Millis(1_000);
/// Shortest wait before a call is repeated, even to a fast peer: it may have to write to disk first.
pub const SHORTEST_PATIENCE: Millis = Millis(20);
/// Longest wait before a call is repeated, even to a slow peer: a lost message must be repeated at some time.
pub const LONGEST_PATIENCE: Millis = Millis(60_000);
/// Number of resolved holds below which a site has too little data to adapt hold times.
pub const FEWEST_OBSERVED: u64 = 20;
/// An acceptance rate of 1, in the unit of [`Adaptive::target`].
pub const ALL: u32 = 1_000_000;

/// Round trip statistics of a peer: smoothed mean and mean deviation, as TCP keeps them for its
/// retransmission timer (a new sample counts 1/8 in the mean and 1/4 in the deviation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RoundTrips {
    /// None before the first sample.
    smoothed: Option<Smoothed>,
}

/// In fractions of a millisecond, because rounding would swallow small changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Smoothed {
    mean_eighths: i64,
    deviation_quarters: i64,
}

/// How the parts of a co-reservation are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// One after the other, up to the first refusal: fewer messages if many holds are refused, but a slow peer
    /// delays all others, and the first part is held for longer.
    Sequential,
    /// All at once.
    #[default]
    Parallel,
}

/// A site's statistics of its holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Holds granted.
    pub granted: u64,
    /// Requests refused for lack of room.
    pub refused: u64,
    /// Holds that were committed.
    pub committed: u64,
    /// Holds that expired: they blocked capacity for their whole hold time.
    pub evaporated: u64,
    /// Holds that their requester cancelled.
    pub cancelled: u64,
    /// Total time that committed holds take capacity, each from the hold to the end of its slot.
    pub lifetime: Millis,
}

/// Holds by outcome since the start of a site, for metrics. Unlike [`Observed`], they only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldCounts {
    /// Granted, bookings included.
    pub granted: u64,
    /// Requests refused for lack of room.
    pub refused: u64,
    /// Committed in time or late.
    pub committed: u64,
    /// Expired. A late commit counts as committed too.
    pub expired: u64,
    /// Given up before they were committed.
    pub cancelled: u64,
}

/// Settings for hold times that adapt to unconfirmed holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Adaptive {
    /// Desired share of accepted requests, per million.
    pub target: u32,
    /// Shortest hold. It must be long enough for a commit to arrive.
    pub shortest: Millis,
    /// Longest hold.
    pub longest: Millis,
}

impl RoundTrips {
    /// Adds a measurement. Do not sample answers to repeated calls: it is unknown which repetition they
    /// answer.
    pub fn sample(&mut self, took: Millis) {
        let took = took.0.clamp(0, LONGEST_PATIENCE.0);
        let Some(smoothed) = &mut self.smoothed else {
            self.smoothed = Some(Smoothed { mean_eighths: took * 8, deviation_quarters: took * 2 });
            return;
        };
        let off = took - smoothed.mean_eighths / 8;
        smoothed.mean_eighths += off;
        smoothed.deviation_quarters += off.abs() - smoothed.deviation_quarters / 4;
    }

    /// The smoothed mean. None without measurements.
    pub fn mean(&self) -> Option<Millis> {
        self.smoothed.map(|smoothed| Millis(smoothed.mean_eighths / 8))
    }

    /// How long to wait before repeating a message: the mean plus four deviations, within the constants
    /// above, and at least `at_least`, the time the caller knows the answer to need.
    pub fn patience(&self, at_least: Millis) -> Millis {
        let expected = self.smoothed.map_or(FIRST_PATIENCE, |smoothed| {
            Millis(smoothed.mean_eighths / 8 + smoothed.deviation_quarters)
        });
        expected.clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE).max(at_least)
    }

    /// How long to wait after this many repetitions: doubled each time up to [`LONGEST_PATIENCE`], so that a
    /// peer that is down or overloaded does not get more and more calls.
    pub fn after_repeats(&self, repeats: u32, at_least: Millis) -> Millis {
        let first = self.patience(at_least);
        let doubled = first.0.saturating_mul(1 << repeats.min(20));
        Millis(doubled.min(LONGEST_PATIENCE.0)).max(first)
    }
}

/// The shortest hold with which a commit arrives in time: `(N + 1)·r` if `parts` are held one after the
/// other, `2·r` if in parallel (section 3.4 of the co-reservation paper). The first part is held after the
/// first round trip, and the commit needs one more after the last.
pub fn technical(parts: usize, round_trip: Millis, scheme: Scheme) -> Millis {
    let trips = match scheme {
        Scheme::Sequential => i64::try_from(parts).unwrap_or(i64::MAX).saturating_add(1),
        Scheme::Parallel => 2,
    };
    Millis(round_trip.0.max(0).saturating_mul(trips))
}

impl Observed {
    /// Number of holds that ended, by commit, expiry or cancel.
    pub fn resolved(&self) -> u64 {
        self.committed.saturating_add(self.evaporated).saturating_add(self.cancelled)
    }

    /// All counts halved. Done at intervals, so that old observations count less.
    pub fn halved(&self) -> Observed {
        Observed {
            granted: self.granted / 2,
            refused: self.refused / 2,
            committed: self.committed / 2,
            evaporated: self.evaporated / 2,
            cancelled: self.cancelled / 2,
            lifetime: Millis(self.lifetime.0 / 2),
        }
    }
}

impl Adaptive {
    /// The longest hold with which the acceptance rate should still reach the target: figure 9 of the
    /// co-reservation paper, read backwards.
    ///
    /// A full calendar is shared between holds that will be confirmed, each in it for the mean lifetime `L`,
    /// and holds that will not, each in it for the hold time `T`. With `ρ` of the second for each of the
    /// first, the first get the share `α(T) = α₀ / (1 + ρ·T/L)`. The observations at the `present` hold time
    /// give `α₀ = min(1, α·(1 + ρ·T/L))`, and the target gives `T = (α₀/target − 1)·L/ρ`. Because `L/ρ` is
    /// the total lifetime of committed holds divided by the number of expired ones, only one division is
    /// needed.
    ///
    /// Cancelled holds count for neither: how long they stay depends on their requester and not on the
    /// deadline.
    pub fn hold(&self, observed: &Observed, present: Millis) -> Millis {
        let allowed = if observed.evaporated == 0 || observed.resolved() < FEWEST_OBSERVED || self.target == 0
        {
            self.longest
        } else {
            self.allowed(observed, present)
        };
        allowed.min(self.longest).max(self.shortest)
    }

    /// `T` of the formula; zero if the target cannot be reached.
    fn allowed(&self, observed: &Observed, present: Millis) -> Millis {
        let Observed { granted, refused, evaporated, lifetime, .. } = *observed;
        // Scaled to counts below 2⁴⁰, so that no product exceeds 128 bits.
        let too_long = (granted | refused | evaporated).checked_ilog2().unwrap_or(0).saturating_sub(39);
        let shorter = |number: u64| i128::from(number >> too_long);
        let (granted, evaporated) = (shorter(granted), shorter(evaporated));
        let asked = granted + shorter(refused);
        let lifetime = shorter(lifetime.0.max(0).unsigned_abs());
        let blocked = evaporated * i128::from(present.0.clamp(0, FURTHEST));
        // α₀ as a fraction over `asked · lifetime`; capped at 1.
        let unblocked = (granted * (lifetime + blocked)).min(asked * lifetime);
        let target = i128::from(self.target.min(ALL));
        let above_target = unblocked * i128::from(ALL) - target * asked * lifetime;
        match above_target.checked_div(target * asked * evaporated) {
            Some(allowed) => Millis(i64::try_from(allowed.max(0)).unwrap_or(i64::MAX)),
            None => self.longest,
        }
    }
}

/// Hold times are capped here, at about 34 years, so that products fit into 128 bits.
const FURTHEST: i64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SITE: Adaptive = Adaptive { target: 800_000, shortest: Millis(100), longest: Millis(100_000_000) };

    /// 1,000 committed holds of 1,200 s each, and some that expired.
    fn seen(refused: u64, evaporated: u64) -> Observed {
        Observed {
            granted: 1_000 + evaporated,
            refused,
            committed: 1_000,
            evaporated,
            cancelled: 0,
            lifetime: Millis::seconds(1_200_000),
        }
    }

    #[test]
    fn patience_is_the_mean_and_four_deviations_and_doubles_with_each_repeat() {
        let mut trips = RoundTrips::default();
        assert_eq!((trips.mean(), trips.patience(Millis::ZERO)), (None, FIRST_PATIENCE));
        trips.sample(Millis(100));
        assert_eq!((trips.mean(), trips.patience(Millis::ZERO)), (Some(Millis(100)), Millis(300)));
        trips.sample(Millis(180));
        // The mean moves by 80/8; the deviation is 3/4 of 50 and 1/4 of 80.
        assert_eq!((trips.mean(), trips.patience(Millis::ZERO)), (Some(Millis(110)), Millis(110 + 230)));
        assert_eq!(trips.patience(Millis(5_000)), Millis(5_000), "the caller knows that it takes longer");
        assert_eq!(trips.after_repeats(0, Millis::ZERO), Millis(340));
        assert_eq!(trips.after_repeats(3, Millis::ZERO), Millis(8 * 340));
        assert_eq!(trips.after_repeats(u32::MAX, Millis::ZERO), LONGEST_PATIENCE);
        assert_eq!(trips.after_repeats(9, Millis(90_000)), Millis(90_000));
    }

    #[test]
    fn steady_answers_make_impatient_and_absurd_ones_do_no_harm() {
        let mut trips = RoundTrips::default();
        (0..200).for_each(|_| trips.sample(Millis(1)));
        assert_eq!(trips.patience(Millis::ZERO), SHORTEST_PATIENCE);
        (0..200).for_each(|_| trips.sample(Millis(i64::MAX)));
        trips.sample(Millis(i64::MIN));
        assert_eq!(trips.patience(Millis::ZERO), LONGEST_PATIENCE);
    }

    #[test]
    fn a_commit_needs_one_round_trip_more_than_the_holds() {
        assert_eq!(technical(4, Millis(50), Scheme::Sequential), Millis(250));
        assert_eq!(technical(4, Millis(50), Scheme::Parallel), Millis(100));
        assert_eq!(technical(usize::MAX, Millis(2), Scheme::Sequential), Millis(i64::MAX));
        assert_eq!(technical(4, Millis(-1), Scheme::Sequential), Millis::ZERO);
    }

    #[test]
    fn one_rejecter_per_accepter_and_a_rate_of_four_fifths_allow_a_quarter_of_the_lifetime() {
        // No request was refused: α₀ = 1 and T = (1/0.8 − 1)·1200 s, the 300 slots of the paper.
        assert_eq!(SITE.hold(&seen(0, 1_000), Millis::seconds(60)), Millis::seconds(300));
        // With half as many unconfirmed holds, each may take twice as long.
        assert_eq!(SITE.hold(&seen(0, 500), Millis::seconds(60)), Millis::seconds(600));
        // α = 2/3 at T = 300 s: α₀ = 2/3·1.25 = 5/6, T = (5/6/0.8 − 1)·1200 s.
        assert_eq!(SITE.hold(&seen(1_000, 1_000), Millis::seconds(300)), Millis::seconds(50));
    }

    #[test]
    fn a_hold_is_longest_where_all_confirm_and_shortest_where_the_target_is_out_of_reach() {
        assert_eq!(SITE.hold(&seen(5_000, 0), Millis::seconds(60)), SITE.longest);
        let few = Observed { granted: 19, committed: 10, evaporated: 9, ..Observed::default() };
        assert_eq!(SITE.hold(&few, Millis::seconds(60)), SITE.longest);
        assert_eq!(SITE.hold(&seen(9_000, 1_000), Millis::ZERO), SITE.shortest);
        let never = Observed { granted: 50, evaporated: 50, ..Observed::default() };
        assert_eq!(SITE.hold(&never, Millis::seconds(60)), SITE.shortest);
        let crossed = Adaptive { shortest: Millis(9), longest: Millis(5), ..SITE };
        assert_eq!(crossed.hold(&few, Millis::ZERO), Millis(9), "limits that exclude each other do no harm");
    }

    fn observed() -> impl Strategy<Value = Observed> {
        (1..5_000u64, 0..5_000u64, 1..5_000u64, 1..5_000u64, 0..5_000_000_000i64).prop_map(
            |(granted, refused, committed, evaporated, lifetime)| Observed {
                granted,
                refused,
                committed,
                evaporated,
                cancelled: FEWEST_OBSERVED,
                lifetime: Millis(lifetime),
            },
        )
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(2_000))]

        #[test]
        fn a_hold_follows_the_formula(
            observed in observed(), target in 1..=ALL, present in 0..10_000_000i64,
        ) {
            let lifetime = observed.lifetime.0 as f64 / observed.committed as f64;
            let rejecters = observed.evaporated as f64 / observed.committed as f64;
            let rate = observed.granted as f64 / (observed.granted + observed.refused) as f64;
            let unblocked = match observed.lifetime.0 {
                0 => 1.0,
                _ => (rate * (1.0 + rejecters * present as f64 / lifetime)).min(1.0),
            };
            let exact = (unblocked / (f64::from(target) / 1e6) - 1.0) * lifetime / rejecters;
            let exact = exact.clamp(SITE.shortest.0 as f64, SITE.longest.0 as f64);
            let ours = Adaptive { target, ..SITE }.hold(&observed, Millis(present)).0 as f64;
            prop_assert!((ours - exact).abs() <= 1.0 + 1e-6 * exact, "{ours} is not {exact}");
        }

        #[test]
        fn a_hold_is_shorter_for_a_higher_target_and_for_more_who_never_confirm(
            observed in observed(), target in 1..ALL, more in 1..1_000u64, present in 0..10_000_000i64,
        ) {
            let site = Adaptive { target, ..SITE };
            let hold = site.hold(&observed, Millis(present));
            let stricter = Adaptive { target: target + 1, ..SITE };
            prop_assert!(stricter.hold(&observed, Millis(present)) <= hold);
            // As seen with holds so short that they blocked nothing: otherwise more rejecters also mean that
            // those who were refused were refused because of them.
            let worse = Observed { evaporated: observed.evaporated + more, ..observed };
            prop_assert!(site.hold(&worse, Millis::ZERO) <= site.hold(&observed, Millis::ZERO));
        }

        #[test]
        fn no_figures_are_too_large(
            counts in any::<[u64; 5]>(), lifetime in any::<i64>(), present in any::<i64>(), target in any::<u32>(),
        ) {
            let [granted, refused, committed, evaporated, cancelled] = counts;
            let lifetime = Millis(lifetime);
            let observed = Observed { granted, refused, committed, evaporated, cancelled, lifetime };
            let hold = Adaptive { target, ..SITE }.hold(&observed, Millis(present));
            prop_assert!(SITE.shortest <= hold && hold <= SITE.longest);
            prop_assert!(observed.halved().resolved() <= observed.resolved());
        }
    }
}
