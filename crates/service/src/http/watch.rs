//! Watching: what happens is told as server-sent events, each with its number in the journal, so that whoever loses
//! the connection goes on where he was (`Last-Event-ID`). Who comes back too late, or is too slow, gets the event
//! `reset`: he has missed something and should look at everything anew; then it goes on. Each who watches has a task
//! that waits for him and for nobody else, and there are only so many.
//! Where the client does not read, its task waits, and what it misses meanwhile becomes a `reset`.

use super::answer::Refusal;
use super::openapi::{OfReservation, Refused};
use super::request::Id;
use super::requester::Requester;
use super::shares::{Full, Place};
use super::{Shared, answer};
use crate::http::answer::out_of_calendar;
use crate::thread::{Numbered, Watching};
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_api::description::ReservationIdText;
use bookahead_party::{Notice, Viewer};
use bookahead_protocol::{Call, Moment, Name, Reservation, ReservationId};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

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
    requester: Requester,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let place = shared.watching_place(&requester)?;
    let seen = last_seen(&headers)?;
    let begun = shared.begin_watching(seen);
    let first = begun.anew.then(|| Line::reset(&shared, begun.up_to)).transpose()?;
    Ok(begun.go_on(&shared, place, seen, first, Sees::Viewer(requester.viewer())))
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
    requester: Requester,
    Id(id): Id<ReservationId>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let place = shared.watching_place(&requester)?;
    let seen = last_seen(&headers)?;
    let mut begun = shared.begin_watching(seen);
    let shown = shared.show(&requester, Call::Show { id }).await?;
    let shown = answer::reservation(shown)?;
    let goes_on = seen.is_some() && !begun.anew;
    begun.anew |= !goes_on;
    let first = (!goes_on).then(|| Line::state(&shared, begun.up_to, &shown)).transpose()?;
    Ok(begun.go_on(&shared, place, seen, first, Sees::One(shown.id)))
}

enum Sees {
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
        place: Place<Name>,
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
    fn watching_place(&self, requester: &Requester) -> Result<Place<Name>, Refusal> {
        self.watchers.take(requester.user()).map_err(|full| {
            self.metrics.turned_away("watchers");
            match full {
                Full::All => {
                    let why = format!("{} watch already; ask again later", self.limits.watchers);
                    Refusal::new(api::Code::Unavailable, why)
                }
                Full::Own => {
                    let (user, most) = (requester.user(), self.watchers.most_each());
                    let why = format!("{user} watches {most} times already, which is the most for one user");
                    Refusal::new(api::Code::TooManyRequests, why).retry_after(AFTER_WATCHING)
                }
            }
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

/// Whoever watches as often as one may is asked to come back after so many seconds.
const AFTER_WATCHING: u64 = 10;

/// So often something is said, so that nobody between takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A client that loses the connection comes back after so long, in milliseconds.
const RETRY: u32 = 2_000;

/// So many events may wait to be sent; the rest waits in the watch of the party.
const WAITING: usize = 16;

struct Watcher {
    shared: Arc<Shared>,
    sees: Sees,
    /// What happened up to this event he knows.
    after: u64,
    /// What happened up to this event he was told, or need not be, where that is known before anything is told.
    from: Option<u64>,
}

struct Line(Bytes);

impl Line {
    /// Look at everything anew.
    fn reset(shared: &Shared, up_to: u64) -> Result<Line, Refusal> {
        event(up_to, shared.party.clock().now(), "reset").map(|event| Line::of(&event))
    }

    /// This is how it is now.
    fn state(shared: &Shared, up_to: u64, shown: &Reservation) -> Result<Line, Refusal> {
        let event = event(up_to, shared.party.clock().now(), "state")?;
        Ok(Line::of(&api::Event {
            reservation: Some(shown.id),
            owner: Some(shown.owner.clone()),
            state: Some(shown.state.into()),
            version: Some(shown.version),
            ..event
        }))
    }

    fn happened(Numbered { sequence, notice }: Numbered) -> Result<Line, Refusal> {
        let event = event(sequence, notice.at, notice.kind)?;
        Ok(Line::of(&api::Event {
            reservation: notice.id,
            owner: notice.owner,
            state: notice.state.map(Into::into),
            version: notice.version,
            because: notice.because.map(ToOwned::to_owned),
            missing: notice.missing.as_ref().map(|missing| missing.capacity.0),
            could_begin: notice
                .missing
                .iter()
                .flat_map(|missing| &missing.could_begin)
                .filter_map(|begin| (*begin).try_into().ok())
                .collect(),
            ..event
        }))
    }

    fn of(event: &api::Event) -> Line {
        // Numbers and texts can always be written, and JSON has no line breaks of its own.
        let data = serde_json::to_string(event).unwrap_or_default();
        Line(format!("id: {}\nevent: {}\ndata: {data}\n\n", event.sequence, event.kind).into())
    }
}

fn event(sequence: u64, at: Moment, kind: &str) -> Result<api::Event, Refusal> {
    api::Event::new(sequence, at, kind).map_err(out_of_calendar)
}

impl Watcher {
    /// Begins to tell him, with what comes first and what he has missed. He has his place for as long as he watches.
    fn begin(
        self,
        place: Place<Name>,
        first: Option<Line>,
        missed: Vec<Numbered>,
        receiver: broadcast::Receiver<Numbered>,
    ) -> Response {
        let (sender, lines) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            // An error is a client who has left.
            let told = self.tell(first, missed, receiver, sender).await;
            drop((told, place));
        });
        let headers = [
            (CONTENT_TYPE.as_str(), "text/event-stream"),
            (CACHE_CONTROL.as_str(), "no-store"),
            ("x-accel-buffering", "no"),
        ];
        (headers, Body::new(Stream(lines))).into_response()
    }

    async fn tell(
        self,
        first: Option<Line>,
        missed: Vec<Numbered>,
        mut receiver: broadcast::Receiver<Numbered>,
        sender: mpsc::Sender<Bytes>,
    ) -> Result<(), mpsc::error::SendError<Bytes>> {
        let mut stop = self.shared.stop.clone();
        let mut alive = tokio::time::interval(KEEP_ALIVE);
        alive.reset();
        // The id alone is no event: it says from where on one who comes back has missed something.
        let id = self.from.map_or_else(String::new, |from| format!("id: {from}\n"));
        sender.send(format!("retry: {RETRY}\n{id}\n").into()).await?;
        if let Some(Line(first)) = first {
            sender.send(first).await?;
        }
        for numbered in missed {
            self.pass_on(numbered, &sender).await?;
        }
        loop {
            tokio::select! {
                () = sender.closed() => return Ok(()),
                () = stop.said() => return Ok(()),
                _ = alive.tick() => sender.send(Bytes::from_static(b": still here\n\n")).await?,
                happened = receiver.recv() => match happened {
                    Ok(numbered) => self.pass_on(numbered, &sender).await?,
                    Err(RecvError::Lagged(_)) => {
                        let reset = Line::reset(&self.shared, self.shared.party.durable());
                        if let Ok(Line(reset)) = reset {
                            sender.send(reset).await?;
                        }
                    }
                    Err(RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    /// Tells him what has happened, if he is to know and does not yet.
    async fn pass_on(
        &self,
        numbered: Numbered,
        sender: &mpsc::Sender<Bytes>,
    ) -> Result<(), mpsc::error::SendError<Bytes>> {
        let news = numbered.sequence > self.after && self.sees.sees(&numbered.notice);
        match Line::happened(numbered) {
            Ok(Line(line)) if news => sender.send(line).await,
            _ => Ok(()),
        }
    }
}

/// What is sent, as it comes.
struct Stream(mpsc::Receiver<Bytes>);

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
