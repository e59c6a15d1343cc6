//! Copies of a job at several sites, step by step: one claim is granted, and no copy is forgotten.

use bookahead_plan::{Seconds, Time};
use bookahead_protocol::jobs::race::{
    Ask, Effects, Entry, Event, Gone, Incoming, Order, Outcome, Pace, Race, SiteReport, copy_of,
};
use bookahead_protocol::jobs::{Ending, Patience};
use bookahead_protocol::{JobId, Millis, Moment, Name};

pub(super) const JOB: JobId = JobId(7);

pub(super) const PACE: Pace = Pace {
    patience: Patience { first: Millis::seconds(1), longest: Millis::seconds(60) },
    look_every: Millis::seconds(1),
    silence: Millis::seconds(30),
    doubt: Millis::seconds(10),
};

pub(super) fn order(sites: &[&str], at_once: usize) -> Order {
    let entry = |(place, site): (usize, &&str)| Entry {
        site: (*site).into(),
        resource: "cluster".into(),
        copy: copy_of(JOB, place),
        limit: Seconds(600),
        start_by: None,
    };
    Order { entries: sites.iter().enumerate().map(entry).collect(), at_once, claims: false, retries: 0 }
}

fn name(text: &str) -> Name {
    text.into()
}

/// A race over these sites with a number of copies at once, and the first messages.
fn begun(sites: &[&str], at_once: usize) -> (Race, Effects) {
    let mut race = Race::default();
    let effects = race.start(Moment(0), order(sites, at_once), &PACE);
    (race, effects)
}

/// The same, with a waiting copy at each site.
fn queued(sites: &[&str], at_once: usize) -> Race {
    let (mut race, _) = begun(sites, at_once);
    for site in sites.iter().take(at_once) {
        tell(&mut race, 0, site, Ask::Submit, SiteReport::Waits);
    }
    race
}

/// The messages, as "site message".
fn said(effects: &Effects) -> Vec<String> {
    effects.send.iter().map(|out| format!("{} {:?}", out.to, out.ask)).collect()
}

fn copy_at(race: &Race, site: &str) -> JobId {
    race.places().find(|(entry, _)| entry.site == name(site)).unwrap().1
}

fn tell(race: &mut Race, at: i64, site: &str, asked: Ask, report: SiteReport) -> Effects {
    let copy = copy_at(race, site);
    race.on_answer(Moment(at), Incoming { from: name(site), copy, asked, report }, &PACE)
}

fn runs(since: i64) -> SiteReport {
    SiteReport::Runs { since: Time(since) }
}

fn ran(since: i64, until: i64, how: Ending) -> SiteReport {
    SiteReport::Ran { since: Some(Time(since)), until: Time(until), how }
}

fn never_ran(why: &str) -> SiteReport {
    SiteReport::NeverRan { why: why.into(), again: true }
}

fn cancelled() -> SiteReport {
    SiteReport::NeverRan { why: "cancelled".into(), again: false }
}

/// Advances time, timer by timer, and returns the messages sent meanwhile.
fn wait(race: &mut Race, from: i64, until: i64) -> Vec<String> {
    let (mut all, mut now) = (Vec::new(), Moment(from));
    while let Some(due) = race.next_timer(&PACE).filter(|due| *due <= Moment(until)) {
        assert!(due > now || due <= Moment(from), "a timer that never advances at {due:?}");
        now = now.max(due);
        all.extend(said(&race.tick(now, &PACE)));
    }
    all
}

#[test]
fn the_first_claim_is_granted_and_the_others_are_dropped() {
    let (mut race, effects) = begun(&["a", "b", "c", "d"], 3);
    assert_eq!(said(&effects), ["a Submit", "b Submit", "c Submit"]);
    for site in ["a", "b", "c"] {
        let queued = tell(&mut race, 100, site, Ask::Submit, SiteReport::Waits);
        assert_eq!(queued.events, [Event::Queued(name(site))]);
    }
    assert_eq!(wait(&mut race, 100, 1_500), ["a Look", "b Look", "c Look"]);
    assert_eq!(tell(&mut race, 1_600, "a", Ask::Look, SiteReport::Waits), Effects::default());
    let granted = tell(&mut race, 1_600, "b", Ask::Look, SiteReport::Claims);
    assert_eq!(granted.events, [Event::Granted(name("b"))], "journalled before the go is sent");
    assert_eq!(said(&granted), ["b Go", "a Drop", "c Drop"]);
    assert!(tell(&mut race, 1_610, "c", Ask::Look, SiteReport::Claims).events.is_empty(), "not a second one");
    assert_eq!((race.granted(), race.outcome()), (Some(&name("b")), None));
    tell(&mut race, 1_700, "a", Ask::Drop, cancelled());
    tell(&mut race, 1_700, "c", Ask::Drop, cancelled());
    tell(&mut race, 1_700, "b", Ask::Go, runs(1));
    let ended = tell(&mut race, 9_000, "b", Ask::Look, ran(1, 8, Ending::Finished));
    assert_eq!(ended.outcome, Some(Outcome::Ended { site: name("b"), how: Ending::Finished }));
    assert!(race.is_over() && race.wasted().next().is_none() && race.next_timer(&PACE).is_none());
}

#[test]
fn a_go_is_repeated_until_the_copy_runs_and_then_it_is_looked_at() {
    let mut race = queued(&["a"], 1);
    tell(&mut race, 1_000, "a", Ask::Look, SiteReport::Claims);
    assert_eq!(wait(&mut race, 1_000, 8_500), ["a Go", "a Go", "a Go"], "ever less often");
    // The site has the go, but its batch system takes a while.
    tell(&mut race, 8_600, "a", Ask::Go, SiteReport::Claims);
    assert_eq!(wait(&mut race, 8_600, 9_600), ["a Go"]);
    tell(&mut race, 9_700, "a", Ask::Go, runs(9));
    assert_eq!(wait(&mut race, 9_700, 10_700), ["a Look"]);
}

#[test]
fn after_a_restart_the_go_is_said_again_to_the_same_site_only() {
    let (mut race, begun) = begun(&["a", "b"], 2);
    let mut journal = begun.events;
    journal.extend(tell(&mut race, 0, "b", Ask::Submit, SiteReport::Waits).events);
    journal.extend(tell(&mut race, 0, "a", Ask::Submit, SiteReport::Claims).events);
    let mut race = Race::default();
    journal.iter().for_each(|event| race.apply(event));
    assert_eq!(said(&race.resume(Moment(5_000), &PACE)), ["a Go", "b Drop"]);
    assert!(tell(&mut race, 5_100, "b", Ask::Drop, SiteReport::Claims).events.is_empty());
}

#[test]
fn where_the_granted_copy_is_over_without_having_run_another_may_run() {
    let mut race = queued(&["a", "b"], 2);
    let first = copy_at(&race, "a");
    tell(&mut race, 1_000, "a", Ask::Look, SiteReport::Claims);
    tell(&mut race, 1_100, "b", Ask::Drop, cancelled());
    // Its go came too late.
    let again = tell(&mut race, 2_000, "a", Ask::Go, never_ran("no go"));
    assert_eq!(race.granted(), None);
    assert_eq!(said(&again), ["b Submit", "a Submit"], "first where no copy has failed");
    assert_ne!(copy_at(&race, "a"), first, "a new copy has a new id");
    // A late report about the first copy is ignored.
    let late = Incoming { from: name("a"), copy: first, asked: Ask::Go, report: SiteReport::Claims };
    assert_eq!(race.on_answer(Moment(2_100), late, &PACE), Effects::default());
    tell(&mut race, 2_200, "a", Ask::Submit, SiteReport::Waits);
    let granted = tell(&mut race, 2_300, "b", Ask::Submit, SiteReport::Claims);
    assert_eq!(granted.events, [Event::Queued(name("b")), Event::Granted(name("b"))]);
}

#[test]
fn a_site_gets_three_copies_at_most_and_none_after_one_was_cancelled_there() {
    let (mut race, _) = begun(&["a"], 1);
    for _ in 0..2 {
        assert_eq!(said(&tell(&mut race, 0, "a", Ask::Submit, never_ran("no disk"))), ["a Submit"]);
    }
    let last = tell(&mut race, 0, "a", Ask::Submit, never_ran("no disk"));
    assert_eq!((said(&last), last.outcome), (vec![], Some(Outcome::NowhereLeft)));
    let (mut race, _) = begun(&["a"], 1);
    assert_eq!(tell(&mut race, 0, "a", Ask::Submit, cancelled()).outcome, Some(Outcome::NowhereLeft));
}

#[test]
fn a_copy_with_a_go_that_its_site_lost_is_lost_and_not_run_again() {
    let mut race = queued(&["a", "b"], 1);
    tell(&mut race, 0, "a", Ask::Look, SiteReport::Claims);
    tell(&mut race, 1_000, "a", Ask::Go, SiteReport::Unknown);
    let lost = tell(&mut race, 11_000, "a", Ask::Go, SiteReport::Unknown);
    assert_eq!(lost.outcome, Some(Outcome::Ended { site: name("a"), how: Ending::Lost }));
    assert_eq!(said(&lost), Vec::<String>::new());
    // The same if the site reports that its end is unknown, without a start.
    let mut race = queued(&["a", "b"], 1);
    tell(&mut race, 0, "a", Ask::Look, SiteReport::Claims);
    let unsure = SiteReport::Ran { since: None, until: Time(9), how: Ending::Lost };
    assert!(matches!(tell(&mut race, 0, "a", Ask::Go, unsure).outcome, Some(Outcome::Ended { .. })));
}

#[test]
fn a_site_that_answers_again_without_knowing_a_copy_is_asked_again_soon() {
    let mut race = queued(&["a"], 1);
    let mut now = 0;
    // The pauses between queries of a silent site become longer.
    for _ in 0..6 {
        now = race.next_timer(&PACE).unwrap().0;
        race.tick(Moment(now), &PACE);
    }
    assert!(race.next_timer(&PACE).unwrap().0 > now + PACE.look_every.0);
    tell(&mut race, now + 100, "a", Ask::Look, SiteReport::Unknown);
    assert_eq!(race.next_timer(&PACE), Some(Moment(now + 100) + PACE.look_every));
}

#[test]
fn a_copy_without_a_go_that_its_site_lost_has_not_run_and_another_is_sent() {
    let mut race = queued(&["a"], 1);
    let unsure = SiteReport::Ran { since: None, until: Time(9), how: Ending::Lost };
    assert_eq!(said(&tell(&mut race, 0, "a", Ask::Look, unsure)), ["a Submit"]);
    tell(&mut race, 0, "a", Ask::Submit, SiteReport::Waits);
    assert_eq!(tell(&mut race, 1_000, "a", Ask::Look, SiteReport::Unknown).events, []);
    assert_eq!(
        tell(&mut race, 5_000, "a", Ask::Look, SiteReport::Waits).events,
        [],
        "it was there after all"
    );
    assert_eq!(tell(&mut race, 6_000, "a", Ask::Look, SiteReport::Unknown).events, []);
    assert_eq!(tell(&mut race, 15_999, "a", Ask::Look, SiteReport::Unknown).events, []);
    let lost = tell(&mut race, 16_000, "a", Ask::Look, SiteReport::Unknown);
    assert_eq!(lost.events, [Event::Gone { site: name("a"), how: Gone::Lost }, Event::Sent(name("a"))]);
}

#[test]
fn where_a_site_refuses_the_next_of_the_ranking_gets_a_copy() {
    let (mut race, effects) = begun(&["a", "b", "c"], 1);
    assert_eq!(said(&effects), ["a Submit"]);
    let refused = |why: &str| SiteReport::Refused(why.into());
    assert_eq!(said(&tell(&mut race, 10, "a", Ask::Submit, refused("too wide"))), ["b Submit"]);
    assert_eq!(said(&tell(&mut race, 20, "b", Ask::Submit, cancelled())), ["c Submit"]);
    let last = tell(&mut race, 30, "c", Ask::Submit, refused("closed"));
    assert_eq!(last.outcome, Some(Outcome::NowhereLeft));
    let why: Vec<&Gone> = race.gone().iter().map(|(_, how)| how).collect();
    assert!(matches!(why[..], [Gone::Refused(_), Gone::NeverRan { .. }, Gone::Refused(_)]), "{why:?}");
    assert!(race.is_over());
    assert_eq!(Race::default().start(Moment(0), order(&[], 3), &PACE).outcome, Some(Outcome::NowhereLeft));
}

#[test]
fn a_silent_site_keeps_its_copy_and_another_gets_one_beside_it() {
    let (mut race, _) = begun(&["a", "b"], 1);
    let sent = wait(&mut race, 0, 29_000);
    assert!(sent.len() >= 4 && sent.iter().all(|said| said == "a Submit"), "{sent:?}");
    let sent = wait(&mut race, 29_000, 31_000);
    assert!(sent.contains(&"b Submit".into()), "{sent:?}");
    // It had the copy all the time, and answers again.
    tell(&mut race, 32_000, "a", Ask::Submit, SiteReport::Waits);
    tell(&mut race, 32_100, "b", Ask::Submit, SiteReport::Claims);
    assert_eq!(race.granted(), Some(&name("b")));
    // However long it is silent, it is told to drop its copy.
    tell(&mut race, 32_200, "b", Ask::Go, ran(32, 32, Ending::Finished));
    let sent = wait(&mut race, 32_200, 3_600_000);
    assert!(sent.len() > 50 && sent.iter().all(|said| said == "a Drop"), "{sent:?}");
    assert!(sent.len() < 1_000, "bounded: {}", sent.len());
}

#[test]
fn nobody_gets_a_copy_in_the_place_of_a_silent_site_with_a_go() {
    let mut race = queued(&["a", "b"], 1);
    tell(&mut race, 0, "a", Ask::Look, SiteReport::Claims);
    let sent = wait(&mut race, 0, 3_600_000);
    assert!(!sent.is_empty() && sent.iter().all(|said| said == "a Go"), "{sent:?}");
}

#[test]
fn a_submission_that_arrives_after_its_drop_is_found_and_dropped() {
    let (mut race, _) = begun(&["a", "b"], 2);
    assert_eq!(said(&tell(&mut race, 0, "a", Ask::Submit, SiteReport::Claims)), ["a Go", "b Drop"]);
    tell(&mut race, 2_100, "b", Ask::Drop, SiteReport::Unknown);
    assert!(race.dropping().eq([&name("b")]), "the submission may still be under way");
    tell(&mut race, 12_100, "b", Ask::Drop, SiteReport::Unknown);
    assert_eq!(race.dropping().count(), 0);
    let found = tell(&mut race, 20_000, "b", Ask::Submit, SiteReport::Waits);
    assert_eq!((said(&found), found.events), (vec!["b Drop".to_owned()], vec![Event::Found(name("b"))]));
    tell(&mut race, 20_100, "b", Ask::Drop, cancelled());
    assert_eq!(race.dropping().count(), 0);
}

#[test]
fn who_takes_the_job_back_takes_back_all_copies() {
    let (mut race, _) = begun(&["a", "b", "c"], 2);
    tell(&mut race, 0, "a", Ask::Submit, SiteReport::Waits);
    let withdrawn = race.withdraw(Moment(10), &PACE);
    assert_eq!(withdrawn.outcome, Some(Outcome::Withdrawn));
    assert_eq!(said(&withdrawn), ["a Drop", "b Drop"]);
    assert_eq!(race.withdraw(Moment(20), &PACE), Effects::default());
    assert_eq!(tell(&mut race, 30, "a", Ask::Look, SiteReport::Claims).events, [], "no go any more");
    tell(&mut race, 30, "a", Ask::Drop, cancelled());
    tell(&mut race, 30, "b", Ask::Drop, SiteReport::Unknown);
    assert!(!race.is_over());
    tell(&mut race, 10_030, "b", Ask::Drop, SiteReport::Unknown);
    assert!(race.is_over(), "c was never asked");
}

#[test]
fn a_job_with_a_go_that_is_taken_back_is_over_when_its_site_says_so() {
    for (report, outcome) in [
        (ran(0, 4, Ending::Failed), Outcome::Ended { site: name("a"), how: Ending::Failed }),
        (cancelled(), Outcome::Withdrawn),
    ] {
        let mut race = queued(&["a", "b"], 1);
        tell(&mut race, 0, "a", Ask::Look, SiteReport::Claims);
        let withdrawn = race.withdraw(Moment(10), &PACE);
        assert_eq!((withdrawn.outcome.clone(), said(&withdrawn)), (None, vec!["a Drop".to_owned()]));
        assert_eq!(tell(&mut race, 20, "a", Ask::Drop, report).outcome, Some(outcome));
        assert!(race.is_over() && race.wasted().next().is_none());
    }
}

#[test]
fn copies_that_have_not_started_in_time_are_dropped() {
    let late = |sites: &[&str]| {
        let mut late = order(sites, 1);
        late.entries.iter_mut().for_each(|entry| entry.start_by = Some(Time(60)));
        late
    };
    let mut race = Race::default();
    race.start(Moment(0), late(&["a", "b"]), &PACE);
    tell(&mut race, 0, "a", Ask::Submit, SiteReport::Waits);
    let sent = wait(&mut race, 0, 60_000);
    assert_eq!(sent[sent.len() - 2..], ["a Drop", "b Drop"], "the second was sent when the first was silent");
    assert_eq!((race.outcome(), race.is_late()), (Some(&Outcome::NowhereLeft), true));
    // A late claim is not granted; one in time is.
    for (at, granted) in [(60_000, None), (59_000, Some(&name("a")))] {
        let mut race = Race::default();
        race.start(Moment(0), late(&["a"]), &PACE);
        tell(&mut race, at, "a", Ask::Submit, SiteReport::Claims);
        wait(&mut race, at, 70_000);
        assert_eq!(race.granted(), granted);
    }
}

#[test]
fn a_job_that_is_itself_a_copy_grants_nothing_before_it_gets_a_go() {
    let mut race = Race::default();
    race.start(Moment(0), Order { claims: true, ..order(&["a"], 1) }, &PACE);
    assert!(!race.is_claiming());
    assert_eq!(tell(&mut race, 0, "a", Ask::Submit, SiteReport::Claims).events, [Event::Queued(name("a"))]);
    assert!(race.is_claiming());
    let go = race.go(Moment(10), &PACE);
    assert_eq!(go.events, [Event::Allowed, Event::Granted(name("a"))]);
    assert_eq!(said(&go), ["a Go"]);
    assert!(!race.is_claiming() && race.go(Moment(20), &PACE) == Effects::default());
}

#[test]
fn a_site_that_runs_copies_without_a_go_is_taken_at_its_word_and_told_of() {
    let (mut race, _) = begun(&["a", "b"], 2);
    let won = tell(&mut race, 2_100, "b", Ask::Submit, runs(2));
    assert_eq!((said(&won), race.granted()), (vec!["b Look".into(), "a Drop".into()], Some(&name("b"))));
    let gone = tell(&mut race, 5_000, "a", Ask::Drop, ran(2, 5, Ending::Failed));
    assert_eq!(gone.events, [Event::Gone { site: name("a"), how: Gone::Dropped { ran: Seconds(3) } }]);
    assert_eq!(race.wasted().collect::<Vec<_>>(), [(&name("a"), Seconds(3))]);
}

#[test]
fn copies_are_known_by_ids_that_follow_from_the_job() {
    let ids: Vec<JobId> = (0..32).map(|place| copy_of(JOB, place)).collect();
    assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id) && *id != JOB));
    assert_eq!(copy_of(JOB, 3), ids[3]);
    let (mut race, _) = begun(&["a"], 1);
    let stranger = Incoming { from: name("a"), copy: JobId(1), asked: Ask::Look, report: runs(0) };
    assert_eq!(race.on_answer(Moment(0), stranger, &PACE), Effects::default());
}
