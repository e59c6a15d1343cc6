//! Queries: lists of reservations, resources, schedules, and the register of sites. Also registration.

use super::answer::{Refusal, written};
use super::invitations::Seen;
use super::limits::over_limit;
use super::listener::{PeerAddress, UNIX};
use super::openapi::{OfBody, Refused};
use super::output::JobOutputs;
use super::request::{Document, Filters, identity};
use super::requester::{Registering, Requester};
use super::serve::Peer;
use super::{Shared, answer};
use crate::peer_answers::plain;
use axum::Extension;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::Response;
use bookahead_api as api;
use bookahead_client::ClientError;
use bookahead_party::schedule::ScheduleWindow;
use bookahead_party::{Filter, Heartbeat, Page, Position};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::{Moment, Name, ReservationId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Default page size.
pub(super) const PAGE: usize = 100;

/// Default length of a schedule: one day.
const DAY: Seconds = Seconds(86_400);

/// List reservations
///
/// Users see their own reservations and those shared with them; operators and readers see all. Sorted by begin, in
/// pages.
#[utoipa::path(
    get, path = "/v1/reservations", operation_id = "list_reservations", tag = "reservations",
    params(api::ListQuery),
    responses((status = 200, description = "One page", body = api::Reservations), Refused)
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::ListQuery>,
) -> Result<Response, Refusal> {
    let filter = filter(&shared, &requester, query)?;
    // A page needs a scan of the whole ledger, which would block a worker thread of the runtime.
    let Page { reservations, next, total } =
        shared.read_long(move |queries, now| queries.list(now, &filter)).await?;
    let seen = reservations.into_iter().map(|reservation| shared.as_seen(&requester, reservation));
    let reservations = seen.map(Seen::document).collect::<Result<_, _>>()?;
    written(&api::Reservations { reservations, next: next.map(cursor), total: Some(total) })
}

/// A position in a list of reservations as text. Clients do not interpret it.
fn cursor((begin, id): Position) -> String {
    format!("{}_{id}", begin.0)
}

fn position(cursor: &str) -> Result<Position, Refusal> {
    let parsed = cursor
        .split_once('_')
        .and_then(|(begin, id)| Some((Time(begin.parse().ok()?), identity::<ReservationId>(id).ok()?)));
    parsed.ok_or_else(|| Refusal::bad_request("cursor must be the next of a page"))
}

fn filter(shared: &Shared, requester: &Requester, query: api::ListQuery) -> Result<Filter, Refusal> {
    let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE);
    let after = query.cursor.as_deref().map(position).transpose()?;
    let (owner, user) = requester.lists(query.owner)?;
    Ok(Filter {
        id: query.id,
        owner,
        user,
        blocked: requester.blocked(),
        name: query.name,
        labels: query.label.unwrap_or_default().0,
        states: query.state.unwrap_or_default().0.into_iter().map(Into::into).collect(),
        resource: query.resource,
        from: query.from.map(api::Timestamp::time),
        until: query.until.map(api::Timestamp::time),
        after,
        limit: limit.min(shared.limits.most_page),
    })
}

/// List resources
///
/// A site lists its own resources; a broker those of all its peers, prefixed with the name of the peer.
#[utoipa::path(
    get, path = "/v1/resources", operation_id = "list_resources", tag = "resources",
    responses((status = 200, description = "The resources", body = api::Resources), Refused)
)]
pub(super) async fn resources(State(shared): State<Arc<Shared>>, _: Requester) -> Result<Response, Refusal> {
    let seen = shared.read(|queries, _| queries.resources());
    written(&api::Resources { resources: seen.into_iter().map(Into::into).collect() })
}

/// Show schedules
///
/// Occupied intervals, for charts. Default: one day from now. For reservations and jobs of others, users see
/// neither id nor owner. With `pixels`, a broker includes what its peers say about their resources.
#[utoipa::path(
    get, path = "/v1/schedule", operation_id = "show_schedule", tag = "resources",
    params(api::ScheduleQuery),
    responses(
        (status = 200, description = "The schedules", body = api::Schedule),
        (status = 422, description = "The interval is too long", body = api::Problem,
            content_type = "application/problem+json"),
        Refused
    )
)]
pub(super) async fn schedule(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::ScheduleQuery>,
) -> Result<Response, Refusal> {
    written(&shared.schedule(&requester, query).await?)
}

impl Shared {
    /// Schedules as the caller may see them. A broker asks its peers, which know what else occupies their resources.
    pub(super) async fn schedule(
        &self,
        requester: &Requester,
        query: api::ScheduleQuery,
    ) -> Result<api::Schedule, Refusal> {
        let (viewer, longest) = (requester.viewer(), self.limits.longest_window.seconds());
        let api::ScheduleQuery { resource, from, until, pixels } = query;
        let seen = self.read_long(move |queries, now| {
            let interval =
                window(now, from.map(api::Timestamp::time), until.map(api::Timestamp::time), longest)?;
            let window = ScheduleWindow { interval, pixels };
            Ok::<_, Refusal>((interval, queries.schedule(now, &viewer, &window, resource.as_ref())))
        });
        let (interval, seen) = seen.await??;
        let mut schedule = answer::schedule(seen);
        if let (JobOutputs::AtPeers(peers), Some(_)) = (&self.outputs, pixels) {
            let (from, until) =
                (api::Timestamp::nearest(interval.begin), api::Timestamp::nearest(interval.end));
            let query = api::ScheduleQuery { resource: None, from: Some(from), until: Some(until), pixels };
            let wanted: Vec<Name> = schedule.resources.iter().map(|one| one.resource.clone()).collect();
            let (caller, origin) = (requester.caller(), requester.origin());
            let asked = peers.schedules(&wanted, &caller, &origin, &query).await;
            merge(&mut schedule, asked);
        }
        Ok(schedule)
    }
}

/// Adds what peers say about their resources to what the broker knows about its own bookings there.
fn merge(schedule: &mut api::Schedule, mut theirs: BTreeMap<Name, api::ResourceSchedule>) {
    for own in &mut schedule.resources {
        let Some(mut at_peer) = theirs.remove(&own.resource) else { continue };
        let key = |block: &api::Block| (block.begin, block.end, block.capacity, block.kind);
        // The peer shows the parts of our bookings as reservations of its own.
        let mut ours: BTreeMap<_, usize> = BTreeMap::new();
        own.blocks.iter().for_each(|block| *ours.entry(key(block)).or_default() += 1);
        at_peer.blocks.retain(|block| match ours.get_mut(&key(block)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
        at_peer.blocks.append(&mut own.blocks);
        at_peer.blocks.sort_by_key(|block| (block.begin, block.end));
        *own = api::ResourceSchedule { resource: own.resource.clone(), now: own.now, ..at_peer };
    }
}

/// Path of [`what_if`], which changes nothing.
pub(super) const TRY_SLOT: &str = "/v1/what-if";

/// Try a slot
///
/// What a reservation would do to the jobs that wait: their planned starts without and with it. Books nothing.
#[utoipa::path(
    post, path = TRY_SLOT, operation_id = "try_slot", tag = "resources",
    request_body = api::TrySlot,
    responses(
        (status = 200, description = "The waiting jobs", body = api::WhatIf),
        (status = 404, description = "There is no such resource", body = api::Problem,
            content_type = "application/problem+json"),
        Refused, OfBody
    )
)]
pub(super) async fn what_if(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Document(slot): Document<api::TrySlot>,
) -> Result<Response, Refusal> {
    if let JobOutputs::AtPeers(peers) = &shared.outputs {
        let asked = peers.what_if(&requester.caller(), &requester.origin(), &slot).await;
        return match asked {
            Some(Ok(plans)) => written(&plans),
            Some(Err(why)) => Err(of_peer(&slot.resource, &why)),
            None => Err(no_resource(&slot.resource)),
        };
    }
    let interval = Interval::new(slot.begin.time(), slot.end.time());
    let (span, resource) = (Span { interval, capacity: Capacity(slot.capacity) }, slot.resource.clone());
    let plans = shared.read_long(move |queries, now| queries.what_if(now, &resource, span)).await?;
    let plans = plans.ok_or_else(|| no_resource(&slot.resource))?;
    written(&answer::what_if(slot.resource, &plans))
}

/// A failure at the peer that owns a resource.
fn of_peer(resource: &Name, why: &ClientError) -> Refusal {
    match why {
        ClientError::Refused(problem) if api::Code::named(&problem.code) == Some(api::Code::NotFound) => {
            no_resource(resource)
        }
        other => Refusal::new(api::Code::Silence, format!("{resource}: {}", plain(&other.to_string()))),
    }
}

fn no_resource(resource: &Name) -> Refusal {
    Refusal::new(
        api::Code::NotFound,
        format!("there is no resource {resource} here; `/v1/resources` lists them"),
    )
}

/// The requested interval. Default: one day from now.
fn window(
    now: Moment,
    from: Option<Time>,
    until: Option<Time>,
    longest: Seconds,
) -> Result<Interval, Refusal> {
    let begin = from.unwrap_or(now.second());
    let window = Interval::new(begin, until.unwrap_or(begin + DAY));
    if window.is_empty() {
        return Err(Refusal::bad_request("until must be after from, which defaults to the current time"));
    }
    if window.length() > longest {
        let why = format!(
            "the interval from..until is {}; at most {} are allowed",
            window.length().in_words(),
            longest.in_words()
        );
        return Err(over_limit(why));
    }
    Ok(window)
}

/// List sites
///
/// The answering service comes first; a broker then lists the sites and brokers that it knows.
#[utoipa::path(
    get, path = "/v1/sites", operation_id = "list_sites", tag = "sites",
    responses((status = 200, description = "Known sites and brokers", body = api::Sites), Refused)
)]
pub(super) async fn sites(State(shared): State<Arc<Shared>>, _: Requester) -> Result<Response, Refusal> {
    let known = shared.read(|queries, now| queries.sites(now));
    written(&api::Sites { sites: known.into_iter().map(answer::site).collect() })
}

/// Register a site
///
/// Registers a site or broker at a broker, with its resources. Repeated periodically.
#[utoipa::path(
    post, path = "/v1/sites", operation_id = "register_site", tag = "sites",
    request_body = api::Heartbeat,
    responses(
        (status = 204, description = "Registered"),
        (status = 404, description = "Only brokers accept registrations", body = api::Problem,
            content_type = "application/problem+json"),
        Refused, OfBody
    )
)]
pub(super) async fn register(
    State(shared): State<Arc<Shared>>,
    Registering(requester): Registering,
    peer: Option<Extension<ConnectInfo<Peer>>>,
    Document(heartbeat): Document<api::Heartbeat>,
) -> Result<StatusCode, Refusal> {
    // A remote caller must not make the broker open files of this machine.
    let is_local =
        peer.is_some_and(|Extension(ConnectInfo(peer))| matches!(peer.address, PeerAddress::Account(_)));
    if heartbeat.url.starts_with(UNIX) && !is_local {
        let why = "a Unix socket can only be registered over a Unix socket; set url to a web address";
        return Err(Refusal::bad_request(why));
    }
    requester.is_about(&heartbeat.name);
    if let JobOutputs::AtPeers(calls) = &shared.outputs {
        calls.admit(&heartbeat.name, &heartbeat.url)?;
    }
    // An address without authentication identifies no caller; a Unix socket identifies the account.
    let is_known = is_local || !shared.authenticator.is_open();
    let registered_by = is_known.then(|| requester.subject().clone());
    let heartbeat = Heartbeat { registered_by, ..answer::heartbeat_from(heartbeat) };
    let heard = shared.party.register(shared.limits.patience.duration(), heartbeat, None).await;
    heard.map_err(|why| shared.unanswered(why))??;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_from_now_is_looked_at_where_nothing_is_said() {
        let window = |from: Option<i64>, until: Option<i64>| {
            let (from, until) = (from.map(Time), until.map(Time));
            window(Moment(5_500), from, until, Seconds(100_000)).map_err(|refusal| refusal.code().to_owned())
        };
        let of = |begin, end| Ok(Interval::new(Time(begin), Time(end)));
        assert_eq!(window(None, None), of(5, 86_405));
        assert_eq!(window(Some(7), None), of(7, 86_407));
        assert_eq!(window(None, Some(9)), of(5, 9));
        assert_eq!(window(None, Some(5)), Err("bad-request".into()));
        assert_eq!(window(Some(9), Some(9)), Err("bad-request".into()));
        assert_eq!(window(Some(0), Some(100_001)), Err("over-limit".into()));
        assert_eq!(window(Some(i64::MIN), Some(i64::MAX)), Err("over-limit".into()));
    }
}
