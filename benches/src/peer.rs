//! Baselines of the services: what remains of a service that decides nothing. A store that only appends texts, in SQLite
//! as journals are, and a server that only answers with the document it was sent, after storing it.

use crate::Outcome;
use axum::Json;
use axum::routing::post;
use bookahead_service::journal::Durability;
use rusqlite::Connection;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

type Append = (String, oneshot::Sender<()>);

/// Appends texts one after another, in a thread of its own. It ends when it is dropped.
pub struct PlainStore(mpsc::Sender<Append>);

impl PlainStore {
    /// Opens a new file.
    pub fn open(path: &Path, durability: Durability) -> Outcome<PlainStore> {
        let connection = Connection::open(path)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        let synchronous = if durability == Durability::None { "OFF" } else { "FULL" };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.execute_batch("CREATE TABLE texts (sequence INTEGER PRIMARY KEY, text TEXT NOT NULL)")?;
        let (sender, appends) = mpsc::channel();
        let most = if durability == Durability::EachAppend { 1 } else { usize::MAX };
        std::thread::spawn(move || {
            if let Err(why) = store(connection, &appends, most) {
                // Who waits for an append learns that it was dropped.
                eprintln!("the plain store failed: {why}");
            }
        });
        Ok(PlainStore(sender))
    }

    /// The receiver gets an answer as soon as the text is stored.
    pub fn append(&self, text: String) -> oneshot::Receiver<()> {
        let (done, stored) = oneshot::channel();
        // If the thread has ended, `done` is dropped, and the receiver fails.
        let _ = self.0.send((text, done));
        stored
    }
}

/// Stores all waiting texts, or as many as `most`, in one transaction after the other.
fn store(mut connection: Connection, appends: &mpsc::Receiver<Append>, most: usize) -> rusqlite::Result<()> {
    while let Ok(first) = appends.recv() {
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare("INSERT INTO texts (text) VALUES (?1)")?;
        let mut waiting = Vec::new();
        for (text, done) in [first].into_iter().chain(appends.try_iter()).take(most) {
            insert.execute([text])?;
            waiting.push(done);
        }
        drop(insert);
        transaction.commit()?;
        // A receiver that is gone does not need the answer.
        waiting.into_iter().for_each(|done| done.send(()).unwrap_or_default());
    }
    Ok(())
}

/// Serves documents on `/`: each is parsed, stored if there is a store, and sent back. Returns the address.
pub async fn echo(store: Option<PlainStore>) -> Outcome<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let store = store.map(Arc::new);
    let answer = move |Json(document): Json<Value>| async move {
        if let Some(store) = store {
            store.append(document.to_string()).await.map_err(|_| "not stored")?;
        }
        Ok::<_, &'static str>(Json(document))
    };
    let router = axum::Router::new().route("/", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// Calls per second of clients that call in turn, each on a connection of its own.
pub fn rate_of_calls(address: SocketAddr, clients: usize, round: Duration, body: &str) -> Outcome<f64> {
    let (made, began) = (AtomicU64::new(0), Instant::now());
    let call = || {
        let mut stream = connect(address)?;
        while began.elapsed() < round {
            send(&mut stream, body)?;
            made.fetch_add(1, Ordering::Relaxed);
        }
        Outcome::Ok(())
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(call)).collect();
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| "a client panicked")?)
    })?;
    Ok(made.into_inner() as f64 / began.elapsed().as_secs_f64())
}

/// A connection to a server that answers at once.
pub fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a document to [`echo`] and waits for the answer.
pub fn send(stream: &mut TcpStream, body: &str) -> Outcome<()> {
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    match exchange(stream, &(head + body))? {
        (200, _) => Ok(()),
        (status, answer) => Err(format!("{status} {answer}").into()),
    }
}

/// Sends a request and reads its answer: status and body.
pub fn exchange(stream: &mut TcpStream, request: &str) -> Outcome<(u16, String)> {
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(&mut *stream);
    let (mut line, mut status, mut length) = (String::new(), None, 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err("the connection was closed".into());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if status.is_none() {
            status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        } else if let Some(value) = text.strip_prefix("content-length: ") {
            length = value.parse()?;
        } else if text.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((status.ok_or("no status")?, String::from_utf8(body)?))
}
