//! A fake peer: records the requests of a broker, and answers as the test says.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// The token in `Authorization`, if present.
    pub(crate) token: Option<String>,
    /// `Bookahead-User`.
    pub(crate) user: Option<String>,
}

/// Status and body for a route, such as `GET /v1/sites`.
type Answers = dyn Fn(&str) -> (u16, String) + Send + Sync;

/// Listens until dropped.
pub(crate) struct FakePeer {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    listening: tokio::task::JoinHandle<()>,
}

impl FakePeer {
    /// With these answers, and headers for all of them.
    pub(crate) async fn start(
        headers: &'static str,
        answers: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
    ) -> FakePeer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let (noted, answers) = (received.clone(), Arc::<Answers>::from(Box::new(answers) as Box<Answers>));
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(attend(stream, headers, noted.clone(), answers.clone()));
            }
        });
        FakePeer { url, received, listening }
    }

    /// Answers queries about itself like a site, and refuses everything else.
    pub(crate) async fn site(name: &str) -> FakePeer {
        let itself = sites(name, "cluster");
        FakePeer::start("", move |route| match route {
            "GET /v1/sites" => (200, itself.clone()),
            _ => (503, String::new()),
        })
        .await
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// All tokens received.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.received().into_iter().filter_map(|request| request.token).collect()
    }
}

impl Drop for FakePeer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The list of sites of a site with one resource.
pub(crate) fn sites(name: &str, resource: &str) -> String {
    serde_json::json!({"sites": [{
        "name": name, "url": "http://127.0.0.1:1", "role": "site", "state": "up",
        "resources": [{"name": resource, "kind": "processors", "site": name, "capacity": 64}]
    }]})
    .to_string()
}

async fn attend(
    mut stream: TcpStream,
    headers: &str,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Answers>,
) -> Option<()> {
    let mut bytes = Vec::new();
    let head = loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = field(head, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                break head.to_owned();
            }
        }
    };
    let mut words = head.split(' ');
    let route = format!("{} {}", words.next()?, words.next()?);
    let token = field(&head, "authorization").map(|value| value.trim_start_matches("Bearer ").to_owned());
    let user = field(&head, "bookahead-user");
    received.lock().unwrap().push(Received { token, user });
    let (status, body) = answers(&route);
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

fn field(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}
