//! The built-in scheduler does the same as a naive one, and never uses more than the capacity.

use crate::reference::Reference;
use crate::{Drive, at, backing, builtin, cpu, inside, job, policies, span};
use bookahead_lrms::Builtin;
use bookahead_party::JobState;
use bookahead_plan::{Capacity, Policy, Span, Time};
use bookahead_protocol::{JobId, ReservationId};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

const CAPACITY: u32 = 8;
/// By then everything is over.
const END: i64 = 260;

#[derive(Debug, Clone)]
enum Command {
    Submit { capacity: u32, limit: i64, run: i64 },
    SubmitInside { reservation: u128, capacity: u32, limit: i64, run: i64 },
    Cancel { job: u128 },
    Back { reservation: u128, spans: Vec<(i64, i64, u32)> },
    Fail(u32),
    Repair(u32),
}

fn command() -> impl Strategy<Value = Command> {
    let spans = prop::collection::vec((-10..40_i64, 0..30_i64, 0..5_u32), 0..3);
    prop_oneof![
        6 => (1..=CAPACITY, 1..12_i64, 0..15_i64)
            .prop_map(|(capacity, limit, run)| Command::Submit { capacity, limit, run }),
        4 => (0..4_u128, 1..5_u32, 1..12_i64, 0..15_i64).prop_map(|(reservation, capacity, limit, run)| {
            Command::SubmitInside { reservation, capacity, limit, run }
        }),
        1 => (0..25_u128).prop_map(|job| Command::Cancel { job }),
        4 => (0..4_u128, spans).prop_map(|(reservation, spans)| Command::Back { reservation, spans }),
        1 => (1..5_u32).prop_map(Command::Fail),
        1 => (1..9_u32).prop_map(Command::Repair),
    ]
}

/// Commands, each with the time since the last one.
fn commands() -> impl Strategy<Value = Vec<(i64, Command)>> {
    prop::collection::vec((prop_oneof![Just(0), 0..8_i64], command()), 1..24)
}

/// Gives a command to both. A refused job is unknown to both.
fn give(builtin: &mut Builtin, reference: &mut Reference, now: i64, number: u128, command: &Command) {
    match command {
        Command::Submit { capacity, limit, run } => {
            let job = job(number, *capacity, *limit, *run);
            builtin.submit(at(now), &job).unwrap();
            reference.submit(job);
        }
        Command::SubmitInside { reservation, capacity, limit, run } => {
            let job = inside(job(number, *capacity, *limit, *run), *reservation);
            let most = (now..END).map(|instant| reference.room(ReservationId(*reservation), instant)).max();
            let taken = builtin.submit(at(now), &job).is_ok();
            assert_eq!(taken, most.unwrap() >= i64::from(*capacity));
            if taken {
                reference.submit(job);
            }
        }
        Command::Cancel { job } => {
            builtin.cancel(at(now), JobId(*job)).unwrap();
            reference.cancel(JobId(*job), now);
        }
        Command::Back { reservation, spans } => {
            let span = |(begin, length, capacity): &(i64, i64, u32)| {
                span(now + begin, now + begin + length, *capacity)
            };
            let spans: Vec<Span> = spans.iter().map(span).collect();
            builtin.back(at(now), &backing(*reservation, &spans)).unwrap();
            reference.backings.insert(ReservationId(*reservation), spans);
        }
        Command::Fail(capacity) => {
            builtin.fail(at(now), &cpu(), Capacity(*capacity)).unwrap();
            reference.lose(Capacity(*capacity));
        }
        Command::Repair(capacity) => {
            builtin.repair(at(now), &cpu(), Capacity(*capacity)).unwrap();
            reference.regain(Capacity(*capacity));
        }
    }
}

fn assert_equal(builtin: &mut Builtin, reference: &Reference, now: i64) {
    let (ours, theirs) = (builtin.jobs(), &reference.jobs);
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        let theirs = (theirs.job.id, &theirs.state, theirs.started, theirs.ended);
        let ended = ours.ended.map(|time| time.0);
        assert_eq!((ours.id, &ours.state, ours.started.map(|time| time.0), ended), theirs, "at {now}");
    }
}

/// The invariants, from the visible state.
fn assert_in_bounds(builtin: &mut Builtin, reference: &Reference, now: i64) {
    let seen = builtin.seen(at(now));
    let there = i64::from(CAPACITY - seen.lost.0);
    let outside: i64 = seen.view.running.iter().map(|running| i64::from(running.capacity.0)).sum();
    let reserved: i64 = reference.backings.keys().map(|id| reference.room(*id, now)).sum();
    assert!(outside == 0 || outside + reserved <= there, "at {now}");
    let mut inside_all = 0;
    for &id in reference.backings.keys() {
        let running = builtin.jobs().into_iter().filter(|status| status.state == JobState::Running);
        let asked = running.filter_map(|status| reference.jobs.iter().find(|kept| kept.job.id == status.id));
        let here = asked.filter(|kept| kept.job.reservation == Some(id));
        let inside: i64 = here.map(|kept| i64::from(kept.job.capacity.0)).sum();
        assert!(inside <= reference.room(id, now), "at {now}");
        inside_all += inside;
    }
    assert!(outside + inside_all <= there, "at {now}");
    assert!(seen.view.running.iter().all(|running| running.expected_end > Time(now)), "at {now}");
}

fn run(policy: Policy, commands: &[(i64, Command)]) {
    let (mut ours, mut theirs) = (builtin(CAPACITY, policy), Reference::new(policy, CAPACITY));
    let mut now = 0;
    for (number, (later, command)) in (0..).zip(commands) {
        for _ in 0..*later {
            now += 1;
            theirs.step(now);
        }
        // Sometimes time advances before the command, sometimes the command comes late.
        if number % 2 == 0 {
            ours.pass(at(now));
            theirs.step(now);
        }
        give(&mut ours, &mut theirs, now, number, command);
        // Sometimes commands of one moment come together.
        if number % 3 != 0 || commands.get(number as usize + 1).is_none_or(|(later, _)| *later > 0) {
            ours.pass(at(now));
            theirs.step(now);
            assert_equal(&mut ours, &theirs, now);
            assert_in_bounds(&mut ours, &theirs, now);
        }
    }
    let by_events = commands.len().is_multiple_of(2);
    if by_events {
        follow_events(&mut ours);
    }
    for now in now + 1..END {
        theirs.step(now);
        if !by_events && now % 7 == 0 {
            ours.pass(at(now));
            assert_equal(&mut ours, &theirs, now);
            assert_in_bounds(&mut ours, &theirs, now);
        }
    }
    assert_equal(&mut ours, &theirs, END);
}

/// A caller that advances only at announced events misses nothing.
fn follow_events(builtin: &mut Builtin) {
    let mut before = None;
    while let Some(next) = builtin.next_event().filter(|next| *next < at(END)) {
        assert_ne!(Some(next), before, "nothing changes at {next}");
        builtin.pass(next);
        before = Some(next);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn jobs_start_and_end_when_the_plain_scheduler_says(commands in commands(), policy in 0..3_usize) {
        run(policies()[policy], &commands);
    }
}
