//! The stream of one who watches: a task that waits for what happens, and a body that is sent as it comes. Where the
//! client does not read, the task waits, and what it misses meanwhile becomes a `reset`. The task ends when the
//! client leaves or the party stops.

use super::{Numbered, Sees, Shared};
use crate::http::answer::out_of_calendar;
use crate::http::problem::Refusal;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_protocol::{Moment, Reservation};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc};

/// So often something is said, so that nobody between takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A client that loses the connection comes back after so long, in milliseconds.
const RETRY: u32 = 2_000;

/// So many events may wait to be sent; the rest waits in the watch of the party.
const WAITING: usize = 16;

/// One who watches.
pub(super) struct Watcher {
    pub(super) shared: Arc<Shared>,
    pub(super) sees: Sees,
    /// What happened up to this event he knows.
    pub(super) after: u64,
    /// What happened up to this event he was told, or need not be, where that is known before anything is told.
    pub(super) from: Option<u64>,
}

/// An event, as it is sent.
pub(super) struct Line(Bytes);

impl Line {
    /// Look at everything anew.
    pub(super) fn reset(shared: &Shared, up_to: u64) -> Result<Line, Refusal> {
        event(up_to, shared.party.clock().now(), "reset").map(|event| Line::of(&event))
    }

    /// This is how it is now.
    pub(super) fn state(shared: &Shared, up_to: u64, shown: &Reservation) -> Result<Line, Refusal> {
        let event = event(up_to, shared.party.clock().now(), "state")?;
        Ok(Line::of(&api::Event {
            reservation: Some(shown.id),
            owner: Some(shown.owner.clone()),
            state: Some(shown.state.into()),
            version: Some(shown.version),
            ..event
        }))
    }

    /// This has happened.
    fn happened(Numbered { sequence, notice }: Numbered) -> Result<Line, Refusal> {
        let event = event(sequence, notice.at, notice.kind)?;
        Ok(Line::of(&api::Event {
            reservation: notice.id,
            owner: notice.owner,
            state: notice.state.map(Into::into),
            version: notice.version,
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
    pub(super) fn begin(
        self,
        place: OwnedSemaphorePermit,
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
