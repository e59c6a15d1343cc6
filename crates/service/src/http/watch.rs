//! Event streams: server-sent events with their numbers in the journal, so that a client can resume after a lost
//! connection (`Last-Event-ID`). A client that returns too late, or reads too slowly, gets the event `reset`: it
//! has missed events and should query everything again; then the stream continues. Each client has its own task,
//! and their number is bounded.
//! If a client does not read, its task waits, and the events that it misses become a `reset`.

use super::answer::Refusal;
use super::openapi::{OfJob, OfReservation, Refused};
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
use bookahead_api::description::{JobIdText, ReservationIdText};
use bookahead_api::list::EVENT_KINDS;
use bookahead_party::{Notice, Viewer};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::{Call, JobId, Moment, Name, Reservation, ReservationId};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

/// Watch all events
///
/// Server-sent events until the client disconnects. Users get events of their own reservations and jobs, and of
/// reservations shared with them; operators and readers get all events.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "watch", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,20}$", description = "Resume after this event")),
    responses(
        (status = 200, content_type = "text/event-stream", body = api::Event,
            description = "`id` is the sequence of an event, `event` its kind, and `data` an Event. The event \
                `reset` means that events were missed: query everything again."),
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
    Ok(begun.go_on(&shared, (place, requester.user()), seen, first, Sees::Viewer(requester.viewer())))
}

/// Watch one reservation
///
/// Server-sent events until the client disconnects, those of jobs in the reservation included. The first is
/// `state`, the current state.
#[utoipa::path(
    get, path = "/v1/reservations/{id}/events", operation_id = "watch_reservation", tag = "events",
    params(
        ("id" = ReservationIdText, Path, description = "Id of the reservation"),
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,20}$", description = "Resume after this event"),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = api::Event,
            description = "`id` is the sequence of an event, `event` its kind, and `data` an Event. The first is \
                `state`, unless the client resumes after an event and all since then are known; `0` is before the \
                first."),
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
    // Before the state is read: events in between arrive twice rather than not at all.
    let mut begun = shared.begin_watching(seen);
    let shown = shared.show(&requester, Call::Show { id }).await?;
    let shown = answer::reservation(shown)?;
    let goes_on = seen.is_some() && !begun.anew;
    begun.anew |= !goes_on;
    let first = match seen {
        _ if goes_on => None,
        // After a restart the events are in the history.
        Some(seen) => match shared.events_after(shown.id, seen, begun.up_to).await {
            Some(line) => Some(line),
            None => Some(Line::state(&shared, begun.up_to, &shown)?),
        },
        None => Some(Line::state(&shared, begun.up_to, &shown)?),
    };
    Ok(begun.go_on(&shared, (place, requester.user()), seen, first, Sees::One(shown.id)))
}

/// Watch one job
///
/// Server-sent events until the client disconnects. The first is `state`, the current state.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", operation_id = "watch_job", tag = "events",
    params(
        ("id" = JobIdText, Path, description = "Id of the job"),
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,20}$", description = "Resume after this event"),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = api::Event,
            description = "`id` is the sequence of an event, `event` its kind, and `data` an Event. The first is \
                `state`, unless the client resumes after an event that is still known."),
        Refused, OfJob
    )
)]
pub(super) async fn job(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Id(id): Id<JobId>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let place = shared.watching_place(&requester)?;
    let seen = last_seen(&headers)?;
    // Before the state is read, as in `one`.
    let mut begun = shared.begin_watching(seen);
    let job = shared.visible_job(&requester, id)?;
    let goes_on = seen.is_some() && !begun.anew;
    begun.anew |= !goes_on;
    let first = (!goes_on).then(|| Line::job_state(&shared, begun.up_to, &job)).transpose()?;
    Ok(begun.go_on(&shared, (place, requester.user()), seen, first, Sees::Job(id)))
}

enum Sees {
    Viewer(Viewer),
    /// Events of this reservation, which the client may see.
    One(ReservationId),
    /// Events of this job, which the client may see.
    Job(JobId),
}

impl Sees {
    fn sees(&self, notice: &Notice) -> bool {
        match self {
            Sees::Viewer(viewer) => match &notice.owner {
                Some(owner) => viewer.sees_shared(owner, notice.guests()),
                None => viewer.sees_all,
            },
            Sees::One(id) => notice.id == Some(*id),
            Sees::Job(id) => notice.job.is_some_and(|job| job.id == *id),
        }
    }
}

/// The last event that the client has seen.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|text| text.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| Refusal::bad_request("Last-Event-ID must be the id of an event, a whole number"))
}

struct Begun {
    watching: Watching,
    /// Whether the client starts with the current state, instead of the events that it missed.
    anew: bool,
    /// The current state includes all events up to this one.
    up_to: u64,
}

impl Begun {
    /// Starts the stream.
    fn go_on(
        self,
        shared: &Arc<Shared>,
        (place, user): (Place<Name>, &Name),
        seen: Option<u64>,
        first: Option<Line>,
        sees: Sees,
    ) -> Response {
        let after = if self.anew { self.up_to } else { 0 };
        // Where to resume if the connection breaks before the first event. A client that starts anew must get
        // `reset` or `state` first.
        let from = (!self.anew).then(|| seen.unwrap_or(self.up_to));
        let Watching { missed, receiver, .. } = self.watching;
        Watcher { shared: shared.clone(), user: user.clone(), sees, after, from }
            .begin(place, first, missed, receiver)
    }
}

impl Shared {
    fn watching_place(&self, requester: &Requester) -> Result<Place<Name>, Refusal> {
        self.watchers.take(requester.user()).map_err(|full| {
            self.metrics.turned_away("watchers");
            match full {
                Full::All => {
                    let why = format!(
                        "there are {} event streams, the limit of the service; try again later",
                        self.limits.watchers
                    );
                    Refusal::new(api::Code::Unavailable, why)
                }
                Full::Own => {
                    let (user, most) = (requester.user(), self.watchers.most_each());
                    let why = format!("{user} has {most} event streams, the limit for one user; close one");
                    Refusal::new(api::Code::TooManyRequests, why).retry_after(AFTER_WATCHING)
                }
            }
        })
    }

    /// All events of a reservation after one, if the history has them all.
    async fn events_after(&self, id: ReservationId, seen: u64, up_to: u64) -> Option<Line> {
        let (events, complete) = self.happened(id).await.ok()?;
        let missed = events.iter().filter(|event| event.sequence > seen && event.sequence <= up_to);
        let lines = missed.flat_map(|event| Line::of(event).0);
        complete.then(|| Line(lines.collect()))
    }

    fn begin_watching(&self, seen: Option<u64>) -> Begun {
        // Read first: everything that is durable now is part of every later query.
        let up_to = self.party.durable();
        let watching = self.party.watch().begin(seen);
        // A client that has seen a later event comes from another journal.
        let anew = watching.anew || seen.is_some_and(|seen| seen > self.party.durable());
        Begun { watching, anew, up_to }
    }
}

/// `Retry-After` in seconds for a user with too many event streams.
const AFTER_WATCHING: u64 = 10;

/// Interval of comments in an idle stream, so that proxies do not close the connection. Many do so after a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Reconnection delay for clients, in milliseconds.
const RETRY: u32 = 2_000;

/// Events that may wait to be sent to one client. Further ones wait in the broadcast channel of the party.
const WAITING: usize = 16;

struct Watcher {
    shared: Arc<Shared>,
    /// Who watches.
    user: Name,
    sees: Sees,
    /// The client knows all events up to this one.
    after: u64,
    /// The client was sent, or need not be sent, all events up to this one, if that is known at the start.
    from: Option<u64>,
}

struct Line(Bytes);

impl Line {
    /// The event `reset`.
    fn reset(shared: &Shared, up_to: u64) -> Result<Line, Refusal> {
        event(up_to, shared.party.clock().now(), "reset").map(|event| Line::of(&event))
    }

    /// The event `state`.
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

    /// The event `state` of a job.
    fn job_state(shared: &Shared, up_to: u64, shown: &JobView) -> Result<Line, Refusal> {
        let event = event(up_to, shared.party.clock().now(), "state")?;
        Ok(Line::of(&api::Event {
            reservation: shown.reservation,
            job: Some(shown.id),
            job_state: Some(shown.state.into()),
            exit: shown.exit,
            owner: Some(shown.owner.clone()),
            ..event
        }))
    }

    fn happened(numbered: &Numbered, user: &Name) -> Result<Line, Refusal> {
        let event = numbered.event().map_err(out_of_calendar)?;
        let notice = &numbered.notice;
        let invitation = notice.owner.as_ref() != Some(user) && notice.guests().is_invited(user);
        Ok(Line::of(&api::Event { invitation, ..event }))
    }

    fn of(event: &api::Event) -> Line {
        debug_assert!(EVENT_KINDS.contains(&event.kind.as_str()), "{} is not in the API", event.kind);
        // Serialization cannot fail, and compact JSON has no line breaks.
        let data = serde_json::to_string(event).unwrap_or_default();
        Line(format!("id: {}\nevent: {}\ndata: {data}\n\n", event.sequence, event.kind).into())
    }
}

fn event(sequence: u64, at: Moment, kind: &str) -> Result<api::Event, Refusal> {
    api::Event::new(sequence, at, kind).map_err(out_of_calendar)
}

impl Watcher {
    /// Starts the stream with the first event and the missed ones. The slot is held as long as the client stays.
    fn begin(
        self,
        place: Place<Name>,
        first: Option<Line>,
        missed: Vec<Numbered>,
        receiver: broadcast::Receiver<Numbered>,
    ) -> Response {
        let (sender, lines) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            // An error means that the client has disconnected.
            let told = self.tell(first, missed, receiver, sender).await;
            drop((told, place));
        });
        let headers = [
            (CONTENT_TYPE.as_str(), "text/event-stream"),
            (CACHE_CONTROL.as_str(), "no-store"),
            // Asks nginx not to buffer the stream.
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
        // The first tick would complete at once.
        alive.reset();
        // A block with an id but no data is not an event. It sets the position for a client that reconnects.
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

    /// Sends an event if the client may see it and does not know it yet.
    async fn pass_on(
        &self,
        numbered: Numbered,
        sender: &mpsc::Sender<Bytes>,
    ) -> Result<(), mpsc::error::SendError<Bytes>> {
        let news = numbered.sequence > self.after && self.sees.sees(&numbered.notice);
        match Line::happened(&numbered, &self.user) {
            Ok(Line(line)) if news => sender.send(line).await,
            _ => Ok(()),
        }
    }
}

/// Body of the stream.
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
