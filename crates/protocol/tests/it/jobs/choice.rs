//! The best of three reservations, step by step.

use super::sites::PlainSite;
use super::{site, task};
use bookahead_plan::Time;
use bookahead_plan::placement::Reason;
use bookahead_protocol::Description;
use bookahead_protocol::ids::Identities;
use bookahead_protocol::jobs::choice::{Effects, Event, Outcome, Outgoing};
use bookahead_protocol::jobs::{Choice, Order, Patience, Site, Task, rank};
use bookahead_protocol::level::{Committing, Permission, Received};
use bookahead_protocol::{Answer, Call, Caller, JobId, Millis, Moment, Problem, ReservationId, State, Why};

const JOB: JobId = JobId(42);

/// The owner's own call has the commit level.
pub(super) fn permission() -> Permission<Committing> {
    Received::of(&Call::Commit { id: ReservationId(1), jobs: vec![JOB] }).committing().unwrap()
}

/// Four sites, the fastest first.
pub(super) fn order(task: Task) -> Order {
    let sites = [site("a", 8, 3_000), site("b", 8, 2_500), site("c", 8, 2_000), site("d", 8, 1_500)];
    Order {
        caller: Caller { user: "ada".into(), roles: Vec::new() },
        job: JOB,
        ranked: rank(&task, &sites),
        task,
        latest_end: Time(100_000),
        at_a_time: Order::THREE,
        hold_for: Millis::seconds(60),
        patience: Patience::default(),
    }
}

fn started() -> (Choice, Effects) {
    let mut choice = Choice::new(permission());
    let effects = choice.start(Moment(0), order(task()), &mut Identities::new(7, 0));
    (choice, effects)
}

/// The messages, in order: site and call.
fn words(effects: &Effects) -> Vec<String> {
    let word = |out: &Outgoing| format!("{} {}", out.to, out.envelope.call.word());
    effects.send.iter().map(word).collect()
}

/// The answers of sites, with the earliest start at each.
fn answers(effects: &Effects, sites: &mut [PlainSite], now: Moment) -> Vec<(Outgoing, Answer)> {
    let answer = |out: &Outgoing| {
        let site = sites.iter_mut().find(|site| site.name == out.to)?;
        Some((out.clone(), site.handle(now, &out.envelope)))
    };
    effects.send.iter().filter_map(answer).collect()
}

fn hear(choice: &mut Choice, now: Moment, (out, answer): &(Outgoing, Answer)) -> Effects {
    choice.on_answer(now, &out.to, out.envelope.key, answer)
}

#[test]
fn the_hold_that_is_done_first_is_committed_with_the_job_and_the_others_are_cancelled() {
    // The job takes 400 s on a, 480 s on b, 600 s on c; b is free first.
    let mut sites = [PlainSite::new("a", 1_000), PlainSite::new("b", 300), PlainSite::new("c", 200)];
    let (mut choice, effects) = started();
    assert_eq!(words(&effects), ["a reserve", "b reserve", "c reserve"]);
    assert!(matches!(&effects.events[..], [Event::Begun { .. }, Event::Asking(3)]), "journalled before");
    let held = answers(&effects, &mut sites, Moment(100));
    assert_eq!(hear(&mut choice, Moment(200), &held[0]), Effects::default());
    assert_eq!(hear(&mut choice, Moment(200), &held[1]), Effects::default());
    let effects = hear(&mut choice, Moment(300), &held[2]);
    assert_eq!(words(&effects), ["b commit", "a cancel", "c cancel"]);
    assert!(matches!(effects.events[..], [Event::Chosen { start: Time(300), .. }]));
    let done = answers(&effects, &mut sites, Moment(400));
    let booked = hear(&mut choice, Moment(500), &done[0]).outcome.unwrap();
    let Outcome::Booked { site, id, start, finish } = booked else { panic!("{booked:?}") };
    assert_eq!((site.as_str(), start, finish), ("b", Time(300), Moment(780_000)));
    assert!(sites[1].jobs_of(id).is_empty(), "the job comes with its submission");
    assert!(!choice.is_over(), "two cancels are not answered yet");
    assert_eq!(hear(&mut choice, Moment(500), &done[1]).events.len(), 1);
    assert_eq!(hear(&mut choice, Moment(500), &done[2]).events.len(), 1);
    assert!(choice.is_over() && choice.next_timer().is_none());
    assert!(sites.iter().all(|site| site.in_state(State::Held).is_empty()));
}

#[test]
fn a_reservation_begins_after_the_files_are_there() {
    let mut choice = Choice::new(permission());
    let task = Task { files: vec![90_000_000], ..task() };
    let mut near = site("near", 8, 2_000);
    near.bandwidth = Some(1_000_000);
    near.notice = Millis::seconds(3);
    let order = Order { ranked: rank(&task, &[near]), ..order(task) };
    let effects = choice.start(Moment(500), order, &mut Identities::new(7, 0));
    assert_eq!(earliest_start(&effects), Time(91), "90.5 s, in whole seconds");
}

#[test]
fn a_site_has_time_to_hold_and_to_commit_before_the_reservation_begins() {
    let mut choice = Choice::new(permission());
    let slow = Site { notice: Millis::seconds(3), ..site("slow", 8, 2_000) };
    let order = Order { ranked: rank(&task(), &[slow]), ..order(task()) };
    let effects = choice.start(Moment(500), order, &mut Identities::new(7, 0));
    assert_eq!(earliest_start(&effects), Time(4), "3.5 s, in whole seconds");
}

#[test]
fn a_reservation_for_a_job_has_the_class_of_the_job() {
    let description = Description { priority: Some("urgent".into()), ..Description::default() };
    let task = Task { description: description.clone(), ..task() };
    let order = Order { ranked: rank(&task, &[site("near", 8, 2_000)]), ..order(task) };
    let effects = Choice::new(permission()).start(Moment(500), order, &mut Identities::new(7, 0));
    let Call::Reserve { request, .. } = &effects.send[0].envelope.call else { panic!() };
    assert_eq!(request.description, description);
}

/// Earliest start requested from the first site.
fn earliest_start(effects: &Effects) -> Time {
    let Call::Reserve { request, .. } = &effects.send[0].envelope.call else { panic!() };
    request.parts[0].wanted.earliest_start
}

#[test]
fn silence_and_refusals_leave_the_choice_to_the_rest() {
    let mut sites = [PlainSite::new("a", 0), PlainSite::new("b", 0)];
    sites[0].full = true;
    let (mut choice, effects) = started();
    for answered in answers(&effects, &mut sites, Moment(100)) {
        assert!(hear(&mut choice, Moment(200), &answered).send.is_empty(), "c may still answer");
    }
    assert_eq!(choice.next_timer(), Some(Moment(1_000)));
    assert_eq!(words(&choice.tick(Moment(1_000))), ["c reserve"], "repeated");
    let effects = choice.tick(Moment(10_000));
    assert_eq!(words(&effects), ["b commit", "c cancel"], "a refused and holds nothing");
}

#[test]
fn where_none_of_three_can_hold_it_the_next_are_asked() {
    let mut sites = ["a", "b", "c", "d"].map(|name| PlainSite::new(name, 0));
    sites[..3].iter_mut().for_each(|site| site.full = true);
    let (mut choice, mut effects) = started();
    for _ in 0..3 {
        for answered in answers(&effects, &mut sites, Moment(100)) {
            let next = hear(&mut choice, Moment(200), &answered);
            effects = if next.send.is_empty() { effects } else { next };
        }
    }
    let Some(Outcome::Booked { site, .. }) = choice.outcome() else { panic!("{:?}", choice.outcome()) };
    assert_eq!(site.as_str(), "d");
}

#[test]
fn where_no_site_is_full_their_own_reason_is_told() {
    let not_allowed = Why::Priority { class: "urgent".into(), usable: vec!["normal".into()] };
    for (full, told) in [(false, not_allowed.clone()), (true, Why::NoCandidate { tried: 4, all: true })] {
        let (mut choice, mut effects) = started();
        let mut outcome = None;
        while outcome.is_none() {
            for out in std::mem::take(&mut effects.send) {
                let is_full = full && out.to.as_str() == "d";
                let why = if is_full { Why::NoSlot(Reason::NoRoom) } else { not_allowed.clone() };
                effects = hear(&mut choice, Moment(200), &(out, Problem::new(why).into()));
                outcome = outcome.or(effects.outcome.clone());
            }
        }
        assert_eq!(outcome, Some(Outcome::Failed(told)));
    }
}

#[test]
fn where_all_refuse_that_is_said_and_where_nobody_answers_that() {
    let mut sites = ["a", "b", "c", "d"].map(|name| PlainSite::new(name, 0));
    sites.iter_mut().for_each(|site| site.full = true);
    let (mut choice, effects) = started();
    let mut last = Effects::default();
    for answered in answers(&effects, &mut sites, Moment(100)) {
        last = hear(&mut choice, Moment(200), &answered);
    }
    let answered = answers(&last, &mut sites, Moment(300));
    let refused = hear(&mut choice, Moment(400), &answered[0]).outcome;
    assert_eq!(refused, Some(Outcome::Failed(Why::NoCandidate { tried: 4, all: true })));
    let (mut choice, _) = started();
    assert_eq!(choice.tick(Moment(10_000)).outcome, None, "d is asked");
    let silent = choice.tick(Moment(20_000));
    assert_eq!(silent.outcome, Some(Outcome::Failed(Why::Silence)));
    assert!(!choice.is_over(), "whatever they may hold is cancelled, again and again");
    assert!(choice.next_timer().is_some());
}

#[test]
fn a_hold_that_is_gone_when_it_is_committed_makes_the_next_sites_be_asked() {
    let mut sites = ["a", "b", "c", "d"].map(|name| PlainSite::new(name, 0));
    let (mut choice, effects) = started();
    let mut chosen = Effects::default();
    for answered in answers(&effects, &mut sites, Moment(100)) {
        chosen = hear(&mut choice, Moment(200), &answered);
    }
    assert_eq!(words(&chosen)[0], "a commit");
    let late = answers(&chosen, &mut sites, Moment(61_000));
    let effects = hear(&mut choice, Moment(61_000), &late[0]);
    assert_eq!(words(&effects), ["a cancel", "d reserve"]);
    assert!(matches!(effects.events[..], [Event::Lost(_), Event::Asking(4)]));
    let answered = answers(&effects, &mut sites, Moment(62_000));
    let commit = hear(&mut choice, Moment(62_000), &answered[1]);
    assert_eq!(words(&commit), ["d commit"]);
}

#[test]
fn what_was_not_asked_for_is_given_back() {
    let mut site = PlainSite::new("a", 0);
    let (mut choice, effects) = started();
    let Answer::Reservation(mut wrong) = site.handle(Moment(0), &effects.send[0].envelope) else { panic!() };
    wrong.slots[0].capacity = bookahead_plan::Capacity(1);
    let effects = hear(&mut choice, Moment(100), &(effects.send[0].clone(), Answer::Reservation(wrong)));
    assert_eq!(words(&effects), ["a cancel"]);
}

#[test]
fn half_of_the_shortest_hold_is_left_for_the_commit() {
    let mut site = PlainSite::new("a", 0);
    let (mut choice, effects) = started();
    let Answer::Reservation(mut held) = site.handle(Moment(0), &effects.send[0].envelope) else { panic!() };
    held.held_for = Some(Millis(800));
    hear(&mut choice, Moment(100), &(effects.send[0].clone(), Answer::Reservation(held)));
    assert_eq!(choice.next_timer(), Some(Moment(500)));
    assert_eq!(words(&choice.tick(Moment(500))), ["a commit", "b cancel", "c cancel"]);
}

#[test]
fn a_job_that_no_site_could_finish_in_time_is_not_sent_anywhere() {
    let mut choice = Choice::new(permission());
    let too_short = Order { latest_end: Time(399), ..order(task()) };
    let effects = choice.start(Moment(0), too_short, &mut Identities::new(7, 0));
    let Some(Outcome::Failed(why)) = effects.outcome else { panic!() };
    assert_eq!((why.code(), effects.send.len()), ("no-window", 0));
}

#[test]
fn after_a_restart_all_is_cancelled_where_nothing_was_chosen_and_finished_where_something_was() {
    let mut sites = ["a", "b", "c"].map(|name| PlainSite::new(name, 0));
    let (mut choice, first) = started();
    let mut journal = first.events.clone();
    let restart = |journal: &[Event]| {
        let mut choice = Choice::new(permission());
        journal.iter().for_each(|event| choice.apply(event));
        let effects = choice.resume(Moment(5_000));
        (choice, effects)
    };
    let (_, effects) = restart(&journal);
    assert_eq!(words(&effects), ["a cancel", "b cancel", "c cancel"]);
    assert_eq!(effects.outcome, Some(Outcome::Failed(Why::Interrupted)));
    for answered in answers(&first, &mut sites, Moment(100)) {
        journal.extend(hear(&mut choice, Moment(200), &answered).events);
    }
    let (mut choice, effects) = restart(&journal);
    assert_eq!(words(&effects), ["b cancel", "c cancel", "a commit"]);
    let committed = answers(&effects, &mut sites, Moment(6_000));
    let done = committed.iter().filter_map(|answered| hear(&mut choice, Moment(6_000), answered).outcome);
    assert!(matches!(done.collect::<Vec<_>>()[..], [Outcome::Booked { .. }]));
    assert!(choice.is_over());
}
