//! The shortest notice of a resource: fixed, or the wait that the request would have as a job in the queue, so
//! that reserving does not beat queueing. Waits are predicted from the jobs that the site saw start. They are
//! events of the ledger, so a restart does not change a prediction.

use super::entry::{Ticked, What};
use super::sight::Resource;
use super::state::Ledger;
use crate::clock::Moment;
use crate::ids::Name;
use crate::problem::{Basis, Limit, Why};
use bookahead_plan::notice::{Class, History, NoticeRule, Prediction, Predictor, WINDOW};
use bookahead_plan::placement::Request;
use bookahead_plan::{Capacity, Seconds, Time};
use serde::{Deserialize, Serialize};

/// The shortest time between a request and the start of a reservation on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceNotice {
    /// The same for all requests.
    Fixed(Seconds),
    /// By the predicted wait of the request in the queue.
    Predicted(NoticeRule),
}

/// A job that started from the queue, as its batch system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Started {
    /// Its start.
    pub start: Time,
    /// When it could have started at the earliest: its submission, or the end of a hold or dependency.
    pub eligible: Time,
    /// Requested capacity.
    pub capacity: Capacity,
    /// Time limit.
    pub estimate: Seconds,
}

/// The wait of a job that started from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waited {
    /// Requested capacity.
    pub capacity: Capacity,
    /// Time limit.
    pub estimate: Seconds,
    /// How long it waited.
    pub wait: Seconds,
}

/// The waits on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Waits {
    pub(super) history: History,
    /// Start of the last job that is counted. Jobs that started until then are not counted again.
    until: Time,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits { history: History::default(), until: Time::MIN }
    }
}

impl Waits {
    /// For serialization: without jobs it is left out.
    pub(super) fn is_empty(&self) -> bool {
        self.history.is_empty()
    }

    pub(super) fn count(&mut self, until: Time, jobs: &[Waited]) {
        self.until = self.until.max(until);
        jobs.iter().for_each(|job| self.history.record_wait(job.capacity, job.estimate, job.wait));
    }
}

impl Ledger {
    /// Counts the waits of jobs that started after the last counted one, if the notice of the resource depends
    /// on them. The same jobs may be reported again.
    pub fn jobs_started(&mut self, now: Moment, resource: &Name, started: &[Started]) -> Ticked {
        let predicted = matches!(self.rules.notices.get(resource), Some(ResourceNotice::Predicted(_)));
        let Some(at) = self.at(resource).filter(|_| predicted) else { return Ticked::default() };
        let last = self.books[at].waits.until;
        let mut new: Vec<Started> = started.iter().copied().filter(|job| job.start > last).collect();
        new.sort_unstable();
        // Earlier ones would be forgotten at once.
        let new = &new[new.len().saturating_sub(WINDOW)..];
        let Some(until) = new.last().map(|job| job.start) else { return Ticked::default() };
        let waited = |job: &Started| Waited {
            capacity: job.capacity,
            estimate: job.estimate,
            wait: (job.start - job.eligible).max(Seconds::ZERO),
        };
        let jobs = new.iter().map(waited).collect();
        let mut course = self.tick(now);
        self.record(self.latest, What::Waited { resource: resource.clone(), until, jobs }, &mut course);
        course
    }
}

/// The notice that a request needs on a resource.
pub(super) struct Needed {
    notice: Seconds,
    prediction: Option<(Predictor, Prediction)>,
}

impl Resource<'_> {
    fn needed(&self, wanted: &Request) -> Option<Needed> {
        Some(match *self.notice? {
            ResourceNotice::Fixed(notice) => Needed { notice, prediction: None },
            ResourceNotice::Predicted(rule) => {
                let predicted = self.waits.predict(rule.predictor, wanted.capacity, wanted.duration);
                let prediction = Some((rule.predictor, predicted));
                Needed { notice: rule.notice(predicted.wait), prediction }
            }
        })
    }

    /// The first start that the notice allows.
    pub(super) fn first_noticed(&self, wanted: &Request) -> Time {
        let notice = self.needed(wanted).map_or(Seconds::ZERO, |needed| needed.notice);
        self.now + notice
    }

    /// The request without starts that the notice does not allow.
    pub(super) fn noticed(&self, wanted: &Request) -> Request {
        match self.notice {
            None => *wanted,
            Some(_) => {
                let earliest_start = wanted.earliest_start.max(self.first_noticed(wanted));
                Request { earliest_start, ..*wanted }
            }
        }
    }

    /// Why the notice allows no start of the request, if that is so.
    pub(super) fn too_soon(&self, wanted: &Request) -> Option<Why> {
        let not_before = self.first_noticed(wanted);
        let needed = self.needed(wanted).filter(|_| wanted.latest_start() < not_before)?;
        let Needed { notice, prediction } = needed;
        Some(match prediction {
            None => {
                let asked = (wanted.latest_start() - self.now).0;
                Why::Limit { limit: Limit::Notice, most: notice.0, asked }
            }
            Some((predictor, Prediction { wait, class, observations, .. })) => {
                let basis = match (predictor, class) {
                    (Predictor::Mean, _) => Basis::Mean,
                    (Predictor::Quantile(_), Class::All) => Basis::AllJobs,
                    (Predictor::Quantile(_), _) => Basis::SimilarJobs,
                };
                let jobs = u32::try_from(observations).unwrap_or(u32::MAX);
                Why::TooSoon { not_before, notice, wait, jobs, basis }
            }
        })
    }
}
