//! What happens at a server, as it happens. A connection that is lost is made anew from the last event that was seen, so
//! that nothing is missed; a stream that the server ends is over.

use crate::client::Client;
use crate::error::ClientError;
use crate::order::Order;
use crate::reply::{Reply, beginning};
use crate::sse::{Message, Parser};
use bookahead_api::Event;
use bookahead_protocol::ReservationId;
use reqwest::Response;
use reqwest::header::{ACCEPT, HeaderName};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The wait before a lost connection is made anew; the next are twice as long each, until an event comes.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A stream of events.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    path: String,
    /// The last event that was seen.
    last: Option<u64>,
    stream: Option<Stream>,
    messages: VecDeque<Message>,
    /// The next wait before a lost connection is made anew.
    pause: Duration,
}

#[derive(Debug)]
struct Stream {
    response: Response,
    parser: Parser,
}

impl Watch {
    pub(crate) async fn begin(
        client: Client,
        about: Option<ReservationId>,
        after: Option<u64>,
    ) -> Result<Watch, ClientError> {
        let path = match about {
            None => "/v1/events".into(),
            Some(id) => format!("/v1/reservations/{id}/events"),
        };
        let (messages, pause) = (VecDeque::new(), FIRST_PAUSE);
        let mut watch = Watch { client, path, last: after, stream: None, messages, pause };
        watch.stream = Some(watch.connect().await?);
        Ok(watch)
    }

    /// The last event that was seen: whoever watches again after it misses nothing.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// The next event. None when the server has ended the stream. An error when the connection was lost and could not be
    /// made anew within the patience of the client, or when something was told that is no event.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                let event = self.event(&message)?;
                self.last = Some(event.sequence);
                self.pause = FIRST_PAUSE;
                return Ok(Some(event));
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            match stream.receive(&self.path, &self.client).await {
                // A server says where the stream begins, so that nothing is missed even if the first event never comes.
                Ok(Some(messages)) if messages.is_empty() => {
                    self.last = stream.parser.last_id().parse().ok().or(self.last);
                }
                Ok(Some(messages)) => self.messages.extend(messages),
                Ok(None) => self.stream = None,
                Err(failure) => self.stream = Some(self.reconnect(failure).await?),
            }
        }
    }

    fn event(&self, message: &Message) -> Result<Event, ClientError> {
        serde_json::from_str(&message.data).map_err(|_| ClientError::NotOurKind {
            url: format!("{}{}", self.client.url(), self.path),
            status: 200,
            beginning: beginning(message.data.as_bytes()),
        })
    }

    async fn reconnect(&mut self, mut failure: ClientError) -> Result<Stream, ClientError> {
        let until = Instant::now() + self.client.options.patience;
        while failure.may_pass() && Instant::now() + self.pause < until {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            match self.connect().await {
                Ok(stream) => return Ok(stream),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    async fn connect(&self) -> Result<Stream, ClientError> {
        let options = &self.client.options;
        let mut order = Order::get(&self.path).with_header("Accept", ACCEPT, "text/event-stream")?;
        if let Some(last) = self.last {
            order = order.with_header("Last-Event-ID", LAST_EVENT_ID, &last.to_string())?;
        }
        let answer = self.client.response(self.client.request(&order)?, &order, options.timeout);
        let url = format!("{}{}", self.client.url(), self.path);
        let response = timeout(options.timeout, answer)
            .await
            .map_err(|_| ClientError::TimedOut { url: url.clone(), after: options.timeout })??;
        if !response.status().is_success() {
            let reply = timeout(options.timeout, Reply::read(response, options.timeout, options.most_bytes));
            let late = |_| ClientError::TimedOut { url, after: options.timeout };
            return Err(reply.await.map_err(late)??.refusal());
        }
        Ok(Stream { response, parser: Parser::new(options.most_bytes) })
    }
}

impl Stream {
    /// The next messages; none at the end of the stream.
    async fn receive(&mut self, path: &str, client: &Client) -> Result<Option<Vec<Message>>, ClientError> {
        let (options, url) = (&client.options, format!("{}{path}", client.url()));
        let chunk = match timeout(options.quiet, self.response.chunk()).await {
            Err(_) => return Err(ClientError::TimedOut { url, after: options.quiet }),
            Ok(Err(why)) => return Err(ClientError::of_failure(&url, options.quiet, &why)),
            Ok(Ok(None)) => return Ok(None),
            Ok(Ok(Some(chunk))) => chunk,
        };
        let messages = self.parser.feed(&chunk);
        messages.map(Some).map_err(|_| ClientError::TooLarge { url, most: options.most_bytes })
    }
}
