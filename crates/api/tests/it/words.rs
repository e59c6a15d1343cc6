//! Strategies for arbitrary protocol values whose instants are within the calendar.

use bookahead_plan::placement::{self, Reason, Relaxation};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::MeasuredOn;
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord, Mode, Work};
use bookahead_protocol::ledger::Because;
use bookahead_protocol::missing::Missing;
use bookahead_protocol::problem::{Basis, Blocker, BlockerKind, Impossible, Limit, NotReleased};
use bookahead_protocol::request::Malformed;
use bookahead_protocol::{
    Call, ChangeId, Condition, Consent, Consents, Constraint, Description, IllegalMove, Impact, JobId, Key,
    Loss, Lost, Millis, Move, Name, NewTerms, Objective, Offer, OnLoss, Part, Problem, Rating, Refused,
    Replacement, Request, Requirement, Reservation, ReservationId, Resource, Slot, State, Test, Tres, Value,
    Why,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Instants within the calendar.
pub(crate) fn time() -> impl Strategy<Value = Time> {
    prop_oneof![
        4 => 1_700_000_000_i64..1_900_000_000,
        1 => -62_167_219_200_i64..=253_402_207_200,
        1 => select(vec![-62_167_219_200, 0, 253_402_207_200]),
    ]
    .prop_map(Time)
}

fn interval() -> impl Strategy<Value = Interval> {
    (time(), time()).prop_map(|(begin, end)| Interval::new(begin, end))
}

fn seconds() -> impl Strategy<Value = Seconds> {
    prop_oneof![3 => 0_i64..100_000, 1 => any::<i64>()].prop_map(Seconds)
}

/// Documents have decimals, which are exact up to 2^50 units.
const MOST_UNITS: i64 = 1 << 50;

fn millis() -> impl Strategy<Value = Millis> {
    prop_oneof![3 => 0_i64..100_000, 1 => -MOST_UNITS..MOST_UNITS].prop_map(Millis)
}

fn capacity() -> impl Strategy<Value = Capacity> {
    any::<u32>().prop_map(Capacity)
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![3 => "[a-z]{1,8}", 1 => any::<String>()].prop_map(Name::from)
}

fn place() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0_usize..32, 1 => any::<usize>()]
}

fn id() -> impl Strategy<Value = ReservationId> {
    any::<u128>().prop_map(ReservationId)
}

fn job() -> impl Strategy<Value = JobId> {
    any::<u128>().prop_map(JobId)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![name().prop_map(Value::Text), any::<i64>().prop_map(Value::Number)]
}

fn missing() -> impl Strategy<Value = Missing> {
    prop_oneof![
        (name(), vec(name(), 0..4)).prop_map(|(name, offered)| Missing::Resource { name, offered }),
        vec(name(), 0..4).prop_map(|offered| Missing::Kind { offered }),
        (requirement(), vec(value(), 0..4))
            .prop_map(|(wanted, offered)| Missing::Attribute { wanted, offered }),
        (capacity(), capacity()).prop_map(|(wanted, largest)| Missing::Capacity { wanted, largest }),
        (name(), capacity(), capacity()).prop_map(|(name, wanted, largest)| Missing::Tres {
            name,
            wanted,
            largest
        }),
    ]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let test = prop_oneof![
        Just(Test::Present),
        value().prop_map(Test::Is),
        vec(value(), 0..4).prop_map(Test::OneOf),
        any::<i64>().prop_map(Test::AtLeast),
        any::<i64>().prop_map(Test::AtMost),
    ];
    (name(), test).prop_map(|(attribute, test)| Requirement { attribute, test })
}

fn tres() -> impl Strategy<Value = Tres> {
    btree_map(name(), capacity(), 0..3).prop_map(Tres)
}

fn part() -> impl Strategy<Value = Part> {
    let wanted = (time(), time(), seconds(), capacity());
    let wanted = wanted.prop_map(|(earliest_start, latest_end, duration, capacity)| placement::Request {
        earliest_start,
        latest_end,
        duration,
        capacity,
    });
    let machine = (name(), any::<u32>()).prop_map(|(attribute, value)| MeasuredOn { attribute, value });
    let named = (option::of(name()), option::of(id()), option::of(id()), option::of(machine));
    (wanted, name(), vec(requirement(), 0..4), named, tres()).prop_map(
        |(wanted, kind, requirements, (resource, replaces, changes, measured_on), tres)| Part {
            tres,
            requirements,
            resource,
            replaces,
            changes,
            measured_on,
            ..Part::new(wanted, kind)
        },
    )
}

fn constraint() -> impl Strategy<Value = Constraint> {
    let two = || (place(), place());
    prop_oneof![
        (two(), seconds()).prop_map(|((first, second), by)| Constraint::Offset { first, second, by }),
        (two(), seconds(), option::of(seconds()))
            .prop_map(|((first, second), least, most)| { Constraint::After { first, second, least, most } }),
        two().prop_map(|(first, second)| Constraint::EndsBefore { first, second }),
        two().prop_map(|(first, second)| Constraint::SameSite(first, second)),
        two().prop_map(|(first, second)| Constraint::DifferentSites(first, second)),
        (place(), two()).prop_map(|(link, (one, other))| Constraint::Joins { link, ends: [one, other] }),
    ]
}

fn description() -> impl Strategy<Value = Description> {
    let labels = btree_map("[a-z]{1,8}", any::<String>(), 0..3);
    (option::of(any::<String>()), option::of(any::<String>()), labels, option::of(any::<String>()))
        .prop_map(|(name, note, labels, priority)| Description { name, note, labels, priority })
}

fn request() -> impl Strategy<Value = Request> {
    let objectives = vec![
        Objective::EarliestEnd,
        Objective::BestAvailability,
        Objective::LeastImpact,
        Objective::LowestCost,
    ];
    let on_loss = select(vec![OnLoss::Heal, OnLoss::HealAnyTime, OnLoss::Keep, OnLoss::Cancel]);
    let webhook = option::of("https://[a-z]{1,8}/[a-z]{0,8}".prop_map(Into::into));
    let said = (description(), btree_set(name(), 0..3), consents(), any::<bool>());
    (vec(part(), 0..4), vec(constraint(), 0..4), select(objectives), on_loss, webhook, said).prop_map(
        |(parts, constraints, objective, on_loss, webhook, (description, shared_with, consents, attract))| {
            Request {
                parts,
                constraints,
                objective,
                on_loss,
                webhook,
                description,
                shared_with,
                consents,
                attract,
            }
        },
    )
}

fn consents() -> impl Strategy<Value = Consents> {
    prop::collection::btree_map(name(), select(vec![Consent::Accepted, Consent::Declined]), 0..3)
}

fn change() -> impl Strategy<Value = ChangeId> {
    any::<u128>().prop_map(ChangeId)
}

fn new_terms() -> impl Strategy<Value = NewTerms> {
    prop_oneof![request().prop_map(NewTerms::Request), time().prop_map(NewTerms::Until)]
}

pub(crate) fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        (request(), any::<u32>(), vec(time(), 0..4)).prop_map(|(request, most, starts)| Call::Probe {
            request,
            most,
            starts
        }),
        (id(), request(), millis(), any::<bool>()).prop_map(|(id, request, hold_for, book)| Call::Reserve {
            id,
            request,
            hold_for,
            book
        }),
        (id(), millis()).prop_map(|(id, hold_for)| Call::Hold { id, hold_for }),
        (id(), option::of(any::<u32>()), time()).prop_map(|(id, version, end)| Call::Extend {
            id,
            version,
            end
        }),
        (id(), vec(job(), 0..4)).prop_map(|(id, jobs)| Call::Commit { id, jobs }),
        (id(), place(), job()).prop_map(|(id, part, job)| Call::Attach { id, part, job }),
        (id(), option::of(any::<u32>()), request()).prop_map(|(id, version, request)| Call::Change {
            id,
            version,
            request
        }),
        (id(), change(), option::of(any::<u32>()), new_terms(), millis()).prop_map(
            |(id, change, version, terms, hold_for)| Call::PrepareChange {
                id,
                change,
                version,
                terms,
                hold_for
            }
        ),
        (id(), change(), any::<bool>()).prop_map(|(id, change, accept)| Call::FinishChange {
            id,
            change,
            accept
        }),
        (id(), option::of(place()), time(), capacity(), any::<bool>())
            .prop_map(|(id, part, from, keep, end_jobs)| Call::Release { id, part, from, keep, end_jobs }),
        id().prop_map(|id| Call::Cancel { id }),
        id().prop_map(|id| Call::Show { id }),
    ]
}

pub(crate) fn resource() -> impl Strategy<Value = Resource> {
    let names = (name(), name(), name(), option::of([name(), name()]));
    (names, capacity(), tres(), btree_map(name(), value(), 0..4), any::<u32>()).prop_map(
        |((name, kind, site, joins), capacity, tres, attributes, price)| Resource {
            tres,
            name,
            kind,
            site,
            capacity,
            joins,
            attributes,
            price,
        },
    )
}

fn impact() -> impl Strategy<Value = Impact> {
    (any::<u32>(), seconds(), seconds()).prop_map(|(delayed, total_delay, longest_delay)| Impact {
        delayed,
        total_delay,
        longest_delay,
    })
}

fn slot() -> impl Strategy<Value = Slot> {
    let what = (name(), name(), option::of([name(), name()]), interval(), capacity());
    let ratings = (
        seconds(),
        option::of(capacity()),
        option::of(any::<u32>().prop_map(Rating)),
        option::of(impact()),
        0..MOST_UNITS as u64,
    );
    (what, ratings, tres(), tres()).prop_map(|(what, ratings, tres, free_tres)| {
        let (resource, site, joins, interval, capacity) = what;
        let (slack, free, rating, impact, cost) = ratings;
        Slot { resource, site, joins, interval, capacity, tres, slack, free, free_tres, rating, impact, cost }
    })
}

pub(crate) fn offers() -> impl Strategy<Value = Vec<Offer>> {
    vec(vec(slot(), 0..3).prop_map(|slots| Offer { slots }), 0..3)
}

pub(crate) fn reservation() -> impl Strategy<Value = Reservation> {
    let who = (id(), name(), select(State::ALL.to_vec()), vec(slot(), 0..3), vec(slot(), 0..2));
    let conditions = select(vec![Condition::Whole, Condition::Degraded, Condition::Broken]);
    let rest =
        (option::of(millis()), vec((place(), job()), 0..3), vec(capacity(), 0..3), conditions, any::<u32>());
    let why = select(vec![
        Lost::Degraded,
        Lost::GivenUp,
        Lost::Revoked,
        Lost::Ended,
        Lost::Forgotten,
        Lost::NotChanged,
    ]);
    let loss = (place(), time(), why.clone(), option::of(time()))
        .prop_map(|(part, since, why, heal_at)| Loss { part, since, why, heal_at });
    let replacement =
        (place(), time(), slot(), why).prop_map(|(part, at, was, why)| Replacement { part, at, was, why });
    let by = select(vec![Because::Owner, Because::Operator, Because::Lost]);
    let refused = (name(), any::<String>()).prop_map(|(code, detail)| Refused { code, detail });
    let lost = (vec(loss, 0..3), vec(replacement, 0..3), option::of(by), option::of(refused));
    let guests = (btree_set(name(), 0..3), consents());
    let said = (description(), guests, option::of(time()), option::of(request()));
    (who, rest, lost, said).prop_map(|(who, rest, (losses, replaced, given_up, refused), said)| {
        let (description, (shared_with, consents), created, request) = said;
        let (id, owner, state, slots, prepared) = who;
        let (held_for, jobs, missing, condition, version) = rest;
        Reservation {
            id,
            owner,
            state,
            slots,
            held_for,
            prepared,
            jobs,
            missing,
            condition,
            losses,
            replaced,
            given_up,
            refused,
            version,
            description,
            shared_with,
            consents,
            created,
            request: request.map(Box::new),
        }
    })
}

fn work() -> impl Strategy<Value = Work> {
    let texts = || vec(any::<String>(), 0..3);
    let program = (
        any::<String>(),
        texts(),
        option::of(any::<String>()),
        btree_map(any::<String>(), any::<String>(), 0..3),
    );
    prop_oneof![
        program.prop_map(|(program, arguments, folder, environment)| Work::Program {
            program,
            arguments,
            folder: folder.map(Into::into),
            environment
        }),
        (any::<String>(), texts()).prop_map(|(text, arguments)| Work::Script { text, arguments }),
        seconds().prop_map(|run| Work::Pretended { run }),
    ]
}

pub(crate) fn job_request() -> impl Strategy<Value = JobRequest> {
    let place = (option::of(id()), option::of(name()), name(), capacity(), seconds());
    let needs =
        (option::of(time()), vec(requirement(), 0..3), option::of(any::<u32>()), option::of(any::<u64>()));
    let modes = option::of(select(vec![Mode::Reserve, Mode::Flood]));
    (place, needs, work(), modes, option::of(any::<u32>()), any::<bool>(), description()).prop_map(
        |(place, needs, work, mode, copies, claims, description)| {
            let (reservation, resource, kind, capacity, limit) = place;
            let (latest_end, requirements, reference_mhz, input_bytes) = needs;
            JobRequest {
                rerun: Default::default(),
                reservation,
                resource,
                kind,
                capacity,
                limit,
                latest_end,
                requirements,
                reference_mhz,
                input_bytes,
                work,
                mode,
                copies,
                claims,
                description,
            }
        },
    )
}

pub(crate) fn job_view() -> impl Strategy<Value = JobView> {
    let states = vec![
        JobWord::Placing,
        JobWord::Waiting,
        JobWord::Claiming,
        JobWord::Running,
        JobWord::Done,
        JobWord::Cancelled,
        JobWord::OutOfTime,
        JobWord::ReservationOver,
        JobWord::Lost,
        JobWord::CouldNotStart,
    ];
    let place = (job(), name(), option::of(name()), option::of(name()), option::of(id()));
    let times = (time(), option::of(time()), option::of(time()), option::of(time()));
    let end = (option::of(any::<i32>()), option::of(any::<String>()), option::of(any::<String>()));
    (place, capacity(), seconds(), select(states), times, end, description()).prop_map(
        |(place, capacity, limit, state, times, end, description)| {
            let (id, owner, site, resource, reservation) = place;
            let ((submitted, started, ended, expected_start), (exit, native_id, detail)) = (times, end);
            JobView {
                rerun: Default::default(),
                runs: Default::default(),
                id,
                owner,
                site,
                resource,
                reservation,
                capacity,
                limit,
                state,
                submitted,
                started,
                ended,
                expected_start,
                exit,
                native_id,
                detail,
                description,
            }
        },
    )
}

fn malformed() -> impl Strategy<Value = Malformed> {
    prop_oneof![
        Just(Malformed::NoParts),
        any::<usize>().prop_map(Malformed::TooManyParts),
        (place(), place())
            .prop_map(|(constraints, most)| Malformed::TooManyConstraints { constraints, most }),
        (place(), place(), place()).prop_map(|(constraint, part, parts)| Malformed::NoSuchPart {
            constraint,
            part,
            parts
        }),
        place().prop_map(Malformed::WithItself),
        place().prop_map(Malformed::NoDuration),
        place().prop_map(Malformed::NoCapacity),
        place().prop_map(Malformed::NoSpeed),
        place().prop_map(Malformed::EmptyGap),
        place().prop_map(Malformed::TimeOutOfRange),
    ]
}

fn refused() -> impl Strategy<Value = Why> {
    let reasons = vec![Reason::TooWide, Reason::NoWindow, Reason::NoRoom, Reason::NotAdmitted];
    let limits = vec![
        Limit::Count,
        Limit::Area,
        Limit::Horizon,
        Limit::Notice,
        Limit::Share,
        Limit::Jobs,
        Limit::JobShare,
        Limit::JobTime,
    ];
    let bases = vec![Basis::Mean, Basis::SimilarJobs, Basis::AllJobs];
    prop_oneof![
        malformed().prop_map(Why::Malformed),
        any::<usize>().prop_map(Why::OnePartOnly),
        (place(), name(), any::<bool>(), option::of(missing())).prop_map(|(part, kind, several, missing)| {
            Why::NoSuchResource { part, kind, several, missing: missing.map(Box::new) }
        }),
        select(reasons).prop_map(Why::NoSlot),
        (tres(), tres())
            .prop_map(|(wanted, free)| Why::ShortOf { wanted: Box::new(wanted), free: Box::new(free) }),
        (name(), time(), option::of(time())).prop_map(|(name, until, not_before)| Why::Maintenance {
            name,
            until,
            not_before
        }),
        (select(limits), any::<i64>(), any::<i64>()).prop_map(|(limit, most, asked)| Why::Limit {
            limit,
            most,
            asked
        }),
        (any::<i32>(), any::<i64>(), any::<i64>(), any::<u32>(), select(bases)).prop_map(
            |(not_before, notice, wait, jobs, basis)| Why::TooSoon {
                not_before: Time(not_before.into()),
                notice: Seconds(notice),
                wait: Seconds(wait),
                jobs,
                basis,
            }
        ),
        (name(), prop::collection::vec(name(), 0..3))
            .prop_map(|(class, usable)| Why::Priority { class, usable }),
        (any::<u32>(), any::<bool>()).prop_map(|(tried, all)| Why::NoCandidate { tried, all }),
        Just(Why::Silence),
        Just(Why::Busy),
        any::<String>().prop_map(Why::NotGranted),
        Just(Why::NoBatchSystem),
        millis().prop_map(|waited| Why::BatchTimeout { waited }),
        Just(Why::Circle),
    ]
}

fn too_late_or_wrong() -> impl Strategy<Value = Why> {
    let impossible = vec![
        Impossible::JobsOfAHold,
        Impossible::TooManyJobs,
        Impossible::ChangeOfSeveralParts,
        Impossible::OtherParts,
        Impossible::ChangeOfBroken,
        Impossible::BeginOfActive,
        Impossible::MoreOfActive,
        Impossible::EndIsPast,
        Impossible::JobsWithCommit,
        Impossible::JobsOfSeveralParts,
        Impossible::Sharing,
        Impossible::SharingLater,
        Impossible::InvitationOpen,
    ];
    prop_oneof![
        id().prop_map(Why::Unknown),
        (select(State::ALL.to_vec()), select(Move::ALL.to_vec()))
            .prop_map(|(from, attempted)| Why::Illegal(IllegalMove { from, attempted })),
        Just(Why::Expired),
        id().prop_map(Why::CancelledBefore),
        id().prop_map(Why::NothingToCancel),
        id().prop_map(Why::NotOwner),
        id().prop_map(Why::IdTaken),
        any::<u128>().prop_map(|key| Why::KeyTaken(Key(key))),
        (any::<u32>(), any::<u32>()).prop_map(|(seen, now)| Why::Changed { seen, now }),
        Just(Why::NotPrepared),
        Just(Why::ChangeUnderWay),
        place().prop_map(Why::NoSuchPart),
        place().prop_map(Why::WhichPart),
        Just(Why::NotReleased(NotReleased::AfterEnd)),
        (capacity(), capacity())
            .prop_map(|(has, keep)| Why::NotReleased(NotReleased::KeepsMore { has, keep })),
        (vec(id().prop_map(|id: ReservationId| JobId(id.0)), 0..3), any::<u32>())
            .prop_map(|(jobs, more)| Why::JobsInside { jobs, more }),
        Just(Why::Interrupted),
        Just(Why::PartLost),
        select(impossible).prop_map(Why::Unsupported),
    ]
}

fn about_jobs_and_peers() -> impl Strategy<Value = Why> {
    prop_oneof![
        job().prop_map(Why::UnknownJob),
        job().prop_map(Why::JobTaken),
        job().prop_map(Why::NotJobOwner),
        any::<String>().prop_map(Why::MalformedJob),
        any::<String>().prop_map(Why::JobRefused),
        any::<String>().prop_map(Why::NotAdmittedAsPeer),
        Just(Why::NoRegister),
    ]
}

pub(crate) fn why() -> impl Strategy<Value = Why> {
    prop_oneof![2 => refused(), 2 => too_late_or_wrong(), 1 => about_jobs_and_peers()]
}

fn blocker() -> impl Strategy<Value = Blocker> {
    let kinds = vec![
        BlockerKind::RunningJob,
        BlockerKind::WaitingJob,
        BlockerKind::Reservation,
        BlockerKind::Maintenance,
    ];
    let begin = prop_oneof![4 => time(), 1 => Just(Time::MIN)];
    let end = prop_oneof![4 => time(), 1 => Just(Time::MAX)];
    (select(kinds), begin, end, option::of(name())).prop_map(|(kind, begin, end, name)| Blocker {
        kind,
        interval: Interval::new(begin, end),
        name,
    })
}

fn relaxation() -> impl Strategy<Value = Relaxation> {
    prop_oneof![
        seconds().prop_map(Relaxation::Later),
        seconds().prop_map(Relaxation::Shorter),
        capacity().prop_map(Relaxation::Fewer),
        time().prop_map(Relaxation::Earlier),
    ]
}

pub(crate) fn problem() -> impl Strategy<Value = Problem> {
    let site = option::of(name().prop_map(Box::new));
    (why(), vec(blocker(), 0..3), option::of(seconds()), vec(relaxation(), 0..4), site).prop_map(
        |(why, blockers, busy_for, relaxations, site)| {
            let blockers = blockers.into();
            Problem { why, blockers, busy_for, relaxations, site }
        },
    )
}
