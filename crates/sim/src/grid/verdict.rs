//! The final check of a settled grid: bookings that stand in part, holds and backings without an owner, orphaned jobs,
//! and clients with wrong answers. It reads the ledgers of the parties, the batch systems, and the records of the
//! witness.

use super::client::job_of;
use super::cluster::covers;
use super::witness::Rule;
use super::{Broker, Grid, Party, Role, Site, Violation};
use bookahead_party::Queries;
use bookahead_plan::{Interval, Seconds};
use bookahead_protocol::broker::{Booking, Event, Outcome, Pick};
use bookahead_protocol::jobs::{JobView, Rerun};
use bookahead_protocol::ledger::{Entry, both};
use bookahead_protocol::{Answer, JobId, Lost, Millis, Moment, Name, ReservationId, State};
use std::collections::{BTreeMap, BTreeSet};

/// Every batch system has been polled within this time: twice the default polling interval of a site.
const LOOKED_AT: Millis = Millis(20_000);

impl Grid {
    /// Checks everything once more after the run and returns all violations, those found during the run included.
    pub fn verdict(&mut self, settled: bool) -> Vec<Violation> {
        let now = self.now;
        for party in &mut self.parties {
            if let Role::Site(site) = &mut party.role {
                // An in-process batch system runs by the clock of its site, an external one by its own.
                let time = if site.asks() { now } else { now + party.ahead };
                site.batch.advance(time);
            }
        }
        if !settled {
            let what = format!("not settled: {}", self.unsettled().join(", "));
            self.witness.violated(Rule::Settled, now, what);
        }
        for at in 0..self.parties.len() {
            let local = self.local(at);
            self.witness.check_promises(local, &self.parties[at], at);
        }
        let mut found: Vec<(Rule, String)> = Vec::new();
        let of = |rule| move |what| (rule, what);
        found.extend(self.broken_bookings());
        found.extend(self.changed_in_part().into_iter().map(of(Rule::ChangedTogether)));
        found.extend(self.orphans().into_iter().map(of(Rule::AllOrNothing)));
        found.extend(self.deceived_clients().into_iter().map(of(Rule::KeptPromises)));
        found.extend(self.repeated_jobs().into_iter().map(of(Rule::JobsRunOnce)));
        found.extend(self.abandoned_jobs().into_iter().map(of(Rule::NothingOrphaned)));
        for party in &self.parties {
            found.extend(untrue_journal(party).map(of(Rule::JournalIsTruth)));
            if let Role::Site(site) = &party.role {
                found.extend(
                    site.batch.repeated().map(|what| (Rule::Settled, format!("{}: {what}", party.name))),
                );
                let local = now + party.ahead;
                found.extend(
                    unaccounted(site, local)
                        .into_iter()
                        .map(|(rule, what)| (rule, format!("{}: {what}", party.name))),
                );
            }
        }
        found.into_iter().for_each(|(rule, what)| self.witness.violated(rule, now, what));
        self.count_reached();
        std::mem::take(&mut self.witness.violations)
    }

    fn count_reached(&mut self) {
        let reached = &mut self.witness.reached;
        for party in &self.parties {
            match &party.role {
                Role::Broker(broker) => {
                    for booking in broker.head().bookings() {
                        reached.add("commits", u64::from(booking.state.is_standing()));
                        reached.add("cancels", u64::from(booking.outcome == Some(Outcome::Cancelled)));
                        let lost = booking.children.iter().filter(|child| child.loss.is_some()).count();
                        reached.add("parts_lost_and_told", lost as u64);
                        let refused = matches!(booking.outcome, Some(Outcome::Refused(_)));
                        reached.add("refusals", u64::from(refused));
                    }
                }
                Role::Site(site) => {
                    reached.add_all(&site.host.remarks);
                    let with_tres =
                        |(_, entry): &(_, &Entry)| !entry.tres().is_empty() && entry.state.is_standing();
                    reached
                        .add("promised_with_tres", site.ledger().entries().filter(with_tres).count() as u64);
                }
                Role::Client(_) => {}
            }
        }
    }

    fn unsettled(&self) -> Vec<String> {
        let busy = self.parties.iter().filter_map(|party| match &party.role {
            _ if !party.up => Some(format!("{} is down", party.name)),
            Role::Client(_) if !party.is_settled() => Some(format!("{} waits", party.name)),
            _ if !party.is_settled() => Some(format!("{} is busy", party.name)),
            _ => None,
        });
        let travelling = format!("{} messages travel", self.travelling);
        busy.chain((self.travelling > 0).then_some(travelling)).collect()
    }

    /// State of a reservation at a party; None if the party does not know it.
    fn state_at(&self, party: &Name, id: ReservationId) -> Option<State> {
        match &self.parties[self.place(party)?].role {
            Role::Site(site) => site.ledger().entry(id).map(|entry| entry.state),
            Role::Broker(broker) => broker.head().booking(id).map(|booking| booking.state),
            Role::Client(_) => None,
        }
    }

    /// Whether every site behind the party kept the reservation until its end, by the clock of the site.
    fn ran_its_time(&self, party: &Name, id: ReservationId) -> bool {
        let Some(at) = self.place(party) else { return false };
        match &self.parties[at].role {
            Role::Site(_) => self.state_at(party, id) == Some(State::Completed),
            Role::Broker(broker) => {
                let children = broker.head().booking(id).map(|booking| booking.children.as_slice());
                let children = children.unwrap_or_default();
                let all = children.iter().all(|child| self.ran_its_time(&child.pick.peer, child.pick.child));
                all && !children.is_empty()
            }
            Role::Client(_) => false,
        }
    }

    /// Whether the reservation was changed at the party behind the back of its creator, or lost capacity or its journal
    /// there.
    fn is_interfered(&self, party: &Name, id: ReservationId) -> bool {
        let Some(at) = self.place(party) else { return false };
        let gone = match &self.parties[at].role {
            Role::Site(site) => {
                let lost = self.witness.lost_disks.contains(&at);
                lost || self.witness.failed.contains(&at) || site.batch.touched.contains(&id)
            }
            Role::Broker(broker) => {
                let booking = broker.head().booking(id);
                let mut children = booking.into_iter().flat_map(|booking| &booking.children);
                children.any(|child| self.is_interfered(&child.pick.peer, child.pick.child))
            }
            Role::Client(_) => false,
        };
        gone || self.witness.interfered.contains(&(at, id))
    }

    /// Bookings with some parts that stand and others that do not.
    fn broken_bookings(&mut self) -> Vec<(Rule, String)> {
        let (mut broken, mut unseen) = (Vec::new(), 0);
        for (party, broker) in self.brokers() {
            let picks = picks(broker);
            for booking in broker.head().bookings() {
                let standing = booking.state.is_standing();
                let parts = booking.asked.as_ref().map_or(0, |asked| asked.request.parts.len());
                if standing && booking.children.len() != parts {
                    let what = format!("{}: {} stands with parts missing", party.name, booking.id);
                    broken.push((Rule::AllOrNothing, what));
                }
                if !standing {
                    let picks = picks.get(&booking.id).map_or(&[][..], Vec::as_slice);
                    let parts = self.standing_parts(&party.name, booking, picks);
                    broken.extend(parts.into_iter().map(|what| (Rule::AllOrNothing, what)));
                }
                for (part, child) in booking.children.iter().enumerate() {
                    let state = self.state_at(&child.pick.peer, child.pick.child);
                    let stands = state.is_some_and(State::holds_capacity);
                    // A site that lost its disk adopts every backing in its batch system, even one whose release was in
                    // progress.
                    let old_terms = child.loss.is_some_and(|loss| loss.why == Lost::NotChanged);
                    let said_gone = !booking.has_part(part) && !old_terms;
                    if stands && said_gone && !self.has_lost_disk(&child.pick.peer) {
                        let what =
                            format!("{}: part {part} of {} is said to be gone", party.name, booking.id);
                        broken.push((Rule::KeptPromises, format!("{what}, and is {state:?}")));
                    }
                }
                let parts = booking.children.iter().enumerate();
                for (_, child) in parts.filter(|(part, _)| standing && booking.has_part(*part)) {
                    let state = self.state_at(&child.pick.peer, child.pick.child);
                    if state.is_some_and(State::is_standing) {
                        continue;
                    }
                    // The broker cannot learn of a loss after the end of the booking, and the loss no longer matters. A broker
                    // in between takes a part for broken that ended too early by its own clock, though the site kept it.
                    let over = booking.state == State::Completed;
                    let over = over && self.is_interfered(&child.pick.peer, child.pick.child);
                    if over || self.ran_its_time(&child.pick.peer, child.pick.child) {
                        unseen += 1;
                        continue;
                    }
                    let what = format!("{}: {} stands, its part at", party.name, booking.id);
                    broken.push((Rule::NoPhantoms, format!("{what} {} is {state:?}", child.pick.peer)));
                }
            }
        }
        self.witness.reached.add("over_before_the_loss_of_a_part_was_seen", unseen);
        broken
    }

    /// Bookings of several parts with a part whose terms differ from the decided change or from the terms the broker
    /// shows.
    fn changed_in_part(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (party, broker) in self.brokers() {
            let mut decided: BTreeMap<ReservationId, BTreeSet<usize>> = BTreeMap::new();
            let mut wanted: BTreeMap<ReservationId, BTreeSet<usize>> = BTreeMap::new();
            for event in broker.bookings_journal() {
                match event {
                    Event::Changing { id, changing, .. } => {
                        let parts = changing.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
                        wanted.insert(*id, parts.map(|(part, _)| part).collect());
                    }
                    Event::ChangeDecided { id } => {
                        decided.extend(wanted.remove(id).map(|parts| (*id, parts)));
                    }
                    Event::Changed { id, part, .. } => {
                        if let Some(parts) = decided.get_mut(id) {
                            parts.remove(part);
                        }
                    }
                    Event::ChangeSettled { id } => {
                        let left = decided.remove(id).unwrap_or_default();
                        if !left.is_empty() {
                            found.push(format!("{}: of {id} parts {left:?} were not changed", party.name));
                        }
                    }
                    _ => {}
                }
            }
            let several = |booking: &&Booking| booking.children.len() > 1 && booking.change.is_none();
            for booking in broker.head().bookings().filter(several) {
                let parts = booking.children.iter().enumerate();
                for (_, child) in parts.filter(|(part, _)| booking.has_part(*part)) {
                    let (peer, id, shown) = (&child.pick.peer, child.pick.child, child.pick.slot.interval);
                    let there = self.interval_at(peer, id);
                    if there.is_some_and(|there| there != shown) && !self.is_interfered(peer, id) {
                        let what = format!("{}: {} is shown for {shown:?}", party.name, booking.id);
                        found.push(format!("{what}, its part at {peer} is for {there:?}"));
                    }
                }
            }
        }
        found
    }

    /// Interval of a reservation that is committed or active at a party.
    fn interval_at(&self, party: &Name, id: ReservationId) -> Option<Interval> {
        let promised = |state: State| state.is_standing() && state != State::Completed;
        match &self.parties[self.place(party)?].role {
            Role::Site(site) => {
                site.ledger().entry(id).filter(|entry| promised(entry.state)).map(Entry::interval)
            }
            Role::Broker(broker) => {
                let booking = broker.head().booking(id).filter(|booking| promised(booking.state))?;
                booking.children.first().map(|child| child.pick.slot.interval)
            }
            Role::Client(_) => None,
        }
    }

    /// Parts that stand although their booking does not.
    fn standing_parts(&self, party: &Name, booking: &Booking, picks: &[&Pick]) -> Vec<String> {
        let stands = |pick: &&Pick| match self.state_at(&pick.peer, pick.child) {
            // A part that ended before the rest was given up, or before its site could be told, cannot be given back.
            Some(State::Completed) => {
                let asked = self.witness.given_up.contains(&pick.child);
                !asked && booking.ended.is_none_or(|ended| ended < Moment::of(pick.slot.interval.end))
            }
            state => state.is_some_and(State::is_standing),
        };
        // After a lost disk a site adopts backings as committed, so these parts stand legitimately.
        let found = |pick: &&Pick| self.has_lost_disk(&pick.peer);
        let standing = picks.iter().copied().filter(stands).filter(|pick| !found(pick));
        let what = |pick: &Pick| {
            let Booking { id, state, .. } = booking;
            format!("{party}: {id} is {state}, its part {} at {} stands", pick.child, pick.peer)
        };
        standing.map(what).collect()
    }

    fn has_lost_disk(&self, party: &Name) -> bool {
        self.place(party).is_some_and(|at| self.witness.lost_disks.contains(&at))
    }

    /// Live reservations that no live booking and no client refers to.
    fn orphans(&mut self) -> Vec<String> {
        let mut left_over = 0;
        let mut wanted: BTreeSet<(Name, ReservationId)> = BTreeSet::new();
        for (_, broker) in self.brokers() {
            // A booking that has ended by the broker's clock can still be active by the clock of a site.
            let wants = |state: State| state.holds_capacity() || state == State::Completed;
            let live = broker.head().bookings().filter(|booking| wants(booking.state));
            let children = live.flat_map(|booking| &booking.children);
            wanted.extend(children.map(|child| (child.pick.peer.clone(), child.pick.child)));
        }
        for (_, client) in self.clients() {
            wanted.extend(client.records().iter().map(|record| (client.asks().clone(), record.id)));
        }
        let mut orphans = Vec::new();
        for party in self.parties.iter().filter(|party| !self.has_lost_disk(&party.name)) {
            let live: Vec<ReservationId> = match &party.role {
                Role::Site(site) => {
                    site.ledger().entries().filter(|(_, entry)| entry.is_live()).map(|(id, _)| id).collect()
                }
                Role::Broker(broker) => {
                    let live = broker.head().bookings().filter(|booking| booking.state.holds_capacity());
                    live.map(|booking| booking.id).collect()
                }
                Role::Client(_) => Vec::new(),
            };
            let orphaned = live.into_iter().filter(|id| !wanted.contains(&(party.name.clone(), *id)));
            // A broker releases a reservation for a job with one unrepeated message. If that is lost, the reservation
            // just ends.
            let (left, orphaned): (Vec<_>, Vec<_>) = orphaned.partition(|id| self.is_for_a_job(party, *id));
            left_over += left.len() as u64;
            let orphaned = orphaned.into_iter();
            orphans.extend(orphaned.map(|id| format!("{}: {id} is held without an owner", party.name)));
        }
        self.witness.reached.add("reservations_for_jobs_at_the_end", left_over);
        orphans
    }

    /// Whether a broker made the reservation for a job: its owner is a client that only submits jobs.
    fn is_for_a_job(&self, at: &Party, id: ReservationId) -> bool {
        let owner = match &at.role {
            Role::Site(site) => site.ledger().entry(id).map(|entry| entry.owner.clone()),
            Role::Broker(broker) => broker.head().booking(id).map(Booking::owner),
            Role::Client(_) => None,
        };
        self.clients().any(|(party, client)| {
            let only_jobs = client.records().is_empty() && !client.jobs().is_empty();
            Some(&party.name) == owner.as_ref() && only_jobs
        })
    }

    fn job_at(&self, party: &Name, id: JobId) -> Option<JobView> {
        match &self.parties[self.place(party)?].role {
            Role::Broker(broker) => broker.host.party().job(id),
            Role::Site(site) => site.party().job(id),
            Role::Client(_) => None,
        }
    }

    /// Clients whose last answer contradicts the final state.
    fn deceived_clients(&self) -> Vec<String> {
        let mut deceived = Vec::new();
        for (party, client) in self.clients() {
            for record in client.records().iter().filter(|record| !record.cancelled) {
                let state = self.state_at(client.asks(), record.id);
                let stands = state.is_some_and(State::is_standing);
                let told = record.was_told_committed();
                let excused = self.is_interfered(client.asks(), record.id);
                if told != stands && (told || record.was_told_no()) && !excused {
                    let said = record.last().map_or("nothing", Answer::word);
                    deceived
                        .push(format!("{} was told {said} of {}, it is {state:?}", party.name, record.id));
                }
            }
            for job in client.jobs() {
                let taken = matches!(job.told, Some(Ok(_)));
                if taken && !self.has_lost_disk(client.asks()) && self.job_at(client.asks(), job.id).is_none()
                {
                    deceived.push(format!("{} was told of {}, which is unknown", party.name, job.id));
                }
            }
        }
        deceived
    }

    /// Jobs that wait or run at a site although they are over for their broker, and jobs of a broker that no site has.
    fn abandoned_jobs(&self) -> Vec<String> {
        let mut there: BTreeMap<JobId, bool> = BTreeMap::new();
        for (party, site) in self.sites() {
            for record in site.party().records().all() {
                let Some((job, _)) = job_of(&record.job.work) else { continue };
                let ended =
                    record.over.as_ref().map(|(ended, _)| self.now + party.ahead - Moment::of(*ended));
                let recent = ended.is_some_and(|ago| ago < LOOKED_AT);
                // A broker polls jobs, so it need not know of a recent end yet.
                match (record.over.is_none(), recent) {
                    (true, _) => drop(there.insert(job, true)),
                    (false, true) => drop(there.entry(job).or_insert(false)),
                    (false, false) => {}
                }
            }
        }
        let mut abandoned = Vec::new();
        for (_, client) in self.clients() {
            for job in client.jobs().iter().filter(|job| matches!(job.told, Some(Ok(_)))) {
                let Some(shown) = self.job_at(client.asks(), job.id) else { continue };
                let recent = shown.ended.is_some_and(|ended| self.now - Moment::of(ended) < LOOKED_AT);
                match (shown.state.is_over(), there.get(&job.id)) {
                    (true, Some(true)) if !recent => {
                        abandoned.push(format!("{} is over and waits or runs", job.id));
                    }
                    (false, None) => abandoned.push(format!("{} is expected and at no site", job.id)),
                    _ => {}
                }
            }
        }
        abandoned
    }

    /// Checks, whenever a job has started, that no job runs twice at the same time.
    pub(super) fn check_runs(&mut self) {
        if !self.has_jobs {
            return;
        }
        let clusters = self.sites().flat_map(|(_, site)| site.clusters().values());
        let executions = clusters.flat_map(|cluster| cluster.executions.values()).sum();
        if executions == self.executions {
            return;
        }
        self.executions = executions;
        let now = self.now;
        let mut running: BTreeSet<JobId> = BTreeSet::new();
        for party in &mut self.parties {
            let Role::Site(site) = &mut party.role else { continue };
            // Only now do programs end there whose time is up.
            site.batch.advance(if site.asks() { now } else { now + party.ahead });
            for id in site.batch.clusters.values().flat_map(super::Cluster::programs) {
                if !running.insert(id) {
                    self.witness.violated(
                        Rule::JobsRunOnce,
                        now,
                        format!("{id} runs twice at the same time"),
                    );
                }
            }
        }
    }

    /// Whether and how often the owner of a job allows it to run again.
    fn rerun_of(&self, id: JobId) -> Rerun {
        let mut jobs = self.clients().flat_map(|(_, client)| client.jobs());
        jobs.find(|job| job.id == id).map(|job| job.rerun).unwrap_or_default()
    }

    /// Jobs that ran more often than their owners allow, counted over all copies.
    fn repeated_jobs(&self) -> Vec<String> {
        let mut runs: BTreeMap<JobId, u32> = BTreeMap::new();
        for (_, site) in self.sites() {
            for (id, times) in site.clusters().values().flat_map(|cluster| &cluster.executions) {
                *runs.entry(*id).or_default() += times;
            }
        }
        let repeated = runs.into_iter().filter(|(_, times)| *times > 1).filter(|(id, times)| {
            let rerun = self.rerun_of(*id);
            !rerun.restartable && *times > 1 + rerun.retry.unwrap_or(0)
        });
        repeated.map(|(id, times)| format!("{id} ran {times} times")).collect()
    }
}

/// All parts that a broker has tried to hold, by booking.
fn picks(broker: &Broker) -> BTreeMap<ReservationId, Vec<&Pick>> {
    let mut all: BTreeMap<ReservationId, Vec<&Pick>> = BTreeMap::new();
    for event in broker.bookings_journal() {
        match event {
            Event::Trying { id, picks, .. } => all.entry(*id).or_default().extend(picks),
            Event::Replacing { id, picks, .. } => {
                all.entry(*id).or_default().extend(picks.iter().map(|(_, pick)| pick));
            }
            _ => {}
        }
    }
    all
}

/// Whether replaying the journal of a party gives a state that differs from its present one.
fn untrue_journal(party: &Party) -> Option<String> {
    let same = match &party.role {
        Role::Site(site) => {
            let (is, again) = (site.party(), site.host.replayed());
            is.ledger() == again.ledger() && is.records() == again.records()
        }
        Role::Broker(broker) => {
            use bookahead_party::Party as _;
            broker.host.party().state() == broker.host.replayed().state()
        }
        Role::Client(_) => true,
    };
    (!same).then(|| format!("the state of {} differs from its replayed journal", party.name))
}

/// Differences between the ledger of a site and its batch system, in both directions.
fn unaccounted(site: &Site, local: Moment) -> Vec<(Rule, String)> {
    let mut found = Vec::new();
    for (resource, cluster) in site.clusters() {
        let (now, book) = (cluster.now(), site.ledger());
        for id in cluster.reserved.keys() {
            let wanted = book.entry(*id).map(Entry::takes).unwrap_or_default();
            let whole = book.entry(*id).map(|entry| entry.promised().to_vec()).unwrap_or_default();
            let kept = cluster.kept(*id);
            // The clock of the batch system may be behind, so a recently ended backing is removed only after the next
            // poll.
            let recent = |entry: &&Entry| entry.state.is_over() && local - entry.ended < LOOKED_AT;
            if book.entry(*id).filter(recent).is_none() && !covers(&both(&wanted, &whole), &kept, now) {
                let what = format!("{kept:?} is kept for {id}, which has {wanted:?}");
                found.push((Rule::NothingOrphaned, what));
            }
        }
        for (id, entry) in
            book.entries().filter(|(_, entry)| entry.resource == *resource && !entry.state.is_waiting())
        {
            if !covers(&cluster.kept(id), &entry.takes(), now) {
                let what = format!("{id} has {:?} and {:?} is kept for it", entry.takes(), cluster.kept(id));
                found.push((Rule::Backed, what));
            }
        }
        let live: BTreeSet<JobId> = cluster.live_jobs().collect();
        let jobs = site.party().records();
        let booked: BTreeSet<JobId> =
            jobs.live().filter(|job| job.job.resource == *resource).map(|job| job.job.id).collect();
        // A recent end in the batch system is seen with the next poll; a recent end in the ledger is being cancelled.
        let ended = |id: JobId| jobs.get(id).and_then(|record| record.over.as_ref()).map(|(at, _)| *at);
        let since = now - Seconds(LOOKED_AT.0 / 1_000);
        let unseen =
            |id: &&JobId| ended(**id).is_none_or(|ended| ended <= since) && !cluster.ended_after(**id, since);
        for id in live.symmetric_difference(&booked).filter(unseen) {
            let what = if live.contains(id) {
                "is an orphaned job"
            } else {
                "is in the ledger and not in the batch system"
            };
            found.push((Rule::NothingOrphaned, format!("{id} {what}")));
        }
    }
    found
}
