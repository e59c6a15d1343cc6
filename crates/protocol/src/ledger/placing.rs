//! Finding slots for a part: every suitable resource is searched, within the limits of the caller. Nothing is
//! booked here. A refusal contains the reason, the blockers, and the smallest changes to the request that
//! would be granted. Each suggested change is searched in the profile and then tried on the whole ledger, so
//! it is true at that moment. So are the changes that would meet an exceeded limit.

use super::decision::{Context, View, Views};
use super::rules::{Usage, UserLimits};
use super::sight::{Looker, Sight};
use super::slots::{Candidate, Found, Search};
use super::spans::{area, rest_from, since};
use super::state::Ledger;
use crate::clock::Millis;
use crate::flaw::Flaw;
use crate::ids::{Name, ReservationId};
use crate::life_cycle::Move;
use crate::message::Caller;
use crate::missing::Missing;
use crate::problem::{Blocker, BlockerKind, Limit, Problem, Why};
use crate::request::{Objective, Part, Request};
use crate::tres::Tres;
use bookahead_plan::placement::relax::{Trial, busy_for, relaxations};
use bookahead_plan::placement::{self, Reason, Relaxation};
use bookahead_plan::{Capacity, Interval, Need, Seconds, Span, Time};
use std::mem::discriminant;

/// A request for one part at a moment.
pub(super) struct Wish<'a> {
    pub(super) ctx: Context<'a>,
    pub(super) part: &'a Part,
    pub(super) objective: Objective,
    pub(super) limits: UserLimits,
    /// What counts against the limits already.
    pub(super) usage: Usage,
    /// Earliest allowed start, whatever the request says.
    pub(super) first_begin: Time,
    /// The reservation that it replaces. The capacity of that one counts as free.
    pub(super) replaces: Option<ReservationId>,
    /// The reservation that will be given up for it later. Its capacity is taken, but limits do not count it.
    pub(super) beside: Option<ReservationId>,
    /// The only allowed resource.
    pub(super) stays_on: Option<Name>,
    /// The number of its priority class.
    pub(super) priority: i32,
}

impl Wish<'_> {
    /// The request reduced to the limits of the caller.
    pub(super) fn allowed(&self, wanted: &placement::Request) -> Result<placement::Request, Why> {
        let earliest_start = wanted.earliest_start.max(self.first_begin);
        let allowed = self.limits.window(self.ctx.now, &placement::Request { earliest_start, ..*wanted })?;
        let area = Span::starting(Time(0), wanted.duration, wanted.capacity).area();
        self.limits.check_area(&self.usage, area)?;
        Ok(allowed)
    }

    pub(super) fn looker(&self, limit_share: bool) -> Looker<'_> {
        let share = self.limits.share.filter(|_| limit_share);
        Looker {
            share,
            without: self.replaces,
            beside: self.beside,
            ..Looker::new(self.ctx, &self.ctx.caller.user, self.priority, &self.part.tres)
        }
    }
}

impl Ledger {
    /// The only part of a request, with the limits of the caller. A hold must start after the current second,
    /// to leave time for a commit; `at_once` lifts that.
    pub(super) fn wish<'a>(
        &self,
        ctx: Context<'a>,
        request: &'a Request,
        at_once: bool,
    ) -> Result<Wish<'a>, Why> {
        request.check()?;
        self.rules.priorities.check(ctx.caller, request.description.priority.as_deref())?;
        let [part] = request.parts.as_slice() else { return Err(Why::OnePartOnly(request.parts.len())) };
        let this_second = ctx.now.second();
        let user = &ctx.caller.user;
        let beside = part.replaces.and_then(|id| Some((id, self.entries.get(&id)?)));
        let beside = beside.filter(|(_, old)| old.owner == *user && old.state.holds_capacity());
        Ok(Wish {
            ctx,
            part,
            objective: request.objective,
            limits: self.rules.limits.of(ctx.caller),
            usage: self.usage_beside(user, beside.map(|(_, old)| old.promised())),
            first_begin: if at_once { this_second } else { this_second + Seconds(1) },
            replaces: None,
            beside: beside.map(|(id, _)| id),
            stays_on: None,
            priority: self.rules.priorities.number(request.description.priority.as_deref()),
        })
    }

    pub(super) fn best(&mut self, wish: &Wish<'_>) -> Result<Candidate, Problem> {
        let found = self.place(wish, &self.search_for_one(wish))?;
        let best = found.into_iter().min_by_key(|candidate| candidate.order(wish.objective));
        // `place` returns at least one slot or an error, so this is unreachable.
        best.ok_or_else(|| Problem::new(Why::NoSlot(Reason::NoRoom)))
    }

    /// The first slot is enough if all slots are equally good. The least impact needs several to compare.
    fn search_for_one(&self, wish: &Wish<'_>) -> Search<'static> {
        let least_impact = wish.objective == Objective::LeastImpact;
        let most = if least_impact { self.rules.reveal.slots.max(2) } else { 1 };
        Search { most, runs: !least_impact, impacts: least_impact, ..Search::FIRST }
    }

    /// Slots on all suitable resources. At least one, or the reason why there is none.
    pub(super) fn place(&mut self, wish: &Wish<'_>, search: &Search<'_>) -> Result<Vec<Candidate>, Problem> {
        let suitable = self.suitable(wish);
        if wish.part.measured_on.is_some() && !suitable.is_empty() {
            return self.place_by_speed(wish, search, &suitable);
        }
        if suitable.is_empty() {
            let (all, bound_to) = (self.rules.resources.iter(), wish.stays_on.as_ref());
            let all = all.map(|offered| (offered.resource.name.clone(), &offered.resource));
            let all: Vec<_> = all.filter(|(name, _)| bound_to.is_none_or(|bound| bound == name)).collect();
            let missing = Missing::of(wish.part, &all);
            return Err(Problem::new(Why::no_such_resource(0, 1, wish.part.kind.clone(), missing)));
        }
        wish.limits.check_count(&wish.usage)?;
        let allowed = match wish.allowed(&wish.part.wanted) {
            Ok(allowed) => allowed,
            Err(why) => return Err(within_limits(self, wish, &suitable, why)),
        };
        let found = self.found(&suitable, wish, &allowed, search, true);
        if !found.is_empty() {
            return Ok(found);
        }
        // If there is room beyond the user's share, the share is the reason. Otherwise it would be misleading
        // to name it.
        if wish.limits.share.is_some() {
            let beyond = self.found(&suitable, wish, &allowed, &Search::FIRST, false);
            if let Some(first) = beyond.first() {
                let why = self.beyond_share(wish, first);
                return Err(within_limits(self, wish, &suitable, why));
            }
        }
        Err(refuse(self, wish, &suitable))
    }

    /// The same for a duration that depends on the resource: each is searched with its own.
    fn place_by_speed(
        &mut self,
        wish: &Wish<'_>,
        search: &Search<'_>,
        suitable: &[usize],
    ) -> Result<Vec<Candidate>, Problem> {
        let (mut found, mut refused) = (Vec::new(), None);
        for &at in suitable {
            let resource = &self.rules.resources[at].resource;
            let Some(duration) = resource.duration(wish.part) else { continue };
            let (part, stays_on) = (wish.part.lasting(duration), Some(resource.name.clone()));
            match self.place(&Wish { part: &part, stays_on, ..*wish }, search) {
                Ok(slots) => found.extend(slots),
                Err(problem) => refused = refused.or(Some(problem)),
            }
        }
        match refused.filter(|_| found.is_empty()) {
            None => Ok(found),
            Some(mut problem) => {
                // That much shorter here would be more or less on the machine of the requester.
                problem.relaxations.retain(|change| !matches!(change, Relaxation::Shorter(_)));
                Err(problem)
            }
        }
    }

    /// The resources that match the part, whether free or not. A reservation cannot move to another resource.
    fn suitable(&self, wish: &Wish<'_>) -> Vec<usize> {
        let bound_to = wish.stays_on.as_ref();
        let offered = self.rules.resources.iter().enumerate();
        let suitable = offered.filter(|(_, offered)| {
            bound_to.is_none_or(|name| *name == offered.resource.name) && offered.resource.suits(wish.part)
        });
        suitable.map(|(at, _)| at).collect()
    }

    fn found(
        &mut self,
        suitable: &[usize],
        wish: &Wish<'_>,
        allowed: &placement::Request,
        search: &Search<'_>,
        limit_share: bool,
    ) -> Vec<Candidate> {
        let mut all = Vec::new();
        for &at in suitable {
            let (free, cost) = (self.rules.reveal.free, self.rules.resources[at].resource.cost(wish.part));
            all.extend(self.look(at, &wish.looker(limit_share), |sight| {
                let allowed = sight.on.noticed(allowed);
                let found = sight.slots(&allowed, search).into_iter();
                let candidate = |slot: Found| {
                    let free_tres =
                        if free { sight.free.tres_in(slot.reach(&allowed)) } else { Tres::default() };
                    let free = free.then(|| sight.free_beside(&allowed, &slot));
                    Candidate { resource: at, slot, free, free_tres, cost, duration: allowed.duration }
                };
                found.map(candidate).collect::<Vec<_>>()
            }));
        }
        all
    }

    /// The limit error for a slot that only the user's share forbids.
    fn beyond_share(&mut self, wish: &Wish<'_>, slot: &Candidate) -> Why {
        let (wanted, capacity) = (wish.part.wanted, self.rules.resources[slot.resource].resource.capacity);
        let interval = slot.span(&wanted).interval;
        let has = self.look(slot.resource, &wish.looker(true), |sight| {
            sight.free.share.map_or(0, |share| share.has(interval))
        });
        let in_all = (i64::from(has) + i64::from(wanted.capacity.0)) * 100;
        let asked = (in_all + i64::from(capacity.0) - 1) / i64::from(capacity.0.max(1));
        Why::Limit { limit: Limit::Share, most: i64::from(wish.limits.share.unwrap_or(0)), asked }
    }

    /// The spans of an expired hold from now on, if their capacity is still free.
    pub(super) fn still_free(&mut self, ctx: Context<'_>, id: ReservationId) -> Result<Vec<Span>, Why> {
        let Some(entry) = self.entries.get(&id) else { return Err(Why::Unknown(id)) };
        entry.state.after(Move::Commit)?;
        let (resource, owner) = (entry.resource.clone(), entry.owner.clone());
        let tres = entry.tres().clone();
        let class = entry.current_request().description.priority.as_deref();
        let priority = self.rules.priorities.number(class);
        let rest = since(&entry.spans, ctx.now.second());
        let owned = Caller { user: owner.clone(), roles: ctx.caller.roles.clone() };
        let limits = self.rules.limits.of(&owned);
        let usage = self.usage_beside(&owner, None);
        limits.check_count(&usage)?;
        limits.check_area(&usage, area(&rest))?;
        let Some(at) = self.at(&resource) else { return Err(Why::Expired) };
        let looker = Looker { share: limits.share, ..Looker::new(ctx, &owner, priority, &tres) };
        let free = self.look(at, &looker, |sight| {
            let need = |span: &Span| Need { capacity: span.capacity, length: span.interval.length() };
            rest.iter().all(|span| sight.free.fits(span.interval.begin, need(span)))
        });
        let free = free || self.broken.is(Flaw::LateCommitsUnseen);
        if free && !rest.is_empty() { Ok(rest) } else { Err(Why::Expired) }
    }
}

/// Most reservations searched for blockers, latest start first. Bounds the cost of a refusal.
const LOOKED_AT: usize = 1_000;
/// Most blockers in an answer. Bounds its size.
const MOST_BLOCKERS: usize = 32;
/// Most vacancies of a window compared to find the longest. Bounds the cost of a refusal.
const VACANCIES: usize = 256;

/// How long a counter-offer stays within the notice, in which the requester can accept it.
const TIME_TO_ACCEPT: Seconds = Seconds(120);

/// The refusal on one resource; combined for all.
struct Refusal {
    reason: Reason,
    /// Whether only the notice of the resource forbids the window.
    too_soon: Option<Why>,
    /// Whether only things beside the capacity are in the way.
    short_of: Option<Why>,
    /// The maintenance without which there would be room.
    maintenance: Option<Why>,
    blockers: Vec<Blocker>,
    busy_for: Option<Seconds>,
    relaxations: Vec<Relaxation>,
}

pub(super) fn refuse(ledger: &mut Ledger, wish: &Wish<'_>, suitable: &[usize]) -> Problem {
    let tell_blockers = ledger.rules.reveal.blockers;
    let mut all: Option<Refusal> = None;
    for &at in suitable {
        let mut one =
            ledger.look(at, &wish.looker(true), |sight| Way::new(sight, wish).refusal(tell_blockers));
        if one.reason == Reason::NoRoom {
            one.maintenance = maintenance_in_the_way(ledger, wish, at);
        }
        all = Some(match all {
            None => one,
            Some(all) => all.or(one),
        });
    }
    let Some(Refusal { reason, too_soon, short_of, maintenance, blockers, busy_for, relaxations }) = all
    else {
        return Problem::new(Why::NoSlot(Reason::NoRoom));
    };
    let too_soon = too_soon.filter(|_| reason == Reason::NoWindow);
    let maintenance = maintenance.filter(|_| reason == Reason::NoRoom);
    let short_of = short_of.filter(|_| reason == Reason::NoRoom);
    let why = too_soon.or(maintenance).or(short_of).unwrap_or(Why::NoSlot(reason));
    Problem { why, blockers: blockers.into(), busy_for, relaxations, site: None }
}

/// The maintenance without which a request that finds no room on a resource would have some.
fn maintenance_in_the_way(ledger: &mut Ledger, wish: &Wish<'_>, at: usize) -> Option<Why> {
    let name = ledger.rules.resources[at].resource.name.clone();
    let (view, wanted) = (wish.ctx.views.on(&name), wish.part.wanted);
    view.maintenance_in(Interval::new(wanted.earliest_start, wanted.latest_end)).next()?;
    let everything = Interval::new(Time::MIN, Time::MAX);
    let foreign = view.foreign_beside_maintenance(everything);
    let without = Views::of(name, View { foreign, maintenance: Vec::new(), ..view.clone() });
    let mut fit = |views, deadline| {
        ledger.look(at, &Looker { views, ..wish.looker(true) }, |sight| {
            let from = Way::new(sight, wish).from;
            sight.free.earliest_fit(from, wanted.need(), deadline)
        })
    };
    let slot = Interval::starting(fit(&without, Some(wanted.latest_end))?, wanted.duration);
    let not_before = fit(wish.ctx.views, None);
    let first = view.maintenance_in(slot).min_by_key(|one| one.span.interval.begin)?;
    Some(Why::Maintenance { name: first.name.clone(), until: first.span.interval.end, not_before })
}

impl Refusal {
    /// Combines the refusals of two resources: the one nearer to a grant wins.
    fn or(mut self, other: Refusal) -> Refusal {
        self.busy_for = [self.busy_for, other.busy_for].into_iter().flatten().min();
        self.too_soon = [self.too_soon, other.too_soon].into_iter().flatten().min_by_key(notice_of);
        self.short_of = self.short_of.or(other.short_of);
        self.maintenance = [self.maintenance, other.maintenance].into_iter().flatten().min_by_key(first_room);
        if nearness(other.reason) > nearness(self.reason) {
            (self.reason, self.blockers) = (other.reason, other.blockers);
        }
        for one in other.relaxations {
            let same_kind = |known: &&mut Relaxation| discriminant(*known) == discriminant(&one);
            match self.relaxations.iter_mut().find(same_kind) {
                Some(known) if size(&one) < size(known) => *known = one,
                Some(_) => {}
                None => self.relaxations.push(one),
            }
        }
        self
    }
}

/// The notice that a refusal requires.
fn notice_of(why: &Why) -> i64 {
    match why {
        Why::TooSoon { notice, .. } => notice.0,
        Why::Limit { most, .. } => *most,
        _ => i64::MAX,
    }
}

/// The first start for which a maintenance leaves room.
fn first_room(why: &Why) -> Time {
    match why {
        Why::Maintenance { not_before: Some(start), .. } => *start,
        _ => Time::MAX,
    }
}

fn nearness(reason: Reason) -> u8 {
    match reason {
        Reason::TooWide => 0,
        Reason::NoWindow => 1,
        Reason::NoRoom => 2,
        Reason::NotAdmitted => 3,
    }
}

/// How much the requester would have to give up.
fn size(relaxation: &Relaxation) -> i64 {
    match *relaxation {
        Relaxation::Later(by) | Relaxation::Shorter(by) => by.0,
        Relaxation::Fewer(by) => i64::from(by.0),
        // The later it starts, the nearer it is to the request.
        Relaxation::Earlier(start) => start.0.saturating_neg(),
    }
}

/// The search for alternatives on one resource.
pub(super) struct Way<'a, 's, 'w> {
    sight: &'a mut Sight<'s>,
    wish: &'a Wish<'w>,
    wanted: placement::Request,
    from: Time,
}

impl<'a, 's, 'w> Way<'a, 's, 'w> {
    pub(super) fn new(sight: &'a mut Sight<'s>, wish: &'a Wish<'w>) -> Way<'a, 's, 'w> {
        let wanted = wish.part.wanted;
        let noticed = sight.on.noticed(&wanted).earliest_start;
        Way { sight, wish, wanted, from: noticed.max(wish.first_begin) }
    }

    /// Why only the notice of the resource forbids the whole window.
    fn too_soon(&self) -> Option<Why> {
        let possible = self.wanted.latest_start() >= self.wanted.earliest_start.max(self.wish.first_begin);
        self.sight.on.too_soon(&self.wanted).filter(|_| possible)
    }

    fn refusal(&mut self, tell_blockers: bool) -> Refusal {
        let reason = self.reason();
        let possible = matches!(reason, Reason::NoRoom | Reason::NotAdmitted);
        let wanted = self.wanted;
        Refusal {
            reason,
            too_soon: self.too_soon(),
            short_of: self.short_of(),
            maintenance: None,
            blockers: if possible { self.blockers(tell_blockers) } else { Vec::new() },
            busy_for: busy_for(self, &wanted),
            relaxations: relaxations(self, &wanted),
        }
    }

    fn short_of(&self) -> Option<Why> {
        self.sight.free.short_of(self.from, self.wanted.need(), self.wanted.latest_end)
    }

    fn reason(&self) -> Reason {
        if self.wanted.capacity > self.sight.on.capacity {
            return Reason::TooWide;
        }
        if self.wanted.latest_start() < self.from {
            return Reason::NoWindow;
        }
        let fit = self.sight.free.earliest_fit(self.from, self.wanted.need(), Some(self.wanted.latest_end));
        if fit.is_none() { Reason::NoRoom } else { Reason::NotAdmitted }
    }

    /// Everything that takes capacity during a slot at the beginning of the window. Only maintenance if the site does
    /// not reveal the rest.
    fn blockers(&self, all: bool) -> Vec<Blocker> {
        let slot = Interval::starting(self.from, self.wanted.duration);
        let meets = |interval: &Interval| {
            interval.begin < slot.end && slot.begin < interval.end && !interval.is_empty()
        };
        let view = self.sight.on.view;
        let maintenance = view.maintenance_in(slot).map(|one| Blocker {
            kind: BlockerKind::Maintenance,
            interval: one.span.interval,
            name: Some(one.name.clone()),
        });
        let mut found: Vec<Blocker> = maintenance.take(MOST_BLOCKERS).collect();
        if !all {
            return found;
        }
        let now = self.sight.on.now;
        let of = |kind| move |interval| Blocker { kind, interval, name: None };
        let running = view.running.iter();
        let running = running.map(|job| Interval::new(now, job.expected_end.max(now + Seconds(1))));
        let waiting = self.sight.promised.iter().map(|span| span.interval);
        let foreign = view.foreign.iter().map(|span| span.interval);
        // Without maintenance, foreign reservations are told as they are, otherwise only what is beside it.
        let none = found.is_empty();
        let apart = if none { Vec::new() } else { view.foreign_beside_maintenance(slot) };
        let foreign = foreign.filter(|_| none).chain(apart.iter().map(|span| span.interval));
        let own = self.sight.on.reservations.before_reversed(slot.end).take(LOOKED_AT);
        let others = running.map(of(BlockerKind::RunningJob));
        let others = others.chain(own.chain(foreign).map(of(BlockerKind::Reservation)));
        let others = others.chain(waiting.map(of(BlockerKind::WaitingJob)));
        let left = MOST_BLOCKERS - found.len();
        found.extend(others.filter(|blocker| meets(&blocker.interval)).take(left));
        found
    }
}

impl Trial for Way<'_, '_, '_> {
    fn first_begin(&self) -> Time {
        self.wish.first_begin
    }

    fn gap(&self) -> Seconds {
        self.sight.on.offered.placement.slots.gap
    }

    fn earliest_fit(&self, from: Time, need: Need, deadline: Option<Time>) -> Option<Time> {
        self.sight.free.earliest_fit(from, need, deadline)
    }

    fn longest_vacancy(&self, window: Interval, capacity: Capacity) -> Option<Seconds> {
        let runs = self.sight.free.runs(window, Need { capacity, length: Seconds(1) }, VACANCIES);
        runs.iter().map(|run| (run.last - run.first) + Seconds(1)).max()
    }

    fn would_do(&mut self, changed: &placement::Request) -> Option<Time> {
        let mut allowed = self.wish.allowed(changed).ok()?;
        if self.sight.on.notice.is_some() {
            let first = self.sight.on.first_noticed(changed) + TIME_TO_ACCEPT;
            allowed.earliest_start = allowed.earliest_start.max(full_minute(first));
        }
        self.sight.slots(&allowed, &Search::FIRST).first().map(|slot| slot.start)
    }
}

/// The first full minute from an instant on.
fn full_minute(from: Time) -> Time {
    Time(from.0.saturating_add(59).div_euclid(60).saturating_mul(60))
}

/// The refusal by a limit, with the changes that would be granted on one of the suitable resources.
fn within_limits(ledger: &mut Ledger, wish: &Wish<'_>, suitable: &[usize], why: Why) -> Problem {
    if let Why::Limit { limit: Limit::Share, .. } = why {
        // The free capacity that a user sees ends at the share, so the usual alternatives respect it.
        let told = refuse(ledger, wish, suitable);
        return Problem { blockers: Box::default(), why, ..told };
    }
    let mut problem = Problem::new(why);
    for (relaxation, changed) in changes_within(wish, &problem.why) {
        let does = |at: &usize| {
            ledger.look(*at, &wish.looker(true), |sight| Way::new(sight, wish).would_do(&changed).is_some())
        };
        if suitable.iter().any(does) {
            problem.relaxations.push(relaxation);
        }
    }
    problem
}

/// The changes that meet a limit, with the changed requests. Whether there is room for them is not known yet.
fn changes_within(wish: &Wish<'_>, why: &Why) -> Vec<(Relaxation, placement::Request)> {
    let (wanted, now) = (wish.part.wanted, wish.ctx.now);
    let Why::Limit { limit, most, asked } = *why else { return Vec::new() };
    let shorter = |duration: i64| {
        let by = Seconds(wanted.duration.0.saturating_sub(duration));
        let changed = placement::Request { duration: Seconds(duration), ..wanted };
        (duration > 0 && by > Seconds::ZERO).then_some((Relaxation::Shorter(by), changed))
    };
    let found = match limit {
        Limit::Area => {
            let room = i128::from(most) - wish.usage.area;
            let capacity = room / i128::from(wanted.duration.0.max(1));
            let capacity = Capacity(u32::try_from(capacity.max(0)).unwrap_or(u32::MAX));
            let fewer = (capacity > Capacity::ZERO && capacity < wanted.capacity).then(|| {
                let by = Capacity(wanted.capacity.0 - capacity.0);
                (Relaxation::Fewer(by), placement::Request { capacity, ..wanted })
            });
            let duration = room / i128::from(wanted.capacity.0.max(1));
            [fewer, shorter(i64::try_from(duration).unwrap_or(0))]
        }
        Limit::Horizon => {
            let begin = (now + Millis::seconds(most)).second() - wanted.duration;
            let earlier = (begin >= wish.first_begin && begin < wanted.earliest_start).then_some((
                Relaxation::Earlier(begin),
                placement::Request { earliest_start: begin, ..wanted },
            ));
            [shorter(wanted.duration.0.saturating_sub(asked.saturating_sub(most))), earlier]
        }
        Limit::Notice => {
            let latest_end = rest_from(now + Millis::seconds(most)) + wanted.duration;
            let later = Relaxation::Later(latest_end - wanted.latest_end);
            [Some((later, placement::Request { latest_end, ..wanted })), None]
        }
        Limit::Count | Limit::Share | Limit::Jobs | Limit::JobShare | Limit::JobTime => [None, None],
    };
    found.into_iter().flatten().collect()
}
