//! Usage by user, project, site, resource and month, and what happened to one reservation, from the history of the
//! service.

use super::answer::{Refusal, out_of_calendar, written};
use super::limits::{Checked, Limits, optional_name, over_limit, page};
use super::openapi::{OfReservation, Refused};
use super::request::{Filters, Id};
use super::requester::Requester;
use super::{Shared, answer};
use crate::history::records::RecordsQuestion;
use crate::history::sums::{By, Group, Question, Sums, TooMuch, this_month};
use crate::history::{History, NoUsage, Usage};
use axum::extract::State;
use axum::response::Response;
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_api::description::ReservationIdText;
use bookahead_plan::{Interval, Time};
use bookahead_protocol::{Call, ReservationId};
use jiff::tz::TimeZone;
use std::sync::Arc;

impl Checked for api::RecordsQuery {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        optional_name("owner", self.owner.as_ref())?;
        optional_name("resource", self.resource.as_ref())?;
        page(self.limit, limits)
    }
}

/// The columns of `by`.
const COLUMNS: [(&str, By); 5] = [
    ("user", By::User),
    ("project", By::Project),
    ("site", By::Site),
    ("resource", By::Resource),
    ("month", By::Month),
];

/// Longest name of a time zone: twice as long as any that exists.
const LONGEST_ZONE: usize = 64;

/// Show usage
///
/// Capacity that was booked and used, by user, project, site, resource or month. Users see their own; operators and readers
/// see all. Reaches further back than the list of reservations.
#[utoipa::path(
    get, path = "/v1/usage", operation_id = "show_usage", tag = "usage",
    params(api::UsageQuery),
    responses(
        (status = 200, description = "The usage", body = api::Usage),
        (status = 422, description = "Too many rows, or no history is kept", body = api::Problem,
            content_type = "application/problem+json"),
        Refused
    )
)]
pub(super) async fn usage(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::UsageQuery>,
) -> Result<Response, Refusal> {
    let question = question(&shared, &requester, query)?;
    let usage = shared.ask_history(|history, up_to| history.usage(question, up_to)).await?;
    document(usage)
}

/// List records of usage
///
/// Jobs and reservations one by one, for a log of what the service did: `bookahead export` makes one. Users see their
/// own; operators and readers see all.
#[utoipa::path(
    get, path = "/v1/usage/records", operation_id = "list_usage_records", tag = "usage",
    params(api::RecordsQuery),
    responses(
        (status = 200, description = "A page of records", body = api::UsageRecords),
        (status = 422, description = "No history is kept", body = api::Problem,
            content_type = "application/problem+json"),
        Refused
    )
)]
pub(super) async fn records(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::RecordsQuery>,
) -> Result<Response, Refusal> {
    let api::RecordsQuery { resource, from, until, owner, limit, cursor } = query;
    let begin = from.map_or(Time::MIN, api::Timestamp::time);
    let after = cursor.map(|text| text.parse()).transpose();
    let most = shared.limits.most_page;
    let question = RecordsQuestion {
        window: Interval::new(begin, until.map_or(Time::MAX, api::Timestamp::time).max(begin)),
        owner: requester.whose(owner)?,
        resource,
        after: after.map_err(|_| Refusal::bad_request("cursor must be the next of a page"))?,
        limit: limit.map_or(most, |limit| usize::try_from(limit).unwrap_or(most)).clamp(1, most),
    };
    written(&shared.ask_history(move |history, up_to| history.records(&question, up_to)).await?)
}

/// Show the history of a reservation
///
/// Its events and those of jobs in it, oldest first, as long as the reservation is known.
#[utoipa::path(
    get, path = "/v1/reservations/{id}/history", operation_id = "show_history", tag = "reservations",
    params(("id" = ReservationIdText, Path, description = "Id of the reservation")),
    responses(
        (status = 200, description = "The history", body = api::History),
        (status = 422, description = "No history is kept", body = api::Problem,
            content_type = "application/problem+json"),
        Refused, OfReservation
    )
)]
pub(super) async fn history(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Id(id): Id<ReservationId>,
) -> Result<Response, Refusal> {
    // Refuses callers who may not see it. The history has it under the id of this service.
    let shown = answer::reservation(shared.show(&requester, Call::Show { id }).await?)?;
    let (events, complete) = shared.happened(shown.id).await?;
    written(&api::History { events, complete })
}

impl Shared {
    /// What happened to a reservation, and whether that is all.
    pub(super) async fn happened(&self, id: ReservationId) -> Result<(Vec<api::Event>, bool), Refusal> {
        self.ask_history(move |history, up_to| history.happened(id, up_to)).await
    }

    /// Asks the history, which then covers all that was acknowledged before.
    async fn ask_history<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&History, u64) -> Result<T, NoUsage> + Send + 'static,
    ) -> Result<T, Refusal> {
        let Some(history) = self.party.history().cloned() else {
            let why =
                "this service keeps no usage history; its operator can set history in the configuration";
            return Err(Refusal::new(Code::Unsupported, why));
        };
        let up_to = self.party.durable();
        let busy =
            || Refusal::new(Code::Busy, "too many queries of the usage history; try again").retry_after(1);
        let turn = history.queries().acquire_owned();
        let turn = tokio::time::timeout(self.limits.patience.duration(), turn).await;
        let turn = turn.ok().and_then(Result::ok).ok_or_else(busy)?;
        let asking = tokio::task::spawn_blocking(move || {
            // Held until the query ends, even if the client leaves: the work cannot be aborted.
            let _turn = turn;
            ask(&history, up_to)
        });
        let told =
            asking.await.map_err(|_| Refusal::internal("the query ended unexpectedly; this is a defect"))?;
        told.map_err(refusal)
    }
}

fn refusal(why: NoUsage) -> Refusal {
    match why {
        NoUsage::TooMuch(why) => too_much(&why),
        NoUsage::Unusable | NoUsage::File(_) => Refusal::new(Code::Busy, why.to_string()).retry_after(10),
    }
}

fn too_much(why: &TooMuch) -> Refusal {
    over_limit(why.to_string())
}

fn question(shared: &Shared, requester: &Requester, query: api::UsageQuery) -> Result<Question, Refusal> {
    let api::UsageQuery { by, from, until, owner, zone } = query;
    let zone = zone_named(zone.as_deref())?;
    let now = shared.party.clock().now().second();
    let window = match (from.map(api::Timestamp::time), until.map(api::Timestamp::time)) {
        (Some(begin), Some(end)) => Interval::new(begin, end),
        (None, None) => this_month(now, &zone).map_err(|why| too_much(&why))?,
        (Some(begin), None) => {
            let month = this_month(begin, &zone).map_err(|why| too_much(&why))?;
            Interval::new(begin, month.end)
        }
        (None, Some(end)) => {
            let month = this_month(now, &zone).map_err(|why| too_much(&why))?;
            Interval::new(month.begin, end)
        }
    };
    if window.is_empty() {
        let why = "until must be after from, which defaults to the beginning of the current month";
        return Err(Refusal::bad_request(why));
    }
    Ok(Question {
        window,
        owner: requester.whose(owner)?,
        by: columns(by.as_deref().unwrap_or("user"))?,
        zone,
        now,
        service: shared.about.name.clone(),
    })
}

fn columns(text: &str) -> Result<Vec<By>, Refusal> {
    let mut columns = Vec::new();
    for word in text.split(',') {
        let found = COLUMNS.iter().find(|(name, _)| *name == word.trim());
        let Some((_, by)) = found else {
            let word = shown(word.trim());
            let why = format!("cannot group by {word:?}; use user, project, site, resource or month");
            return Err(Refusal::bad_request(why));
        };
        if !columns.contains(by) {
            columns.push(*by);
        }
    }
    Ok(columns)
}

/// The beginning of a text, for an error.
fn shown(text: &str) -> String {
    text.chars().take(LONGEST_ZONE).collect()
}

fn zone_named(name: Option<&str>) -> Result<TimeZone, Refusal> {
    let Some(name) = name.filter(|name| !matches!(*name, "UTC" | "Etc/UTC")) else {
        return Ok(TimeZone::UTC);
    };
    // Names of zones are names of files.
    let is_name = name.len() <= LONGEST_ZONE
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte));
    let zone = is_name.then(|| TimeZone::get(name).ok()).flatten();
    let unknown = || format!("unknown time zone {:?}; use a name such as Europe/Berlin", shown(name));
    zone.ok_or_else(|| Refusal::bad_request(unknown()))
}

fn document(usage: Usage) -> Result<Response, Refusal> {
    let Usage { tally, complete_since } = usage;
    let question = tally.question();
    let time = |time: Time| api::Timestamp::try_from(time).map_err(out_of_calendar);
    let word = |by: &By| COLUMNS.iter().find(|(_, column)| column == by).map_or("", |(name, _)| *name);
    let total = |kind: &String| Group { values: Vec::new(), kind: kind.clone() };
    let rows = tally.groups.iter().map(|(group, sums)| row(&question.by, group, sums)).collect();
    let totals = tally.totals.iter().map(|(kind, sums)| row(&[], &total(kind), sums)).collect();
    written(&api::Usage {
        from: time(question.window.begin)?,
        until: time(question.window.end)?,
        by: question.by.iter().map(|by| word(by).to_owned()).collect(),
        zone: question.zone.iana_name().unwrap_or("UTC").to_owned(),
        complete_since: complete_since.map(time).transpose()?,
        rows,
        totals,
    })
}

fn row(by: &[By], group: &Group, sums: &Sums) -> api::UsageRow {
    let Sums { reservations, cancelled, expired, lost, jobs, booked, kept, ran, .. } = *sums;
    let mut row = api::UsageRow {
        kind: group.kind.clone(),
        reservations,
        cancelled,
        expired,
        lost,
        jobs,
        booked_unit_hours: hours(booked),
        kept_unit_hours: hours(kept),
        job_unit_hours: hours(ran),
        ..api::UsageRow::default()
    };
    for (by, value) in by.iter().zip(&group.values) {
        let column = match by {
            By::User => &mut row.user,
            By::Project => &mut row.project,
            By::Site => &mut row.site,
            By::Resource => &mut row.resource,
            By::Month => &mut row.month,
        };
        *column = Some(value.clone());
    }
    row
}

/// Unit-seconds as hours with at most four decimals: 0.36 unit-seconds.
fn hours(unit_seconds: i128) -> f64 {
    (unit_seconds as f64 / 0.36).round() / 10_000.0
}
