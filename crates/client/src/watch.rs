//! Watches the events of a server: server-sent events, parsed as specified (WHATWG HTML, 9.2.6), with bounded
//! memory. Reconnects after the last event seen.

use crate::client::Client;
use crate::error::ClientError;
use crate::message::{Order, Reply, beginning};
use bookahead_api::Event;
use reqwest::Response;
use reqwest::header::{ACCEPT, HeaderName};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Wait before the first reconnection; doubled for each further one until an event arrives.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A stream of events.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    path: String,
    last: Option<u64>,
    stream: Option<Stream>,
    messages: VecDeque<Message>,
    /// Wait before the next reconnection.
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
        path: String,
        after: Option<u64>,
    ) -> Result<Watch, ClientError> {
        let (messages, pause) = (VecDeque::new(), FIRST_PAUSE);
        let mut watch = Watch { client, path, last: after, stream: None, messages, pause };
        watch.stream = Some(watch.connect().await?);
        // Until the server has sent the position, a broken connection could not be resumed without a gap.
        while watch.last.is_none() && watch.messages.is_empty() && watch.stream.is_some() {
            watch.receive().await?;
        }
        Ok(watch)
    }

    /// The last event seen. Watching again after it misses nothing.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// The next event. `None` when the server has ended the stream. Fails if the connection was lost and could not
    /// be restored within the patience of the client, or if a message is not an event.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                let event = self.event(&message)?;
                self.last = Some(event.sequence);
                // An event proves that the connection works again.
                self.pause = FIRST_PAUSE;
                return Ok(Some(event));
            }
            if self.stream.is_none() {
                return Ok(None);
            }
            if let Err(failure) = self.receive().await {
                self.stream = Some(self.reconnect(failure).await?);
            }
        }
    }

    /// Receives what comes next: messages, the position, or the end of the stream.
    async fn receive(&mut self) -> Result<(), ClientError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        match stream.receive(&self.path, &self.client).await? {
            // The server sends the id of the last event when the stream starts, so that nothing is missed if the
            // connection breaks before the first event.
            Some(messages) if messages.is_empty() => {
                self.last = stream.parser.last_id().parse().ok().or(self.last);
            }
            // `last` does not move yet: the caller has not got these events, and would miss them if it
            // watched again after `last`.
            Some(messages) => self.messages.extend(messages),
            // The server ended the stream on purpose, for instance because it stops. Reconnecting is up to the
            // caller.
            None => self.stream = None,
        }
        Ok(())
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
                // The pause stays as long as it is: a server that accepts connections and then fails must not
                // be called in a tight loop.
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
        let answer = self.client.send(&order, options.timeout, |request| request);
        let url = format!("{}{}", self.client.url(), self.path);
        // The request has no timeout of its own, because the stream may last for days; only the headers must arrive
        // in time.
        let response = timeout(options.timeout, answer)
            .await
            .map_err(|_| ClientError::TimedOut { url: url.clone(), after: options.timeout })??;
        if !response.status().is_success() {
            let reply = timeout(options.timeout, Reply::read(response, options.timeout, options.most_bytes));
            let late = |_| ClientError::TimedOut { url, after: options.timeout };
            return Err(reply.await.map_err(late)??.refusal());
        }
        // A new parser: the cut-off line of a lost connection must not be joined to the first new line.
        Ok(Stream { response, parser: Parser::new(options.most_bytes) })
    }
}

impl Stream {
    /// The next messages. `None` at the end of the stream.
    async fn receive(&mut self, path: &str, client: &Client) -> Result<Option<Vec<Message>>, ClientError> {
        let (options, url) = (&client.options, format!("{}{path}", client.url()));
        let chunk = match timeout(options.quiet, self.response.chunk()).await {
            // A peer that vanished without closing the connection is noticed only by its silence.
            Err(_) => return Err(ClientError::TimedOut { url, after: options.quiet }),
            Ok(Err(why)) => return Err(ClientError::of_failure(&url, options.quiet, &why)),
            Ok(Ok(None)) => return Ok(None),
            Ok(Ok(Some(chunk))) => chunk,
        };
        let messages = self.parser.feed(&chunk);
        messages.map(Some).map_err(|_| ClientError::TooLarge { url, most: options.most_bytes })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Message {
    /// Type of the message; "message" if the stream names none.
    pub(crate) event: String,
    pub(crate) data: String,
    /// Last id received, with this message or before it.
    pub(crate) id: String,
}

/// A message or a line exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Parses messages from a stream of bytes.
#[derive(Debug)]
pub(crate) struct Parser {
    most: usize,
    /// The incomplete last line.
    line: Vec<u8>,
    /// The last byte was CR: a following LF belongs to it.
    after_return: bool,
    /// No line has ended yet, so the first one may start with a byte order mark.
    at_begin: bool,
    event: String,
    data: Option<String>,
    id: String,
    /// The id at the end of the last block, with or without data.
    settled: String,
}

impl Parser {
    /// `most` bounds the bytes of a message and of a line.
    pub(crate) fn new(most: usize) -> Parser {
        Parser {
            most,
            line: Vec::new(),
            after_return: false,
            at_begin: true,
            event: String::new(),
            data: None,
            id: String::new(),
            settled: String::new(),
        }
    }

    /// The last complete id: reconnecting after it misses nothing. A block without data sets it, too.
    pub(crate) fn last_id(&self) -> &str {
        &self.settled
    }

    /// Returns the messages that these bytes complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Message>, TooLong> {
        let mut messages = Vec::new();
        for &byte in bytes {
            let belongs_to_return = byte == b'\n' && self.after_return;
            self.after_return = byte == b'\r';
            match byte {
                b'\n' if belongs_to_return => {}
                b'\r' | b'\n' => messages.extend(self.end_of_line()?),
                // Checked for every byte: a line without an end must not fill the memory.
                _ if self.line.len() >= self.most => return Err(TooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(messages)
    }

    fn end_of_line(&mut self) -> Result<Option<Message>, TooLong> {
        let bytes = std::mem::take(&mut self.line);
        // The specification decodes the stream with replacement: invalid UTF-8 must not end it.
        let line = String::from_utf8_lossy(&bytes);
        let line = if self.at_begin { line.strip_prefix('\u{feff}').unwrap_or(&line) } else { &line };
        self.at_begin = false;
        if line.is_empty() {
            return Ok(self.end_of_message());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event = value.into(),
            "data" => self.add(value)?,
            // The specification ignores an id with NUL, which could not be sent back as a header.
            "id" if !value.contains('\0') => self.id = value.into(),
            // Comments have an empty field name. The specification says to ignore unknown fields.
            _ => {}
        }
        Ok(None)
    }

    fn add(&mut self, value: &str) -> Result<(), TooLong> {
        let data = match &mut self.data {
            None => self.data.insert(String::new()),
            Some(data) => {
                data.push('\n');
                data
            }
        };
        if data.len() + value.len() > self.most {
            return Err(TooLong);
        }
        data.push_str(value);
        Ok(())
    }

    /// A block without data is not a message, but its id counts.
    fn end_of_message(&mut self) -> Option<Message> {
        // Not earlier: if the connection breaks within a block, the server must send that block again.
        self.settled.clone_from(&self.id);
        let event = std::mem::take(&mut self.event);
        let data = self.data.take()?;
        let event = if event.is_empty() { "message".into() } else { event };
        Some(Message { event, data, id: self.id.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_tests::fuzz::{self, Corpus};

    const STREAM: &str = "\u{feff}: welcome\n\nid: 7\nevent: committed\ndata: {\"a\":\ndata: 1}\n\n:\r\n\
        id:8\rdata\rdata:  x\r\r\n: é\nevent: nothing\n\nunknown: 1\ndata: last\r\n\r\ndata: cut off";

    fn message(event: &str, data: &str, id: &str) -> Message {
        Message { event: event.into(), data: data.into(), id: id.into() }
    }

    #[test]
    fn messages_are_the_same_however_the_stream_is_cut() {
        let expected = [
            message("committed", "{\"a\":\n1}", "7"),
            message("message", "\n x", "8"),
            message("message", "last", "8"),
        ];
        let bytes = STREAM.as_bytes();
        for size in 1..=bytes.len() {
            let mut parser = Parser::new(100);
            let found: Vec<_> = bytes.chunks(size).flat_map(|piece| parser.feed(piece).unwrap()).collect();
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_id_counts_when_its_block_ends_also_without_a_message() {
        let mut parser = Parser::new(100);
        let mut last =
            |bytes: &str| (parser.feed(bytes.as_bytes()).unwrap().len(), parser.last_id().to_owned());
        assert_eq!(last("retry: 2000\nid: 7\n"), (0, String::new()));
        assert_eq!(last("\n"), (0, "7".into()));
        assert_eq!(last("id: 8\ndata: x\n"), (0, "7".into()), "its message is not complete");
        assert_eq!(last("\n"), (1, "8".into()));
    }

    #[test]
    fn any_stream_gives_the_same_messages_however_it_is_cut_and_is_bounded() {
        let corpus =
            Corpus { inputs: &[STREAM.as_bytes()], words: &["data:", "\nid: ", "\r\n\r\n", "event:", "\0"] };
        let accepted = fuzz::run(corpus, 5_000, |bytes| {
            let whole = Parser::new(200).feed(bytes);
            let mut parser = Parser::new(200);
            let pieces: Result<Vec<_>, _> = bytes.chunks(3).map(|piece| parser.feed(piece)).collect();
            assert_eq!(whole, pieces.map(|messages| messages.concat()));
            let messages = whole.unwrap_or_default();
            assert!(messages.iter().all(|message| message.data.len() <= 200 && message.id.len() <= 200 * 3));
            !messages.is_empty()
        });
        assert_eq!(accepted, 1);
    }

    #[test]
    fn what_has_no_end_is_not_kept() {
        assert_eq!(Parser::new(10).feed(&[b'x'; 11]), Err(TooLong));
        assert_eq!(Parser::new(10).feed(b"data:1234\ndata:5678\ndata:9\n\n"), Err(TooLong));
        assert!(Parser::new(10).feed(b"data:1234\n\ndata:5678\n\n:comment\n").is_ok());
    }
}
