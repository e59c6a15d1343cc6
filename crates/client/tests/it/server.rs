//! A scripted server: performs the next act for each request, and records the requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Write these bytes, piece by piece, and keep the connection open.
    Say(Vec<Vec<u8>>),
    /// Write these bytes and close the connection.
    SayAndDrop(Vec<u8>),
    /// Close the connection.
    Drop,
    /// Never answer.
    Hang,
}

/// A recorded request.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Method and path.
    pub(crate) line: String,
    /// Header names are in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// Number of its connection, counted from 0.
    pub(crate) connection: usize,
}

pub(crate) struct Server {
    /// Address that it listens on.
    pub(crate) url: String,
    heard: UnboundedReceiver<Heard>,
}

struct Script {
    acts: Mutex<VecDeque<Act>>,
    heard: UnboundedSender<Heard>,
}

impl Act {
    /// An answer with a document.
    pub(crate) fn answer(status: u16, document: &serde_json::Value) -> Act {
        Act::raw(status, "application/json", "", &document.to_string())
    }

    /// An answer with additional headers.
    pub(crate) fn raw(status: u16, kind: &str, headers: &str, body: &str) -> Act {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        Act::Say(vec![format!("{head}{body}").into_bytes()])
    }

    /// A problem document.
    pub(crate) fn problem(code: bookahead_api::Code) -> Act {
        let problem = bookahead_api::Problem::new(code, "as it is");
        Act::answer(code.status(), &serde_json::to_value(problem).unwrap())
    }
}

impl Server {
    pub(crate) async fn start(acts: impl IntoIterator<Item = Act>) -> Server {
        Server::listen(acts, None).await
    }

    /// A server with TLS.
    pub(crate) async fn start_tls(acts: impl IntoIterator<Item = Act>, tls: TlsAcceptor) -> Server {
        Server::listen(acts, Some(tls)).await
    }

    async fn listen(acts: impl IntoIterator<Item = Act>, tls: Option<TlsAcceptor>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (sender, heard) = unbounded_channel();
        let script = Arc::new(Script { acts: Mutex::new(acts.into_iter().collect()), heard: sender });
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                let (script, tls) = (script.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, &script, connection).await,
                        Some(tls) => match tls.accept(socket).await {
                            Ok(socket) => serve(socket, &script, connection).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Server { url, heard }
    }

    /// The next recorded request.
    pub(crate) async fn heard(&mut self) -> Heard {
        self.heard.recv().await.unwrap()
    }

    /// Whether there are no more requests.
    pub(crate) fn heard_nothing_more(&mut self) -> bool {
        self.heard.try_recv().is_err()
    }
}

/// `None` at the end of the connection.
async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    connection: usize,
) -> Option<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let heard = read(&mut socket, connection).await?;
        let _ = script.heard.send(heard);
        let act = script.acts.lock().unwrap().pop_front();
        match act.unwrap_or(Act::Drop) {
            Act::Say(pieces) => {
                for piece in pieces {
                    socket.write_all(&piece).await.ok()?;
                    socket.flush().await.ok()?;
                    tokio::task::yield_now().await;
                }
            }
            Act::SayAndDrop(bytes) => {
                socket.write_all(&bytes).await.ok()?;
                socket.flush().await.ok()?;
                return None;
            }
            Act::Drop => return None,
            Act::Hang => std::future::pending().await,
        }
    }
}

async fn read(socket: &mut (impl AsyncBufReadExt + Unpin), connection: usize) -> Option<Heard> {
    let mut line = String::new();
    socket.read_line(&mut line).await.ok().filter(|&length| length > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        socket.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    let line = line.trim().trim_end_matches(" HTTP/1.1").to_owned();
    Some(Heard { line, headers, body: String::from_utf8(body).unwrap(), connection })
}
