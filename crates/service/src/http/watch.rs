//! Watching: what happens is told as server-sent events, each with its number in the journal, so that whoever loses
//! the connection goes on where he was (`Last-Event-ID`). Who comes back too late, or is too slow, gets the event
//! `reset`: he has missed something and should look at everything anew; then it goes on. Each who watches has a task
//! that waits for him and for nobody else, and there are only so many.

mod stream;

use super::asking::Asking;
use super::openapi::{OfReservation, Refused};
use super::problem::Refusal;
use super::query::Id;
use super::{Shared, answer};
use crate::thread::{Numbered, Watching};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bookahead_api as api;
use bookahead_api::ids::ReservationIdText;
use bookahead_party::{Notice, Viewer};
use bookahead_protocol::{Call, ReservationId};
use std::sync::Arc;
use stream::{Line, Watcher};
use tokio::sync::OwnedSemaphorePermit;

/// Watch everything
///
/// Server-sent events, for as long as the client stays. Users are told what happens to what is theirs; operators and
/// readers are told everything.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "watch", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,20}$", description = "Go on after this event")),
    responses(
        (status = 200, content_type = "text/event-stream", body = String,
            description = "Events whose `id` is a sequence, whose `event` is a kind, and whose `data` is an Event. After the event \
                `reset` something was missed: look at everything anew."),
        Refused
    )
)]
pub(super) async fn everything(
    State(shared): State<Arc<Shared>>,
    asking: Asking,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let place = shared.place()?;
    let seen = last_seen(&headers)?;
    let begun = shared.begin_watching(seen);
    let first = begun.anew.then(|| Line::reset(&shared, begun.up_to)).transpose()?;
    Ok(begun.go_on(&shared, place, seen, first, Sees::Viewer(asking.viewer())))
}

/// Watch one reservation
///
/// Server-sent events, for as long as the client stays. The first is `state`: how it is now.
#[utoipa::path(
    get, path = "/v1/reservations/{id}/events", operation_id = "watch_reservation", tag = "events",
    params(
        ("id" = ReservationIdText, Path, description = "Which"),
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,20}$", description = "Go on after this event"),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = String,
            description = "Events whose `id` is a sequence, whose `event` is a kind, and whose `data` is an Event. The first is \
                `state`, unless the client goes on after an event that is still known."),
        Refused, OfReservation
    )
)]
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    asking: Asking,
    Id(id): Id<ReservationId>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let place = shared.place()?;
    let seen = last_seen(&headers)?;
    let mut begun = shared.begin_watching(seen);
    let shown = shared.show(&asking, Call::Show { id }).await?;
    let shown = answer::reservation(shown)?;
    let goes_on = seen.is_some() && !begun.anew;
    begun.anew |= !goes_on;
    let first = (!goes_on).then(|| Line::state(&shared, begun.up_to, &shown)).transpose()?;
    Ok(begun.go_on(&shared, place, seen, first, Sees::One(shown.id)))
}

/// What somebody is told.
enum Sees {
    /// What he may see.
    Viewer(Viewer),
    /// What happens to this one, which he may see.
    One(ReservationId),
}

impl Sees {
    fn sees(&self, notice: &Notice) -> bool {
        match self {
            Sees::Viewer(viewer) => notice.owner.as_ref().map_or(viewer.sees_all, |owner| viewer.sees(owner)),
            Sees::One(id) => notice.id == Some(*id),
        }
    }
}

/// The event that the client has seen last.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|text| text.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| Refusal::bad_request("Last-Event-ID should be the id of an event, a whole number"))
}

/// Somebody has begun to watch.
struct Begun {
    watching: Watching,
    /// Whether he begins with how things are now, rather than with what he has missed.
    anew: bool,
    /// What happened up to this event is part of how things are now.
    up_to: u64,
}

impl Begun {
    /// Tells him the rest from now on.
    fn go_on(
        self,
        shared: &Arc<Shared>,
        place: OwnedSemaphorePermit,
        seen: Option<u64>,
        first: Option<Line>,
        sees: Sees,
    ) -> Response {
        let after = if self.anew { self.up_to } else { 0 };
        // Where he goes on if he loses the connection before anything is told to him. One who begins anew must be told so first.
        let from = (!self.anew).then(|| seen.unwrap_or(self.up_to));
        let Watching { missed, receiver, .. } = self.watching;
        Watcher { shared: shared.clone(), sees, after, from }.begin(place, first, missed, receiver)
    }
}

impl Shared {
    fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.watchers.clone().try_acquire_owned().map_err(|_| {
            self.metrics.turned_away("watchers");
            let why = format!("{} watch already; ask again later", self.limits.watchers);
            Refusal::new(api::Code::Unavailable, why)
        })
    }

    fn begin_watching(&self, seen: Option<u64>) -> Begun {
        // Looked up before anything else: what is durable by now is part of everything that is looked at from now on.
        let up_to = self.party.durable();
        let watching = self.party.watch().begin(seen);
        // Whoever has seen what never happened here comes from another journal.
        let anew = watching.anew || seen.is_some_and(|seen| seen > self.party.durable());
        Begun { watching, anew, up_to }
    }
}
