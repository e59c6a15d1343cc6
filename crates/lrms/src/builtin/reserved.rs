//! The reservations of one resource and the jobs inside them (guests). A guest starts as soon as its reservation has
//! begun and has room for it beside the other guests, in order of submission. It is ended when its time is up, or
//! when its reservation ends or shrinks, the last guest first. Guests do not affect the queue, as their capacity is
//! reserved anyway.

use crate::GO_WITHIN;
use bookahead_party::{Ended, JobChange, JobState};
use bookahead_plan::{Capacity, Interval, Need, Profile, Seconds, Span, Time};
use bookahead_protocol::{JobId, ReservationId};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a job that has its capacity may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    /// The job does not claim.
    NotNeeded,
    Awaited,
    Given(Time),
}

impl Go {
    /// State of a job when it gets its capacity.
    pub(super) fn first_state(self) -> JobState {
        if self == Go::Awaited { JobState::Claiming } else { JobState::Running }
    }
}

/// A job inside a reservation, waiting or running.
#[derive(Debug, Clone)]
pub(super) struct Guest {
    pub(super) id: JobId,
    /// Later guests have higher numbers, over all reservations.
    pub(super) order: u64,
    pub(super) capacity: Capacity,
    pub(super) limit: Seconds,
    /// Run time; None if only the process determines it.
    pub(super) run: Option<Seconds>,
    /// When it got its capacity.
    pub(super) started: Option<Time>,
    pub(super) go: Go,
}

#[derive(Debug, Default)]
pub(super) struct Reserved {
    pub(super) backings: BTreeMap<ReservationId, Vec<Span>>,
    ends: BTreeSet<(Time, ReservationId)>,
    /// In order of submission; only for reservations with guests.
    pub(super) guests: BTreeMap<ReservationId, Vec<Guest>>,
}

impl Reserved {
    /// Sets the spans of a reservation and returns the previous ones.
    pub(super) fn back(&mut self, id: ReservationId, spans: &[Span]) -> Vec<Span> {
        self.ends.extend(end(spans).map(|end| (end, id)));
        let before = if spans.is_empty() {
            self.backings.remove(&id)
        } else {
            self.backings.insert(id, spans.to_vec())
        };
        let before = before.unwrap_or_default();
        // Only if the end changed: the entry of the new spans must stay.
        if let Some(old) = end(&before).filter(|old| Some(*old) != end(spans)) {
            self.ends.remove(&(old, id));
        }
        before
    }

    pub(super) fn spans(&self, id: ReservationId) -> &[Span] {
        self.backings.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn forget_past(&mut self, now: Time) {
        while let Some((_, id)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.pop_first();
            self.backings.remove(&id);
        }
    }

    /// Lets a claiming guest run.
    pub(super) fn go(&mut self, id: JobId, now: Time) {
        let mut guests = self.guests.values_mut().flatten();
        guests.find(|guest| guest.id == id).into_iter().for_each(|guest| guest.go = Go::Given(now));
    }

    /// Adds a guest; it starts in the next [`Reserved::settle`] at the earliest.
    pub(super) fn admit(&mut self, id: ReservationId, guest: Guest) {
        self.guests.entry(id).or_default().push(guest);
    }

    /// Removes a guest; returns whether it was here.
    pub(super) fn remove(&mut self, id: JobId) -> bool {
        let mut found = false;
        self.guests.retain(|_, guests| {
            let before = guests.len();
            guests.retain(|guest| guest.id != id);
            found |= guests.len() < before;
            !guests.is_empty()
        });
        found
    }

    /// The next event of a guest, if nothing unexpected happens before.
    pub(super) fn next_event(&self, now: Time) -> Option<Time> {
        let edges = self.guests.keys().flat_map(|id| edges(self.spans(*id))).filter(|edge| *edge > now);
        let ends = self.guests.values().flatten().filter_map(Guest::end).map(|(end, _)| end);
        edges.chain(ends).min()
    }

    /// Ends and starts guests that are due. Together they use at most `available`.
    pub(super) fn settle(&mut self, now: Time, available: Capacity, changes: &mut Vec<JobChange>) {
        for (id, guests) in &mut self.guests {
            let spans = self.backings.get(id).map_or(&[][..], Vec::as_slice);
            // Normal ends first, so that no guest is killed for capacity that is just becoming free.
            end_those_whose_time_is_up(guests, now, changes);
            shrink_to(room(spans, now), guests, now, changes);
            if is_over(spans, now) {
                let over = guests.drain(..).map(|guest| guest.killed(Ended::ReservationOver, now));
                changes.extend(over);
            }
        }
        self.displace(available, now, changes);
        self.start(now, available, changes);
        self.guests.retain(|_, guests| !guests.is_empty());
    }

    /// If failed capacity affects reservations, the last guests over all reservations must leave.
    fn displace(&mut self, available: Capacity, now: Time, changes: &mut Vec<JobChange>) {
        while self.used() > u64::from(available.0) {
            let running = |guest: &&Guest| guest.started.is_some();
            let Some(last) = self.guests.values().flatten().filter(running).max_by_key(|guest| guest.order)
            else {
                return;
            };
            changes.push(last.killed(Ended::Displaced, now));
            let id = last.id;
            self.remove(id);
        }
    }

    fn start(&mut self, now: Time, available: Capacity, changes: &mut Vec<JobChange>) {
        let mut left = u64::from(available.0).saturating_sub(self.used());
        for (id, guests) in &mut self.guests {
            let spans = self.backings.get(id).map_or(&[][..], Vec::as_slice);
            let mut room = u64::from(room(spans, now).0).saturating_sub(used(guests)).min(left);
            for guest in guests.iter_mut().filter(|guest| guest.started.is_none()) {
                let needed = u64::from(guest.capacity.0);
                // No stop at the first that does not fit: smaller guests may start before it.
                if needed <= room {
                    guest.started = Some(now);
                    changes.push(JobChange { id: guest.id, state: guest.go.first_state(), at: now });
                    room -= needed;
                    left -= needed;
                }
            }
        }
    }

    fn used(&self) -> u64 {
        self.guests.values().map(|guests| used(guests)).sum()
    }

    /// Expected start of each waiting guest, if those before it use their full time.
    pub(super) fn expected_starts(&self, now: Time) -> Vec<(JobId, Time)> {
        let mut starts = Vec::new();
        for (id, guests) in &self.guests {
            let mut free = free_inside(self.spans(*id), now);
            for guest in guests {
                let start = guest.started.or_else(|| {
                    // A guest needs its capacity only at its start: it is ended early if the reservation shrinks.
                    let need = Need { capacity: guest.capacity, length: Seconds(1) };
                    let start = free.earliest_fit(now, need, None)?;
                    starts.push((guest.id, start));
                    Some(start)
                });
                if let Some(start) = start {
                    free.add(Span::starting(start, guest.limit, guest.capacity));
                }
            }
        }
        starts
    }
}

impl Guest {
    /// When and how it ends, if it runs and nothing unexpected happens.
    fn end(&self) -> Option<(Time, JobState)> {
        self.started.map(|started| end_of_run(started, self.go, self.run, self.limit))
    }

    fn killed(&self, why: Ended, at: Time) -> JobChange {
        JobChange { id: self.id, state: JobState::Killed(why), at }
    }
}

/// When and how a job ends that got its capacity at `started`, if nothing unexpected happens.
pub(super) fn end_of_run(started: Time, go: Go, run: Option<Seconds>, limit: Seconds) -> (Time, JobState) {
    let begun = match go {
        Go::NotNeeded => started,
        Go::Awaited => return (started + limit.min(GO_WITHIN), JobState::Killed(Ended::NoGo)),
        Go::Given(at) => at,
    };
    match run.map(|run| begun + run.max(Seconds::ZERO)) {
        Some(end) if end <= started + limit => (end, JobState::Done { exit: 0 }),
        _ => (started + limit, JobState::Killed(Ended::Limit)),
    }
}

/// End of a reservation; None if it has no spans.
fn end(spans: &[Span]) -> Option<Time> {
    spans.iter().map(|span| if span.area() == 0 { Time::MIN } else { span.interval.end }).max()
}

fn end_those_whose_time_is_up(guests: &mut Vec<Guest>, now: Time, changes: &mut Vec<JobChange>) {
    guests.retain(|guest| match guest.end() {
        Some((at, state)) if at <= now => {
            changes.push(JobChange { id: guest.id, state, at });
            false
        }
        _ => true,
    });
}

/// Kills guests, the last one first, until the others fit.
fn shrink_to(room: Capacity, guests: &mut Vec<Guest>, now: Time, changes: &mut Vec<JobChange>) {
    while used(guests) > u64::from(room.0)
        && let Some(last) = guests.iter().rposition(|guest| guest.started.is_some())
    {
        changes.push(guests.remove(last).killed(Ended::ReservationOver, now));
    }
}

/// Capacity in use by running guests.
fn used(guests: &[Guest]) -> u64 {
    let running = guests.iter().filter(|guest| guest.started.is_some());
    running.map(|guest| u64::from(guest.capacity.0)).sum()
}

/// Capacity of a reservation at an instant.
fn room(spans: &[Span], at: Time) -> Capacity {
    let then = spans.iter().filter(|span| span.interval.contains(at));
    then.fold(Capacity::ZERO, |room, span| Capacity(room.0.saturating_add(span.capacity.0)))
}

/// Peak capacity of a reservation from now on.
pub(super) fn most_room(spans: &[Span], now: Time) -> Capacity {
    let instants = edges(spans).filter(|edge| *edge > now).chain([now]);
    instants.map(|instant| room(spans, instant)).max().unwrap_or(Capacity::ZERO)
}

fn is_over(spans: &[Span], now: Time) -> bool {
    spans.iter().all(|span| span.area() == 0 || span.interval.end <= now)
}

fn edges(spans: &[Span]) -> impl Iterator<Item = Time> {
    spans.iter().flat_map(|span| [span.interval.begin, span.interval.end])
}

/// The capacity of a reservation as a profile, with everything outside of it taken.
fn free_inside(spans: &[Span], now: Time) -> Profile {
    let most = most_room(spans, now);
    let mut free = Profile::new(most, now);
    let mut instants: Vec<Time> = edges(spans).filter(|edge| *edge > now).chain([now, Time::MAX]).collect();
    instants.sort_unstable();
    for pair in instants.windows(2) {
        let taken = Capacity(most.0.saturating_sub(room(spans, pair[0]).0));
        free.add(Span { interval: Interval::new(pair[0], pair[1]), capacity: taken });
    }
    free
}
