//! A site whose batch system has a will of its own: it refuses, is silent, and forgets.

use bookahead_api as api;
use bookahead_lrms::{
    Backing, Capabilities, Job, JobChange, JobState, JobStatus, Lrms, LrmsError, Seen, Snapshot,
};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Span, Time};
use bookahead_protocol::ledger::{Offered, Rules};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Part, Request, ReservationId, Resource,
};
use bookahead_service::clock::Clock;
use bookahead_service::keeper::{Door, Keeper, Keeping};
use bookahead_service::party::{Input, Origin};
use bookahead_service::site::Site;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps eight cores at most, whoever asks, and does as it is told by the test.
#[derive(Default)]
struct Mood {
    kept: BTreeMap<ReservationId, Vec<Span>>,
    jobs: BTreeMap<JobId, JobState>,
    silent: bool,
    submitted: usize,
}

struct Reluctant(Arc<Mutex<Mood>>);

fn silence() -> LrmsError {
    LrmsError::Silent { what: "it".into(), after: Duration::from_secs(1) }
}

impl Lrms for Reluctant {
    fn capabilities(&self) -> Capabilities {
        let (whole_nodes, change_while_active, operator_only) = (false, true, false);
        Capabilities { smallest_step: Seconds(1), whole_nodes, change_while_active, operator_only }
    }

    fn advance(&mut self, _: Moment) -> Result<Vec<JobChange>, LrmsError> {
        Ok(Vec::new())
    }

    fn next_event(&self) -> Option<Moment> {
        None
    }

    fn snapshot(&mut self, _: Moment) -> Result<Snapshot, LrmsError> {
        let mood = self.0.lock().unwrap();
        if mood.silent {
            return Err(silence());
        }
        let seen = Seen { backings: mood.kept.clone(), ..Seen::default() };
        Ok(Snapshot { resources: BTreeMap::from([("cluster".into(), seen)]) })
    }

    fn back(&mut self, _: Moment, backing: &Backing) -> Result<(), LrmsError> {
        let mut mood = self.0.lock().unwrap();
        if mood.silent {
            return Err(silence());
        }
        let others = mood.kept.iter().filter(|(id, _)| **id != backing.id).flat_map(|(_, spans)| spans);
        let all: u32 = others.chain(&backing.spans).map(|span| span.capacity.0).sum();
        if all > 8 {
            return Err(LrmsError::Refused { what: "it".into(), said: "Requested nodes are busy".into() });
        }
        mood.kept.remove(&backing.id);
        if !backing.spans.is_empty() {
            mood.kept.insert(backing.id, backing.spans.clone());
        }
        Ok(())
    }

    fn submit(&mut self, _: Moment, job: &Job) -> Result<(), LrmsError> {
        let mut mood = self.0.lock().unwrap();
        if mood.silent {
            return Err(silence());
        }
        mood.submitted += 1;
        mood.jobs.insert(job.id, JobState::Running);
        Ok(())
    }

    fn cancel(&mut self, _: Moment, id: JobId) -> Result<(), LrmsError> {
        self.0.lock().unwrap().jobs.remove(&id);
        Ok(())
    }

    fn jobs(&self) -> Vec<JobStatus> {
        let mood = self.0.lock().unwrap();
        let status = |(id, state): (&JobId, &JobState)| JobStatus {
            id: *id,
            state: state.clone(),
            submitted: Time(0),
            started: None,
            ended: None,
            expected_start: None,
        };
        mood.jobs.iter().map(status).collect()
    }
}

/// With sixteen processors in the book, of which its batch system grants eight.
fn start(folder: &Path, mood: &Arc<Mutex<Mood>>) -> Keeper {
    let method = Method::EarliestStart { local_jobs_preferred: false };
    let slots = SlotRules { most: 5, gap: Seconds(10), natural: true };
    let placement = placement::Rules { policy: Policy::EASY, method, slots, admission: Admission::default() };
    let resource = Resource::new("north", "cluster", "processors", 16);
    let rules = Rules::new("north", vec![Offered { resource, placement }]);
    let about = api::Site {
        name: "north".into(),
        url: "http://127.0.0.1:1".into(),
        role: api::Role::Site,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        last_heard: None,
        round_trip_ms: None,
        state: api::Reachability::Up,
        version: None,
    };
    let site = Site::new(rules, about, Box::new(Reluctant(mood.clone()))).unwrap();
    Keeping::new("north".into(), folder.join("journal"), Clock::WALL)
        .start(move |_| site.looking_every(Millis(50)))
        .unwrap()
}

fn ada() -> Caller {
    Caller { user: "ada".into(), roles: Vec::new() }
}

/// An hour of so many processors, some time tomorrow.
fn reserve(id: u128, capacity: u32) -> Call {
    let begin = Clock::WALL.now().second() + Seconds(86_400);
    let wanted = placement::Request {
        earliest_start: begin,
        latest_end: begin + Seconds(3_600),
        duration: Seconds(3_600),
        capacity: Capacity(capacity),
    };
    let part = Part { wanted, kind: "processors".into(), requirements: Vec::new(), resource: None };
    let request = Request::single(part);
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis::seconds(60), book: true }
}

fn envelope(key: u128, call: Call) -> Envelope {
    Envelope { key: Key(key), caller: ada(), call }
}

async fn ask(door: &Door, key: u128, call: Call) -> Answer {
    let envelope = envelope(key, call);
    door.ask(PATIENCE, |reply| Input::Call { envelope, origin: Origin::default(), reply }).await.unwrap()
}

fn why(answer: &Answer) -> Why {
    let Answer::Problem(problem) = answer else { panic!("{answer:?} is no refusal") };
    problem.why.clone()
}

#[tokio::test]
async fn what_the_batch_system_refuses_is_not_promised() {
    let (folder, mood) = (tempfile::tempdir().unwrap(), Arc::default());
    let keeper = start(folder.path(), &mood);
    assert_eq!(ask(keeper.door(), 1, reserve(1, 6)).await.word(), "committed");
    let refused = ask(keeper.door(), 2, reserve(2, 6)).await;
    assert!(matches!(why(&refused), Why::NotGranted(said) if said.contains("nodes are busy")));
    assert_eq!(mood.lock().unwrap().kept.len(), 1);
    keeper.close().unwrap();
}

#[tokio::test]
async fn room_that_was_just_given_back_is_waited_for() {
    let (folder, mood) = (tempfile::tempdir().unwrap(), Arc::default());
    let keeper = start(folder.path(), &mood);
    for round in 0..20 {
        let (old, new) = (round + 1, round + 2);
        if round == 0 {
            assert_eq!(ask(keeper.door(), 1_000, reserve(old, 8)).await.word(), "committed");
        }
        // Both come in before anything is durable, so that the second is decided while the batch system still has the first.
        let cancel = ask(keeper.door(), 2_000 + round, Call::Cancel { id: ReservationId(old) });
        let again = ask(keeper.door(), 3_000 + round, reserve(new, 8));
        let (cancelled, granted) = tokio::join!(cancel, again);
        assert_eq!((cancelled.word(), granted.word()), ("cancelled", "committed"), "round {round}");
    }
    keeper.close().unwrap();
}

#[tokio::test]
async fn silence_puts_a_call_off_without_a_trace_and_what_is_promised_is_kept_afterwards() {
    let (folder, mood) = (tempfile::tempdir().unwrap(), Arc::<Mutex<Mood>>::default());
    let keeper = start(folder.path(), &mood);
    let first = reserve(1, 4);
    assert_eq!(ask(keeper.door(), 1, first).await.word(), "committed");
    mood.lock().unwrap().silent = true;
    let call = reserve(2, 2);
    assert_eq!(why(&ask(keeper.door(), 2, call.clone()).await), Why::NoBatchSystem);
    assert_eq!(ask(keeper.door(), 3, Call::Show { id: ReservationId(1) }).await.word(), "committed");
    {
        let mut mood = mood.lock().unwrap();
        mood.kept.clear();
        mood.silent = false;
    }
    assert_eq!(ask(keeper.door(), 2, call).await.word(), "committed", "the same call again");
    until(|| mood.lock().unwrap().kept.len() == 2).await;
    keeper.close().unwrap();
}

#[tokio::test]
async fn a_job_that_was_taken_and_is_forgotten_is_lost_and_never_submitted_twice() {
    let (folder, mood) = (tempfile::tempdir().unwrap(), Arc::<Mutex<Mood>>::default());
    let keeper = start(folder.path(), &mood);
    let job = r#"{"capacity": 1, "limit_seconds": 60, "work": {"type": "pretended", "run_seconds": 1}}"#;
    let job: api::SubmitJob = serde_json::from_str(job).unwrap();
    let (id, caller) = (JobId(7), ada());
    let submitted = keeper
        .door()
        .ask(PATIENCE, |reply| Input::Submit {
            caller,
            key: Key(7),
            id,
            job: Box::new(job),
            origin: Origin::default(),
            reply,
        })
        .await
        .unwrap();
    assert_eq!(submitted.unwrap().state, api::JobState::Running);
    keeper.close().unwrap();
    mood.lock().unwrap().jobs.clear();
    let keeper = start(folder.path(), &mood);
    let viewer = bookahead_service::party::Viewer { user: "ada".into(), sees_all: true };
    let jobs = keeper.door().look(PATIENCE, move |sight, _| sight.jobs(&viewer)).await.unwrap();
    assert_eq!((jobs[0].state, mood.lock().unwrap().submitted), (api::JobState::Lost, 1));
    keeper.close().unwrap();
}

/// Waits for something that is to come.
async fn until(come: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !come() {
        assert!(std::time::Instant::now() < deadline, "it has not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
