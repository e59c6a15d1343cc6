//! Connections over real sockets: TLS, client certificates, HTTP/2, slow clients, and stopping.

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use bookahead_service::http::listener::{Listen, Listener};
use bookahead_service::http::serve::{Bounds, Peer, serve};
use bookahead_service::security::{ClientCertificate, SecurityError, server_config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longer than anything here takes, unless it hangs.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// Long timeouts, so that no connection ends by a timeout that the test is not about.
const PATIENT: Bounds = Bounds {
    connections: 64,
    connections_each: 64,
    proxies: Vec::new(),
    handshake: LONG,
    first_byte: LONG,
    head: LONG,
    body: LONG,
    write: LONG,
    farewell: LONG,
};

/// A running server.
struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(bounds: Bounds, tls: Option<Arc<ServerConfig>>, router: Router) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let listeners = vec![Listener::Tcp(listener, tls)];
        let task = tokio::spawn(serve(bounds, listeners, router, async { drop(stopped.await) }));
        Server { address, stop, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Stops the server and waits for its end.
    async fn end(self) {
        self.stop.send(()).unwrap();
        timeout(LONG, self.task).await.unwrap().unwrap();
    }
}

/// Routes that report the caller, take bodies, and never answer.
fn router() -> Router {
    let who = |ConnectInfo(peer): ConnectInfo<Peer>| async move {
        peer.certificate.map_or_else(|| "nobody".into(), |certificate| certificate.fingerprint.to_string())
    };
    Router::new()
        .route("/who", get(who))
        .route("/take", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/wait", get(std::future::pending::<String>))
        .route("/much", get(|| async { "x".repeat(64 << 20) }))
}

/// Sends a request and reads until the connection is closed.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(rest(stream).await)
}

/// Everything received until the connection ends, in any way.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let read = async {
        let mut some = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut some).await {
            text.extend_from_slice(&some[..count]);
        }
    };
    timeout(LONG, read).await.expect("the connection should have been closed");
    String::from_utf8(text).unwrap()
}

/// A folder with certificates: an authority, and those that it signed.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct Holder {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    der: CertificateDer<'static>,
    private: PrivateKeyDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { folder: tempfile::tempdir().unwrap(), issuer }
    }

    pub(crate) fn file(&self) -> PathBuf {
        write(&self.folder.path().join("authority.pem"), &self.issuer.pem())
    }

    fn certify(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> Holder {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let in_folder = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        Holder {
            certificate: write(&in_folder("pem"), &certificate.pem()),
            key: write(&in_folder("key"), &key.serialize_pem()),
            der: certificate.der().clone(),
            private: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }

    pub(crate) fn server(&self) -> Holder {
        self.certify("localhost", ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self) -> Holder {
        self.certify("broker", ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Trusts this authority, and presents a certificate if given.
    fn client_config(&self, own: Option<&Holder>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                builder.with_client_auth_cert(vec![own.der.clone()], own.private.clone_key()).unwrap()
            }
        }
    }
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path.into()
}

async fn connect_tls(server: &Server, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, server.connect().await).await
}

/// In TLS 1.3 a client learns that its certificate is missing only when it reads.
async fn who_over_tls(server: &Server, config: ClientConfig) -> String {
    match connect_tls(server, config).await {
        Ok(mut stream) => ask(&mut stream, "/who").await.unwrap_or_default(),
        Err(_) => String::new(),
    }
}

fn tls(authority: &Authority, clients: Option<bool>) -> Arc<ServerConfig> {
    let (own, file) = (authority.server(), authority.file());
    server_config(&own.certificate, &own.key, clients.map(|required| (file.as_path(), required))).unwrap()
}

#[tokio::test]
async fn plain_connections_are_served_until_the_service_stops() {
    let server = Server::start(PATIENT, None, router()).await;
    let answer = ask(&mut server.connect().await, "/who").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("nobody"), "{answer}");
    let mut idle = server.connect().await;
    idle.write_all(b"GET /who HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let address = server.address;
    server.end().await;
    assert!(rest(&mut idle).await.ends_with("nobody"));
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn all_addresses_answer_in_any_order_and_at_the_limit_of_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.sock");
    let mut listeners = Vec::new();
    for listen in ["127.0.0.1:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap(), Listen::Unix(path.clone())]
    {
        listeners.push(listen.bind(None).await.unwrap());
    }
    let ports: Vec<SocketAddr> = listeners.iter().filter_map(|one| one.local().unwrap().tcp()).collect();
    let (stop, stopped) = oneshot::channel();
    let bounds = Bounds { connections: 2, ..PATIENT };
    let task = tokio::spawn(serve(bounds, listeners, router(), async { drop(stopped.await) }));
    let served = async {
        // The other address never has a connection meanwhile, or has one all the time.
        for idle in [None, Some(ports[1])] {
            let _idle = match idle {
                Some(address) => Some(TcpStream::connect(address).await.unwrap()),
                None => None,
            };
            for order in [[0, 0, 1], [1, 1, 0], [0, 1, 0]] {
                for at in order {
                    let mut stream = TcpStream::connect(ports[at]).await.unwrap();
                    assert!(ask(&mut stream, "/who").await.unwrap().ends_with("nobody"));
                    let mut stream = UnixStream::connect(&path).await.unwrap();
                    assert!(ask(&mut stream, "/who").await.unwrap().ends_with("nobody"));
                }
            }
        }
    };
    timeout(LONG, served).await.expect("an address does not answer");
    stop.send(()).unwrap();
    timeout(LONG, task).await.unwrap().unwrap();
}

#[tokio::test]
async fn handlers_see_the_certificate_of_a_client_that_has_one() {
    let authority = Authority::new();
    let server = Server::start(PATIENT, Some(tls(&authority, Some(false))), router()).await;
    let client = authority.client();
    let answer = who_over_tls(&server, authority.client_config(Some(&client))).await;
    assert!(answer.ends_with(&ClientCertificate::of(&client.der).fingerprint.to_string()), "{answer}");
    assert!(who_over_tls(&server, authority.client_config(None)).await.ends_with("nobody"));
    let other = Authority::new();
    let stranger = authority.client_config(Some(&other.client()));
    assert_eq!(who_over_tls(&server, stranger).await, "", "a certificate from elsewhere is worse than none");
    server.end().await;
}

#[tokio::test]
async fn clients_without_a_certificate_are_refused_where_all_must_have_one() {
    let authority = Authority::new();
    let server = Server::start(PATIENT, Some(tls(&authority, Some(true))), router()).await;
    assert_eq!(who_over_tls(&server, authority.client_config(None)).await, "");
    let answer = who_over_tls(&server, authority.client_config(Some(&authority.client()))).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn clients_that_do_not_trust_the_certificate_do_not_connect() {
    let authority = Authority::new();
    let server = Server::start(PATIENT, Some(tls(&authority, None)), router()).await;
    assert!(connect_tls(&server, Authority::new().client_config(None)).await.is_err());
    let mut plain = server.connect().await;
    let answer = ask(&mut plain, "/who").await.unwrap_or_default();
    assert!(!answer.contains("HTTP"), "plain text gets no answer where TLS is spoken: {answer:?}");
    server.end().await;
}

#[tokio::test]
async fn http_2_is_spoken_where_tls_agrees_on_it() {
    let authority = Authority::new();
    let server = Server::start(PATIENT, Some(tls(&authority, None)), router()).await;
    let mut config = authority.client_config(None);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client = reqwest::Client::builder().tls_backend_preconfigured(config).no_proxy().build().unwrap();
    let url = format!("https://localhost:{}/take", server.address.port());
    let answer = client.post(url).body("12345").send().await.unwrap();
    assert_eq!(answer.version(), axum::http::Version::HTTP_2);
    assert_eq!(answer.text().await.unwrap(), "5");
    server.end().await;
}

#[tokio::test]
async fn who_does_not_finish_his_handshake_is_in_nobodys_way_and_is_let_go() {
    let authority = Authority::new();
    let server = Server::start(PATIENT, Some(tls(&authority, None)), router()).await;
    let _silent = [server.connect().await, server.connect().await, server.connect().await];
    assert!(who_over_tls(&server, authority.client_config(None)).await.ends_with("nobody"));
    drop(server);
    let hasty = Bounds { handshake: SHORT, ..PATIENT };
    let server = Server::start(hasty, Some(tls(&authority, None)), router()).await;
    assert_eq!(rest(&mut server.connect().await).await, "");
    server.end().await;
}

#[tokio::test]
async fn who_does_not_finish_his_request_loses_his_connection() {
    let hasty = Bounds { head: SHORT, body: SHORT, ..PATIENT };
    let server = Server::start(hasty, None, router()).await;
    for beginning in ["", "G", "GET /who HTTP/1.1\r\nhost: localhost\r\nx-slow: "] {
        let mut stream = server.connect().await;
        stream.write_all(beginning.as_bytes()).await.unwrap();
        assert!(!rest(&mut stream).await.contains(" 200 "), "{beginning}");
    }
    let mut stream = server.connect().await;
    let head = "POST /take HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n123";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn who_agrees_on_http_2_and_then_says_nothing_is_let_go() {
    let authority = Authority::new();
    let hasty = Bounds { head: SHORT, ..PATIENT };
    let server = Server::start(hasty, Some(tls(&authority, None)), router()).await;
    let mut config = authority.client_config(None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = connect_tls(&server, config).await.unwrap();
    let mut some = [0; 64];
    let ended = async { while let Ok(1..) = stream.read(&mut some).await {} };
    timeout(LONG, ended).await.unwrap();
    server.end().await;
}

/// A request and its answer, on a connection that stays open.
async fn is_served(stream: &mut TcpStream) {
    stream.write_all(b"GET /who HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"nobody") {
        answer.push(timeout(LONG, stream.read_u8()).await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn more_connections_than_allowed_wait_for_their_turn() {
    let server = Server::start(Bounds { connections: 1, ..PATIENT }, None, router()).await;
    let mut first = server.connect().await;
    is_served(&mut first).await;
    let mut second = server.connect().await;
    let answer = tokio::spawn(async move { ask(&mut second, "/who").await });
    // Many turns of the server, in which it could have served the second.
    for _ in 0..50 {
        is_served(&mut first).await;
    }
    assert!(!answer.is_finished(), "the second is served while the first is there");
    drop(first);
    let answer = timeout(LONG, answer).await.unwrap().unwrap().unwrap();
    assert!(answer.ends_with("nobody"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_request_under_way_when_the_service_stops_is_answered_if_it_ends_in_time() {
    let (entered, inside) = oneshot::channel();
    let (leave, may_leave) = oneshot::channel::<()>();
    let once = Arc::new(tokio::sync::Mutex::new(Some((entered, may_leave))));
    let room = get(move || async move {
        let (entered, may_leave) = once.lock().await.take().unwrap();
        entered.send(()).unwrap();
        may_leave.await.unwrap();
        "farewell"
    });
    let server = Server::start(PATIENT, None, Router::new().route("/room", room)).await;
    let mut stream = server.connect().await;
    let answer = tokio::spawn(async move { ask(&mut stream, "/room").await });
    inside.await.unwrap();
    server.stop.send(()).unwrap();
    leave.send(()).unwrap();
    let answer = timeout(LONG, answer).await.unwrap().unwrap().unwrap();
    assert!(answer.ends_with("farewell"), "{answer}");
    timeout(LONG, server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_keep_the_service_from_stopping() {
    let server = Server::start(Bounds { farewell: SHORT, ..PATIENT }, None, router()).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // A second connection that is answered was accepted after the first.
    ask(&mut server.connect().await, "/who").await.unwrap();
    server.end().await;
    assert_eq!(rest(&mut stream).await, "");
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let authority = Authority::new();
    let (own, other, file) = (authority.server(), authority.client(), authority.file());
    let fault = |certificate: &Path, key: &Path, clients: Option<(&Path, bool)>| {
        server_config(certificate, key, clients).unwrap_err()
    };
    let nowhere = fault(Path::new("/nowhere"), &own.key, None).to_string();
    assert!(nowhere.contains("/nowhere") && nowhere.contains("certificate"), "{nowhere}");
    assert!(matches!(fault(&own.key, &own.key, None), SecurityError::Pem { label: "CERTIFICATE", .. }));
    assert!(matches!(fault(&own.certificate, &file, None), SecurityError::Pem { label: "PRIVATE KEY", .. }));
    assert!(matches!(fault(&own.certificate, &other.key, None), SecurityError::Tls { .. }));
    assert!(matches!(fault(&own.certificate, &own.key, Some((&own.key, true))), SecurityError::Pem { .. }));
}

#[cfg(unix)]
#[test]
fn a_private_key_that_everybody_may_read_is_refused() {
    let own = Authority::new();
    let own = own.server();
    std::fs::set_permissions(&own.key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert!(server_config(&own.certificate, &own.key, None).is_err());
}

/// Connects from another address of this machine.
async fn connect_from(server: &Server, last: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test]
async fn who_does_not_read_loses_its_place() {
    let server = Server::start(Bounds { connections: 1, write: SHORT, ..PATIENT }, None, router()).await;
    let mut deaf = server.connect().await;
    deaf.write_all(b"GET /much HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // There is only one slot, and it becomes free although the other connection stays open.
    let answer = ask(&mut server.connect().await, "/who").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn one_address_has_only_so_many_connections_and_a_proxy_has_more() {
    let bounds = Bounds { connections_each: 4, proxies: vec![[127, 0, 0, 9].into()], ..PATIENT };
    let server = Server::start(bounds, None, router()).await;
    let mut held = [server.connect().await, server.connect().await];
    // The slot of the oldest that has asked nothing goes to the next.
    let answer = ask(&mut server.connect().await, "/who").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(ask(&mut held[0], "/who").await.unwrap_or_default(), "", "it is closed");
    let answer = ask(&mut connect_from(&server, 2).await, "/who").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "others have their share: {answer}");
    let mut proxy = Vec::new();
    for _ in 0..5 {
        proxy.push(connect_from(&server, 9).await);
    }
    for stream in &mut proxy {
        assert!(ask(stream, "/who").await.unwrap().starts_with("HTTP/1.1 200"));
    }
    drop(held);
    server.end().await;
}

#[tokio::test]
async fn a_connection_without_a_byte_is_closed_before_one_with_a_slow_request() {
    let server = Server::start(Bounds { first_byte: SHORT, ..PATIENT }, None, router()).await;
    let (mut silent, mut slow) = (server.connect().await, server.connect().await);
    slow.write_all(b"GET /who HTTP/1.1\r\n").await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    slow.write_all(b"host: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut slow).await.ends_with("nobody"));
    server.end().await;
}

#[tokio::test]
async fn on_a_unix_socket_the_system_says_who_connects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listen::Unix(path.clone()).bind(None).await.unwrap();
    let whoever = |ConnectInfo(peer): ConnectInfo<Peer>| async move { peer.address.to_string() };
    let router = Router::new().route("/who", get(whoever));
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(serve(PATIENT, vec![listener], router, async { drop(stopped.await) }));
    let answer = ask(&mut UnixStream::connect(&path).await.unwrap(), "/who").await.unwrap();
    let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path).unwrap());
    assert!(answer.ends_with(&format!("uid {own}")), "{answer}");
    stop.send(()).unwrap();
    timeout(LONG, task).await.unwrap().unwrap();
    assert!(!path.exists(), "it goes with the service");
}
