//! Copies of a job at sites that start them without asking: the first that starts wins, and no copy is forgotten.

use bookahead_plan::{Seconds, Time};
use bookahead_protocol::jobs::Patience;
use bookahead_protocol::jobs::flooding::Ending;
use bookahead_protocol::jobs::race::{Ask, Effects, Entry, Event, Gone, Outcome, Pace, Race, Told, copy_of};
use bookahead_protocol::{JobId, Millis, Moment, Name};

pub(super) const JOB: JobId = JobId(7);

pub(super) const PACE: Pace = Pace {
    patience: Patience { first: Millis::seconds(1), longest: Millis::seconds(60) },
    look_every: Millis::seconds(1),
    silence: Millis::seconds(30),
    doubt: Millis::seconds(10),
};

pub(super) fn entries(sites: &[&str]) -> Vec<Entry> {
    let entry = |(place, site): (usize, &&str)| Entry {
        site: (*site).into(),
        resource: "cluster".into(),
        copy: copy_of(JOB, place),
        limit: Seconds(600),
        start_by: None,
    };
    sites.iter().enumerate().map(entry).collect()
}

fn name(text: &str) -> Name {
    text.into()
}

/// A race over these sites, so many at once, and what is sent first.
fn begun(sites: &[&str], at_once: usize) -> (Race, Effects) {
    let mut race = Race::default();
    let effects = race.start(Moment(0), entries(sites), at_once, &PACE);
    (race, effects)
}

/// What a broker that was killed reads in its journal.
fn read_again(journal: &[Event]) -> Race {
    let mut race = Race::default();
    journal.iter().for_each(|event| race.apply(event));
    race
}

/// What is sent, as "where what".
fn said(effects: &Effects) -> Vec<String> {
    effects.send.iter().map(|out| format!("{} {:?}", out.to, out.ask)).collect()
}

fn tell(race: &mut Race, at: i64, site: &str, asked: Ask, told: Told) -> Effects {
    let copy = race.entries().find(|entry| entry.site == name(site)).unwrap().copy;
    race.on_answer(Moment(at), &name(site), (copy, asked), told, &PACE)
}

fn runs(since: i64) -> Told {
    Told::Runs { since: Time(since) }
}

fn ran(since: i64, until: i64) -> Told {
    Told::Ran { since: Time(since), until: Time(until), how: Ending::Finished }
}

/// Ended by whoever did not want it.
fn killed(since: i64, until: i64) -> Told {
    Told::Ran { since: Time(since), until: Time(until), how: Ending::Failed }
}

/// Lets time pass, timer by timer, and gives what was sent meanwhile.
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
fn the_first_that_starts_wins_and_the_others_are_dropped() {
    let (mut race, effects) = begun(&["a", "b", "c", "d"], 3);
    assert_eq!(said(&effects), ["a Submit", "b Submit", "c Submit"]);
    for site in ["a", "b", "c"] {
        let queued = tell(&mut race, 100, site, Ask::Submit, Told::Waits);
        assert_eq!(queued.events, [Event::Queued(name(site))]);
    }
    assert_eq!(wait(&mut race, 100, 1_500), ["a Look", "b Look", "c Look"]);
    tell(&mut race, 1_600, "a", Ask::Look, Told::Waits);
    // Of c it is not known whether it started before; it is asked already.
    assert_eq!(tell(&mut race, 1_600, "b", Ask::Look, runs(1)).events, []);
    let won = tell(&mut race, 1_610, "c", Ask::Look, Told::Waits);
    assert_eq!(won.events, [Event::Won(name("b"))]);
    assert_eq!(said(&won), ["a Drop", "c Drop"]);
    assert_eq!((race.winner(), race.outcome()), (Some(&name("b")), None));
    tell(&mut race, 1_700, "a", Ask::Drop, Told::NeverRan("cancelled".into()));
    tell(&mut race, 1_700, "c", Ask::Drop, Told::NeverRan("cancelled".into()));
    let ended = tell(&mut race, 9_000, "b", Ask::Look, ran(1, 8));
    assert_eq!(ended.outcome, Some(Outcome::Ended { site: name("b"), how: Ending::Finished }));
    assert!(race.is_over() && race.wasted().next().is_none() && race.next_timer(&PACE).is_none());
}

#[test]
fn of_two_that_start_before_the_drop_arrives_the_later_is_dropped_and_its_run_is_wasted() {
    let (mut race, _) = begun(&["a", "b"], 2);
    // Both sites are idle: their answers to the submission say that it runs. The one that is heard of first started last.
    assert_eq!(said(&tell(&mut race, 2_100, "b", Ask::Submit, runs(2))), ["a Submit"]);
    let won = tell(&mut race, 2_150, "a", Ask::Submit, runs(1));
    assert_eq!((said(&won), won.events.last()), (vec!["b Drop".to_owned()], Some(&Event::Won(name("a")))));
    let gone = tell(&mut race, 5_000, "b", Ask::Drop, killed(2, 5));
    assert_eq!(gone.events, [Event::Gone { site: name("b"), how: Gone::Dropped { ran: Seconds(3) } }]);
    assert_eq!(race.wasted().collect::<Vec<_>>(), [(&name("b"), Seconds(3))]);
    assert_eq!((race.winner(), race.outcome()), (Some(&name("a")), None));
}

#[test]
fn after_a_long_absence_the_one_that_started_first_wins_whoever_answers_first() {
    let (mut race, begun) = begun(&["a", "b", "c"], 3);
    let mut journal = begun.events;
    for site in ["a", "b", "c"] {
        journal.extend(tell(&mut race, 100, site, Ask::Submit, Told::Waits).events);
    }
    let mut race = read_again(&journal);
    let hour = 3_600_000;
    assert_eq!(said(&race.resume(Moment(hour), &PACE)), ["a Look", "b Look", "c Look"]);
    // B started a moment ago; a and c may have started long ago.
    assert_eq!(tell(&mut race, hour + 10, "b", Ask::Look, runs(3_599)).events, []);
    assert_eq!(tell(&mut race, hour + 20, "a", Ask::Look, runs(60)).events, []);
    let won = tell(&mut race, hour + 30, "c", Ask::Look, Told::Waits);
    assert_eq!(won.events, [Event::Won(name("a"))]);
    assert_eq!(said(&won), ["b Drop", "c Drop"]);
}

#[test]
fn one_that_has_finished_meanwhile_wins_over_one_that_runs() {
    let mut race = read_again(&begun(&["a", "b"], 2).1.events);
    assert_eq!(said(&race.resume(Moment(100_000), &PACE)), ["a Submit", "b Submit"]);
    assert_eq!(tell(&mut race, 100_010, "a", Ask::Submit, runs(10)).events, [Event::Queued(name("a"))]);
    let won = tell(&mut race, 100_020, "b", Ask::Submit, ran(20, 90));
    assert_eq!(won.outcome, Some(Outcome::Ended { site: name("b"), how: Ending::Finished }));
    assert_eq!(said(&won), ["a Drop"]);
    assert!(!race.is_over(), "a is still to be dropped");
}

#[test]
fn a_site_whose_clock_is_ahead_wins_as_soon_as_the_others_were_heard() {
    let (mut race, _) = begun(&["a", "b"], 2);
    tell(&mut race, 100, "b", Ask::Submit, Told::Waits);
    assert_eq!(tell(&mut race, 200, "a", Ask::Submit, runs(3_600)).events, [Event::Queued(name("a"))]);
    assert_eq!(tell(&mut race, 250, "b", Ask::Look, Told::Waits).events, [Event::Won(name("a"))]);
}

#[test]
fn a_submission_that_is_under_way_when_another_copy_wins_is_dropped_when_it_is_answered() {
    let (mut race, _) = begun(&["a", "b"], 2);
    tell(&mut race, 0, "a", Ask::Submit, runs(0));
    wait(&mut race, 0, 2_000);
    assert_eq!(race.winner(), Some(&name("a")));
    assert_eq!(said(&tell(&mut race, 2_500, "b", Ask::Submit, runs(1))), ["b Drop"]);
}

#[test]
fn nobody_waits_long_for_a_silent_site_to_decide_which_won() {
    let mut race = read_again(&begun(&["a", "b"], 2).1.events);
    race.resume(Moment(50_000), &PACE);
    assert_eq!(tell(&mut race, 50_010, "a", Ask::Submit, runs(50)).events, [Event::Queued(name("a"))]);
    let asked = wait(&mut race, 50_010, 52_100);
    assert_eq!(race.winner(), Some(&name("a")), "{asked:?}");
    assert_eq!(asked.last().unwrap(), "b Drop");
}

#[test]
fn where_a_site_refuses_the_next_of_the_ranking_gets_a_copy() {
    let (mut race, effects) = begun(&["a", "b", "c"], 1);
    assert_eq!(said(&effects), ["a Submit"]);
    let refused = tell(&mut race, 10, "a", Ask::Submit, Told::Refused("too wide".into()));
    assert_eq!(said(&refused), ["b Submit"]);
    assert_eq!(said(&tell(&mut race, 20, "b", Ask::Submit, Told::NeverRan("no disk".into()))), ["c Submit"]);
    let last = tell(&mut race, 30, "c", Ask::Submit, Told::Refused("closed".into()));
    assert_eq!(last.outcome, Some(Outcome::NowhereLeft));
    let why: Vec<&Gone> = race.gone().iter().map(|(_, how)| how).collect();
    assert!(matches!(why[..], [Gone::Refused(_), Gone::Ended(_), Gone::Refused(_)]), "{why:?}");
    assert!(race.is_over());
    assert_eq!(Race::default().start(Moment(0), Vec::new(), 3, &PACE).outcome, Some(Outcome::NowhereLeft));
}

#[test]
fn a_silent_site_keeps_its_copy_and_another_gets_one_beside_it() {
    let (mut race, _) = begun(&["a", "b"], 1);
    let sent = wait(&mut race, 0, 29_000);
    assert!(sent.len() >= 4 && sent.iter().all(|said| said == "a Submit"), "{sent:?}");
    let sent = wait(&mut race, 29_000, 31_000);
    assert!(sent.contains(&"b Submit".into()), "{sent:?}");
    // It had the copy all the time, and is heard of again.
    tell(&mut race, 32_000, "a", Ask::Submit, Told::Waits);
    assert_eq!(
        tell(&mut race, 32_100, "b", Ask::Submit, runs(32)).events.last(),
        Some(&Event::Won(name("b")))
    );
    // However long it is silent, it is told to drop its copy.
    let sent = wait(&mut race, 32_100, 3_600_000);
    assert!(sent.iter().filter(|said| *said == "a Drop").count() > 50, "{sent:?}");
    assert!(sent.len() < 1_000, "bounded: {}", sent.len());
}

#[test]
fn a_copy_that_its_site_lost_counts_as_gone_only_if_that_stays_so() {
    let (mut race, _) = begun(&["a"], 1);
    tell(&mut race, 0, "a", Ask::Submit, Told::Waits);
    assert_eq!(tell(&mut race, 1_000, "a", Ask::Look, Told::Unknown).events, []);
    assert_eq!(tell(&mut race, 5_000, "a", Ask::Look, Told::Waits).events, [], "it was there after all");
    assert_eq!(tell(&mut race, 6_000, "a", Ask::Look, Told::Unknown).events, []);
    assert_eq!(tell(&mut race, 15_999, "a", Ask::Look, Told::Unknown).events, []);
    let lost = tell(&mut race, 16_000, "a", Ask::Look, Told::Unknown);
    assert_eq!(lost.outcome, Some(Outcome::NowhereLeft));
    assert_eq!(race.gone(), [(name("a"), Gone::Lost)]);
}

#[test]
fn a_job_whose_site_lost_it_while_it_ran_is_lost_and_not_run_again() {
    let (mut race, _) = begun(&["a", "b"], 1);
    tell(&mut race, 0, "a", Ask::Submit, runs(0));
    tell(&mut race, 1_000, "a", Ask::Look, Told::Unknown);
    let lost = tell(&mut race, 11_000, "a", Ask::Look, Told::Unknown);
    assert_eq!(lost.outcome, Some(Outcome::Ended { site: name("a"), how: Ending::Lost }));
    assert_eq!(said(&lost), Vec::<String>::new());
}

#[test]
fn a_submission_that_arrives_after_its_drop_is_found_and_dropped() {
    let (mut race, _) = begun(&["a", "b"], 2);
    tell(&mut race, 0, "a", Ask::Submit, runs(0));
    assert_eq!(wait(&mut race, 0, 2_000).last().unwrap(), "b Drop");
    tell(&mut race, 2_100, "b", Ask::Drop, Told::Unknown);
    assert!(race.dropping().eq([&name("b")]), "the submission may still be under way");
    tell(&mut race, 12_100, "b", Ask::Drop, Told::Unknown);
    assert_eq!(race.dropping().count(), 0);
    let found = tell(&mut race, 20_000, "b", Ask::Submit, Told::Waits);
    assert_eq!(said(&found), ["b Drop"]);
    assert_eq!(found.events, [Event::Found(name("b"))]);
    tell(&mut race, 20_100, "b", Ask::Drop, Told::NeverRan("cancelled".into()));
    assert_eq!(race.dropping().count(), 0);
}

#[test]
fn who_takes_the_job_back_takes_back_all_copies() {
    let (mut race, _) = begun(&["a", "b", "c"], 2);
    tell(&mut race, 0, "a", Ask::Submit, Told::Waits);
    let withdrawn = race.withdraw(Moment(10), &PACE);
    assert_eq!(withdrawn.outcome, Some(Outcome::Withdrawn));
    assert_eq!(said(&withdrawn), ["a Drop", "b Drop"]);
    assert_eq!(race.withdraw(Moment(20), &PACE), Effects::default());
    // One of them had started; nobody wants it.
    tell(&mut race, 30, "a", Ask::Drop, killed(5, 9));
    assert_eq!(race.wasted().collect::<Vec<_>>(), [(&name("a"), Seconds(4))]);
    tell(&mut race, 30, "b", Ask::Drop, Told::Unknown);
    assert!(!race.is_over());
    tell(&mut race, 10_030, "b", Ask::Drop, Told::Unknown);
    assert!(race.is_over(), "c was never asked");
}

#[test]
fn a_running_job_that_is_taken_back_is_over_when_its_site_says_so() {
    let (mut race, _) = begun(&["a", "b"], 1);
    tell(&mut race, 0, "a", Ask::Submit, runs(0));
    let withdrawn = race.withdraw(Moment(10), &PACE);
    assert_eq!((withdrawn.outcome.clone(), said(&withdrawn)), (None, vec!["a Drop".to_owned()]));
    let ended = tell(&mut race, 20, "a", Ask::Drop, killed(0, 4));
    assert_eq!(ended.outcome, Some(Outcome::Ended { site: name("a"), how: Ending::Failed }));
    assert!(race.is_over() && race.wasted().next().is_none());
}

#[test]
fn copies_that_have_not_started_in_time_are_dropped() {
    let mut late = entries(&["a", "b"]);
    late.iter_mut().for_each(|entry| entry.start_by = Some(Time(60)));
    let mut race = Race::default();
    race.start(Moment(0), late, 1, &PACE);
    tell(&mut race, 0, "a", Ask::Submit, Told::Waits);
    let sent = wait(&mut race, 0, 60_000);
    assert_eq!(
        sent[sent.len() - 2..],
        ["a Drop", "b Drop"],
        "the second was sent since the first fell silent"
    );
    assert_eq!((race.outcome(), race.is_late()), (Some(&Outcome::NowhereLeft), true));
}

#[test]
fn one_that_runs_in_time_is_not_late() {
    let mut late = entries(&["a"]);
    late[0].start_by = Some(Time(60));
    let mut race = Race::default();
    race.start(Moment(0), late, 1, &PACE);
    tell(&mut race, 59_000, "a", Ask::Submit, runs(59));
    wait(&mut race, 59_000, 70_000);
    assert_eq!((race.winner(), race.outcome()), (Some(&name("a")), None));
}

#[test]
fn copies_are_known_by_ids_that_follow_from_the_job() {
    let ids: Vec<JobId> = (0..32).map(|place| copy_of(JOB, place)).collect();
    assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id) && *id != JOB));
    assert_eq!(copy_of(JOB, 3), ids[3]);
    let (mut race, _) = begun(&["a"], 1);
    let stranger = race.on_answer(Moment(0), &name("a"), (JobId(1), Ask::Look), runs(0), &PACE);
    assert_eq!(stranger, Effects::default());
}
