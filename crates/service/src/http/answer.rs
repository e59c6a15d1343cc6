//! Answers: documents for results of the party, problem documents with headers for refusals, and conversions of
//! party types to API types. The entity tag of a reservation begins with its version, so that a change can name the
//! version it was based on, and ends with a digest of the document. Decides nothing.

use super::invitations::Seen;
use crate::security::{CHALLENGE, ProviderHealth, ProviderState};
use crate::thread::NoReply;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_api::problem::MEDIA_TYPE;
use bookahead_api::{Code, Problem};
use bookahead_party::queries::{BatchHealth, BatchState};
use bookahead_party::register::MOST_CHANGES;
use bookahead_party::schedule::{Block, BlockKind, Levels, ResourceSchedule, WhatIf};
use bookahead_party::{Changes, Heartbeat, Known, Load, OfferedResource, Role};
use bookahead_plan::{Capacity, Time};
use bookahead_protocol as protocol;
use bookahead_protocol::ledger::Maintenance;
use bookahead_protocol::{Answer, Millis, Name, Reservation};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use std::sync::Arc;

/// A serialized reservation.
pub(super) struct Written {
    /// Entity tag of this state.
    pub(super) tag: String,
    location: String,
    document: Vec<u8>,
}

impl Written {
    /// Serializes a reservation as its reader may see it.
    pub(super) fn new(Seen { mut reservation, invitation }: Seen) -> Result<Written, Refusal> {
        let location = format!("/v1/reservations/{}", reservation.id);
        let version = reservation.version;
        let request = reservation.request.take().map(|request| api::Request::try_from(*request));
        let request = request.transpose().map_err(out_of_calendar)?;
        let mut shown = Seen { reservation, invitation }.document()?;
        // Without the request, which only some answers have: all answers about one state have the same tag.
        let without = json(&shown)?;
        let digest = digest(&SHA256, &without);
        shown.request = request;
        let document = if shown.request.is_some() { json(&shown)? } else { without };
        let digest: String = digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Ok(Written { tag: format!("\"{version}-{digest}\""), location, document })
    }

    pub(super) fn shown(self) -> Response {
        let mut response = json_body(StatusCode::OK, self.document);
        set(&mut response, ETAG, &self.tag);
        response
    }

    pub(super) fn created(self) -> Response {
        let location = self.location.clone();
        let mut response = self.shown();
        *response.status_mut() = StatusCode::CREATED;
        set(&mut response, LOCATION, &location);
        response
    }

    /// The answer 304.
    pub(super) fn not_modified(&self) -> Response {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        set(&mut response, ETAG, &self.tag);
        response
    }
}

pub(super) fn document(reservation: Reservation) -> Result<api::Reservation, Refusal> {
    api::Reservation::try_from(reservation).map_err(out_of_calendar)
}

/// The reservation in an answer.
pub(super) fn reservation(answer: Answer) -> Result<Reservation, Refusal> {
    match answer {
        Answer::Reservation(reservation) => Ok(reservation),
        Answer::Problem(problem) => Err((*problem).into()),
        Answer::Offers(_) => Err(Refusal::internal("the party answered with offers; this is a defect")),
    }
}

/// The offers in an answer, with the age of the batch system snapshot that they are based on.
pub(super) fn offers(
    answer: Answer,
    look_age: Option<Millis>,
    maintenance: Vec<api::Maintenance>,
) -> Result<Response, Refusal> {
    match answer {
        Answer::Offers(offers) => {
            let offers = api::Offers::try_from(offers).map_err(out_of_calendar)?;
            written(&api::Offers { looked_seconds_ago: look_age.map(seconds), maintenance, ..offers })
        }
        Answer::Problem(problem) => Err((*problem).into()),
        Answer::Reservation(_) => {
            Err(Refusal::internal("the party answered with a reservation; this is a defect"))
        }
    }
}

/// A document with status 200.
pub(super) fn written(value: &impl Serialize) -> Result<Response, Refusal> {
    Ok(json_body(StatusCode::OK, json(value)?))
}

/// A new document with its path.
pub(super) fn created(value: &impl Serialize, location: &str) -> Result<Response, Refusal> {
    let mut response = json_body(StatusCode::CREATED, json(value)?);
    set(&mut response, LOCATION, location);
    Ok(response)
}

/// A time outside of the calendar cannot be expressed in an answer.
pub(super) fn out_of_calendar(why: api::OutOfCalendar) -> Refusal {
    Refusal::internal(why.to_string())
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|why| Refusal::internal(format!("cannot serialize the answer: {why}")))
}

fn json_body(status: StatusCode, document: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], document).into_response()
}

fn set(response: &mut Response, name: axum::http::HeaderName, value: &str) {
    // Tags and locations consist of visible ASCII, so the conversion succeeds.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    problem: Box<Problem>,
    /// `Retry-After` in seconds.
    retry_after: Option<u64>,
}

/// Problem code of a response, for logs and metrics.
#[derive(Debug, Clone)]
pub(super) struct ToldCode(pub(super) String);

impl Refusal {
    /// With a code and a detail.
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Refusal {
        Problem::new(code, detail).into()
    }

    /// The request is invalid.
    pub(super) fn bad_request(detail: impl Into<String>) -> Refusal {
        Refusal::new(Code::BadRequest, detail)
    }

    /// The server has a defect.
    pub(super) fn internal(detail: impl Into<String>) -> Refusal {
        Refusal::new(Code::Internal, detail)
    }

    /// Sets `Retry-After` in seconds.
    pub(super) fn retry_after(self, seconds: u64) -> Refusal {
        Refusal { retry_after: Some(seconds), ..self }
    }

    /// With counter-offers as whole requests.
    pub(super) fn for_request(mut self, request: &api::Request) -> Refusal {
        *self.problem = self.problem.for_request(request);
        self
    }

    pub(super) fn code(&self) -> &str {
        &self.problem.code
    }

    pub(super) fn detail(&self) -> &str {
        &self.problem.detail
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        // These conditions are temporary.
        let soon = matches!(problem.status, 429 | 503) || problem.code == Code::KeyInFlight.word();
        Refusal { problem: Box::new(problem), retry_after: soon.then_some(1) }
    }
}

impl From<protocol::Problem> for Refusal {
    fn from(problem: protocol::Problem) -> Refusal {
        Problem::from(problem).into()
    }
}

impl From<NoReply> for Refusal {
    fn from(why: NoReply) -> Refusal {
        match why {
            NoReply::Full | NoReply::Gone => Refusal::new(Code::Unavailable, why.to_string()),
            NoReply::Late => Refusal::new(Code::Late, why.to_string()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let document = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, MEDIA_TYPE)], document).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        response.extensions_mut().insert(ToldCode(self.problem.code));
        response
    }
}

/// There is no route with this path.
pub(super) async fn nothing_here(uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::new(Code::NotFound, format!("there is no {path}; /openapi.json lists all paths"))
}

/// The route does not support this method. The router adds `Allow`.
pub(super) async fn not_that_method(method: Method) -> Refusal {
    let method: String = method.as_str().chars().take(32).collect();
    Refusal::new(
        Code::MethodNotAllowed,
        format!("{method} is not supported here; use a method listed in Allow"),
    )
}

pub(crate) fn role(role: Role) -> api::Role {
    match role {
        Role::Site => api::Role::Site,
        Role::Broker => api::Role::Broker,
    }
}

fn role_from(role: api::Role) -> Role {
    match role {
        api::Role::Site => Role::Site,
        api::Role::Broker => Role::Broker,
    }
}

/// The party's own heartbeat.
pub(crate) fn heartbeat(said: Heartbeat) -> api::Heartbeat {
    api::Heartbeat {
        name: said.name,
        url: said.url,
        role: role(said.role),
        resources: said.resources.into_iter().map(resource).collect(),
        attributes: api::site::attributes_from(said.attributes),
        loads: said.loads.into_iter().map(load).collect(),
        hold_takes_seconds: said.hold_takes.map(Into::into),
        batch: said.batch.map(batch_state),
        changes: said.changes.and_then(|changes| {
            let (number, recent) = (changes.number, changes.recent.iter().copied().collect());
            Some(api::site::Changes { epoch: changes.epoch.try_into().ok()?, number, recent })
        }),
        version: said.version,
    }
}

pub(crate) fn heartbeat_from(document: api::Heartbeat) -> Heartbeat {
    Heartbeat {
        name: document.name,
        url: document.url,
        registered_by: None,
        role: role_from(document.role),
        resources: document.resources.into_iter().map(resource_from).collect(),
        attributes: api::site::attributes_into(document.attributes),
        loads: document.loads.into_iter().map(load_from).collect(),
        hold_takes: document.hold_takes_seconds.map(|takes| Millis(takes.0)),
        batch: document.batch.map(batch_state_from),
        changes: document.changes.map(|changes| {
            let api::site::Changes { epoch, number, mut recent } = changes;
            recent.drain(..recent.len().saturating_sub(MOST_CHANGES));
            Arc::new(Changes { epoch: epoch.moment(), number, recent: recent.into() })
        }),
        version: document.version,
    }
}

/// Turns a queried party into a heartbeat. `name` and `url` are those known here.
pub(crate) fn heartbeat_of(name: &Name, url: String, itself: api::Site) -> api::Heartbeat {
    let api::Site { role, resources, attributes, loads, hold_takes_seconds, batch, changes, version, .. } =
        itself;
    let name = name.clone();
    api::Heartbeat {
        name,
        url,
        role,
        resources,
        attributes,
        loads,
        hold_takes_seconds,
        batch,
        changes,
        version,
    }
}

pub(crate) fn site(known: Known) -> api::Site {
    let Known { said, last_heard, round_trip, up } = known;
    let api::Heartbeat {
        name,
        url,
        role,
        resources,
        attributes,
        loads,
        hold_takes_seconds,
        batch,
        changes,
        version,
    } = heartbeat(said);
    api::Site {
        name,
        url,
        role,
        resources,
        attributes,
        loads,
        last_heard: last_heard.map(api::Timestamp::nearest),
        round_trip_seconds: round_trip.map(Into::into),
        hold_takes_seconds,
        batch,
        changes,
        state: if up { api::Reachability::Up } else { api::Reachability::Silent },
        version,
    }
}

fn resource(offered: OfferedResource) -> api::Resource {
    api::Resource { through: offered.through, ..offered.resource.into() }
}

fn resource_from(mut document: api::Resource) -> OfferedResource {
    let through = std::mem::take(&mut document.through);
    OfferedResource { resource: document.into(), through }
}

fn load(load: Load) -> api::Load {
    let Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds } = load;
    api::Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds }
}

fn load_from(document: api::Load) -> Load {
    let api::Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds } = document;
    Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds }
}

pub(crate) fn schedule(resources: Vec<ResourceSchedule>) -> api::Schedule {
    let of_one = |one: ResourceSchedule| api::ResourceSchedule {
        resource: one.resource,
        capacity: one.capacity.0,
        now: api::Timestamp::nearest(one.now),
        lost: one.lost.0,
        blocks: one.blocks.into_iter().filter_map(block).collect(),
        levels: one.levels.map(levels),
        free: one.free.into_iter().map(|(begin, free)| free_from(begin, free)).collect(),
    };
    api::Schedule { resources: resources.into_iter().map(of_one).collect() }
}

fn levels(levels: Levels) -> api::Levels {
    let used = levels.used.into_iter().map(|(kind, used)| (block_kind(kind).word().to_owned(), used));
    let begin = api::Timestamp::nearest(levels.begin);
    api::Levels { begin, step_seconds: levels.step.0, used: used.collect() }
}

/// Maintenance of resources, by begin.
pub(super) fn maintenance(seen: Vec<(Name, Maintenance)>) -> Vec<api::Maintenance> {
    let one = |(resource, Maintenance { name, span }): (Name, Maintenance)| {
        let stamp = |time: Time| api::Timestamp::try_from(time).ok();
        let (begin, end) = (stamp(span.interval.begin)?, stamp(span.interval.end)?);
        Some(api::Maintenance { name, resource, begin, end, capacity: span.capacity.0 })
    };
    let mut all: Vec<api::Maintenance> = seen.into_iter().filter_map(one).collect();
    all.sort_by(|one, other| (one.begin, &one.resource).cmp(&(other.begin, &other.resource)));
    all
}

fn free_from(begin: Time, free: Capacity) -> api::Free {
    api::Free { begin: api::Timestamp::nearest(begin), capacity: free.0 }
}

/// Most jobs in an answer. Beyond it, those that stay where they are say nothing.
const MOST_JOBS: usize = 10_000;

pub(super) fn what_if(resource: Name, plans: &WhatIf) -> api::WhatIf {
    let pairs = plans.before.iter().zip(&plans.after).enumerate();
    let jobs = pairs.map(|(place, (before, after))| api::WaitingJob {
        place: u32::try_from(place + 1).unwrap_or(u32::MAX),
        capacity: before.capacity.0,
        limit_seconds: before.interval.length().0,
        before: api::Timestamp::nearest(before.interval.begin),
        after: api::Timestamp::nearest(after.interval.begin),
    });
    let mut jobs: Vec<api::WaitingJob> = jobs.collect();
    if jobs.len() > MOST_JOBS {
        jobs.sort_by_key(|job| (job.before == job.after, job.place));
        jobs.truncate(MOST_JOBS);
    }
    api::WhatIf { resource, jobs }
}

fn block_kind(kind: BlockKind) -> api::BlockKind {
    match kind {
        BlockKind::RunningJob => api::BlockKind::RunningJob,
        BlockKind::WaitingJob => api::BlockKind::WaitingJob,
        BlockKind::Hold => api::BlockKind::Hold,
        BlockKind::Reservation => api::BlockKind::Reservation,
        BlockKind::Foreign => api::BlockKind::Foreign,
        BlockKind::Maintenance => api::BlockKind::Maintenance,
    }
}

fn block(block: Block) -> Option<api::Block> {
    let stamp = |time: Time| api::Timestamp::try_from(time).ok();
    let (id, owner, state) = match block.reservation {
        Some((id, owner, state)) => (Some(id.to_string()), Some(owner), Some(state.into())),
        None => (None, None, None),
    };
    Some(api::Block {
        kind: block_kind(block.kind),
        begin: stamp(block.span.interval.begin)?,
        end: stamp(block.span.interval.end)?,
        capacity: block.span.capacity.0,
        id,
        owner,
        state,
        name: block.name,
        missing: (block.missing > Capacity::ZERO).then_some(block.missing.0),
    })
}

pub(super) fn identity_provider_health(health: ProviderHealth) -> api::IdentityProviderHealth {
    let state = match health.state {
        ProviderState::Ok => api::IdentityProviderState::Ok,
        ProviderState::Failing => api::IdentityProviderState::Failing,
        ProviderState::NoKeys => api::IdentityProviderState::NoKeys,
    };
    api::IdentityProviderHealth { state, fetched_seconds_ago: health.age.map(|age| age.as_secs()) }
}

fn batch_state(state: BatchState) -> api::BatchState {
    match state {
        BatchState::Ok => api::BatchState::Ok,
        BatchState::Slow => api::BatchState::Slow,
        BatchState::Silent => api::BatchState::Silent,
    }
}

fn batch_state_from(state: api::BatchState) -> BatchState {
    match state {
        api::BatchState::Ok => BatchState::Ok,
        api::BatchState::Slow => BatchState::Slow,
        api::BatchState::Silent => BatchState::Silent,
    }
}

pub(crate) fn batch_health(health: BatchHealth) -> api::BatchHealth {
    api::BatchHealth {
        state: batch_state(health.state),
        since: health.since.map(|since| api::Timestamp::nearest(since.second())),
        looked_seconds_ago: health.look_age.map(seconds),
    }
}

pub(crate) fn seconds(age: Millis) -> u64 {
    u64::try_from(age.0 / 1_000).unwrap_or(0)
}
