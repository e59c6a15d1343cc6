//! Copies of a job at several sites, step by step.

use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::jobs::flooding::Work;
use bookahead_protocol::jobs::flooding::{
    Action, CopyEvent, Ending, FloodEvent, FloodOutcome, Outgoing, answer_stranger,
};
use bookahead_protocol::jobs::{Copies, Flood, JobMessage, Patience};
use bookahead_protocol::{JobId, Millis, Moment, Name};

pub(super) const JOB: JobId = JobId(9);
pub(super) const ROOM_FOR: Millis = Millis(5_000);

pub(super) fn work() -> Work {
    Work { owner: "ada".into(), cores: Capacity(4), estimate: Seconds(600) }
}

pub(super) fn copies_for(sites: &[&str]) -> Vec<(Name, Work)> {
    sites.iter().map(|&site| (site.into(), work())).collect()
}

fn broker() -> Name {
    "broker".into()
}

fn sent(outgoing: &[Outgoing]) -> Vec<(&str, JobMessage)> {
    outgoing.iter().map(|out| (out.to.as_str(), out.message.clone())).collect()
}

/// A site with a queued copy whose turn has come.
fn claiming() -> Copies {
    let mut copies = Copies::new(Patience::default(), ROOM_FOR);
    copies.on_message(Moment(0), &broker(), &JobMessage::Submit { job: JOB, work: work() });
    let effects = copies.turn_came(Moment(0), JOB);
    assert_eq!(sent(&effects.send), [("broker", JobMessage::Claim { job: JOB })]);
    assert!(effects.actions.is_empty(), "it does not run before it is granted");
    copies
}

#[test]
fn the_first_claim_is_granted_and_the_other_copies_are_dropped() {
    let mut flood = Flood::new(JOB);
    let effects = flood.start(Moment(0), copies_for(&["a", "b", "c", "a"]), Patience::default());
    let submit = JobMessage::Submit { job: JOB, work: work() };
    assert_eq!(sent(&effects.send), [("a", submit.clone()), ("b", submit.clone()), ("c", submit)]);
    let claim = JobMessage::Claim { job: JOB };
    let effects = flood.on_message(Moment(10), &"b".into(), &claim);
    assert_eq!(effects.events, [FloodEvent::Granted("b".into())]);
    let (drop, granted) = (JobMessage::Drop { job: JOB }, JobMessage::Granted { job: JOB });
    assert_eq!(sent(&effects.send), [("a", drop.clone()), ("c", drop), ("b", granted.clone())]);
    let again = flood.on_message(Moment(20), &"b".into(), &claim);
    assert_eq!((sent(&again.send), again.events.len()), (vec![("b", granted)], 0));
    let late = flood.on_message(Moment(20), &"c".into(), &claim);
    assert_eq!(sent(&late.send), [("c", JobMessage::Denied { job: JOB })]);
    for site in ["a", "c"] {
        flood.on_message(Moment(30), &site.into(), &JobMessage::Dropped { job: JOB });
    }
    let ended = JobMessage::Ended { job: JOB, how: Ending::Finished };
    let effects = flood.on_message(Moment(40), &"b".into(), &ended);
    assert_eq!(effects.outcome, Some(FloodOutcome::Ended { site: "b".into(), how: Ending::Finished }));
    assert!(flood.is_over() && flood.next_timer().is_none());
    let after = flood.on_message(Moment(50), &"b".into(), &claim);
    assert_eq!(sent(&after.send), [("b", JobMessage::Denied { job: JOB })], "not a second time");
}

#[test]
fn a_granted_copy_runs_once() {
    let mut copies = claiming();
    let effects = copies.on_message(Moment(10), &broker(), &JobMessage::Granted { job: JOB });
    assert_eq!((effects.events, effects.actions), (vec![CopyEvent::Granted(JOB)], vec![Action::MayRun(JOB)]));
    let effects = copies.turn_came(Moment(10), JOB);
    assert_eq!(effects.events, [CopyEvent::Started(JOB)], "journalled before it runs");
    assert_eq!(effects.actions, [Action::Run(JOB)]);
    assert!(copies.turn_came(Moment(20), JOB).actions.is_empty());
    let repeated = copies.on_message(Moment(20), &broker(), &JobMessage::Granted { job: JOB });
    assert!(repeated.actions.is_empty() && repeated.events.is_empty());
}

#[test]
fn a_copy_without_an_answer_is_passed_over_and_runs_later() {
    let mut copies = claiming();
    let repeated = copies.tick(Moment(1_000));
    assert_eq!(sent(&repeated.send), [("broker", JobMessage::Claim { job: JOB })]);
    assert_eq!(copies.tick(Moment(5_000)).actions, [Action::PassOver(JOB)]);
    let late = copies.on_message(Moment(6_000), &broker(), &JobMessage::Granted { job: JOB });
    assert_eq!((late.events.len(), late.actions.len()), (1, 0), "its room went to others");
    assert_eq!(copies.turn_came(Moment(7_000), JOB).actions, [Action::Run(JOB)]);
}

#[test]
fn a_dropped_copy_never_comes_back() {
    let mut copies = claiming();
    let effects = copies.on_message(Moment(10), &broker(), &JobMessage::Denied { job: JOB });
    assert_eq!(effects.actions, [Action::Remove(JOB)]);
    assert_eq!(sent(&effects.send), [("broker", JobMessage::Dropped { job: JOB })]);
    assert_eq!(sent(&copies.tick(Moment(1_010)).send).len(), 1, "until the broker knows");
    copies.on_message(Moment(1_020), &broker(), &JobMessage::Noted { job: JOB });
    assert!(copies.is_over(JOB) && copies.next_timer().is_none());
    let belated = copies.on_message(Moment(2_000), &broker(), &JobMessage::Submit { job: JOB, work: work() });
    assert_eq!(sent(&belated.send), [("broker", JobMessage::Dropped { job: JOB })]);
    assert_eq!(copies.queued().count(), 0);
}

#[test]
fn a_drop_that_overtakes_its_submission_is_remembered() {
    let mut copies = Copies::new(Patience::default(), ROOM_FOR);
    copies.on_message(Moment(0), &broker(), &JobMessage::Drop { job: JOB });
    let effects = copies.on_message(Moment(10), &broker(), &JobMessage::Submit { job: JOB, work: work() });
    assert!(effects.actions.is_empty() && copies.queued().count() == 0);
}

#[test]
fn after_a_restart_a_granted_copy_runs_and_a_started_one_is_lost() {
    let mut journal =
        vec![CopyEvent::Queued { job: JOB, broker: broker(), work: work() }, CopyEvent::Granted(JOB)];
    let restarted = |journal: &[CopyEvent]| {
        let mut copies = Copies::new(Patience::default(), ROOM_FOR);
        journal.iter().for_each(|event| copies.apply(event));
        copies
    };
    let mut copies = restarted(&journal);
    assert_eq!(copies.resume(Moment(0)).actions, [Action::Queue { job: JOB, work: work() }]);
    assert_eq!(copies.turn_came(Moment(10), JOB).actions, [Action::Run(JOB)], "without asking again");
    journal.push(CopyEvent::Started(JOB));
    let mut copies = restarted(&journal);
    let effects = copies.resume(Moment(0));
    assert_eq!(sent(&effects.send), [("broker", JobMessage::Ended { job: JOB, how: Ending::Lost })]);
    assert!(copies.turn_came(Moment(10), JOB).actions.is_empty());
}

#[test]
fn an_owner_may_take_a_job_back_until_a_site_was_granted_it() {
    let mut flood = Flood::new(JOB);
    flood.start(Moment(0), copies_for(&["a", "b"]), Patience::default());
    let mut granted = flood.clone();
    let effects = flood.withdraw(Moment(10));
    assert_eq!(effects.outcome, Some(FloodOutcome::Withdrawn));
    let claim = JobMessage::Claim { job: JOB };
    assert_eq!(
        sent(&flood.on_message(Moment(20), &"a".into(), &claim).send),
        [("a", JobMessage::Denied { job: JOB })]
    );
    granted.on_message(Moment(10), &"a".into(), &claim);
    assert!(granted.withdraw(Moment(20)).events.is_empty());
}

#[test]
fn where_every_site_drops_its_copy_nowhere_is_left() {
    let mut flood = Flood::new(JOB);
    flood.start(Moment(0), copies_for(&["a", "b"]), Patience::default());
    let dropped = JobMessage::Dropped { job: JOB };
    assert_eq!(flood.on_message(Moment(10), &"a".into(), &dropped).outcome, None);
    assert_eq!(flood.on_message(Moment(10), &"b".into(), &dropped).outcome, Some(FloodOutcome::NowhereLeft));
    assert!(flood.is_over());
    assert_eq!(
        Flood::new(JOB).start(Moment(0), Vec::new(), Patience::default()).outcome,
        Some(FloodOutcome::NowhereLeft)
    );
}

#[test]
fn a_broker_that_does_not_know_a_job_lets_no_copy_of_it_run() {
    let claim = JobMessage::Claim { job: JOB };
    assert_eq!(answer_stranger(&claim), Some(JobMessage::Denied { job: JOB }));
    assert_eq!(answer_stranger(&JobMessage::Dropped { job: JOB }), Some(JobMessage::Noted { job: JOB }));
}
