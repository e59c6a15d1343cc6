//! A flooded job as its owner sees it: one job with one site, whatever its copies do and whenever the broker
//! is killed.

use super::desk::{DAY, Desk, ID, ada, caller, flooded, name, site};
use bookahead_party::{Heartbeat, Input, JobCall as Ask, Party, PeerRequest, Queries, Viewer};
use bookahead_plan::Time;
use bookahead_protocol::jobs::{JobRequest, JobWord, Work};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{JobId, Key, Value};

fn flooding(job: JobRequest, sites: &[&str]) -> Desk {
    let mut desk = Desk::with(sites);
    desk.submit(0, job).unwrap();
    desk
}

#[test]
fn the_owner_sees_one_job_and_in_the_end_its_site() {
    let mut desk = flooding(flooded(), &["north", "south", "east", "west"]);
    assert_eq!(desk.said(), ["north Submit", "south Submit", "east Submit"], "the best three");
    assert_eq!(desk.shown().state, JobWord::Placing);
    desk.tell(100, "north", Ask::Submit, JobWord::Waiting, None);
    desk.tell(100, "south", Ask::Submit, JobWord::Waiting, None);
    let waiting = desk.shown();
    assert_eq!((waiting.id, waiting.state, waiting.site), (ID, JobWord::Waiting, None));
    assert_eq!(waiting.detail.unwrap(), "waits at north, south; the first whose turn comes runs it");
    assert_eq!(waiting.expected_start, Some(Time(90)));
    desk.tell(1_200, "south", Ask::Look, JobWord::Claiming, None);
    assert_eq!(desk.said(), ["south Go", "north Drop", "east Drop"]);
    let granted = desk.shown();
    assert_eq!((granted.state, granted.site), (JobWord::Waiting, Some(name("south"))), "it does not run yet");
    assert!(
        granted.detail.unwrap().contains("a copy at north will be cancelled as soon as the site answers")
    );
    desk.tell(1_250, "south", Ask::Go, JobWord::Running, Some(1));
    assert_eq!((desk.shown().id, desk.shown().state), (ID, JobWord::Running));
    desk.tell(1_300, "north", Ask::Drop, JobWord::Cancelled, None);
    desk.tell(1_300, "east", Ask::Drop, JobWord::Cancelled, None);
    desk.tell(31_000, "south", Ask::Look, JobWord::Done, Some(1));
    let done = desk.shown();
    assert_eq!((done.id, done.state, done.exit), (ID, JobWord::Done, Some(0)));
    assert_eq!((done.site, done.started, done.detail), (Some(name("south")), Some(Time(1)), None));
    assert_eq!(desk.broker.wake_at(), None);
}

#[test]
fn a_copy_is_a_job_of_its_own_at_its_site_that_claims_and_has_nothing_for_brokers_in_it() {
    let desk =
        flooding(JobRequest { reference_mhz: Some(2_000), input_bytes: Some(7), ..flooded() }, &["north"]);
    let PeerRequest::Job { caller, id, job: Some(copy), .. } = &desk.out.calls[0].request else {
        panic!("{:?}", desk.out.calls)
    };
    assert_eq!((caller, copy.copies, copy.claims), (&ada(), Some(1), true));
    assert_eq!((copy.resource.clone(), copy.reservation), (Some(name("cluster")), None));
    assert_eq!((copy.reference_mhz, copy.input_bytes, copy.capacity.0), (None, None, 4));
    assert_ne!(*id, ID);
}

#[test]
fn wherever_the_broker_is_killed_it_asks_everybody_who_may_have_a_copy() {
    let mut desk = flooding(flooded(), &["north", "south"]);
    desk.restart(1_000);
    assert_eq!(desk.said(), ["north Submit", "south Submit"]);
    desk.tell(1_100, "north", Ask::Submit, JobWord::Waiting, None);
    desk.restart(2_000);
    assert_eq!(desk.said(), ["north Look", "south Submit"]);
    desk.tell(2_100, "south", Ask::Submit, JobWord::Waiting, None);
    desk.tell(2_100, "north", Ask::Look, JobWord::Claiming, None);
    assert_eq!(desk.said(), ["north Go", "south Drop"]);
    desk.restart(3_000);
    assert_eq!(desk.said(), ["north Go", "south Drop"], "the go is for the same site");
    desk.tell(3_100, "south", Ask::Drop, JobWord::Claiming, None);
    assert_eq!(desk.said(), Vec::<String>::new());
    desk.tell(3_200, "north", Ask::Go, JobWord::Running, Some(3));
    assert_eq!((desk.shown().state, desk.shown().site), (JobWord::Running, Some(name("north"))));
}

#[test]
fn wherever_a_crash_cuts_what_is_written_every_job_ends_or_goes_on() {
    let mut whole = flooding(JobRequest { copies: Some(1), ..flooded() }, &["north"]);
    whole.reports(100, "north", Ask::Submit, Err(Why::JobRefused("closed".into())));
    assert_eq!(whole.shown().state, JobWord::CouldNotStart);
    let expected: [(&str, JobWord, &[&str]); 5] = [
        ("Submitted", JobWord::CouldNotStart, &[]),
        ("Begun", JobWord::Placing, &["north Submit"]),
        ("Sent", JobWord::Placing, &["north Submit"]),
        // It was reported as over, and stays so.
        ("Over", JobWord::CouldNotStart, &["north Drop"]),
        ("Gone", JobWord::CouldNotStart, &[]),
    ];
    for (last, state, asked) in expected {
        let kept = whole.journal.iter().position(|line| line.contains(last)).unwrap();
        let mut desk = Desk::new();
        desk.journal = whole.journal[..=kept].to_vec();
        desk.restart(1_000);
        assert_eq!(desk.shown().state, state, "{last}");
        assert_eq!(desk.said(), asked, "{last}");
    }
}

#[test]
fn a_copy_that_got_no_go_in_time_is_sent_again_under_a_new_id() {
    let mut desk = flooding(flooded(), &["north"]);
    desk.tell(100, "north", Ask::Submit, JobWord::Claiming, None);
    let first = desk.copies[&name("north")];
    assert_eq!(desk.said(), ["north Go"]);
    desk.tell(5_000, "north", Ask::Go, JobWord::CouldNotStart, None);
    assert_eq!(desk.said(), ["north Submit"]);
    assert_ne!(desk.copies[&name("north")], first);
    // Late answers about the first copy are ignored.
    let second = desk.copies.insert(name("north"), first).unwrap();
    desk.tell(5_100, "north", Ask::Go, JobWord::Claiming, None);
    assert!(desk.out.is_empty(), "{:?}", desk.out);
    desk.copies.insert(name("north"), second);
    desk.tell(5_200, "north", Ask::Submit, JobWord::Claiming, None);
    assert_eq!(desk.said(), ["north Go"]);
}

#[test]
fn a_job_that_is_another_brokers_copy_claims_and_runs_when_it_is_told_to_go() {
    let mut desk = flooding(JobRequest { claims: true, copies: Some(1), ..flooded() }, &["north"]);
    desk.tell(100, "north", Ask::Submit, JobWord::Waiting, None);
    assert_eq!(desk.shown().state, JobWord::Waiting);
    desk.tell(1_100, "north", Ask::Look, JobWord::Claiming, None);
    assert_eq!((desk.shown().state, desk.said().len()), (JobWord::Claiming, 0));
    desk.restart(2_000);
    desk.tell(2_100, "north", Ask::Look, JobWord::Claiming, None);
    assert_eq!(desk.shown().state, JobWord::Claiming);
    desk.go(2_200).unwrap();
    assert_eq!(desk.said(), ["north Go"]);
    desk.go(2_300).unwrap();
    assert!(desk.out.events.is_empty(), "a go can be repeated");
    desk.tell(2_400, "north", Ask::Go, JobWord::Running, Some(2));
    assert_eq!(desk.shown().state, JobWord::Running);
    let call = desk.call_id();
    desk.step(2_500, Input::Go { call, caller: caller("bob"), id: ID });
    assert!(desk.out.events.is_empty());
}

#[test]
fn a_cancelled_job_is_over_and_its_copies_are_cancelled_however_long_that_takes() {
    let mut desk = flooding(flooded(), &["north", "south"]);
    desk.tell(100, "north", Ask::Submit, JobWord::Waiting, None);
    assert_eq!(desk.cancel(150, &caller("bob")).unwrap_err().why, Why::NotJobOwner(ID));
    assert_eq!(desk.cancel(200, &ada()).unwrap().state, JobWord::Cancelled);
    assert_eq!(desk.said(), ["north Drop", "south Drop"]);
    desk.tell(300, "north", Ask::Drop, JobWord::Cancelled, None);
    desk.restart(400);
    assert_eq!(desk.said(), ["south Drop"]);
    // A day after its end it is still remembered, because something of it may be at south.
    let forget = |desk: &mut Desk, at: i64, number: u128| {
        let elsewhere = JobRequest { resource: Some(name("nowhere")), ..flooded() };
        desk.submit_as(at, &ada(), (Key(number), JobId(number)), elsewhere).unwrap();
    };
    forget(&mut desk, 2 * DAY, 9);
    assert_eq!(desk.shown().state, JobWord::Cancelled);
    let unknown = || Err(Why::UnknownJob(ID));
    desk.reports(2 * DAY, "south", Ask::Drop, unknown());
    desk.reports(2 * DAY + 10_000, "south", Ask::Drop, unknown());
    forget(&mut desk, 4 * DAY, 10);
    assert!(desk.broker.job(ID).is_none() && desk.broker.wake_at().is_none());
    assert_eq!(desk.remembered(), 3, "submitted, over, begun: of the last one only");
}

#[test]
fn where_all_refuse_the_job_could_not_start_and_says_why() {
    let mut desk = flooding(JobRequest { copies: Some(1), ..flooded() }, &["north", "south"]);
    assert_eq!(desk.said(), ["north Submit"]);
    desk.reports(100, "north", Ask::Submit, Err(Why::NoBatchSystem));
    assert_eq!(desk.said(), Vec::<String>::new(), "it may take it a little later");
    desk.wait_until(1_000);
    assert_eq!(desk.said(), ["north Submit"]);
    desk.reports(1_100, "north", Ask::Submit, Err(Why::JobRefused("north says no".into())));
    assert_eq!(desk.said(), ["south Submit"], "the next of the ranking");
    desk.reports(1_200, "south", Ask::Submit, Err(Why::JobRefused("south says no".into())));
    let over = desk.shown();
    assert_eq!(over.state, JobWord::CouldNotStart);
    assert_eq!(
        over.detail.unwrap(),
        "no site is left to run it: north refused it (north says no); south refused it (south says no)"
    );
    let nowhere = flooding(flooded(), &[]).shown();
    assert_eq!(nowhere.state, JobWord::CouldNotStart);
    assert!(nowhere.detail.unwrap().contains("no resource of kind processors"));
    let late = JobRequest { latest_end: Some(Time(59)), ..flooded() };
    assert!(flooding(late, &["north"]).shown().detail.unwrap().contains("window"));
}

#[test]
fn a_job_that_was_lost_where_it_had_its_go_is_lost() {
    let mut desk = flooding(flooded(), &["north"]);
    desk.tell(100, "north", Ask::Submit, JobWord::Claiming, None);
    desk.tell(200, "north", Ask::Go, JobWord::Running, Some(0));
    desk.reports(1_000, "north", Ask::Look, Err(Why::UnknownJob(ID)));
    assert_eq!(desk.shown().state, JobWord::Running);
    desk.reports(11_000, "north", Ask::Look, Err(Why::UnknownJob(ID)));
    let lost = desk.shown();
    assert_eq!((lost.state, lost.site), (JobWord::Lost, Some(name("north"))));
    assert_eq!(lost.detail.unwrap(), "north no longer knows it");
    assert_eq!(desk.remarks(), ["job_lost"]);
}

#[test]
fn what_a_copy_ran_without_a_go_is_told_also_when_that_is_known_after_the_end() {
    let mut desk = flooding(flooded(), &["north", "south"]);
    desk.tell(100, "north", Ask::Submit, JobWord::Claiming, None);
    desk.tell(30_000, "north", Ask::Go, JobWord::Done, Some(0));
    assert!(desk.shown().detail.unwrap().contains("at south will be cancelled as soon as the site answers"));
    desk.restart(31_000);
    assert_eq!(desk.said(), ["south Drop"]);
    desk.tell(33_000, "south", Ask::Drop, JobWord::Cancelled, Some(0));
    let detail = desk.shown().detail.unwrap();
    assert_eq!(detail, "a copy at south ran 33 s without permission until it was cancelled");
    assert_eq!(desk.remarks(), ["copy_ran_without_go"]);
    assert_eq!((desk.shown().state, desk.shown().site), (JobWord::Done, Some(name("north"))));
}

#[test]
fn a_resource_that_is_named_is_the_only_one_that_is_asked() {
    let named = JobRequest { resource: Some(name("south/cluster")), ..flooded() };
    assert_eq!(flooding(named, &["north", "south"]).said(), ["south Submit"]);
}

#[test]
fn what_makes_no_sense_is_refused_and_the_same_twice_is_taken_once() {
    let refused = |job: JobRequest| Desk::with(&["north"]).submit(0, job).unwrap_err().why;
    for (job, word) in [
        (JobRequest { copies: Some(0), ..flooded() }, "1 to 32"),
        (JobRequest { copies: Some(33), ..flooded() }, "1 to 32"),
        (JobRequest { copies: Some(2), mode: None, ..flooded() }, "flood"),
        (JobRequest { claims: true, mode: None, ..flooded() }, "flood"),
        (JobRequest { limit: bookahead_plan::Seconds(0), ..flooded() }, "at least 1s"),
    ] {
        let why = refused(job);
        assert!(matches!(&why, Why::MalformedJob(text) if text.contains(word)), "{why:?}");
    }
    let mut desk = flooding(flooded(), &["north"]);
    desk.submit(0, flooded()).unwrap();
    assert!(desk.out.calls.is_empty() && desk.out.events.is_empty());
    // The id of a copy cannot be used for a new job.
    let copy = desk.copies[&name("north")];
    let taken = desk.submit_as(0, &ada(), (Key(2), copy), flooded()).unwrap_err();
    assert_eq!(taken.why, Why::JobTaken(copy));
}

#[test]
fn a_key_stands_for_one_job_until_that_is_forgotten() {
    let mut desk = flooding(JobRequest { resource: Some(name("nowhere")), ..flooded() }, &[]);
    let mut submit = |at, user: &str, key, id, job| {
        desk.submit_as(at, &caller(user), (Key(key), JobId(id)), job)
            .map(|_| ())
            .map_err(|problem| problem.why)
    };
    let same = || JobRequest { resource: Some(name("nowhere")), ..flooded() };
    let taken = || Err(Why::KeyTaken(Key(1)));
    assert_eq!(submit(0, "ada", 1, ID.0, same()), Ok(()));
    assert_eq!(submit(0, "ada", 1, 8, same()), taken(), "another id");
    assert_eq!(submit(0, "ada", 1, ID.0, flooded()), taken(), "another job");
    assert_eq!(submit(0, "bob", 1, ID.0, same()), taken(), "another user");
    assert_eq!(submit(0, "ada", 2, ID.0, flooded()), Err(Why::JobTaken(ID)), "the id is another job's");
    assert_eq!(submit(0, "ada", 2, ID.0, same()), Ok(()), "the same job under another key");
    assert_eq!(submit(0, "bob", 2, 8, flooded()), Ok(()), "a key is taken by a job that came with it");
    // A day later the end of another job drops the first one and its key.
    assert_eq!(submit(2 * DAY, "bob", 3, 10, same()), Ok(()));
    assert_eq!(submit(2 * DAY, "ada", 1, 11, same()), Ok(()));
}

#[test]
fn the_more_jobs_wait_the_less_often_each_is_looked_at() {
    let mut desk = Desk::with(&["north"]);
    for number in 0..1_000 {
        desk.submit_as(0, &ada(), (Key(number), JobId(number)), flooded()).unwrap();
        desk.tell(0, "north", Ask::Submit, JobWord::Waiting, None);
    }
    let mut looks = 0;
    for second in 1..=60 {
        desk.wait_until(second * 1_000);
        for call in std::mem::take(&mut desk.out.calls) {
            let PeerRequest::Job { id, ask, .. } = call.request else { panic!("{call:?}") };
            desk.copies.insert(name("north"), id);
            desk.tell(second * 1_000, "north", ask, JobWord::Waiting, None);
            looks += 1;
        }
    }
    assert!((4_000..9_000).contains(&looks), "about a hundred in a second: {looks}");
}

#[test]
fn a_copy_for_readers_shows_what_the_broker_shows() {
    let mut desk = Desk::with(&["north", "south"]);
    let mut reader = desk.broker.read_copy();
    let mut facts = desk.broker.facts().0;
    let viewer = Viewer::new(name("ada"), false);
    let script: [(i64, &str, Ask, JobWord, Option<i64>); 4] = [
        (100, "north", Ask::Submit, JobWord::Waiting, None),
        (200, "south", Ask::Submit, JobWord::Claiming, None),
        (300, "south", Ask::Go, JobWord::Running, Some(0)),
        (900, "south", Ask::Look, JobWord::Done, Some(0)),
    ];
    desk.submit(0, flooded()).unwrap();
    for (at, site, asked, state, since) in script {
        let events = std::mem::take(&mut desk.out.events);
        events.iter().for_each(|event| reader.apply(event));
        desk.tell(at, site, asked, state, since);
        desk.out.events.iter().for_each(|event| reader.apply(event));
        desk.out.events.clear();
        let (number, told) = desk.broker.facts();
        assert!(number > facts, "it is known that there is something new to show");
        facts = number;
        reader.set_facts(told);
        assert_eq!(reader.job(ID), desk.broker.job(ID));
        assert_eq!(reader.jobs(&viewer), desk.broker.jobs(&viewer));
    }
    assert_eq!(reader.job(ID).unwrap().state, JobWord::Done);
    assert!(reader.jobs(&Viewer::new(name("bob"), false)).is_empty());
    // Old jobs are dropped there too.
    let mut reader = desk.broker.read_copy();
    let elsewhere = JobRequest { resource: Some(name("nowhere")), ..flooded() };
    desk.tell(950, "north", Ask::Drop, JobWord::Cancelled, None);
    desk.out.events.iter().for_each(|event| reader.apply(event));
    desk.submit_as(2 * DAY, &ada(), (Key(9), JobId(9)), elsewhere).unwrap();
    desk.out.events.iter().for_each(|event| reader.apply(event));
    assert_eq!(reader.jobs(&viewer), desk.broker.jobs(&viewer));
    assert!(reader.job(ID).is_none());
    // A report without changes is not published.
    let mut desk = flooding(flooded(), &["north"]);
    desk.tell(0, "north", Ask::Submit, JobWord::Waiting, None);
    let before = desk.broker.facts().0;
    desk.tell(1_000, "north", Ask::Look, JobWord::Waiting, None);
    assert_eq!(desk.broker.facts().0, before);
    desk.hears(1_000, site("north", 8)).unwrap();
    assert!(desk.broker.facts().0 > before);
}

#[test]
fn a_program_is_refused_at_once_if_no_site_runs_programs() {
    let silent = |site: Heartbeat| {
        let none = Value::Text(Heartbeat::NO_PROGRAMS.into());
        Heartbeat { attributes: [(name(Heartbeat::PROGRAMS), none)].into(), ..site }
    };
    let program = || {
        let work = Work::Program {
            program: "/bin/hostname".into(),
            arguments: Vec::new(),
            folder: None,
            environment: Default::default(),
        };
        JobRequest { work, ..flooded() }
    };
    let submit = |sites: Vec<Heartbeat>, job: JobRequest| {
        let mut desk = Desk::new();
        sites.into_iter().for_each(|site| desk.hears(0, site).unwrap());
        desk.submit(0, job).map(drop).map_err(|problem| problem.why)
    };
    let refused = submit(vec![silent(site("north", 0)), silent(site("south", 0))], program()).unwrap_err();
    assert_eq!(refused.code(), "job-refused");
    assert!(refused.to_string().contains("run no programs"), "{refused}");
    assert!(submit(vec![silent(site("north", 0))], flooded()).is_ok(), "a placeholder");
    assert!(submit(vec![silent(site("north", 0)), site("south", 0)], program()).is_ok());
}
