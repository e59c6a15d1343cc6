//! Connections: accepting them, TLS, and limits that keep one client from blocking others. Every connection has its
//! own task, including its handshake. There is a limit for all connections, and a lower one for each address. A
//! client that is slow in its handshake, request, body or reading is disconnected. HTTP/2 is used if TLS negotiated
//! it, otherwise HTTP/1.1.
//!
//! Handlers see the other side as `ConnectInfo<Peer>`.

use super::listener::{Accepted, Listener, PeerAddress, Source};
use super::shares::{Full, Shares};
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
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, watch};
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
    /// Most connections of one address or local account. Further ones are closed at once.
    pub connections_each: usize,
    /// Addresses of proxies, which are exempt from the limit per address.
    pub proxies: Vec<IpAddr>,
    /// Timeout of the TLS handshake.
    pub handshake: Duration,
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
    let reception = Reception { live: live.clone(), stopped, shares };
    let (sender, mut accepted) = mpsc::channel(1);
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept_all(listener, sender.clone()));
    }
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
            Some((stream, address, tls)) = accepted.recv(), if connections.len() < most => {
                let tls = tls.map(|bound| live.borrow().tls.clone().map_or(bound, TlsAcceptor::from));
                connections.spawn(reception.clone().attend(stream, address, tls));
            }
        }
    }
    accepting.shutdown().await;
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

/// Accepts connections until the receiver is gone. Errors of a client, or a shortage of resources, do not end it.
async fn accept_all(listener: Listener, to: mpsc::Sender<(Accepted, PeerAddress, Option<TlsAcceptor>)>) {
    let tls = match &listener {
        Listener::Tcp(_, tls) => tls.clone().map(TlsAcceptor::from),
        Listener::Unix(..) => None,
    };
    // Accepts only what can be served, so that further clients wait in the backlog of the system.
    while let Ok(room) = to.reserve().await {
        match listener.accept().await {
            Ok((stream, address)) => room.send((stream, address, tls.clone())),
            Err(fault) if is_the_clients(&fault) => {}
            Err(fault) => {
                tracing::error!(event = "accept_failed", %fault, "cannot accept connections");
                sleep(PAUSE).await;
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
}

impl Reception {
    /// Handles a connection from its handshake to its end.
    async fn attend(self, stream: Accepted, address: PeerAddress, tls: Option<TlsAcceptor>) {
        let bounds = self.live.borrow().bounds.clone();
        let is_proxy = matches!(address, PeerAddress::Tcp(address) if
            bounds.proxies.contains(&address.ip().to_canonical()));
        let place = self.shares.take(&address.into());
        if !is_proxy && place.as_ref().is_err_and(|full| *full == Full::Own) {
            tracing::debug!(%address, "connection closed: too many from this address");
            return;
        }
        let peer = Peer { address, certificate: None };
        let stream = match stream {
            Accepted::Unix(stream) => return self.converse(stream, peer, false).await,
            Accepted::Tcp(stream) => stream,
        };
        // Answers are small, so delaying them to fill packets would only add latency.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return self.converse(stream, peer, false).await };
        match timeout(bounds.handshake, tls.accept(stream)).await {
            Err(_) => tracing::debug!(%address, "no handshake in time"),
            Ok(Err(fault)) => tracing::debug!(%address, %fault, "handshake failed"),
            Ok(Ok(stream)) => {
                let (_, session) = stream.get_ref();
                let own = session.peer_certificates().and_then(|chain| chain.first());
                let certificate = own.map(|der| ClientCertificate::of(der));
                let agreed_on_2 = session.alpn_protocol() == Some(b"h2");
                self.converse(stream, Peer { certificate, ..peer }, agreed_on_2).await;
            }
        }
    }

    /// Serves requests until the client leaves, is too slow, or the service stops.
    async fn converse<S>(mut self, stream: S, peer: Peer, http2: bool)
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
            // At each request: a connection may live longer than the routes it began with.
            TowerToHyperService::new(live.borrow().router.clone()).call(request)
        });
        let builder = protocol(&bounds, http2);
        let stream = TimedWrites { stream, patience: bounds.write, deadline: None };
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut first_request = pin!(sleep(bounds.head));
        let (mut waiting, mut stopping) = (true, false);
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
