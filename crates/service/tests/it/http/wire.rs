//! HTTP on the wire, with one connection for each request. Every answer is checked against the OpenAPI description
//! of its route.

use super::LONG;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::LazyLock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

static DOCUMENT: LazyLock<Value> = LazyLock::new(bookahead_service::http::openapi);

/// A client.
#[derive(Clone)]
pub(crate) struct Wire {
    address: SocketAddr,
    token: Option<String>,
}

/// A received answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Wire {
    pub(crate) fn new(address: SocketAddr, token: Option<String>) -> Wire {
        Wire { address, token }
    }

    /// Sends the start of a request with a chunked body.
    pub(crate) async fn begin_unfinished(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        first: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        head += &self
            .token
            .as_ref()
            .map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        stream
            .write_all(format!("{head}content-type: application/json\r\n\r\n{first}").as_bytes())
            .await
            .unwrap();
        stream
    }

    /// Sends a request without waiting for the answer.
    pub(crate) async fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
            head += "content-type: application/json\r\n";
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let stream = self.begin(method, path, headers, body).await;
        let reply = Reply::read(stream).await;
        assert_described(method, path, reply.status);
        reply
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], &body.to_string()).await
    }

    /// With an idempotency key.
    pub(crate) async fn post_once(&self, path: &str, key: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("idempotency-key", &format!("\"{key}\""))], &body.to_string()).await
    }
}

impl Reply {
    /// Reads an answer to its end.
    pub(crate) async fn read(mut stream: TcpStream) -> Reply {
        let mut bytes = Vec::new();
        timeout(LONG, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Reply { status, headers, body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a header that may come several times.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The document of an answer with this status.
    #[track_caller]
    pub(crate) fn document(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_str(&self.body).unwrap()
    }

    /// The status and code of the problem document, which must be complete.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: bookahead_api::Problem = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        assert_eq!(problem.kind, format!("/problems/{}", problem.code));
        assert!(!problem.detail.is_empty() && !problem.title.is_empty());
        let again = matches!(self.status, 429 | 503) || problem.code == "key-in-flight";
        assert_eq!(self.header("retry-after").is_some(), again, "{self:?}");
        (self.status, problem.code)
    }
}

/// Every answer of an existing route must be described in the OpenAPI document.
#[track_caller]
fn assert_described(method: &str, path: &str, status: u16) {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (asked, known): (Vec<_>, Vec<_>) = (path.split('/').collect(), template.split('/').collect());
        asked.len() == known.len()
            && asked.iter().zip(known).all(|(asked, known)| *asked == known || known.starts_with('{'))
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let found = paths.iter().find(|(template, _)| fits(template));
    match found.and_then(|(_, methods)| methods.get(method.to_ascii_lowercase())) {
        Some(operation) => {
            let described = operation["responses"].get(status.to_string()).is_some();
            assert!(described, "{method} {path} answers {status}, which is not described");
        }
        // Pages and their files are for browsers, not for programs. The last one is a page of an identity provider.
        None if path == "/"
            || ["/dashboard/", "/sign-in", "/authorize"].iter().any(|page| path.starts_with(page)) => {}
        None => assert!(matches!(status, 404 | 405) || method == "HEAD", "{method} {path} answers {status}"),
    }
}
