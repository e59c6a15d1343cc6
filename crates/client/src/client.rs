//! Connection to one server, which may have several addresses: those of its processes, of which one is active. Sends a
//! request once, or repeats it with the same key until an answer arrives or patience runs out.

use crate::error::ClientError;
use crate::internal::{OutsideOnly, internal_host};
use crate::message::{Order, Reply, ServerClock, behalf, sendable, value_of};
use crate::options::Options;
use crate::{make, options};
use bookahead_api::header;
use bookahead_api::operation::Method;
use bookahead_protocol::{Caller, Name};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, Url};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Idle connections are closed after this time, which is shorter than the idle timeout of most servers.
const IDLE: Duration = Duration::from_secs(30);
/// Most idle connections kept per server.
const MOST_IDLE: usize = 32;
/// Wait before the first repetition; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Upper bound of the wait, unless the server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

const TRACE: HeaderName = HeaderName::from_static("traceparent");
const VIA: HeaderName = HeaderName::from_static(header::VIA);
const ACTIVE: HeaderName = HeaderName::from_static(header::ACTIVE);
const EPOCH: HeaderName = HeaderName::from_static(header::EPOCH);
const CLOCK_SPEED: HeaderName = HeaderName::from_static(header::CLOCK_SPEED);

/// A future that is compiled once, in this crate. Otherwise every program and test that makes a call would compile the
/// whole HTTP client again.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A client of one server. Clones share connections, the address in use and the last known clock of the server.
#[derive(Debug, Clone)]
pub struct Client {
    addresses: Arc<Addresses>,
    /// Headers of every request: token, user and roles, trace.
    headers: HeaderMap,
    /// User for tokens that are minted for each request.
    caller: Option<Arc<Caller>>,
    pub(crate) options: Arc<Options>,
    /// From the last answer.
    server_clock: Arc<Mutex<Option<ServerClock>>>,
}

#[derive(Debug)]
struct Address {
    http: reqwest::Client,
    /// As users write it, without a trailing slash.
    url: String,
    /// Prefix of request URLs. Differs from `url` for Unix sockets.
    base: String,
}

#[derive(Debug)]
struct Addresses {
    all: Vec<Address>,
    current: AtomicUsize,
}

impl Addresses {
    fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.all.len()
    }

    /// Uses the next address from now on, unless another call has left this one already.
    fn leave(&self, at: usize) {
        let next = (at + 1) % self.all.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Most addresses of one server.
const MOST_ADDRESSES: usize = 16;

impl Client {
    /// For the server at this URL, or at one of several, separated by commas. Reads certificates and keys; does not
    /// connect yet.
    pub fn new(url: &str, options: Options) -> Result<Client, ClientError> {
        let mut all = Vec::new();
        for url in url.split(',').take(MOST_ADDRESSES) {
            let Checked { url, base } = checked(url.trim())?;
            all.push(Address { http: http(&url, &options)?, url, base });
        }
        let addresses = Arc::new(Addresses { all, current: AtomicUsize::new(0) });
        let mut headers = HeaderMap::new();
        if let Some(token) = &options.token {
            headers.insert(AUTHORIZATION, secret(token)?);
        }
        let options = Arc::new(options);
        let client = Client { addresses, headers, caller: None, options, server_clock: Arc::default() };
        Ok(match client.options.user.clone() {
            Some(user) => client.on_behalf_of(&Caller { user, roles: client.options.roles.clone() }),
            None => client,
        })
    }

    /// The URL of the server that is in use.
    pub fn url(&self) -> &str {
        &self.addresses.all[self.addresses.current()].url
    }

    /// The same server, called on behalf of a user.
    pub fn on_behalf_of(&self, caller: &Caller) -> Client {
        let mut client = self.clone();
        client.headers.extend(behalf(caller));
        if client.options.minter.is_some() {
            client.caller = Some(Arc::new(caller.clone()));
        }
        client
    }

    /// The same server, called within a trace (W3C `traceparent`).
    pub fn traced(&self, trace: &str) -> Result<Client, ClientError> {
        let mut client = self.clone();
        client.headers.insert(TRACE, value_of("the trace", trace)?);
        Ok(client)
    }

    /// The same server, called by a broker. `brokers` forwarded the call, the caller is last.
    pub fn via(&self, brokers: &[Name]) -> Client {
        let mut client = self.clone();
        client.headers.insert(VIA, sendable(&header::names(brokers)));
        client
    }

    /// The same server, called by the process of a party with this number. Numbers grow; a server refuses a lower one
    /// than it has seen.
    pub fn with_epoch(&self, party: &Name, epoch: u64) -> Client {
        let mut client = self.clone();
        client.headers.insert(EPOCH, sendable(&header::epoch(party, epoch)));
        client
    }

    /// The same server, with times computed for a clock of this speed. A server with another speed refuses the call
    /// with [`Code::OtherClock`](bookahead_api::Code::OtherClock) before it has any effect.
    pub fn with_clock_speed(&self, speed: u32) -> Client {
        let mut client = self.clone();
        client.headers.insert(CLOCK_SPEED, speed.into());
        client
    }

    /// The same server, with another limit on the size of answers.
    pub fn with_most_bytes(&self, most_bytes: usize) -> Client {
        let mut client = self.clone();
        client.options = Arc::new(Options { most_bytes, ..Options::clone(&self.options) });
        client
    }

    /// Clock of the server according to its last answer. `None` before the first answer.
    pub fn server_clock(&self) -> Option<ServerClock> {
        // A panic elsewhere cannot leave it half written, because it is always replaced as a whole.
        *self.server_clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and reads its answer.
    pub(crate) fn once<'a>(
        &'a self,
        order: &'a Order,
        within: Duration,
    ) -> Boxed<'a, Result<Reply, ClientError>> {
        Box::pin(async move {
            // reqwest applies this timeout up to the last byte of the body, so reading the reply needs no other.
            let response = self.send(order, within, |request| request.timeout(within)).await?;
            Reply::read(response, within, self.options.most_bytes).await
        })
    }

    pub(crate) async fn ask(&self, order: &Order) -> Result<Reply, ClientError> {
        self.once(order, self.options.timeout).await
    }

    /// Repeats a request until there is an answer. The request must carry a key or be idempotent. If the first
    /// attempt cannot connect, it fails at once, because nothing was sent.
    pub(crate) fn insist<'a>(&'a self, order: &'a Order) -> Boxed<'a, Result<Reply, ClientError>> {
        Box::pin(self.repeat(order))
    }

    async fn repeat(&self, order: &Order) -> Result<Reply, ClientError> {
        let until = Instant::now() + self.options.patience;
        let mut within = self.options.timeout;
        let mut pause = FIRST_PAUSE;
        let mut sent = false;
        loop {
            let outcome = self.once(order, within).await;
            let (failure, asked) = match outcome {
                Ok(reply) if reply.is_success() => return Ok(reply),
                Ok(reply) => (reply.refusal(), reply.retry_after),
                Err(failure) => (failure, None),
            };
            // Never reset: once an attempt may have arrived, only an answer tells whether the call took
            // effect, so a later failure to connect must be repeated too.
            sent |= !failure.was_not_sent();
            // `Retry-After` may prolong the wait, never shorten it.
            let wait = varied(pause)?.max(asked.unwrap_or_default());
            if !sent || !failure.may_pass() || Instant::now() + wait >= until {
                return Err(failure);
            }
            sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            // The last attempt must not exceed the patience of the caller.
            within = within.min(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Sends a request and returns when the headers of the answer arrive. Tries the other addresses if this one is not
    /// reachable or stands by: nothing was done there. After another failure only the next request goes elsewhere.
    pub(crate) async fn send(
        &self,
        order: &Order,
        within: Duration,
        bounded: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, ClientError> {
        let mut others = self.addresses.all.len() - 1;
        loop {
            let at = self.addresses.current();
            let outcome = self.response(bounded(self.request(at, order)?), at, order, within).await;
            let (failed, not_done) = match &outcome {
                Ok(response) => (response.status().as_u16() == 503, response.headers().contains_key(ACTIVE)),
                Err(why) => (true, why.was_not_sent()),
            };
            if failed {
                self.addresses.leave(at);
            }
            if !not_done || others == 0 {
                return outcome;
            }
            others -= 1;
        }
    }

    async fn response(
        &self,
        request: RequestBuilder,
        at: usize,
        order: &Order,
        within: Duration,
    ) -> Result<Response, ClientError> {
        let url = format!("{}{}", self.addresses.all[at].url, order.path);
        let response = request.send().await.map_err(|why| ClientError::of_failure(&url, within, &why))?;
        // Answers of proxies have no clock; they must not erase the known one.
        if let Some(clock) = ServerClock::of(response.headers()) {
            *self.server_clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
        }
        Ok(response)
    }

    fn request(&self, at: usize, order: &Order) -> Result<RequestBuilder, ClientError> {
        let Address { http, base, .. } = &self.addresses.all[at];
        let text = format!("{base}{}", order.path);
        let mut url = Url::parse(&text).map_err(|why| bad_url(&text, &why))?;
        if !order.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&order.query);
        }
        let method = match order.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Delete => reqwest::Method::DELETE,
        };
        let mut headers = self.headers.clone();
        // Headers of the call replace those of the client.
        headers.extend(order.headers.clone());
        // Minted for each attempt, so that a repeated request never carries an expired token.
        if let (None, Some(minter)) = (&self.options.token, &self.options.minter) {
            headers.insert(AUTHORIZATION, secret(&minter.mint(self.caller.as_deref()))?);
        }
        let request = http.request(method, url);
        Ok(match &order.body {
            None => request.headers(headers),
            Some(body) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                request.headers(headers).body(body.clone())
            }
        })
    }
}

/// HTTP client for one server: no proxy, no redirects, TLS with ring.
pub(crate) fn http(url: &str, options: &Options) -> Result<reqwest::Client, ClientError> {
    let tls = options::config(url, options)?;
    let mut builder = reqwest::Client::builder();
    if options.outside_only {
        if let Some(address) = internal_host(url) {
            return Err(bad_url(
                url,
                &format!("{address} is an address of this machine or a private network"),
            ));
        }
        builder = builder.dns_resolver(OutsideOnly);
    }
    let builder = match url.strip_prefix(UNIX) {
        None => builder,
        #[cfg(unix)]
        Some(path) => builder.unix_socket(path),
        #[cfg(not(unix))]
        Some(_) => return Err(bad_url(url, &"this system has no Unix sockets")),
    };
    builder
        .tls_backend_preconfigured(tls)
        .http1_only()
        // Only the configured server is trusted: a proxy from the environment or a redirect would lead elsewhere.
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MOST_IDLE)
        .tcp_nodelay(true)
        .user_agent(concat!("bookahead/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|why| ClientError::Tls { url: url.into(), why: why.to_string() })
}

/// A random wait between half of `pause` and all of it, so that clients that lost their connections together do not
/// return together.
fn varied(pause: Duration) -> Result<Duration, ClientError> {
    let half = u64::try_from(pause.as_millis() / 2).unwrap_or(u64::MAX);
    let more = u64::try_from(make::random()? % u128::from(half.max(1))).unwrap_or_default();
    Ok(Duration::from_millis(half.saturating_add(more)))
}

fn secret(token: &str) -> Result<HeaderValue, ClientError> {
    let mut value = value_of("the token", &format!("Bearer {token}"))?;
    // Keeps the token out of debug output of the HTTP library.
    value.set_sensitive(true);
    Ok(value)
}

/// Prefix of the URL of a Unix socket.
const UNIX: &str = "unix:";

struct Checked {
    url: String,
    base: String,
}

/// Validates a URL. Requests over a Unix socket still need a host in their URL.
fn checked(text: &str) -> Result<Checked, ClientError> {
    if let Some(path) = text.strip_prefix(UNIX) {
        if path.is_empty() {
            return Err(bad_url(text, &"it has no path"));
        }
        return Ok(Checked { url: text.to_owned(), base: "http://localhost".to_owned() });
    }
    let url = Url::parse(text).map_err(|why| bad_url(text, &why))?;
    if !url.username().is_empty() || url.password().is_some() {
        // The message must not show the password.
        let host = format!("{}://…@{}", url.scheme(), url.host_str().unwrap_or_default());
        return Err(bad_url(&host, &"it contains a user name or password; use a token instead"));
    }
    let fault = if !matches!(url.scheme(), "http" | "https") {
        Some("it must begin with http://, https:// or unix:")
    } else if url.query().is_some() || url.fragment().is_some() {
        // Paths are appended to this text, so they would become part of the query.
        Some("it must not have a query or a fragment")
    } else {
        None
    };
    match fault {
        Some(why) => Err(bad_url(text, &why)),
        None => {
            // Paths are appended as text and begin with a slash; two in a row would be another path.
            let url = url.as_str().trim_end_matches('/').to_owned();
            Ok(Checked { base: url.clone(), url })
        }
    }
}

fn bad_url(url: &str, why: &dyn ToString) -> ClientError {
    ClientError::BadUrl { url: url.into(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_server_and_nothing_else() {
        let url = |text| checked(text).unwrap().url;
        assert_eq!(url("http://127.0.0.1:7420/"), "http://127.0.0.1:7420");
        assert_eq!(url("https://a.example/grid/"), "https://a.example/grid");
        assert_eq!(url("unix:/run/a.sock"), "unix:/run/a.sock");
        for wrong in
            ["", "unix:", "north", "ftp://north", "http://u:p@north", "http://north/?a=1", "http://north/#x"]
        {
            assert!(matches!(checked(wrong), Err(ClientError::BadUrl { .. })), "{wrong}");
        }
    }

    #[test]
    fn waits_vary_within_bounds() {
        for _ in 0..100 {
            let wait = varied(Duration::from_millis(100)).unwrap();
            assert!((50..100).contains(&wait.as_millis()), "{wait:?}");
        }
        assert!(varied(Duration::ZERO).unwrap() < Duration::from_millis(1));
    }
}
