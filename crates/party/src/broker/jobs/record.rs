//! One job at a broker and its progress. It changes only by events; reports of sites are kept only for
//! display.

use super::Seen;
use crate::broker::event::{JobEvent, PartThere};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::broker::name_here;
use bookahead_protocol::jobs::choice::Outcome;
use bookahead_protocol::jobs::race::{Pace, copy_of};
use bookahead_protocol::jobs::{Choice, JobRequest, JobView, JobWord, LostAttempt, Mode, Race, Runs};
use bookahead_protocol::level::Received;
use bookahead_protocol::{Caller, JobId, Key, Moment, Name, ReservationId};
use std::sync::Arc;

/// A job at a broker.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) id: JobId,
    /// Key of its submission.
    pub(super) key: Key,
    pub(super) caller: Caller,
    pub(super) job: Box<JobRequest>,
    /// When it was submitted.
    pub(super) at: Time,
    /// The brokers that it passed through.
    pub(super) via: Arc<[Name]>,
    pub(super) course: Course,
    /// Attempts that sites lost.
    pub(super) attempts: Vec<LostAttempt>,
    /// Whether its owner cancelled it.
    pub(super) unwanted: bool,
    /// When the broker learned that it is over, and its final state.
    pub(super) over: Option<(Time, Box<JobView>)>,
    /// Its entry in the agenda.
    pub(super) due: Option<Moment>,
}

/// How a job is placed.
#[derive(Debug, Clone)]
pub(super) enum Course {
    /// In a part of a reservation that its owner named.
    Part(Box<PartThere>, Visits),
    /// In a reservation that the broker finds.
    Reserved(Box<Choice>, Visits),
    /// As one of several copies, the first whose turn comes.
    Flooded(Box<Race>),
}

/// Progress of a job at the site of its reservation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visits {
    /// Whether the site has accepted it.
    pub(super) handed: bool,
    /// Last report of the site since the broker started.
    pub(super) heard: Moment,
    /// Time of the next message to the site.
    pub(super) next: Moment,
    /// When it was last submitted to the site, or when the broker started.
    pub(super) sent: Moment,
    /// Since when the site says that it does not know it.
    pub(super) unknown: Option<Moment>,
}

impl Visits {
    fn new(at: Moment) -> Visits {
        Visits { handed: false, heard: at, next: at, sent: at, unknown: None }
    }
}

impl Record {
    /// From a submission. None for other events.
    pub(super) fn of(event: &JobEvent) -> Option<Record> {
        let JobEvent::Submitted { id, key, caller, job, at, via, part } = event else { return None };
        let visits = Visits::new(Moment::of(*at));
        let course = match part {
            Some(part) => Course::Part(part.clone(), visits),
            None if job.mode == Some(Mode::Flood) => Course::Flooded(Box::default()),
            None => Course::Reserved(Box::new(Choice::new(Received::of_job(job))), visits),
        };
        Some(Record {
            id: *id,
            key: *key,
            caller: caller.clone(),
            job: job.clone(),
            at: *at,
            via: via.clone().into(),
            course,
            attempts: Vec::new(),
            unwanted: false,
            over: None,
            due: None,
        })
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, event: &JobEvent) {
        match (event, &mut self.course) {
            (JobEvent::Choice { event, .. }, Course::Reserved(choice, _)) => choice.apply(event),
            (JobEvent::Race { event, .. }, Course::Flooded(race)) => race.apply(event),
            (JobEvent::Handed { .. }, Course::Part(_, visits) | Course::Reserved(_, visits)) => {
                visits.handed = true;
            }
            (JobEvent::Retried { attempt, .. }, course) => {
                // The copies of a flooded job go on in the same race. What a choice still holds expires by itself.
                if let Course::Reserved(choice, visits) = course {
                    **choice = Choice::new(Received::of_job(&self.job));
                    *visits = Visits::new(Moment::of(attempt.at));
                }
                self.attempts.push(attempt.clone());
            }
            (JobEvent::Unwanted { .. }, _) => self.unwanted = true,
            (JobEvent::Over { job, at }, _) => {
                // The first end counts: a late report about a dropped copy must not change it.
                self.over.get_or_insert((*at, job.clone()));
            }
            _ => {}
        }
    }

    pub(super) fn race(&mut self) -> Option<&mut Race> {
        if let Course::Flooded(race) = &mut self.course { Some(race) } else { None }
    }

    pub(super) fn choice(&mut self) -> Option<&mut Choice> {
        if let Course::Reserved(choice, _) = &mut self.course { Some(choice) } else { None }
    }

    pub(super) fn visits(&mut self) -> Option<&mut Visits> {
        match &mut self.course {
            Course::Part(_, visits) | Course::Reserved(_, visits) => Some(visits),
            Course::Flooded(_) => None,
        }
    }

    pub(super) fn part(&self) -> Option<&PartThere> {
        if let Course::Part(part, _) = &self.course { Some(part) } else { None }
    }

    /// Its id at the site of its reservation. Each attempt has its own, so that a late message about an earlier one
    /// has no effect.
    pub(super) fn there(&self) -> JobId {
        match self.attempts.len() {
            0 => self.id,
            lost if matches!(self.course, Course::Reserved(..)) => copy_of(self.id, lost),
            _ => self.id,
        }
    }

    /// Whether it may be submitted again after a loss.
    pub(super) fn may_retry(&self) -> bool {
        let allowed = self.job.rerun.retry.and_then(|retry| usize::try_from(retry).ok()).unwrap_or(0);
        self.attempts.len() < allowed && !self.unwanted && self.over.is_none()
    }

    /// Whether a search for a new place must begin.
    pub(super) fn is_to_be_placed_again(&self) -> bool {
        let idle = matches!(&self.course, Course::Reserved(choice, _) if !choice.has_begun());
        idle && !self.attempts.is_empty() && self.over.is_none()
    }

    /// Whether it is over and nothing of it is left at any site.
    pub(super) fn is_settled(&self) -> bool {
        self.over.is_some()
            && match &self.course {
                // The reservation belongs to its owner, so the broker has nothing to release.
                Course::Part(..) => true,
                Course::Reserved(choice, _) => choice.is_over(),
                Course::Flooded(race) => race.is_over(),
            }
    }

    /// Whether the broker stopped before its placement was recorded.
    pub(super) fn is_interrupted(&self) -> bool {
        match &self.course {
            Course::Part(..) => false,
            Course::Reserved(choice, _) => !choice.has_begun() && self.attempts.is_empty(),
            Course::Flooded(race) => !race.has_begun(),
        }
    }

    pub(super) fn next_timer(&self, pace: &Pace) -> Option<Moment> {
        let visit = |visits: &Visits| (self.over.is_none() && self.place().is_some()).then_some(visits.next);
        match &self.course {
            Course::Part(_, visits) => visit(visits),
            Course::Reserved(_, visits) if self.is_to_be_placed_again() => Some(visits.next),
            Course::Reserved(choice, visits) => choice.next_timer().into_iter().chain(visit(visits)).min(),
            Course::Flooded(race) => race.next_timer(pace),
        }
    }

    /// Its site, the id of its reservation there, and the time of that. None while it has no place.
    pub(super) fn place(&self) -> Option<(Name, ReservationId, Interval)> {
        match &self.course {
            Course::Part(part, _) => Some((part.site.clone(), part.reservation, part.when)),
            Course::Reserved(choice, _) => match choice.outcome()? {
                Outcome::Booked { site, id, start, finish } => {
                    Some((site.clone(), *id, Interval::new(*start, finish.second())))
                }
                Outcome::Failed(_) => None,
            },
            Course::Flooded(_) => None,
        }
    }

    /// Its site, and its id there. A flooded job has a place once a copy may run.
    pub(super) fn job_place(&self) -> Option<(Name, JobId)> {
        match &self.course {
            Course::Part(..) | Course::Reserved(..) => self.place().map(|(site, ..)| (site, self.there())),
            Course::Flooded(race) => {
                let site = race.granted()?;
                let copy = race.places().find(|(entry, _)| entry.site == *site)?;
                Some((site.clone(), copy.1))
            }
        }
    }

    /// A site's view of the job in the broker's terms. If its owner named a reservation, it shows that one
    /// and the broker's name for the resource.
    pub(super) fn as_here(&self, site: &Name, view: JobView) -> JobView {
        let (mut resource, mut reservation) = (view.resource, view.reservation);
        if let Some(part) = self.part() {
            resource = Some(name_here(&part.site, &part.resource));
            reservation = self.job.reservation;
        }
        JobView { id: self.id, site: Some(site.clone()), resource, reservation, ..view }
    }

    pub(super) fn shown(&self, seen: &Seen) -> JobView {
        let shown = match &self.over {
            Some((_, view)) => (**view).clone(),
            None => self.unfinished(seen),
        };
        // Notes are added even to a finished job: copies may be dropped after it.
        let said = shown.detail.clone().into_iter().chain(self.notes());
        let detail = said.collect::<Vec<_>>().join("; ");
        let runs = Runs { attempts: self.attempts.clone(), ..shown.runs };
        let detail = Some(detail).filter(|detail| !detail.is_empty());
        JobView { detail, rerun: self.job.rerun, runs, ..shown }
    }

    /// The job before it is over, without notes about its copies.
    pub(super) fn unfinished(&self, seen: &Seen) -> JobView {
        match &self.course {
            Course::Part(..) | Course::Reserved(..) => self.reserved(seen),
            Course::Flooded(race) => self.flooded(race, seen),
        }
    }

    fn seen_at<'a>(&self, site: &Name, seen: &'a Seen) -> Option<&'a JobView> {
        seen.get(&(self.id, site.clone())).map(|view| &**view)
    }

    fn reserved(&self, seen: &Seen) -> JobView {
        let Some((site, there, when)) = self.place() else { return self.plain() };
        // Reports are not journalled: after a restart there is none before the next answer of the site.
        let view = self.seen_at(&site, seen).cloned().unwrap_or_else(|| JobView {
            reservation: Some(there),
            expected_start: Some(when.begin),
            ..self.plain()
        });
        self.as_here(&site, view)
    }

    /// One job with one site, however many copies there are.
    fn flooded(&self, race: &Race, seen: &Seen) -> JobView {
        let plain = self.plain();
        if let Some(site) = race.granted() {
            let entry = race.places().find(|(entry, _)| entry.site == *site).map(|(entry, _)| entry);
            let there = JobView {
                site: Some(site.clone()),
                resource: entry.map(|entry| entry.resource.clone()),
                limit: entry.map_or(plain.limit, |entry| entry.limit),
                state: JobWord::Waiting,
                ..plain
            };
            return match self.seen_at(site, seen) {
                Some(copy) => as_the_job(copy, &there),
                None => there,
            };
        }
        let Some(first) = race.queued().next() else { return plain };
        let others: String = race.queued().skip(1).map(|site| format!(", {site}")).collect();
        let starts = race.queued().filter_map(|site| self.seen_at(site, seen)?.expected_start);
        JobView {
            state: if race.is_claiming() { JobWord::Claiming } else { JobWord::Waiting },
            expected_start: starts.min(),
            detail: Some(format!("waits at {first}{others}; the first whose turn comes runs it")),
            ..plain
        }
    }

    /// Remarks about its copies.
    fn notes(&self) -> Vec<String> {
        let Course::Flooded(race) = &self.course else { return Vec::new() };
        let wasted = race.wasted().map(|(site, Seconds(ran))| {
            format!("a copy at {site} ran {ran} s without permission until it was cancelled")
        });
        let decided = race.granted().is_some() || race.outcome().is_some();
        // Once the job is over, even its granted copy must be cancelled if the site still has it.
        let granted = race.granted().filter(|_| self.over.is_none());
        let left = race.dropping().filter(|site| decided && Some(*site) != granted);
        let left = left.map(|site| format!("a copy at {site} will be cancelled as soon as the site answers"));
        wasted.chain(left).collect()
    }

    /// Without information from any site.
    fn plain(&self) -> JobView {
        JobView {
            id: self.id,
            owner: self.caller.user.clone(),
            site: None,
            resource: None,
            reservation: None,
            capacity: self.job.capacity,
            limit: self.job.limit,
            state: JobWord::Placing,
            submitted: self.at,
            started: None,
            ended: None,
            expected_start: None,
            exit: None,
            native_id: None,
            detail: None,
            rerun: self.job.rerun,
            runs: Runs::default(),
            description: self.job.description.clone(),
        }
    }
}

/// A granted copy in place of the job. That it claims is internal to its site and the broker.
fn as_the_job(copy: &JobView, job: &JobView) -> JobView {
    let state = if copy.state == JobWord::Claiming { JobWord::Waiting } else { copy.state };
    JobView {
        id: job.id,
        owner: job.owner.clone(),
        site: job.site.clone(),
        submitted: job.submitted,
        state,
        ..copy.clone()
    }
}
