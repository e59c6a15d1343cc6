//! Connections: accepting them, TLS, and limits that keep one client from blocking others. Every connection has its
//! own task, including its handshake. There is a limit for all connections, and a lower one for each address. A
//! client that is slow in its handshake, request, body or reading is disconnected. HTTP/2 is used if TLS negotiated
//! it, otherwise HTTP/1.1.
//!
//! Handlers see the other side as `ConnectInfo<Peer>`.

use super::listener::{Accepted, Listener, PeerAddress, Source};
use super::shares::Shares;
use super::silent::{Connected, Silent};
use crate::security::ClientCertificate;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Extensions, Request};
use axum::{BoxError, Router};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Pause after a failed accept: a system without free file descriptors does not have one at once.
const PAUSE: Duration = Duration::from_millis(500);
/// Largest request head, far more than clients send.
const MOST_HEADER_BYTES: usize = 32 * 1024;
/// Concurrent requests on one HTTP/2 connection: the minimum that RFC 9113 recommends.
const MOST_STREAMS: u32 = 100;

/// The other side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Remote address or local account.
    pub address: PeerAddress,
    /// Its client certificate, from an accepted authority.
    pub certificate: Option<ClientCertificate>,
}

/// The other side, if the request came through [`serve`].
pub(super) fn peer(extensions: &Extensions) -> Option<Peer> {
    extensions.get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| *peer)
}

/// Limits and timeouts of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Most connections, including those in their handshake. Further ones wait to be accepted.
    pub connections: usize,
    /// Most connections of one address or local account. At most half of them are without an authenticated request; the
    /// oldest of those is closed for a further one. If all are authenticated, the further one is closed.
    pub connections_each: usize,
    /// Addresses of proxies, which are exempt from the limit per address.
    pub proxies: Vec<IpAddr>,
    /// Timeout of the TLS handshake.
    pub handshake: Duration,
    /// Timeout of the first byte after the handshake.
    pub first_byte: Duration,
    /// Timeout of a request head, including the wait for the next request.
    pub head: Duration,
    /// Timeout of a whole request body.
    pub body: Duration,
    /// How long a client may accept no data.
    pub write: Duration,
    /// How long requests in progress may take after the stop.
    pub farewell: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        let limits = super::Limits::default();
        Bounds {
            connections: limits.connections,
            connections_each: limits.connections_per_address,
            proxies: Vec::new(),
            handshake: Duration::from_secs(10),
            first_byte: Duration::from_secs(5),
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
            farewell: Duration::from_secs(10),
        }
    }
}

/// What a server needs, and an operator can change while it serves.
#[derive(Clone)]
pub struct Live {
    /// The routes. Requests that have begun stay with those before.
    pub router: Router,
    /// Limits and timeouts. Connections that were accepted keep their timeouts.
    pub bounds: Arc<Bounds>,
    /// TLS for new connections of listeners with TLS, in place of that with which they were bound.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Serves until `stop` completes. Then accepts nothing new, and gives requests in progress [`Bounds::farewell`] to
/// end.
pub async fn serve(bounds: Bounds, listeners: Vec<Listener>, router: Router, stop: impl Future<Output = ()>) {
    let (_unchanged, live) = watch::channel(Live { router, bounds: Arc::new(bounds), tls: None });
    serve_live(live, listeners, stop).await;
}

/// The same with parts that can change. No connection is closed by a change.
pub async fn serve_live(
    mut live: watch::Receiver<Live>,
    listeners: Vec<Listener>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let (stopping, stopped) = watch::channel(false);
    let bounds = live.borrow_and_update().bounds.clone();
    let shares = Shares::new(bounds.connections, bounds.connections_each);
    let (mut most, farewell) = (bounds.connections, bounds.farewell);
    let reception = Reception { live: live.clone(), stopped, shares, silent: Silent::default() };
    let mut accepting = Accepting { listeners, first: 0, pause: None };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {}
            Ok(()) = live.changed() => {
                let bounds = live.borrow_and_update().bounds.clone();
                most = bounds.connections;
                reception.shares.resize(most, bounds.connections_each);
            }
            // At the limit, connections wait in the backlog of the system. Reaping finished tasks frees a slot.
            (stream, address, bound) = accepting.next(), if connections.len() < most => {
                let tls = bound.map(|bound| live.borrow().tls.clone().unwrap_or(bound).into());
                connections.spawn(reception.clone().attend(stream, address, tls));
            }
        }
    }
    drop(accepting);
    stopping.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(farewell, all_ended).await.is_err() {
        tracing::warn!(
            event = "connections_closed",
            connections = connections.len(),
            "closing connections whose requests did not end in time"
        );
        connections.shutdown().await;
    }
}

/// The next connection of any listener. Errors of a client, or a shortage of resources, do not end it.
struct Accepting {
    listeners: Vec<Listener>,
    /// The listener that is asked first, in turn, so that a busy one does not keep the others waiting.
    first: usize,
    /// Nothing is accepted before, after a failed accept.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Accepting {
    /// With the TLS configuration of its listener. A connection is not lost if this is dropped before it is ready.
    async fn next(&mut self) -> (Accepted, PeerAddress, Option<Arc<ServerConfig>>) {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<(Accepted, PeerAddress, Option<Arc<ServerConfig>>)> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let count = self.listeners.len();
            let turns = (0..count).map(|turn| (self.first + turn) % count);
            let accepted = turns.into_iter().find_map(|at| match self.listeners[at].poll_accept(context) {
                Poll::Ready(result) => Some((at, result)),
                Poll::Pending => None,
            });
            let Some((at, result)) = accepted else { return Poll::Pending };
            self.first = (at + 1) % count;
            match result {
                Ok((stream, address)) => {
                    return Poll::Ready((stream, address, self.listeners[at].tls().cloned()));
                }
                Err(fault) if is_the_clients(&fault) => {}
                Err(fault) => {
                    tracing::error!(event = "accept_failed", %fault, "cannot accept connections");
                    self.pause = Some(Box::pin(sleep(PAUSE)));
                }
            }
        }
    }
}

fn is_the_clients(fault: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, NotConnected};
    matches!(
        fault.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | NotConnected
    )
}

#[derive(Clone)]
struct Reception {
    live: watch::Receiver<Live>,
    stopped: watch::Receiver<bool>,
    shares: Shares<Source>,
    silent: Silent,
}

/// Extension of a request: its connection.
#[derive(Clone)]
struct Carrier(Arc<Connected>);

/// Notes that the caller of a request is known, so that its connection is not closed for others.
pub(super) fn authenticated(extensions: &Extensions) {
    if let Some(Carrier(connected)) = extensions.get() {
        connected.authenticated();
    }
}

impl Reception {
    /// Handles a connection from its handshake to its end.
    async fn attend(self, stream: Accepted, address: PeerAddress, tls: Option<TlsAcceptor>) {
        let bounds = self.live.borrow().bounds.clone();
        let is_proxy = matches!(address, PeerAddress::Tcp(address) if
            bounds.proxies.contains(&address.ip().to_canonical()));
        // A proxy is exempt; its clients have slots of their own.
        let connected = match is_proxy {
            true => None,
            false => match self.silent.connect(&self.shares, address.into()) {
                Ok(connected) => Some(Arc::new(connected)),
                Err(_) => {
                    tracing::debug!(%address, "connection closed: too many from this address");
                    return;
                }
            },
        };
        let attended = self.greet(stream, address, tls, bounds, connected.clone());
        match connected {
            None => attended.await,
            Some(connected) => tokio::select! {
                () = attended => {}
                () = connected.closed() => {
                    tracing::debug!(%address, "connection closed: too many from this address without a request");
                }
            },
        }
    }

    async fn greet(
        self,
        stream: Accepted,
        address: PeerAddress,
        tls: Option<TlsAcceptor>,
        bounds: Arc<Bounds>,
        connected: Option<Arc<Connected>>,
    ) {
        let peer = Peer { address, certificate: None };
        let stream = match stream {
            Accepted::Unix(stream) => return self.converse(stream, peer, false, connected).await,
            Accepted::Tcp(stream) => stream,
        };
        // Answers are small, so delaying them to fill packets would only add latency.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return self.converse(stream, peer, false, connected).await };
        match timeout(bounds.handshake, tls.accept(stream)).await {
            Err(_) => tracing::debug!(%address, "no handshake in time"),
            Ok(Err(fault)) => tracing::debug!(%address, %fault, "handshake failed"),
            Ok(Ok(stream)) => {
                let (_, session) = stream.get_ref();
                let own = session.peer_certificates().and_then(|chain| chain.first());
                let certificate = own.map(|der| ClientCertificate::of(der));
                let agreed_on_2 = session.alpn_protocol() == Some(b"h2");
                self.converse(stream, Peer { certificate, ..peer }, agreed_on_2, connected).await;
            }
        }
    }

    /// Serves requests until the client leaves, is too slow, or the service stops.
    async fn converse<S>(mut self, stream: S, peer: Peer, http2: bool, connected: Option<Arc<Connected>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let asked = Arc::new(AtomicBool::new(false));
        let bounds = self.live.borrow().bounds.clone();
        let (live, patience, heard) = (self.live.clone(), bounds.body, asked.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            heard.store(true, Ordering::Relaxed);
            let mut request = request.map(|body| Body::new(Timed { body, patience, deadline: None }));
            request.extensions_mut().insert(ConnectInfo(peer));
            if let Some(connected) = &connected {
                request.extensions_mut().insert(Carrier(connected.clone()));
            }
            // At each request: a connection may live longer than the routes it began with.
            TowerToHyperService::new(live.borrow().router.clone()).call(request)
        });
        let builder = protocol(&bounds, http2);
        let has_spoken = Arc::new(AtomicBool::new(false));
        let spoke = has_spoken.clone();
        let stream = TimedWrites { stream, spoke, patience: bounds.write, deadline: None };
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut first_byte = pin!(sleep(bounds.first_byte));
        let mut first_request = pin!(sleep(bounds.head));
        let (mut listening, mut waiting, mut stopping) = (true, true, false);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(fault) = ended {
                        tracing::debug!(address = %peer.address, %fault, "connection ended");
                    }
                    return;
                }
                _ = self.stopped.wait_for(|stopped| *stopped), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut first_byte, if listening => {
                    listening = false;
                    if !has_spoken.load(Ordering::Relaxed) {
                        tracing::debug!(address = %peer.address, "no byte in time");
                        return;
                    }
                }
                // hyper has a timeout for heads in HTTP/1.1. In HTTP/2 it would wait for the preface for ever.
                () = &mut first_request, if waiting => {
                    waiting = false;
                    if !asked.load(Ordering::Relaxed) {
                        tracing::debug!(address = %peer.address, "no request in time");
                        return;
                    }
                }
            }
        }
    }
}

fn protocol(bounds: &Bounds, http2: bool) -> Builder<TokioExecutor> {
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = if http2 { builder.http2_only() } else { builder.http1_only() };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_buf_size(MOST_HEADER_BYTES)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(bounds.head)
        .keep_alive_timeout(bounds.head)
        .max_header_list_size(MOST_HEADER_BYTES as u32)
        .max_concurrent_streams(MOST_STREAMS);
    builder
}

/// A request body with a timeout.
struct Timed {
    body: Incoming,
    patience: Duration,
    /// Starts when data was first waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        let late = || Some(Err("the body of the request did not arrive in time".into()));
        deadline.as_mut().poll(context).map(|()| late())
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that fails if the other side accepts no data for too long. Otherwise a client that does not read
/// would keep its slot for ever.
struct TimedWrites<S> {
    stream: S,
    /// Set when the other side has sent something.
    spoke: Arc<AtomicBool>,
    patience: Duration,
    /// Set while data waits to be sent.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> TimedWrites<S> {
    fn in_time<T>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let this = &mut *self;
        if let Poll::Ready(written) = write(Pin::new(&mut this.stream), context) {
            this.deadline = None;
            return Poll::Ready(written);
        }
        let patience = this.patience;
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.spoke.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.in_time(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.in_time(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context, AsyncWrite::poll_shutdown)
    }
}

/// Signals that the service stops, also when dropped.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Receives the signal to stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A connected pair.
    pub fn pair() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    /// Waits for the signal.
    pub async fn said(&mut self) {
        // An error means that the sender is gone, which is the same signal.
        let _ = self.0.wait_for(|stops| *stops).await;
    }

    /// Whether the signal was sent.
    pub fn is_said(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

impl Stopper {
    /// Sends the signal.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_hears_it_and_whoever_comes_later_too() {
        let (stopper, stop) = Stop::pair();
        assert!(!stop.is_said());
        let waiting = tokio::spawn({
            let mut stop = stop.clone();
            async move { stop.said().await }
        });
        stopper.stop();
        waiting.await.unwrap();
        assert!(stop.is_said());
        drop(stopper);
        assert!(stop.is_said());
        stop.clone().said().await;
    }
}
