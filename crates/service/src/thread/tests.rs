//! The threads of a party, tested with a toy party: order, durability and readers.

use super::copies::lock;
use super::*;
use bookahead_party::queries::BatchHealth;
use bookahead_party::register::{Known, Role};
use bookahead_party::schedule::{ResourceSchedule, ScheduleWindow};
use bookahead_party::{
    BatchOrder, BatchReport, Filter, Notice, OrderId, Origin, Output, Page, PeerRequest, Queries, Viewer,
};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Moment, Reservation, ReservationId, Resource, State,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Longer than anything here takes, unless it hangs.
const LONG: Duration = Duration::from_secs(60);

/// Duration of one slice of an endless computation.
const SLICE: Duration = Duration::from_millis(5);

/// Signals that a step has begun, and waits.
type Stop = (Sender<()>, Receiver<()>);

/// A party whose state is a set of ids: [`Call::Cancel`] adds one, and [`Call::Show`] tests for it.
#[derive(Clone, Default)]
pub(super) struct Toy {
    pub(super) book: BTreeSet<u128>,
    /// Events that readers do not see.
    hidden: u64,
    /// A fact, not an event: number of requested polls.
    pub(super) looks: u64,
    /// Calls that wait for the batch system, by order.
    waiting: BTreeMap<OrderId, bookahead_party::CallId>,
    /// Before it adds an id it sends a signal, and waits until the sender of the other side is dropped.
    stop: Option<Arc<Mutex<Stop>>>,
    /// Number of slices of an endless computation, if it has one.
    slices: Option<Arc<AtomicU64>>,
    /// Number of slices when it last added an id.
    slices_before: Arc<AtomicU64>,
    /// Whether it calls a peer for every id that it adds.
    calls_peer: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum ToyEvent {
    Noted(u128),
    Hidden,
}

impl Queries for Toy {
    fn role(&self) -> Role {
        Role::Site
    }
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }
    fn reservation(&self, _: Moment, _: ReservationId) -> Option<Reservation> {
        None
    }
    fn list(&self, _: Moment, _: &Filter) -> Page {
        Page::default()
    }
    fn schedule(&self, _: Moment, _: &Viewer, _: &ScheduleWindow, _: Option<&Name>) -> Vec<ResourceSchedule> {
        Vec::new()
    }
    fn sites(&self, _: Moment) -> Vec<Known> {
        Vec::new()
    }
    fn job(&self, _: JobId) -> Option<JobView> {
        None
    }
    fn jobs(&self, _: &Viewer) -> Vec<JobView> {
        Vec::new()
    }
    /// The size of the set and the number of polls, disguised as counts.
    fn counts(&self) -> BTreeMap<State, usize> {
        BTreeMap::from([(State::Held, self.book.len()), (State::Active, self.looks as usize)])
    }
    fn ask(&mut self, _: Moment, _: &Caller, call: &Call) -> Option<Answer> {
        let Call::Show { id } = call else { return None };
        let known = self.book.contains(&id.0);
        Some(if known { Answer::Offers(Vec::new()) } else { Problem::new(Why::Unknown(*id)).into() })
    }
    fn batch_health(&self, _: Moment) -> Option<BatchHealth> {
        None
    }
}

impl Party for Toy {
    type Event = ToyEvent;
    type State = (BTreeSet<u128>, u64);
    type Facts = u64;
    const KIND: &'static str = "toy";
    const SCHEMA: u32 = 1;

    fn restore(&mut self, state: Self::State) -> Result<(), String> {
        (self.book, self.hidden) = state;
        Ok(())
    }
    fn apply(&mut self, event: &ToyEvent) {
        match event {
            ToyEvent::Noted(id) => drop(self.book.insert(*id)),
            ToyEvent::Hidden => self.hidden += 1,
        }
    }
    fn notice_of(&self, now: Moment, event: &ToyEvent) -> Option<Notice> {
        match event {
            ToyEvent::Noted(id) => Some(Notice::about(now, "noted", ReservationId(*id))),
            ToyEvent::Hidden => None,
        }
    }
    fn start(&mut self, _: Moment) -> Result<Output<ToyEvent>, String> {
        Ok(Output::default())
    }
    fn step(&mut self, now: Moment, input: Input) -> Output<ToyEvent> {
        let mut output = Output::default();
        match input {
            Input::Call { call, envelope: Envelope { call: Call::Cancel { id }, .. }, .. } => {
                if let Some(stop) = &self.stop {
                    let (begun, wait) = &*lock(stop);
                    let _ = begun.send(());
                    let _ = wait.recv();
                }
                if let Some(slices) = &self.slices {
                    self.slices_before.store(slices.load(Ordering::Acquire), Ordering::Release);
                }
                output.events = vec![ToyEvent::Noted(id.0), ToyEvent::Hidden];
                output.notices = vec![(0, Notice::about(now, "noted", id))];
                let request = PeerRequest::Call(Box::new(envelope(Call::Show { id })));
                let call_to_peer = PeerCall { to: "peer".into(), request, origin: Origin::default() };
                output.calls.extend(self.calls_peer.then_some(call_to_peer));
                output.answer(call, Answer::Offers(Vec::new()));
            }
            // Answered when the batch system has reported.
            Input::Call { call, envelope: Envelope { call: Call::Commit { id, .. }, .. }, .. } => {
                let order = OrderId(self.waiting.len() as u64);
                self.waiting.insert(order, call);
                output.events = vec![ToyEvent::Noted(id.0)];
                output.batch = vec![BatchOrder::Look { order }];
                return self.applied(output);
            }
            Input::Call { call, envelope, .. } => {
                let answer = self.ask(now, &envelope.caller, &envelope.call);
                output.answer(call, answer.unwrap_or(Answer::Offers(Vec::new())));
            }
            Input::Batch(BatchReport::Looked { order: Some(order), .. }) => {
                let call = self.waiting.remove(&order);
                call.into_iter().for_each(|call| output.answer(call, Answer::Offers(Vec::new())));
            }
            Input::WantLook => self.looks += 1,
            Input::Time => {
                std::thread::sleep(SLICE);
                if let Some(slices) = &self.slices {
                    slices.fetch_add(1, Ordering::AcqRel);
                }
            }
            _ => {}
        }
        self.applied(output)
    }
    fn wake_at(&self) -> Option<Moment> {
        self.slices.is_some().then_some(Moment(0))
    }
    fn deadline(&self) -> Option<Moment> {
        None
    }
    fn state(&self) -> Self::State {
        (self.book.clone(), self.hidden)
    }
    fn read_copy(&self) -> Toy {
        self.clone()
    }
    fn is_shown(event: &ToyEvent) -> bool {
        matches!(event, ToyEvent::Noted(_))
    }
    fn facts(&self) -> (u64, u64) {
        (self.looks, self.looks)
    }
    fn set_facts(&mut self, facts: u64) {
        self.looks = facts;
    }
}

impl Toy {
    fn applied(&mut self, output: Output<ToyEvent>) -> Output<ToyEvent> {
        output.events.iter().for_each(|event| self.apply(event));
        output
    }
}

fn options(folder: &tempfile::TempDir) -> PartyOptions {
    PartyOptions::new("toy".into(), folder.path().join("journal"), Clock::WALL)
}

fn start(folder: &tempfile::TempDir, toy: Toy) -> PartyThread {
    options(folder).start(toy, |_| Outlets::only(BatchSide::None)).unwrap()
}

fn envelope(call: Call) -> Envelope {
    let caller = Caller { user: "ada".into(), roles: Vec::new() };
    Envelope { key: Key(1), caller, call }
}

async fn note(handle: &PartyHandle, id: u128) -> Result<Answer, NoReply> {
    let envelope = envelope(Call::Cancel { id: ReservationId(id) });
    handle.call(LONG, envelope, Origin::default()).await
}

fn book_size(queries: &dyn Queries) -> usize {
    queries.counts()[&State::Held]
}

/// A long read that lasts until the sender is dropped.
fn long_reader(handle: &PartyHandle) -> (Sender<()>, std::thread::JoinHandle<()>) {
    let (release, wait) = channel::<()>();
    let (begun, begins) = channel();
    let handle = handle.clone();
    let reading = std::thread::spawn(move || {
        handle.read(ReadKind::Long, |_, _| {
            begun.send(()).unwrap();
            let _ = wait.recv();
        });
    });
    begins.recv_timeout(LONG).unwrap();
    (release, reading)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_comes_after_a_reply_sees_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let thread = start(&folder, Toy::default());
    let handle = thread.handle().clone();
    for id in 0..200 {
        note(&handle, id).await.unwrap();
        let kind = if id % 2 == 0 { ReadKind::Short } else { ReadKind::Long };
        let call = Call::Show { id: ReservationId(id) };
        let shown = handle.read(kind, |queries, now| queries.ask(now, &envelope(call.clone()).caller, &call));
        assert!(matches!(shown, Some(Answer::Offers(_))), "{id}");
    }
    thread.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn long_readers_block_neither_the_writer_nor_short_readers() {
    let folder = tempfile::tempdir().unwrap();
    let thread = start(&folder, Toy::default());
    let handle = thread.handle().clone();
    let readers = [long_reader(&handle), long_reader(&handle)];
    for id in 0..100 {
        note(&handle, id).await.unwrap();
        assert_eq!(handle.read(ReadKind::Short, |queries, _| book_size(queries)), id as usize + 1);
    }
    for (release, reading) in readers {
        drop(release);
        reading.join().unwrap();
    }
    let seen = handle.read_long(LONG, |queries, _| book_size(queries)).await;
    assert_eq!(seen, Ok(100), "what it missed meanwhile it has now");
    thread.close().unwrap();
}

/// A party that stops in its first step, the signal that it has, and the means to continue.
fn stopped_toy() -> (Toy, Receiver<()>, Sender<()>) {
    let ((begun, begins), (release, wait)) = (channel(), channel());
    (Toy { stop: Some(Arc::new(Mutex::new((begun, wait)))), ..Toy::default() }, begins, release)
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_do_not_wait_for_the_party_thread() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, begins, release) = stopped_toy();
    let thread = start(&folder, toy);
    let handle = thread.handle().clone();
    let calling = tokio::spawn({
        let handle = handle.clone();
        async move { note(&handle, 1).await }
    });
    begins.recv_timeout(LONG).unwrap();
    assert_eq!(handle.read(ReadKind::Short, |queries, _| book_size(queries)), 0);
    assert_eq!(handle.read_long(LONG, |queries, _| book_size(queries)).await, Ok(0));
    assert_eq!(handle.liveness(), Liveness::Alive, "for some seconds");
    drop(release);
    calling.await.unwrap().unwrap();
    assert_eq!(handle.read(ReadKind::Short, |queries, _| book_size(queries)), 1);
    thread.close().unwrap();
    assert_eq!(handle.liveness(), Liveness::Ended);
    assert_eq!(note(&handle, 2).await, Err(NoReply::Gone));
}

/// A broker repeats a call while its answer waits in the inbox. The sender of the calls learns that the call has
/// ended only after the repetition has left, and so can suppress it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_after_all_that_was_decided_before_its_answer_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, begins, release) = stopped_toy();
    let (order, seen) = channel();
    let sink: PeerSink = Box::new({
        let order = order.clone();
        move |_| order.send("call").unwrap()
    });
    let outlets = Outlets { peers: sink, batch: BatchSide::None };
    let thread = options(&folder).start(Toy { calls_peer: true, ..toy }, |_| outlets).unwrap();
    let handle = thread.handle().clone();
    let noting = tokio::spawn(async move { note(&handle, 1).await });
    begins.recv_timeout(LONG).unwrap();
    let (answer, origin) = (Answer::Offers(Vec::new()), Origin::default());
    let answered = Input::Answered { from: "peer".into(), key: Key(1), answer, origin };
    thread.handle().tell_answer(answered, Box::new(move || order.send("ended").unwrap()));
    drop(release);
    noting.await.unwrap().unwrap();
    let seen = [(); 2].map(|()| seen.recv_timeout(LONG).unwrap());
    assert_eq!(seen, ["call", "ended"]);
    thread.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_do_not_each_wait_for_a_slice_of_a_long_computation() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, begins, release) = stopped_toy();
    let (slices, slices_before) = (Arc::new(AtomicU64::new(0)), toy.slices_before.clone());
    let thread = start(&folder, Toy { slices: Some(slices.clone()), ..toy });
    let calls: Vec<_> = (0..100)
        .map(|id| {
            let handle = thread.handle().clone();
            tokio::spawn(async move { note(&handle, id).await })
        })
        .collect();
    begins.recv_timeout(LONG).unwrap();
    // One is in the step that waits.
    while thread.handle().shared.queued.load(Ordering::Acquire) < calls.len() - 1 {
        tokio::task::yield_now().await;
    }
    let before = slices.load(Ordering::Acquire);
    drop(release);
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // Not those after the last message, while the disk is waited for.
    let during = slices_before.load(Ordering::Acquire) - before;
    assert!(during < 50, "{during} slices for 100 messages");
    while slices.load(Ordering::Acquire) < before + during + 3 {
        tokio::task::yield_now().await;
    }
    thread.close().unwrap();
}

#[test]
fn a_thread_that_has_not_come_round_for_five_seconds_is_stuck() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, begins, release) = stopped_toy();
    let thread = start(&folder, toy);
    let (handle, began) = (thread.handle().clone(), Instant::now());
    handle.tell(Input::Call {
        call: bookahead_party::CallId(0),
        envelope: envelope(Call::Cancel { id: ReservationId(1) }),
        origin: Origin::default(),
    });
    begins.recv_timeout(LONG).unwrap();
    while handle.liveness() == Liveness::Alive {
        assert!(began.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(handle.liveness(), Liveness::Stuck);
    // It may have come round up to a second before the call.
    assert!(began.elapsed() > Duration::from_secs(3));
    drop(release);
    thread.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_the_batch_system_are_taken_though_the_inbox_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, begins, release) = stopped_toy();
    let thread = start(&folder, toy);
    let handle = thread.handle().clone();
    let mut callers = tokio::task::JoinSet::new();
    let call = |id| {
        let handle = handle.clone();
        async move { note(&handle, id).await }
    };
    callers.spawn(call(0));
    begins.recv_timeout(LONG).unwrap();
    let more_than_fit = 5_000;
    (1..=more_than_fit).for_each(|id| drop(callers.spawn(call(id))));
    // Calls beyond the limit are refused at once.
    assert_eq!(callers.join_next().await.unwrap().unwrap(), Err(NoReply::Full));
    (0..100).for_each(|_| handle.tell(Input::WantLook));
    drop(release);
    let full = callers.join_all().await.into_iter().filter(Result::is_err).count();
    assert!(full < 1_000, "{full}");
    let looks = || handle.read(ReadKind::Short, |queries, _| queries.counts()[&State::Active]);
    while looks() < 100 {
        tokio::task::yield_now().await;
    }
    thread.close().unwrap();
}

/// Orders go to the receiver.
fn start_with_worker(folder: &tempfile::TempDir) -> (PartyThread, Receiver<(u64, BatchOrder)>) {
    let (orders, ordered) = channel();
    let connect = |handle: &PartyHandle| {
        let handle = handle.clone();
        let sink = move |given: Vec<BatchOrder>| {
            given.into_iter().for_each(|order| orders.send((handle.durable(), order)).unwrap());
        };
        Outlets::only(BatchSide::Worker(Box::new(sink)))
    };
    (options(folder).start(Toy::default(), connect).unwrap(), ordered)
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_leave_when_they_are_durable_and_closing_waits_for_calls_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let (thread, ordered) = start_with_worker(&folder);
    let handle = thread.handle().clone();
    let calling = tokio::spawn({
        let handle = handle.clone();
        let commit = envelope(Call::Commit { id: ReservationId(7), jobs: Vec::new() });
        async move { handle.call(LONG, commit, Origin::default()).await }
    });
    let (durable, order) = ordered.recv_timeout(LONG).unwrap();
    assert_eq!(durable, 1, "the event of the order");
    handle.close();
    assert_eq!(note(&handle, 1).await, Err(NoReply::Gone), "no more calls are taken");
    let outcome = Ok(bookahead_party::Look::default());
    handle.tell(Input::Batch(BatchReport::Looked { order: Some(order.order()), at: Moment(0), outcome }));
    assert!(calling.await.unwrap().is_ok());
    thread.wait().unwrap();
}

#[tokio::test]
async fn a_caller_that_has_stopped_waiting_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (thread, ordered) = start_with_worker(&folder);
    let commit = envelope(Call::Commit { id: ReservationId(7), jobs: Vec::new() });
    let handle = thread.handle();
    assert_eq!(handle.call(Duration::from_millis(1), commit, Origin::default()).await, Err(NoReply::Late));
    assert!(handle.shared.replies.is_empty());
    ordered.recv_timeout(LONG).unwrap();
    thread.close().unwrap();
}

#[tokio::test]
async fn events_are_counted_across_restarts_until_a_snapshot_stands_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let every_ten = PartyOptions { events_between_snapshots: 10, ..options(&folder) };
    for life in 0..3 {
        let thread = every_ten.clone().start(Toy::default(), |_| Outlets::only(BatchSide::None)).unwrap();
        // Four events in each run.
        for id in 0..2 {
            note(thread.handle(), 10 * life + id).await.unwrap();
        }
        thread.close().unwrap();
    }
    let (kind, path) = (Kind::new(Toy::KIND, "toy", Toy::SCHEMA), folder.path().join("journal"));
    let compacted = crate::journal::check(&path).unwrap();
    assert_eq!((compacted.base, compacted.last), (10, 12), "though no life had ten events");
    let (_, replay) = Journal::<ToyEvent>::open(&path, &kind).unwrap();
    let snapshot = replay.snapshot.unwrap();
    assert_eq!(snapshot.up_to, 10);
    let (book, hidden) = snapshot.state::<(BTreeSet<u128>, u64)>().unwrap();
    assert_eq!((book.len() as u64, hidden), (5, 5));
    assert_eq!(replay.events.len(), 2);
}

#[tokio::test]
async fn notices_have_the_numbers_of_their_events() {
    let folder = tempfile::tempdir().unwrap();
    let thread = start(&folder, Toy::default());
    let mut watching = thread.handle().watch().begin(None);
    note(thread.handle(), 1).await.unwrap();
    note(thread.handle(), 2).await.unwrap();
    let numbers = [watching.receiver.recv().await, watching.receiver.recv().await];
    assert_eq!(numbers.map(|notice| notice.unwrap().sequence), [1, 3]);
    thread.close().unwrap();
}
