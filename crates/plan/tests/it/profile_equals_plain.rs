//! The profile against the simplest possible one: a list of spans, evaluated second by second.

use bookahead_plan::{Capacity, Interval, Need, Profile, Seconds, Span, Starts, Time};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

/// Spans in a list; every query visits every span.
struct Plain {
    capacity: i64,
    origin: i64,
    spans: Vec<Span>,
}

/// No span of these tests goes beyond this instant.
const HORIZON: i64 = 400;

impl Plain {
    fn free_at(&self, instant: i64) -> i64 {
        let at = Time(instant.max(self.origin));
        let taken = self.spans.iter().filter(|span| span.interval.contains(at));
        self.capacity - taken.map(|span| i64::from(span.capacity.0)).sum::<i64>()
    }

    fn min_free(&self, begin: i64, end: i64) -> i64 {
        let begin = begin.max(self.origin);
        (begin..end.max(begin + 1)).map(|instant| self.free_at(instant)).min().unwrap()
    }

    fn fits(&self, start: i64, need: Need) -> bool {
        self.min_free(start, start + need.length.0.max(1)) >= i64::from(need.capacity.0)
    }

    fn starts(&self, begin: i64, end: i64, need: Need) -> Vec<i64> {
        let last = end - need.length.0.max(1);
        (begin.max(self.origin)..=last).filter(|&start| self.fits(start, need)).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(Span),
    RemoveNth(usize),
    Advance(i64),
}

fn spans() -> impl Strategy<Value = Span> {
    (0..300i64, 0..60i64, 0..9u32).prop_map(|(begin, length, capacity)| {
        Span::starting(Time(begin), Seconds(length), Capacity(capacity))
    })
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => spans().prop_map(Step::Add),
        4 => any::<usize>().prop_map(Step::RemoveNth),
        1 => (0..40i64).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 0..most)
}

fn run(steps: &[Step]) -> (Profile, Plain) {
    let mut profile = Profile::new(Capacity(20), Time(0));
    let mut plain = Plain { capacity: 20, origin: 0, spans: Vec::new() };
    for step in steps {
        match *step {
            Step::Add(span) => {
                profile.add(span);
                plain.spans.push(span);
            }
            Step::RemoveNth(n) if !plain.spans.is_empty() => {
                let nth = n % plain.spans.len();
                profile.remove(plain.spans.swap_remove(nth));
            }
            Step::RemoveNth(_) => {}
            Step::Advance(by) => {
                plain.origin = (plain.origin + by).min(250);
                profile.advance(Time(plain.origin));
            }
        }
    }
    (profile, plain)
}

proptest! {
    #![proptest_config(cases(1_600))]

    #[test]
    fn every_answer_equals_the_plain_one(
        steps in steps(300),
        from in 0..350i64, length in 0..80i64, capacity in 0..24u32, window in 0..150i64,
    ) {
        let (profile, plain) = run(&steps);
        let need = Need { capacity: Capacity(capacity), length: Seconds(length) };
        let to = from + window;
        prop_assert_eq!(profile.free_at(Time(from)), plain.free_at(from));
        prop_assert_eq!(profile.free_now(), plain.free_at(plain.origin));
        prop_assert_eq!(profile.min_free(Interval::new(Time(from), Time(to))), plain.min_free(from, to));
        let start = from.max(plain.origin);
        prop_assert_eq!(profile.fits(Time(start), need), plain.fits(start, need));

        let below = (from.max(plain.origin)..HORIZON).find(|&t| plain.free_at(t) < i64::from(capacity));
        let below = below.map(|t| (Time(t), plain.free_at(t)));
        prop_assert_eq!(profile.first_below(Time(from), i64::from(capacity)), below);

        let fits = plain.starts(from, to, need);
        prop_assert_eq!(profile.earliest_fit(Time(from), need, Some(Time(to))), fits.first().map(|&t| Time(t)));
        let unbounded = plain.starts(from, HORIZON + 100, need);
        let expected = unbounded.first().map(|&t| Time(t));
        if capacity <= 20 {
            prop_assert_eq!(profile.earliest_fit(Time(from), need, None), expected);
        }
        let mut all = Vec::new();
        for Starts { first, last } in profile.all_fits(Interval::new(Time(from), Time(to)), need) {
            all.extend(first.0..=last.0);
        }
        prop_assert_eq!(all, fits);
    }

    #[test]
    fn drawing_shows_every_value_once_and_no_needless_breakpoint(steps in steps(300), begin in 0..200i64, window in 0..200i64) {
        let (profile, plain) = run(&steps);
        let mut expected = begin.max(plain.origin);
        let mut previous = None;
        for (interval, free) in profile.steps(Interval::new(Time(begin), Time(begin + window))) {
            prop_assert_eq!(interval.begin, Time(expected));
            prop_assert!(!interval.is_empty());
            prop_assert_ne!(previous, Some(free));
            for instant in interval.begin.0..interval.end.0 {
                prop_assert_eq!(free, plain.free_at(instant));
            }
            expected = interval.end.0;
            previous = Some(free);
        }
        prop_assert_eq!(expected, (begin + window).max(begin.max(plain.origin)));
    }

    #[test]
    fn a_profile_depends_on_its_spans_alone(steps in steps(200)) {
        let (profile, plain) = run(&steps);
        let mut anew = Profile::new(Capacity(20), Time(plain.origin));
        plain.spans.iter().for_each(|&span| anew.add(span));
        prop_assert_eq!(profile.breakpoints(), anew.breakpoints());
        let all = Interval::new(Time(plain.origin), Time::MAX);
        prop_assert!(profile.steps(all).eq(anew.steps(all)));
    }
}

/// A tall tree: hundreds of thousands of operations that keep thousands of spans alive, compared with a
/// difference array along the way and at the end.
#[test]
fn stays_exact_under_a_million_operations() {
    const LONG: usize = 60_000;
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % below
    };
    let mut profile = Profile::new(Capacity(1 << 20), Time(0));
    let mut change = vec![0i64; LONG + 1];
    let mut live: Vec<Span> = Vec::new();
    for round in 0..1_000_000u32 {
        if live.len() < 8_000 || next(2) == 0 && live.len() < 16_000 {
            let begin = next(LONG as u64 - 1);
            let longest = if next(8) == 0 { 20_000 } else { 50 };
            let length = 1 + next((LONG as u64 - begin).min(longest));
            let span = Span::starting(Time(begin as i64), Seconds(length as i64), Capacity(next(30) as u32));
            profile.add(span);
            live.push(span);
            change[begin as usize] -= i64::from(span.capacity.0);
            change[span.interval.end.0 as usize] += i64::from(span.capacity.0);
        } else {
            let span = live.swap_remove(next(live.len() as u64) as usize);
            profile.remove(span);
            change[span.interval.begin.0 as usize] += i64::from(span.capacity.0);
            change[span.interval.end.0 as usize] -= i64::from(span.capacity.0);
        }
        if round % 250_000 == 249_999 {
            assert_equal(&profile, &change);
        }
    }
    for span in live.drain(..) {
        profile.remove(span);
    }
    assert_eq!(profile.breakpoints(), 0);
    assert_eq!(profile.free_at(Time(17)), 1 << 20);
}

fn assert_equal(profile: &Profile, change: &[i64]) {
    let mut free = 1 << 20;
    let mut values = Vec::new();
    for step in change {
        free += step;
        values.push(free);
    }
    let window = Interval::new(Time(0), Time(values.len() as i64));
    for (interval, free) in profile.steps(window) {
        assert!(values[interval.begin.0 as usize..interval.end.0 as usize].iter().all(|&v| v == free));
    }
    for from in (0..values.len()).step_by(997) {
        let to = (from + 3_000).min(values.len());
        let least = *values[from..to].iter().min().unwrap();
        assert_eq!(profile.min_free(Interval::new(Time(from as i64), Time(to as i64))), least);
        assert_eq!(profile.free_at(Time(from as i64)), values[from]);
    }
}

#[test]
fn the_ends_of_time_are_safe() {
    let mut profile = Profile::new(Capacity(4), Time(0));
    let forever = Span { interval: Interval::new(Time(10), Time::MAX), capacity: Capacity(3) };
    profile.add(forever);
    let need = |capacity, length| Need { capacity: Capacity(capacity), length: Seconds(length) };
    assert_eq!(profile.earliest_fit(Time(0), need(2, 10), None), Some(Time(0)));
    assert_eq!(profile.earliest_fit(Time(0), need(2, 11), None), None);
    assert_eq!(profile.earliest_fit(Time(0), need(1, i64::MAX), None), Some(Time(0)));
    assert_eq!(profile.earliest_fit(Time::MAX, need(1, 1), None), Some(Time::MAX));
    assert_eq!(profile.earliest_fit(Time(0), need(1, 5), Some(Time::MIN)), None);
    assert_eq!(profile.earliest_fit(Time(0), need(5, 1), None), None, "wider than the resource");
    assert_eq!(profile.free_at(Time::MAX), 1);
    profile.remove(forever);
    assert_eq!(profile.breakpoints(), 0);
}
