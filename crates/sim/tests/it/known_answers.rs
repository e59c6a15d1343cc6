//! Small cases with known answers, on ten processors; well-known simulators get some of them wrong.

use crate::{job, run, site, starts};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_sim::{EarliestFit, Fate, Job, Overrun, Ran, Site, simulate};
use bookahead_workload::requests::Request;

fn easy(jobs: &[Job]) -> Vec<i64> {
    starts(&run(site(Policy::EASY, 10), jobs))
}

#[test]
fn the_head_is_protected_from_long_fillers() {
    assert_eq!(easy(&[job(0, 8, 100, 100), job(1, 10, 10, 10), job(2, 2, 1000, 1000)]), [0, 100, 110]);
}

#[test]
fn left_over_processors_may_be_used_for_long() {
    assert_eq!(easy(&[job(0, 8, 100, 100), job(1, 6, 10, 10), job(2, 2, 1000, 1000)]), [0, 100, 2]);
}

#[test]
fn an_early_end_lets_the_next_job_start_at_once() {
    assert_eq!(easy(&[job(0, 10, 50, 100), job(1, 10, 10, 10)]), [0, 50]);
}

#[test]
fn an_end_makes_room_for_a_submission_at_the_same_instant() {
    assert_eq!(easy(&[job(0, 10, 100, 100), job(100, 10, 10, 10)]), [0, 100]);
}

#[test]
fn a_filler_may_end_exactly_at_the_shadow() {
    assert_eq!(easy(&[job(0, 8, 100, 100), job(1, 10, 10, 10), job(2, 2, 98, 98)]), [0, 100, 2]);
}

#[test]
fn two_ends_at_one_instant_are_both_seen_before_anyone_starts() {
    let jobs = [job(0, 5, 100, 100), job(0, 5, 100, 100), job(1, 10, 10, 10), job(2, 5, 10, 10)];
    assert_eq!(easy(&jobs), [0, 0, 100, 110]);
}

#[test]
fn fcfs_lets_nobody_pass_and_conservative_protects_the_second_in_line() {
    // Under EASY the third job could start now, delaying the second in line beyond its earliest start.
    let jobs = [job(0, 6, 100, 100), job(1, 8, 100, 100), job(2, 10, 50, 50), job(3, 2, 300, 300)];
    assert_eq!(starts(&run(site(Policy::FCFS, 10), &jobs)), [0, 100, 200, 250]);
    assert_eq!(starts(&run(site(Policy::EASY, 10), &jobs)), [0, 100, 303, 3]);
    assert_eq!(starts(&run(site(Policy::CONSERVATIVE, 10), &jobs)), [0, 100, 200, 250]);
    let two = Policy::backfilling(2).unwrap();
    assert_eq!(starts(&run(site(two, 10), &jobs)), [0, 100, 200, 250]);
}

#[test]
fn higher_priority_goes_first_and_takes_over_the_shadow() {
    let mut jobs = [job(0, 10, 100, 100), job(1, 10, 10, 10), job(2, 10, 10, 10), job(3, 10, 10, 10)];
    jobs[2].asked.priority = 5;
    for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE] {
        assert_eq!(starts(&run(site(policy, 10), &jobs)), [0, 110, 100, 120], "{policy}");
    }
}

#[test]
fn a_job_wider_than_the_machine_is_rejected_and_blocks_nobody() {
    assert_eq!(easy(&[job(0, 11, 5, 5), job(0, 10, 5, 5)]), [-1, 0]);
}

fn request(submit: i64, earliest: i64, latest_end: i64, duration: i64, processors: u32) -> Request {
    Request {
        number: 1,
        submit: Time(submit),
        earliest_start: Time(earliest),
        latest_end: Time(latest_end),
        duration: Seconds(duration),
        processors: Capacity(processors),
        released: None,
    }
}

#[test]
fn the_first_waiting_job_goes_before_a_request_of_the_same_instant() {
    // The head waits for 100 and has [100, 110) promised; the request wants the same processors then.
    let jobs = [job(0, 10, 100, 100), job(1, 10, 10, 10), job(1, 10, 10, 10)];
    let requests = [request(1, 100, 130, 10, 10), request(1, 100, 115, 10, 10)];
    let outcome = simulate(site(Policy::EASY, 10), &jobs, &requests, &mut EarliestFit, |_| {});
    assert_eq!(outcome.requests, [Some(Time(110)), None]);
    assert_eq!(starts(&outcome), [0, 100, 120]);
}

#[test]
fn a_job_that_would_run_into_a_reservation_waits_for_its_end() {
    let jobs = [job(0, 2, 50, 50), job(5, 10, 20, 20), job(5, 2, 10, 10)];
    let requests = [request(0, 60, 80, 20, 10)];
    let outcome = simulate(site(Policy::EASY, 10), &jobs, &requests, &mut EarliestFit, |_| {});
    assert_eq!(outcome.requests, [Some(Time(60))]);
    assert_eq!(starts(&outcome), [0, 80, 5]);
}

#[test]
fn an_overrun_is_killed_or_extended_as_the_site_says() {
    let jobs = [job(0, 10, 500, 100), job(1, 10, 10, 10)];
    let killed = run(site(Policy::EASY, 10), &jobs);
    assert_eq!((starts(&killed), killed.killed), (vec![0, 100], 1));
    let extend = Site { overrun: Overrun::Extend, ..site(Policy::EASY, 10) };
    let extended = run(extend, &jobs);
    assert_eq!((starts(&extended), extended.killed), (vec![0, 500], 0));
}

#[test]
fn an_extended_job_gives_way_to_a_reservation() {
    let extend = Site { overrun: Overrun::Extend, ..site(Policy::EASY, 10) };
    let outcome =
        simulate(extend, &[job(0, 10, 500, 100)], &[request(0, 150, 160, 10, 1)], &mut EarliestFit, |_| {});
    assert_eq!(outcome.requests, [Some(Time(150))]);
    assert_eq!(outcome.jobs, [Fate::Ran(Ran { start: Time(0), end: Time(150) })]);
    assert_eq!(outcome.killed, 1);
}

#[test]
fn a_reservation_that_is_given_back_makes_room_at_once() {
    // Reserved [50, 150), so that the job of 100 s cannot start before 150; given back at 20, or at 60 while it runs.
    let jobs = [job(10, 10, 100, 100)];
    for (released, start) in [(None, 150), (Some(20), 20), (Some(60), 60), (Some(0), 10), (Some(500), 150)] {
        let request = Request { released: released.map(Time), ..request(0, 50, 150, 100, 10) };
        let site = Site { policy: Policy::EASY, capacity: Capacity(10), overrun: Overrun::Kill };
        let outcome = simulate(site, &jobs, &[request], &mut EarliestFit, |_| {});
        assert_eq!(outcome.requests, [Some(Time(50))]);
        let Fate::Ran(ran) = outcome.jobs[0] else { panic!("{outcome:?}") };
        assert_eq!(ran.start, Time(start), "{released:?}");
    }
}
