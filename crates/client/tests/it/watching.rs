//! Event streams: cut at any byte, interrupted and resumed.

use crate::server::{Act, Server};
use crate::{client, options};
use bookahead_api::Code;
use bookahead_client::{Client, ClientError, Options};
use bookahead_protocol::ReservationId;
use std::time::Duration;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";

fn event(sequence: u64, kind: &str) -> String {
    let data = serde_json::json!({
        "sequence": sequence, "at": "2026-11-16T09:00:00.250Z",
        "kind": kind, "reservation": "rsv_7",
    });
    format!(": still here\n\nid: {sequence}\nevent: {kind}\ndata: {data}\n\n")
}

/// HTTP chunks with boundaries unrelated to those of messages.
fn chunked(text: &str, size: usize) -> Vec<Vec<u8>> {
    let chunks = text.as_bytes().chunks(size);
    chunks.map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()).collect()
}

#[tokio::test]
async fn events_are_told_however_the_stream_is_cut_until_the_server_ends_it() {
    let text = event(4, "held") + &event(5, "committed");
    let mut pieces = chunked(&text, 7);
    pieces.insert(0, HEAD.into());
    pieces.push(END.into());
    let mut server = Server::start([Act::Say(pieces)]).await;
    let mut watch = client(&server).watch(Some(ReservationId(7)), None).await.unwrap();
    let first = watch.next().await.unwrap().unwrap();
    assert_eq!((first.sequence, first.kind.as_str(), first.reservation), (4, "held", Some(ReservationId(7))));
    assert_eq!(first.at.to_string(), "2026-11-16T09:00:00.250Z");
    assert_eq!(watch.next().await.unwrap().unwrap().kind, "committed");
    assert_eq!(watch.next().await.unwrap(), None);
    assert_eq!(watch.next().await.unwrap(), None, "the end stays the end");
    assert_eq!(watch.last(), Some(5));
    let heard = server.heard().await;
    assert_eq!(heard.line, "GET /v1/reservations/rsv_7/events");
    assert_eq!(heard.headers["accept"], "text/event-stream");
    assert!(!heard.headers.contains_key("last-event-id"));
}

#[tokio::test]
async fn a_stream_that_breaks_off_goes_on_after_the_last_event_that_was_seen() {
    let begun = |text: &str| [HEAD.as_bytes(), &chunked(text, 1_000).concat()].concat();
    let cut = event(4, "held") + &event(5, "committed")[..60];
    let rest = begun(&event(5, "committed"));
    let acts = [
        Act::SayAndDrop(begun(&cut)),
        Act::Drop,
        Act::problem(Code::Unavailable),
        Act::Say(vec![rest, END.into()]),
    ];
    let mut server = Server::start(acts).await;
    let mut watch = client(&server).watch(None, Some(3)).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().sequence, 4);
    assert_eq!(watch.next().await.unwrap().unwrap().sequence, 5);
    assert_eq!(watch.next().await.unwrap(), None);
    for last in ["3", "4", "4", "4"] {
        let heard = server.heard().await;
        assert_eq!((heard.line.as_str(), heard.headers["last-event-id"].as_str()), ("GET /v1/events", last));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_before_the_first_event_goes_on_where_it_began() {
    let begun = [HEAD.as_bytes(), &chunked("retry: 2000\nid: 9\n\n", 1_000).concat()].concat();
    let rest = [HEAD.as_bytes(), &chunked(&event(10, "held"), 1_000).concat()].concat();
    let acts = [Act::SayAndDrop(begun), Act::Say(vec![rest, END.into()])];
    let mut server = Server::start(acts).await;
    let mut watch = client(&server).watch(None, None).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().sequence, 10);
    assert!(!server.heard().await.headers.contains_key("last-event-id"));
    assert_eq!(server.heard().await.headers["last-event-id"], "9");
}

#[tokio::test]
async fn a_stream_that_breaks_off_before_its_position_is_known_has_not_begun() {
    let rest = [HEAD.as_bytes(), &chunked(&event(10, "held"), 1_000).concat()].concat();
    let server = Server::start([Act::SayAndDrop(HEAD.into()), Act::Say(vec![rest, END.into()])]).await;
    let error = client(&server).watch(None, None).await.unwrap_err();
    assert!(error.may_pass(), "{error}");
}

#[tokio::test]
async fn a_watch_that_may_not_be_is_refused_at_once() {
    let server = Server::start([Act::problem(Code::Forbidden)]).await;
    let error = client(&server).watch(None, None).await.unwrap_err();
    assert_eq!(error.problem().unwrap().code, "forbidden");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_noticed() {
    let server = Server::start([Act::Say(vec![HEAD.into()]), Act::problem(Code::Internal)]).await;
    let options = Options { quiet: Duration::from_secs(1), ..options() };
    let mut watch = Client::new(&server.url, options).unwrap().watch(None, Some(3)).await.unwrap();
    let error = watch.next().await.unwrap_err();
    assert_eq!(error.problem().unwrap().code, "internal", "it was asked again");
}

#[tokio::test]
async fn a_message_without_end_is_not_kept() {
    let endless = [HEAD.as_bytes(), &chunked(&format!("data: {}", "x".repeat(2_000)), 100).concat()].concat();
    let server = Server::start([Act::Say(vec![endless])]).await;
    let options = Options { most_bytes: 1_000, ..options() };
    let mut watch = Client::new(&server.url, options).unwrap().watch(None, Some(3)).await.unwrap();
    let error = watch.next().await.unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn what_is_no_event_is_shown() {
    let text = [HEAD.as_bytes(), &chunked("data: hello\n\n", 100).concat()].concat();
    let server = Server::start([Act::Say(vec![text])]).await;
    let error = client(&server).watch(None, None).await.unwrap().next().await.unwrap_err();
    assert!(matches!(&error, ClientError::NotOurKind { beginning, .. } if beginning == "hello"), "{error}");
}
