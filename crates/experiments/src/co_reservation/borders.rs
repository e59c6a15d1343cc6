//! Examples on both sides of the borders of the rules of judgement. Only tests.

use super::claims::CLAIMS;
use super::desk::Knowledge;
use super::results::Results;
use super::runs::{Effort, HoldCase, Negotiated, NegotiationCase, Timeout};
use super::setup::{ALL, ONE_EACH};
use crate::Verdict::{self, DirectionOnly, NotReproduced, Reproduced};
use crate::claim::borders;

#[track_caller]
fn assert_judged(id: &str, results: &Results, expected: Verdict) {
    borders::assert_judged((&CLAIMS, id), results, expected);
}

/// A hundred requests of one part each, with these attempts and messages in all, booked or not.
fn effort(count: u64) -> Negotiated {
    let effort = Effort { requests: 100, parts: 100, attempts: count, messages: count, ..Effort::default() };
    Negotiated { successful: effort, unsuccessful: effort }
}

/// A hundred attempts with probing, and as many more without as `more` says; nothing is held.
fn more_without(more: impl Fn(&NegotiationCase, u64) -> i64) -> Results {
    let negotiated = |case: &NegotiationCase, seed| match case.knowledge {
        Knowledge::Probes => effort(100),
        Knowledge::OwnBookings => effort(100_u64.saturating_add_signed(more(case, seed))),
    };
    Results::made(negotiated, |_, _| 0.0)
}

#[test]
fn probing_needs_fewer_attempts_at_each_share_below_all() {
    // The margin of two seeds is 12.7 times half their difference.
    for (at_ten, second_seed, expected) in
        [(10, 50, Reproduced), (10, 40, DirectionOnly), (0, 50, NotReproduced), (-1, 50, NotReproduced)]
    {
        let results = more_without(|case, seed| match (case.share, seed) {
            (10, _) => at_ten,
            (ALL, _) => -5,
            (_, 0) => 50,
            _ => second_seed,
        });
        assert_judged("co-reservation/probing-fewer-attempts", &results, expected);
    }
}

#[test]
fn a_broker_that_sees_all_needs_fewer_attempts_without_probing() {
    for (successful, unsuccessful, expected) in [
        ([-10, -10], [0, 0], Reproduced),
        ([-10, -5], [0, 0], DirectionOnly),
        ([-10, -10], [-1, 0], DirectionOnly),
        ([-10, -10], [1, 0], NotReproduced),
        ([0, 0], [0, 0], NotReproduced),
    ] {
        let negotiated = |case: &NegotiationCase, seed: u64| {
            let of = |more: [i64; 2]| match case.knowledge {
                Knowledge::Probes => effort(100),
                Knowledge::OwnBookings => effort(100_u64.saturating_add_signed(more[seed as usize])),
            };
            Negotiated { unsuccessful: of(unsuccessful).unsuccessful, ..of(successful) }
        };
        let results = Results::made(negotiated, |_, _| 0.0);
        assert_judged("co-reservation/all-seen-fewer-without", &results, expected);
    }
}

#[test]
fn probing_saves_more_at_a_higher_load_and_nothing_at_a_low_one() {
    // Attempts saved by a hundred requests at the inter-arrival times of 10, 20 and 150.
    for (saved, expected, at_low_load) in [
        ([30, 20, 0], Reproduced, Reproduced),
        ([30, 40, 5], DirectionOnly, Reproduced),
        ([30, 20, 6], Reproduced, NotReproduced),
        ([30, 20, 30], NotReproduced, NotReproduced),
    ] {
        let results = more_without(|case, _| match case.inter_arrival {
            10 => saved[0],
            150 => saved[2],
            _ => saved[1],
        });
        assert_judged("co-reservation/load-larger-reduction", &results, expected);
        assert_judged("co-reservation/low-load-no-gain", &results, at_low_load);
    }
}

#[test]
fn probing_takes_more_messages_at_most_shares() {
    // Messages more without probing at the shares of 10, 50 and 100%.
    for (more, expected) in [([-1, -1, 1], Reproduced), ([-1, 0, 1], NotReproduced)] {
        let results = more_without(|case, _| match case.share {
            10 => more[0],
            ALL => more[2],
            _ => more[1],
        });
        assert_judged("co-reservation/more-messages", &results, expected);
    }
    let unsure = more_without(|case, seed| if case.share == ALL { 1 } else { -1 - 9 * seed as i64 });
    assert_judged("co-reservation/more-messages", &unsure, DirectionOnly);
}

#[test]
fn eight_probes_are_sent_for_each_sub_job() {
    for (probes, expected) in [(850, Reproduced), (750, Reproduced), (851, NotReproduced)] {
        let negotiated = |_: &NegotiationCase, _| {
            let some = Effort { probes, ..effort(100).successful };
            Negotiated { successful: some, unsuccessful: some }
        };
        assert_judged("co-reservation/eight-probes", &Results::made(negotiated, |_, _| 0.0), expected);
    }
}

/// Acceptance by rejecters and by time-out (1, 300 and 4,000 slots), the same in both seeds.
fn accepted(rate: impl Fn(u32, usize) -> f64) -> Results {
    spread_accepted(rate, 0.0)
}

/// The same, where the rates at the longest time-out differ between the seeds by twice this much.
fn spread_accepted(rate: impl Fn(u32, usize) -> f64, spread: f64) -> Results {
    let acceptance = |case: &HoldCase, seed| {
        let at = [1, 300, 4_000].iter().position(|slots| case.timeout == Timeout::Fixed(*slots)).unwrap_or(0);
        let by_seed = if seed == 0 { spread } else { -spread };
        rate(case.rejecters, at) + if at == 2 { by_seed } else { 0.0 }
    };
    Results::made(|_, _| effort(100), acceptance)
}

#[test]
fn acceptance_falls_with_the_time_out() {
    let falls = "co-reservation/acceptance-falls";
    assert_judged(falls, &accepted(|_, at| [0.9, 0.8, 0.7][at]), Reproduced);
    assert_judged(falls, &accepted(|_, at| [0.9, 0.6, 0.7][at]), DirectionOnly);
    assert_judged(falls, &spread_accepted(|_, at| [0.9, 0.8, 0.7][at], 0.02), DirectionOnly);
    assert_judged(falls, &accepted(|_, at| [0.9, 0.8, 0.9][at]), NotReproduced);
    assert_judged(
        falls,
        &accepted(|many, at| if many == ONE_EACH { 0.9 } else { [0.9, 0.8, 0.7][at] }),
        NotReproduced,
    );
}

#[test]
fn more_rejecters_make_the_fall_larger() {
    let fewer = "co-reservation/fewer-rejecters-smaller-impact";
    let falls = |one_each: f64, more: f64| {
        move |rejecters, at| [0.9, 0.8, 0.9 - if rejecters == ONE_EACH { one_each } else { more }][at]
    };
    assert_judged(fewer, &accepted(falls(0.2, 0.3)), Reproduced);
    assert_judged(fewer, &spread_accepted(falls(0.2, 0.3), 0.01), DirectionOnly);
    assert_judged(fewer, &accepted(falls(0.3, 0.3)), NotReproduced);
}

#[test]
fn the_target_is_reached_at_about_300_slots() {
    let reached = "co-reservation/timeout-300";
    // On the line from the rate at 300 slots to 0.4 at 4,000: at 349 and at 351 slots.
    assert_judged(reached, &accepted(|_, at| [0.9, 0.8054, 0.4][at]), Reproduced);
    assert_judged(reached, &accepted(|_, at| [0.9, 0.8056, 0.4][at]), NotReproduced);
    assert_judged(reached, &accepted(|_, at| [0.7, 0.6, 0.5][at]), NotReproduced);
    assert_judged(reached, &accepted(|_, _| 0.9), NotReproduced);
}
