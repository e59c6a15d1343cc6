//! Predicted waits and the resulting notice, against examples computed by hand.

use bookahead_plan::notice::{Class, Notice, NoticeRule, Predictor, QuantileBound, WINDOW};
use bookahead_plan::{Capacity, Owner, Seconds, Time, Waiting};
use proptest::prelude::*;

const HALF: Capacity = Capacity(8);
const HOUR: Seconds = Seconds(3600);

fn notice(predictor: Predictor, percent: u32) -> Notice {
    Notice::new(NoticeRule { predictor, percent })
}

fn quantile(quantile: u32, confidence: u32) -> Predictor {
    Predictor::Quantile(QuantileBound::new(quantile, confidence).unwrap())
}

/// Reports a job of this size and estimate with this wait.
fn waited(notice: &mut Notice, capacity: Capacity, estimate: Seconds, wait: i64) {
    let job = Waiting { submit: Time(100), estimate, capacity, priority: 0, owner: Owner::NONE };
    notice.job_started(&job, Time(100 + wait));
}

#[test]
fn the_rank_of_a_bound_of_the_median_of_five_by_hand() {
    // P(Binomial(5, 1/2) < k) is 1, 6, 16, 26, 31 of 32 for k = 1 to 5.
    let rank = |confidence| QuantileBound::new(50, confidence).unwrap().rank(5);
    assert_eq!(rank(3), Some(1));
    assert_eq!(rank(18), Some(2));
    assert_eq!(rank(50), Some(3));
    assert_eq!(rank(51), Some(4));
    assert_eq!(rank(81), Some(4));
    assert_eq!(rank(82), Some(5));
    assert_eq!(rank(96), Some(5));
    assert_eq!(rank(97), None);
}

#[test]
fn the_usual_bound_needs_59_observations_and_leaves_out_the_largest_from_93_on() {
    // Wilks's numbers: 0.95^59 = 0.0485 and 0.95^58 = 0.0510; the second largest from 93 on, the third from 124.
    let rank = |count| QuantileBound::USUAL.rank(count);
    let ranks = [58, 59, 92, 93, 123, 124].map(rank);
    assert_eq!(ranks, [None, Some(59), Some(92), Some(92), Some(122), Some(122)]);
    assert_eq!(rank(WINDOW), Some(962));
    assert_eq!(rank(0), None);
}

#[test]
fn without_history_nothing_is_asked_for() {
    for predictor in [Predictor::Mean, quantile(95, 95)] {
        let notice = notice(predictor, 400);
        let prediction = notice.predicted_wait(HALF, HOUR);
        assert_eq!((prediction.wait, prediction.class, prediction.observations), (Seconds(0), Class::All, 0));
        assert!(!prediction.sufficient);
        assert_eq!(notice.shortest_notice(HALF, HOUR), Seconds(0));
        assert!(notice.check(Seconds(0), HALF, HOUR).is_ok());
    }
}

#[test]
fn the_mean_is_that_of_all_jobs_and_is_rounded_up() {
    let mut notice = notice(Predictor::Mean, 50);
    waited(&mut notice, Capacity(1), Seconds(60), 0);
    waited(&mut notice, HALF, HOUR, 101);
    let prediction = notice.predicted_wait(Capacity(300), Seconds(5));
    assert_eq!((prediction.wait, prediction.class, prediction.observations), (Seconds(51), Class::All, 2));
    assert_eq!(notice.shortest_notice(HALF, HOUR), Seconds(26));
}

#[test]
fn a_refusal_says_the_notice_needed_and_given() {
    let mut notice = notice(Predictor::Mean, 200);
    waited(&mut notice, HALF, HOUR, 600);
    assert!(notice.check(Seconds(1200), HALF, HOUR).is_ok());
    let refusal = notice.check(Seconds(1199), HALF, HOUR).unwrap_err();
    assert_eq!((refusal.needed, refusal.given), (Seconds(1200), Seconds(1199)));
    assert_eq!(
        refusal.to_string(),
        "a notice of 19m 59s is too short; it needs 20m, because it would wait 10m in the queue \
         (history: jobs of all sizes, 1 of them); start later, or submit it as a job"
    );
}

#[test]
fn a_quantile_is_taken_from_the_finest_class_with_enough_history() {
    // The median with 75 % confidence needs two observations, and is then the larger one.
    let mut notice = notice(quantile(50, 75), 100);
    let of = |notice: &Notice| {
        let prediction = notice.predicted_wait(HALF, HOUR);
        (prediction.wait.0, prediction.class, prediction.observations, prediction.sufficient)
    };
    waited(&mut notice, Capacity(1), HOUR, 70);
    assert_eq!(of(&notice), (70, Class::All, 1, false));
    waited(&mut notice, Capacity(1), HOUR, 60);
    assert_eq!(of(&notice), (70, Class::All, 2, true));
    waited(&mut notice, HALF, Seconds(60), 20);
    waited(&mut notice, Capacity(15), Seconds(60), 30);
    assert_eq!(of(&notice), (30, Class::Size { size: 3 }, 2, true));
    waited(&mut notice, HALF, HOUR, 5);
    waited(&mut notice, Capacity(9), Seconds(2048), 6);
    assert_eq!(of(&notice), (6, Class::SizeAndDuration { size: 3, duration: 11 }, 2, true));
}

#[test]
fn only_the_last_starts_are_remembered() {
    let mut notice = notice(Predictor::Mean, 100);
    (0..WINDOW).for_each(|_| waited(&mut notice, HALF, HOUR, 5000));
    (0..WINDOW).for_each(|_| waited(&mut notice, HALF, HOUR, 10));
    assert_eq!(notice.predicted_wait(HALF, HOUR).wait, Seconds(10));
    assert_eq!(notice.predicted_wait(HALF, HOUR).observations, WINDOW);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut notice = notice(Predictor::Mean, u32::MAX);
    let job = Waiting {
        submit: Time::MIN,
        estimate: Seconds(i64::MAX),
        capacity: Capacity(u32::MAX),
        priority: 0,
        owner: Owner::NONE,
    };
    (0..3).for_each(|_| notice.job_started(&job, Time::MAX));
    assert_eq!(notice.shortest_notice(Capacity(u32::MAX), Seconds(i64::MAX)), Seconds(i64::MAX));
    assert_eq!(
        Class::of(Capacity(u32::MAX), Seconds(i64::MAX))[0].to_string(),
        "jobs of size 2147483648 to 4294967295 and 4611686018427387904 to 9223372036854775807 s"
    );
    assert_eq!(Class::of(Capacity(0), Seconds(-5))[1].to_string(), "jobs of size 1 to 1");
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(200))]

    /// The rank against the sum of probabilities, each from its own binomial coefficient.
    #[test]
    fn ranks_equal_those_of_plain_sums(count in 1usize..60, quantile in 1u32..100, confidence in 1u32..100) {
        let (p, wanted) = (f64::from(quantile) / 100.0, f64::from(confidence) / 100.0);
        let chosen = |k: usize| (0..k).fold(1.0, |all, i| all * (count - i) as f64 / (i + 1) as f64);
        let below = |rank: usize| -> f64 {
            (0..rank).map(|k| chosen(k) * p.powi(k as i32) * (1.0 - p).powi((count - k) as i32)).sum()
        };
        let clear = (1..=count).all(|rank| (below(rank) - wanted).abs() > 1e-9);
        prop_assume!(clear);
        let plain = (1..=count).find(|&rank| below(rank) >= wanted);
        prop_assert_eq!(QuantileBound::new(quantile, confidence).unwrap().rank(count), plain);
    }

    /// The window against a list of the last waits.
    #[test]
    fn the_window_equals_the_last_waits(waits in prop::collection::vec(0i64..50, 1..2500)) {
        let mut by_mean = notice(Predictor::Mean, 100);
        let mut by_quantile = notice(quantile(50, 50), 100);
        for &wait in &waits {
            waited(&mut by_mean, HALF, HOUR, wait);
            waited(&mut by_quantile, HALF, HOUR, wait);
        }
        let mut last = waits[waits.len().saturating_sub(WINDOW)..].to_vec();
        last.sort_unstable();
        let mean = (last.iter().sum::<i64>() + last.len() as i64 - 1) / last.len() as i64;
        prop_assert_eq!(by_mean.shortest_notice(HALF, HOUR), Seconds(mean));
        let rank = QuantileBound::new(50, 50).unwrap().rank(last.len()).unwrap();
        prop_assert_eq!(by_quantile.shortest_notice(HALF, HOUR), Seconds(last[rank - 1]));
    }
}
