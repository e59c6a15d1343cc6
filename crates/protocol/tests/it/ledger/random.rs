//! Random sequences of commands: the plain ledger agrees, a replay agrees, capacity is never given twice,
//! every call has one effect, and the totals are right.

use super::plain::{Plain, SECONDS, STEP, Wanted, Word};
use super::*;
use bookahead_protocol::ledger::{HoldRules, Usage};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A command. There are few ids and users, so that commands interact.
#[derive(Debug, Clone)]
struct Step {
    /// Time after the previous command.
    later: i64,
    user: usize,
    id: u128,
    what: Do,
}

/// Times are seconds after the command, until [`Do::at`] makes them instants.
#[derive(Debug, Clone)]
enum Do {
    Reserve {
        wanted: placement::Request,
        hold_for: i64,
        book: bool,
    },
    /// The original request once more, as another call.
    Again(bool),
    Hold(i64),
    /// By this much after its end.
    Extend(i64),
    Commit,
    Attach(u128),
    Cancel,
    Release {
        from: i64,
        keep: u32,
    },
    Change(placement::Request),
    /// A change that is only prepared: a request, or a later end by this much.
    Prepare(u128, Result<placement::Request, i64>, i64),
    Finish(u128, bool),
    Probe(placement::Request),
    /// Repeats an earlier command, counted backwards.
    Repeat(usize),
    Lose(u32),
    Restore(u32),
    Tick,
    /// The batch system grants the pending step, if there is one.
    Grant,
    Refuse,
}

const USERS: [&str; 2] = ["ann", "bob"];

fn requests() -> impl Strategy<Value = placement::Request> {
    let earliest = prop_oneof![2 => -2..10i64, 1 => 0..100i64];
    let window = prop_oneof![3 => Just(0i64), 1 => 1..60i64];
    (earliest, window, 1..40i64, 1..=8u32).prop_map(|(earliest, window, duration, capacity)| {
        wanted(earliest, earliest + window + duration, duration, capacity)
    })
}

fn plain_commands() -> impl Strategy<Value = Do> {
    let hold_for = 0..300i64;
    prop_oneof![
        8 => (requests(), hold_for.clone(), prop::bool::weighted(0.4))
            .prop_map(|(wanted, hold_for, book)| Do::Reserve { wanted, hold_for: hold_for * STEP, book }),
        1 => any::<bool>().prop_map(Do::Again),
        1 => hold_for.prop_map(|hold_for| Do::Hold(hold_for * STEP)),
        4 => Just(Do::Commit),
        1 => Just(Do::Cancel),
        1 => (0..60i64, 0..8u32).prop_map(|(from, keep)| Do::Release { from, keep }),
        2 => requests().prop_map(Do::Change),
        3 => (-1..30i64).prop_map(Do::Extend),
        3 => (0..3u128, requests(), 1..200i64)
            .prop_map(|(change, wanted, hold_for)| Do::Prepare(change, Ok(wanted), hold_for * STEP)),
        2 => (0..3u128, -1..30i64, 1..200i64)
            .prop_map(|(change, by, hold_for)| Do::Prepare(change, Err(by), hold_for * STEP)),
        5 => (0..3u128, prop::bool::weighted(0.7)).prop_map(|(change, accept)| Do::Finish(change, accept)),
        6 => Just(Do::Grant),
        1 => Just(Do::Refuse),
    ]
}

/// Time limit for the batch system in milliseconds, if it is asked.
fn consents() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![1 => Just(None), 2 => (1..300i64).prop_map(|steps| Some(steps * STEP))]
}

fn all_commands() -> impl Strategy<Value = Do> {
    prop_oneof![
        16 => plain_commands(),
        1 => (0..5u128).prop_map(Do::Attach),
        1 => requests().prop_map(Do::Probe),
        3 => (0..10usize).prop_map(Do::Repeat),
        2 => (1..5u32).prop_map(Do::Lose),
        2 => (1..9u32).prop_map(Do::Restore),
        1 => Just(Do::Tick),
    ]
}

fn steps(commands: impl Strategy<Value = Do>, ids: u128) -> impl Strategy<Value = Vec<Step>> {
    let later = prop_oneof![2 => Just(0i64), 3 => 0..40i64, 1 => 0..200i64];
    let user = prop_oneof![4 => Just(0usize), 1 => Just(1usize)];
    let step = (later, user, 0..ids, commands);
    let step = step.prop_map(|(later, user, id, what)| Step { later: later * STEP, user, id, what });
    prop::collection::vec(step, 1..50)
}

impl Do {
    /// With instants. None if they are beyond the end of the plain ledger, or there is nothing to repeat.
    fn at(&self, now: i64, ledger: &Ledger, id: u128) -> Option<Do> {
        let (second, entry) = (now / 1_000, ledger.entry(ReservationId(id)));
        let later = |asked: &placement::Request| {
            let (earliest, latest) = (asked.earliest_start.0 + second, asked.latest_end.0 + second);
            let asked = wanted(earliest, latest, asked.duration.0, asked.capacity.0);
            (latest <= SECONDS as i64).then_some(asked)
        };
        Some(match self {
            Do::Reserve { wanted, hold_for, book } => {
                Do::Reserve { wanted: later(wanted)?, hold_for: *hold_for, book: *book }
            }
            Do::Again(book) => {
                Do::Reserve { wanted: entry?.request.parts[0].wanted, hold_for: 5_000, book: *book }
            }
            Do::Extend(by) => {
                let end = entry.map_or(second, |entry| entry.end().0);
                Do::Extend((end + by).min(SECONDS as i64))
            }
            Do::Release { from, keep } => {
                Do::Release { from: (second + from).min(SECONDS as i64), keep: *keep }
            }
            Do::Change(wanted) => Do::Change(later(wanted)?),
            Do::Prepare(change, Ok(wanted), hold_for) => Do::Prepare(*change, Ok(later(wanted)?), *hold_for),
            Do::Prepare(change, Err(by), hold_for) => {
                let end = entry.map_or(second, |entry| entry.end().0);
                Do::Prepare(*change, Err((end + by).min(SECONDS as i64)), *hold_for)
            }
            Do::Probe(wanted) => Do::Probe(later(wanted)?),
            other => other.clone(),
        })
    }

    fn call(&self, id: u128) -> Option<Call> {
        let id = ReservationId(id);
        Some(match self {
            Do::Reserve { wanted, hold_for, book } => {
                Call::Reserve { id, request: request(*wanted), hold_for: Millis(*hold_for), book: *book }
            }
            Do::Hold(hold_for) => Call::Hold { id, hold_for: Millis(*hold_for) },
            Do::Extend(end) => Call::Extend { id, version: None, end: Time(*end) },
            Do::Commit => Call::Commit { id, jobs: vec![] },
            Do::Attach(job) => Call::Attach { id, part: 0, job: JobId(*job) },
            Do::Cancel => Call::Cancel { id },
            Do::Release { from, keep } => {
                Call::Release { id, part: Some(0), from: Time(*from), keep: Capacity(*keep), end_jobs: false }
            }
            Do::Change(wanted) => Call::Change { id, version: None, request: request(*wanted) },
            Do::Prepare(change, wanted, hold_for) => {
                let terms = match wanted {
                    Ok(wanted) => NewTerms::Request(request(*wanted)),
                    Err(end) => NewTerms::Until(Time(*end)),
                };
                let (change, hold_for) = (ChangeId(*change), Millis(*hold_for));
                Call::PrepareChange { id, change, version: None, terms, hold_for }
            }
            Do::Finish(change, accept) => {
                Call::FinishChange { id, change: ChangeId(*change), accept: *accept }
            }
            Do::Probe(wanted) => Call::Probe { request: request(*wanted), most: 9, starts: vec![Time(50)] },
            _ => return None,
        })
    }
}

/// The plain ledger's answer to a call.
fn plainly(plain: &mut Plain, key: u128, Step { user, id, .. }: &Step, what: &Do) -> Word {
    let (user, id) = (*user, *id);
    match what {
        Do::Reserve { wanted, hold_for, book } => plain.reserve(key, id, user, wanted, *hold_for, *book),
        Do::Hold(hold_for) => plain.hold(id, user, *hold_for),
        Do::Extend(end) => plain.change(key, id, user, Wanted::Until(*end)),
        Do::Commit => plain.commit(key, id, user),
        Do::Cancel => plain.cancel(id, user),
        Do::Release { from, keep } => plain.release(id, user, *from, *keep),
        Do::Change(wanted) => plain.change(key, id, user, Wanted::Request(wanted)),
        Do::Prepare(change, wanted, hold_for) => {
            let wanted = match wanted {
                Ok(wanted) => Wanted::Request(wanted),
                Err(end) => Wanted::Until(*end),
            };
            plain.prepare(key, id, user, wanted, (*change, *hold_for))
        }
        Do::Finish(change, accept) => plain.finish(id, user, *change, *accept),
        _ => unreachable!(),
    }
}

/// One name for refusals that may have several.
fn word(answer: &Answer) -> Word {
    match answer {
        Answer::Reservation(reservation) => Ok(reservation.state),
        Answer::Problem(problem) => Err(match &problem.why {
            Why::NoSlot(_) | Why::NotGranted(_) | Why::BatchTimeout { .. } => "refused",
            why => why.code(),
        }),
        Answer::Offers(_) => unreachable!(),
    }
}

/// Capacity taken by all live reservations at a second.
fn taken(ledger: &Ledger, resource: &str, second: usize) -> u32 {
    let resource = Name::from(resource);
    let here = ledger.entries().filter(|(_, entry)| entry.resource == resource);
    at_second(here.flat_map(|(_, entry)| entry.takes()), second)
}

/// Capacity promised to a user at a second.
fn promised(ledger: &Ledger, resource: &str, user: &str, second: usize) -> u32 {
    let (resource, user) = (Name::from(resource), Name::from(user));
    let his = ledger.entries().filter(|(_, entry)| entry.resource == resource && entry.owner == user);
    at_second(his.flat_map(|(_, entry)| entry.promised().to_vec()), second)
}

fn at_second(spans: impl Iterator<Item = Span>, second: usize) -> u32 {
    spans.filter(|span| span.interval.contains(Time(second as i64))).map(|span| span.capacity.0).sum()
}

fn usage(ledger: &Ledger) -> BTreeMap<Name, Usage> {
    let mut all: BTreeMap<Name, Usage> = BTreeMap::new();
    for (_, entry) in ledger.entries().filter(|(_, entry)| entry.state.holds_capacity()) {
        let usage = all.entry(entry.owner.clone()).or_default();
        usage.count += 1;
        usage.area += entry.promised().iter().map(Span::area).sum::<i128>();
    }
    all
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_plain_book_says_the_same(
        steps in steps(plain_commands(), 10),
        late in any::<bool>(),
        consent in consents(),
    ) {
        let longest = Millis(25_000);
        let holds = HoldRules { longest, adaptive: None, late_commits: late };
        let mut site = Site::new(Rules { holds, consent: consent.map(Millis), ..rules() });
        let mut plain = Plain::new(8, longest.0, late, consent);
        let mut now = 0;
        for step in &steps {
            now += step.later;
            plain.advance(now);
            // Ids cancelled before use are covered by other tests.
            if matches!(step.what, Do::Cancel) && site.ledger.entry(ReservationId(step.id)).is_none() {
                continue;
            }
            let Some(what) = step.what.at(now, &site.ledger, step.id) else { continue };
            match (&what, what.call(step.id)) {
                (what, Some(call)) => {
                    site.keys += 1;
                    let key = site.keys;
                    let envelope = Envelope { key: Key(key), caller: caller(USERS[step.user]), call };
                    let (answer, waits) = site.handle(now, &envelope);
                    let said = if waits { Err("waits") } else { word(&answer) };
                    prop_assert_eq!(said, plainly(&mut plain, key, step, what), "{:?} at {}: {:?}", what, now, answer);
                }
                (Do::Grant, None) => {
                    site.grant(now, step.id);
                    plain.grant(step.id);
                }
                (_, None) => {
                    site.refuse(now, step.id);
                    plain.refuse_by_batch(step.id);
                }
            }
            let states = site.ledger.entries().map(|(id, entry)| (id.0, entry.state));
            prop_assert_eq!(states.collect::<BTreeMap<_, _>>(), plain.states());
            for (key, told) in &plain.told {
                prop_assert_eq!(site.told(*key).map(word), Some(*told), "the call {} at {}", key, now);
            }
            for second in usize::try_from(now / 1_000).unwrap() + 1..SECONDS {
                prop_assert_eq!(taken(&site.ledger, "cluster", second), plain.taken(second));
                prop_assert!(plain.taken(second) <= 8);
            }
        }
    }

    #[test]
    fn whatever_happens_nothing_is_given_twice_and_every_call_has_one_effect(
        steps in steps(all_commands(), 12),
        retention in prop_oneof![Just(5i64), Just(86_400)],
        views in prop::collection::vec(prop_oneof![Just(View::default()), some_views()], 4),
        method in prop::sample::select(vec![VACANCIES, LOCAL_JOBS, WHAT_IF, Method::Load]),
        consent in consents(),
    ) {
        let resources = vec![offered("cluster", 8, method), offered("other", 4, VACANCIES)];
        let (retention, consent) = (Seconds(retention), consent.map(Millis));
        let mut rules = Rules { retention, consent, most_answers: 20, ..Rules::new("north", resources) };
        rules.limits.users.insert("bob".into(), ledger::UserLimits { share: Some(75), ..Default::default() });
        let mut site = Site::new(rules);
        let mut sent: Vec<Envelope> = Vec::new();
        let mut callers = Callers::default();
        let mut now = 0;
        for (at, step) in steps.iter().enumerate() {
            now += step.later;
            site.tick(now);
            site.show(views[at % views.len()].clone());
            let events = site.events.len();
            let Some(what) = step.what.at(now, &site.ledger, step.id) else { continue };
            match &what {
                Do::Lose(capacity) => fail(&mut site, now, *capacity, |ledger, now, resource, capacity| {
                    ledger.lost(now, resource, capacity, Some(&BTreeSet::new()))
                }),
                Do::Restore(capacity) => fail(&mut site, now, *capacity, Ledger::restored),
                Do::Repeat(back) => {
                    let Some(envelope) = sent.iter().rev().nth(*back) else { continue };
                    if let Some((answer, then)) = remembered(&site, envelope.key) {
                        prop_assert_eq!(site.send(now, envelope), answer.again(Moment(now) - then));
                        prop_assert_eq!(site.events.len(), events);
                    } else if asked(&site, envelope) {
                        prop_assert!(site.handle(now, envelope).1, "it waits too");
                        prop_assert_eq!(site.events.len(), events);
                    }
                }
                Do::Tick => {}
                Do::Grant => drop(site.grant(now, step.id)),
                Do::Refuse => drop(site.refuse(now, step.id)),
                what => {
                    let id = ReservationId(step.id);
                    let held = site.ledger.entry(id).filter(|entry| entry.state == State::Held);
                    let mine = held.is_some_and(|entry| entry.owner == USERS[step.user].into());
                    let key = Key(1_000 + at as u128);
                    let call = what.call(step.id).unwrap();
                    let envelope = Envelope { key, caller: caller(USERS[step.user]), call };
                    let before = site.ledger.clone();
                    let (answer, waits) = site.handle(now, &envelope);
                    if matches!(what, Do::Commit) && mine {
                        prop_assert_eq!(answer.word(), "committed", "it was held");
                    }
                    if envelope.call.only_asks() {
                        prop_assert!(before == site.ledger, "a query changes nothing");
                    } else if waits {
                        callers.wait(&site, &envelope);
                    } else if answer.word() != "busy" {
                        prop_assert_eq!(site.told(key.0), Some(&answer));
                    }
                    sent.push(envelope);
                }
            }
            callers.tell(&mut site, now);
            for (resource, capacity) in [("cluster", 8), ("other", 4)] {
                let there_is = capacity - site.ledger.lost_capacity(&resource.into()).0;
                for second in usize::try_from(now / 1_000).unwrap()..SECONDS {
                    prop_assert!(taken(&site.ledger, resource, second) <= there_is, "at {}", second);
                    let of_bob = promised(&site.ledger, resource, "bob", second);
                    prop_assert!(4 * of_bob <= 3 * capacity, "{} at {}", of_bob, second);
                }
            }
            let kept = site.ledger.usage().map(|(user, usage)| (user.clone(), *usage)).collect();
            prop_assert_eq!(usage(&site.ledger), kept);
            prop_assert!(site.ledger.answers_remembered() <= 20);
        }
        prop_assert_eq!(&site.replayed(), &site.ledger);
    }

    #[test]
    fn when_somebody_ticks_makes_no_difference(
        steps in steps(all_commands(), 12),
        ticks in any::<u64>(),
        consent in consents(),
    ) {
        let rules = Rules { retention: Seconds(20), consent: consent.map(Millis), ..rules() };
        let [mut often, mut seldom] = [(); 2].map(|()| Site::new(rules.clone()));
        let mut now = 0;
        for (at, step) in steps.iter().enumerate() {
            for tick in 0..4 {
                if ticks >> ((4 * at + tick) % 64) & 1 == 1 {
                    often.tick(now + step.later * i64::try_from(tick).unwrap() / 4);
                }
            }
            now += step.later;
            let Some(what) = step.what.at(now, &often.ledger, step.id) else { continue };
            let answers = [&mut often, &mut seldom].map(|site| match (&what, what.call(step.id)) {
                (_, Some(call)) => Some(site.call(now, USERS[step.user], call)),
                (Do::Grant, _) => {
                    site.grant(now, step.id);
                    None
                }
                (Do::Refuse, _) => {
                    site.refuse(now, step.id);
                    None
                }
                _ => None,
            });
            prop_assert_eq!(&answers[0], &answers[1]);
        }
        often.tick(now);
        seldom.tick(now);
        prop_assert_eq!(&often.events, &seldom.events);
        prop_assert_eq!(&often.changes, &seldom.changes);
    }
}

/// The answer to a call and its time, as long as it is remembered.
fn remembered(site: &Site, key: Key) -> Option<(Answer, Moment)> {
    let mut known = None;
    for event in &site.events {
        match &event.what {
            What::Answered { call, answer } if call.key == key => {
                assert!(known.is_none(), "a call is answered once");
                known = Some((Answer::clone(answer), event.at));
            }
            What::AnswerForgotten { key: forgotten } if *forgotten == key => return None,
            _ => {}
        }
    }
    known
}

/// Whether a reservation waits because of this call.
fn asked(site: &Site, envelope: &Envelope) -> bool {
    let entry = envelope.call.id().and_then(|id| site.ledger.entry(id));
    let waiting = entry.and_then(|entry| entry.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.asked.as_deref() == Some(envelope))
}

/// Waiting calls, as a site keeps them: each with the number of events before it.
#[derive(Default)]
struct Callers(Vec<(Envelope, usize)>);

impl Callers {
    fn wait(&mut self, site: &Site, envelope: &Envelope) {
        self.0.push((envelope.clone(), site.events.len()));
    }

    /// Answers the calls whose reservation no longer waits.
    fn tell(&mut self, site: &mut Site, now: i64) {
        self.0.retain(|(envelope, from)| {
            let settles = |what: &What| {
                use What::*;
                let ends =
                    matches!(what, Begun { .. } | Completed { .. } | Cancelled { .. } | Terminated { .. });
                ends || matches!(
                    what,
                    Granted { .. }
                        | NotGranted { .. }
                        | ChangePrepared { .. }
                        | ChangeSettled { .. }
                        | ChangeGivenUp { .. }
                )
            };
            let mut since = site.events[*from..].iter().map(|event| &event.what);
            let by = since.find(|what| what.id() == envelope.call.id() && settles(what)).cloned();
            let Some(by) = by else { return true };
            let first = remembered(site, envelope.key);
            let (answer, ticked) = site.ledger.settled_answer(Moment(now), envelope, &by);
            match first {
                Some((first, at)) => assert_eq!(answer, first.again(Moment(now) - at)),
                None => assert_eq!(ticked.events.first().map(|event| event.what.word()), Some("answered")),
            }
            site.note(ticked);
            false
        });
    }
}

fn fail(
    site: &mut Site,
    now: i64,
    capacity: u32,
    how: fn(&mut Ledger, Moment, &Name, Capacity) -> ledger::Ticked,
) {
    let ticked = how(&mut site.ledger, Moment(now), &"cluster".into(), Capacity(capacity));
    site.events.extend(ticked.events);
}

fn some_views() -> impl Strategy<Value = View> {
    let waiting = prop::collection::vec((-50..0i64, 1..60i64, 1..=8u32), 0..4);
    (prop::option::of((1..300i64, 1..6u32)), waiting, prop::option::of((0..300i64, 1..50i64, 1..4u32)))
        .prop_map(|(running, waiting, foreign)| View {
            running: running.into_iter().map(|(until, wide)| super::running(until, wide)).collect(),
            waiting: waiting
                .into_iter()
                .map(|(submit, length, wide)| super::waiting(submit, length, wide))
                .collect(),
            foreign: foreign
                .into_iter()
                .map(|(begin, length, wide)| span(begin, begin + length, wide))
                .collect(),
            ..View::default()
        })
}
