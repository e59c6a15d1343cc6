//! Invariants of GridSim's resource under random operations: a CPU has one job at a time, reserved CPUs are available
//! to the reservation, the queue keeps its order, and every job is returned once with the work that its CPU time
//! allows.

use bookahead_experiments::gridsim::model::{
    Job, JobId, LocalTime, Piece, Rating, Request, ReservationId, Resource, Rules, Start, Stopped, Work, Zone,
};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An operation of a user.
#[derive(Debug, Clone)]
enum Act {
    Submit { work: u64, stopped: Stopped },
    Book { ahead: i64, length: i64, cpus: u32, jobs: Vec<u64>, stopped: Stopped, commit: bool },
}

fn acts() -> impl Strategy<Value = Vec<(i64, Act)>> {
    let stopped = prop_oneof![Just(Stopped::Queue), Just(Stopped::Return)];
    let work = 1_u64..20_000;
    let submit = (work.clone(), stopped.clone()).prop_map(|(work, stopped)| Act::Submit { work, stopped });
    let jobs = prop::collection::vec(work, 0..6);
    let book = (0_i64..400, 1_i64..200, 1_u32..5, jobs, stopped, prop::bool::weighted(0.9)).prop_map(
        |(ahead, length, cpus, jobs, stopped, commit)| Act::Book {
            ahead,
            length,
            cpus,
            jobs,
            stopped,
            commit,
        },
    );
    let act = prop_oneof![submit, book];
    prop::collection::vec((0_i64..60, act), 1..60)
}

/// A run and the data for its checks.
struct Played {
    resource: Resource,
    /// The work of each accepted job.
    given: BTreeMap<JobId, u64>,
    /// Jobs in the order of their submission to the queue.
    queued: Vec<JobId>,
    /// Committed reservations with their slots and CPUs.
    kept: Vec<(ReservationId, Interval, u32)>,
}

fn play(ratings: &[u32], acts: &[(i64, Act)]) -> Played {
    let rules = Rules { patience: Seconds(30), ..Rules::default() };
    let ratings = ratings.iter().copied().map(Rating).collect();
    let resource = Resource::new(ratings, rules, Time(0)).unwrap();
    let mut played = Played { resource, given: BTreeMap::new(), queued: Vec::new(), kept: Vec::new() };
    let mut now = Time(0);
    for (gap, act) in acts {
        now = now + Seconds(*gap);
        played.act(now, act);
    }
    played.resource.finish();
    played
}

impl Played {
    fn job(&mut self, work: u64, stopped: Stopped) -> Job {
        let id = JobId(self.given.len() as u32);
        self.given.insert(id, work);
        Job { id, work: Work(work), stopped }
    }

    fn act(&mut self, now: Time, act: &Act) {
        let zone = Zone::hours(-5);
        match *act {
            Act::Submit { work, stopped } => {
                let job = self.job(work, stopped);
                self.queued.push(job.id);
                self.resource.submit(now, job);
            }
            Act::Book { ahead, length, cpus, ref jobs, stopped, commit } => {
                let start = if ahead < 40 { Start::Now } else { Start::At(zone.local(now + Seconds(ahead))) };
                let request = Request { zone, start, duration: Seconds(length), cpus };
                let Ok(booked) = self.resource.create(now, &request) else { return };
                if commit {
                    let jobs: Vec<Job> = jobs.iter().map(|&work| self.job(work, stopped)).collect();
                    self.resource.commit(now, booked.id, jobs).unwrap();
                    self.kept.push((booked.id, booked.slot, cpus));
                }
            }
        }
    }
}

fn used_at<'a>(pieces: impl IntoIterator<Item = &'a Piece>, instant: Time) -> usize {
    pieces.into_iter().filter(|piece| piece.interval.contains(instant)).count()
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn reserved_cpus_are_there_and_no_cpu_has_two_jobs(
        ratings in prop::collection::vec(50_u32..400, 1..5),
        acts in acts(),
    ) {
        let played = play(&ratings, &acts);
        let slots = &played.kept;
        let pieces = played.resource.pieces();
        for (at, piece) in pieces.iter().enumerate() {
            let begin = piece.interval.begin;
            let same = pieces[..at].iter().filter(|other| other.cpu == piece.cpu);
            prop_assert!(same.clone().all(|other| other.interval.end <= begin), "two jobs on one CPU");
            // Jobs outside the reservations leave all reserved CPUs free, even idle ones.
            let reserved: u32 = slots.iter().filter(|(_, slot, _)| slot.contains(begin)).map(|(_, _, cpus)| cpus).sum();
            let inside = |other: &&Piece| {
                slots.iter().any(|(id, slot, _)| other.reservation == Some(*id) && slot.contains(begin))
            };
            let others = used_at(pieces.iter().filter(|other| !inside(other)), begin);
            prop_assert!(others + reserved as usize <= ratings.len(), "{others} and {reserved} at {begin}");
            if let Some((_, slot, _)) = slots.iter().find(|(id, _, _)| piece.reservation == Some(*id)) {
                prop_assert!(slot.begin <= begin && piece.interval.end <= slot.end, "outside of its slot");
            }
        }
    }

    #[test]
    fn jobs_from_the_queue_start_in_order(ratings in prop::collection::vec(50_u32..400, 1..5), acts in acts()) {
        let played = play(&ratings, &acts);
        let start = |job: &JobId| {
            let pieces = played.resource.pieces().iter().filter(|piece| piece.job == *job);
            pieces.map(|piece| piece.interval.begin).min()
        };
        let starts: Vec<_> = played.queued.iter().map(start).collect();
        prop_assert!(starts.iter().all(Option::is_some) && starts.is_sorted(), "{starts:?}");
    }

    #[test]
    fn every_job_comes_back_once_with_what_its_time_allows(
        ratings in prop::collection::vec(50_u32..400, 1..5),
        acts in acts(),
    ) {
        let played = play(&ratings, &acts);
        let returned = played.resource.returned();
        prop_assert_eq!(returned.len(), played.given.len());
        for back in returned {
            let pieces = played.resource.pieces().iter().filter(|piece| piece.job == back.job);
            let done: u64 = pieces
                .map(|piece| u64::from(ratings[piece.cpu.0 as usize]) * piece.interval.length().0 as u64)
                .sum();
            prop_assert_eq!(back.left.0, played.given[&back.job].saturating_sub(done));
        }
    }
}

#[test]
fn an_instant_far_away_changes_nothing() {
    let mut resource = Resource::new(vec![Rating(1)], Rules::default(), Time(0)).unwrap();
    let start = Start::At(LocalTime(i64::MAX));
    let far = Request { zone: Zone::hours(-9), start, duration: Seconds(i64::MAX), cpus: 1 };
    let _ = resource.create(Time(0), &far);
    resource.submit(Time(0), Job { id: JobId(0), work: Work(u64::MAX), stopped: Stopped::Return });
    resource.finish();
    assert!(resource.pieces().len() <= 1);
}
