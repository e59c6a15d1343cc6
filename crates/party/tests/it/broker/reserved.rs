//! A job in a reservation that the broker finds.

use super::desk::{Desk, ID, ada, job, job_rules, name, site};
use bookahead_party::{Heartbeat, Input, JobCall as Ask, Origin, Party, PeerRequest, Queries};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::jobs::{JobRequest, JobWord, Rerun};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{
    Answer, Call, Condition, Envelope, JobId, Key, Millis, Reservation, ReservationId, Slot, State, Tres,
};

/// The last calls about reservations: peer and call.
fn calls(desk: &Desk) -> Vec<(String, Envelope)> {
    let of_reservation = desk.out.calls.iter().filter_map(|call| match &call.request {
        PeerRequest::Call(envelope) => Some((call.to.to_string(), (**envelope).clone())),
        PeerRequest::Job { .. } => None,
    });
    of_reservation.collect()
}

/// The answer of a site with room to a call.
fn granted(site: &str, envelope: &Envelope, begin: i64) -> Answer {
    let id = envelope.call.id().unwrap();
    let (state, slots) = match &envelope.call {
        Call::Reserve { request, .. } => {
            let wanted = &request.parts[0].wanted;
            let slot = Slot {
                resource: "cluster".into(),
                site: site.into(),
                joins: None,
                interval: Interval::starting(wanted.earliest_start.max(Time(begin)), wanted.duration),
                capacity: wanted.capacity,
                slack: Seconds(0),
                free: None,
                rating: None,
                impact: None,
                tres: Tres::default(),
                free_tres: Tres::default(),
                cost: 0,
            };
            (State::Held, vec![slot])
        }
        Call::Commit { .. } => (State::Committed, Vec::new()),
        _ => (State::Cancelled, Vec::new()),
    };
    Answer::Reservation(Reservation {
        id,
        owner: name("ada"),
        state,
        slots,
        held_for: Some(Millis::seconds(60)),
        jobs: Vec::new(),
        missing: Vec::new(),
        condition: Condition::Whole,
        losses: Vec::new(),
        replaced: Vec::new(),
        given_up: None,
        refused: None,
        prepared: Vec::new(),
        version: 1,
        description: Default::default(),
        shared_with: Default::default(),
        consents: Default::default(),
        created: None,
        request: None,
    })
}

fn answers(desk: &mut Desk, at: i64, (site, envelope): &(String, Envelope), answer: Answer) {
    let (from, key) = (name(site), envelope.key);
    desk.step(at, Input::Answered { from, key, answer, origin: Origin::default() });
}

/// A job with a reservation at north.
fn booked() -> (Desk, ReservationId) {
    booked_for(job())
}

fn booked_for(job: JobRequest) -> (Desk, ReservationId) {
    let mut desk = Desk::with(&["north"]);
    desk.submit(0, job).unwrap();
    let reserve = calls(&desk).remove(0);
    answers(&mut desk, 100, &reserve, granted("north", &reserve.1, 50));
    let commit = calls(&desk).remove(0);
    assert_eq!(commit.1.call.word(), "commit");
    answers(&mut desk, 200, &commit, granted("north", &commit.1, 50));
    (desk, commit.1.call.id().unwrap())
}

#[test]
fn the_best_of_three_gets_the_job_and_the_reservation_is_given_back_early() {
    let mut desk = Desk::with(&["north", "south", "east", "west"]);
    desk.submit(0, job()).unwrap();
    let reserves = calls(&desk);
    assert_eq!(desk.said(), ["north reserve", "south reserve", "east reserve"]);
    for (reserve, begin) in reserves.iter().zip([300, 100, 200]) {
        answers(&mut desk, 100, reserve, granted(&reserve.0, &reserve.1, begin));
    }
    assert_eq!(desk.said(), ["south commit", "north cancel", "east cancel"]);
    let commit = calls(&desk).remove(0);
    answers(&mut desk, 200, &commit, granted("south", &commit.1, 100));
    assert_eq!(desk.said(), ["south Submit"]);
    let PeerRequest::Job { id, job: Some(handed), .. } = &desk.out.calls[0].request else { panic!() };
    assert_eq!((*id, handed.reservation, handed.mode), (ID, commit.1.call.id(), None));
    assert_eq!(desk.shown().expected_start, Some(Time(100)));
    desk.tell(300, "south", Ask::Submit, JobWord::Waiting, None);
    desk.tell(130_000, "south", Ask::Look, JobWord::Done, Some(100));
    assert_eq!(desk.said(), ["south cancel"], "what is left of it is of no use");
    assert_eq!(desk.shown().state, JobWord::Done);
}

#[test]
fn a_job_that_its_site_forgot_is_submitted_again_when_the_doubt_is_over() {
    let rerun = Rerun { retry: Some(1), ..Rerun::default() };
    let (mut desk, _) = booked_for(JobRequest { rerun, ..job() });
    desk.tell(300, "north", Ask::Submit, JobWord::Waiting, None);
    // The pauses between queries of a site that cannot tell become longer.
    for at in [30_000, 60_000, 90_000, 120_000] {
        desk.wait_until(at);
        desk.reports(at + 100, "north", Ask::Look, Err(Why::NoBatchSystem));
    }
    let doubt = job_rules().flood.doubt.0;
    desk.reports(130_000, "north", Ask::Look, Err(Why::UnknownJob(ID)));
    desk.wait_until(130_000 + doubt - 1);
    assert_eq!(desk.said(), Vec::<String>::new(), "a late answer from before the submission may say so, too");
    desk.wait_until(130_000 + doubt);
    assert_eq!(desk.said(), ["north Look"]);
    desk.reports(130_100 + doubt, "north", Ask::Look, Err(Why::UnknownJob(ID)));
    assert_eq!((desk.shown().state, desk.shown().runs.attempts.len()), (JobWord::Placing, 1));
}

#[test]
fn a_broker_tells_of_its_jobs_and_knows_where_they_are() {
    let told = |desk: &Desk| desk.out.notices.iter().map(|(_, notice)| notice.kind).collect::<Vec<_>>();
    let mut desk = Desk::with(&["north"]);
    desk.submit(0, job()).unwrap();
    assert_eq!((told(&desk), desk.broker.job_place(ID)), (vec!["job-submitted"], None));
    let (mut desk, _) = booked();
    assert_eq!(desk.broker.job_place(ID), Some((name("north"), ID)));
    desk.tell(300, "north", Ask::Submit, JobWord::Waiting, None);
    assert_eq!(told(&desk), Vec::<&str>::new());
    desk.tell(60_000, "north", Ask::Look, JobWord::Running, Some(50));
    assert_eq!(told(&desk), ["job-started"]);
    desk.tell(70_000, "north", Ask::Look, JobWord::Running, Some(50));
    assert_eq!(told(&desk), Vec::<&str>::new(), "once");
    desk.tell(130_000, "north", Ask::Look, JobWord::Done, Some(50));
    assert_eq!(told(&desk), ["job-completed"]);
    assert_eq!(desk.broker.job_place(ID), Some((name("north"), ID)), "its output is there");
}

#[test]
fn answers_find_their_job_among_many_and_strangers_change_nothing() {
    let mut desk = Desk::with(&["north"]);
    let mut reserves = Vec::new();
    for number in 0..100 {
        desk.submit_as(0, &ada(), (Key(number), JobId(number)), job()).unwrap();
        reserves.extend(calls(&desk));
    }
    let refused =
        || Problem::new(Why::Limit { limit: bookahead_protocol::problem::Limit::Count, most: 1, asked: 2 });
    answers(&mut desk, 100, &reserves[42], refused().into());
    assert_eq!(desk.broker.job(JobId(42)).unwrap().state, JobWord::CouldNotStart);
    assert!(
        (0..100)
            .filter(|number| *number != 42)
            .all(|number| { desk.broker.job(JobId(number)).unwrap().state == JobWord::Placing })
    );
    let stranger = ("north".to_owned(), Envelope { key: Key(9_999), ..reserves[1].1.clone() });
    answers(&mut desk, 100, &stranger, refused().into());
    assert!(desk.out.is_empty());
}

#[test]
fn wherever_the_broker_is_killed_a_job_keeps_its_reservation_or_gives_all_back() {
    let mut desk = Desk::with(&["north"]);
    desk.submit(0, job()).unwrap();
    desk.restart(500);
    assert_eq!(desk.said(), ["north cancel"], "nothing was chosen");
    assert_eq!(desk.shown().state, JobWord::CouldNotStart);
    assert!(desk.shown().detail.unwrap().contains("restarted"));
    let (mut desk, id) = booked();
    desk.restart(500);
    assert_eq!(desk.said(), ["north Submit"]);
    desk.tell(600, "north", Ask::Submit, JobWord::Waiting, None);
    desk.cancel(700, &ada()).unwrap();
    assert_eq!(desk.said(), ["north Drop"]);
    desk.tell(800, "north", Ask::Drop, JobWord::Cancelled, None);
    assert_eq!((desk.said(), calls(&desk)[0].1.call.id()), (vec!["north cancel".to_owned()], Some(id)));
    assert_eq!(desk.broker.wake_at(), None);
}

#[test]
fn notice_and_patience_follow_how_long_a_hold_takes_a_site() {
    // 3 s are configured for a site that reports no hold time; otherwise three times the reported time plus 2
    // s.
    for (hold_takes, earliest, hold_for, gives_up) in
        [(None, 3, 30_000, 10_000), (Some(1), 3, 6_009, 2_003), (Some(5_000), 17, 51_000, 17_000)]
    {
        let mut desk = Desk::new();
        desk.hears(0, Heartbeat { hold_takes: hold_takes.map(Millis), ..site("north", 0) }).unwrap();
        desk.submit(0, job()).unwrap();
        let Call::Reserve { request, hold_for: asked, .. } = &calls(&desk)[0].1.call else { panic!() };
        assert_eq!(request.parts[0].wanted.earliest_start, Time(earliest), "{hold_takes:?}");
        assert_eq!(*asked, Millis(hold_for), "until it has answered, and was told");
        desk.wait_until(gives_up - 1);
        assert_eq!(desk.shown().state, JobWord::Placing, "{hold_takes:?}");
        desk.wait_until(gives_up);
        assert_eq!(desk.shown().state, JobWord::CouldNotStart, "{hold_takes:?}");
    }
}
