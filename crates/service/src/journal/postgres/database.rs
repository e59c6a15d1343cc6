//! Address of a PostgreSQL database, and one connection to it. Passwords are never printed.
//!
//! The connection runs on a small runtime in the thread that uses it. One connection is enough, because one thread
//! writes; a pool would only add a second place where connections are opened again. Statements have no names and keep
//! nothing in the session, so a pooler may give each of them another server connection.

use crate::journal::error::JournalError;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::env;
use std::fmt::{self, Write as _};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

/// Prefixes of a database URL.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Trust stores of common systems, used without `sslrootcert`.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Address and credentials of a database.
#[derive(Clone)]
pub struct Database {
    config: Config,
    tls: Option<Arc<ClientConfig>>,
    /// Name of the party, for commands that read a journal without its configuration.
    pub(crate) party: Option<String>,
    /// Address without the password.
    shown: PathBuf,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shown.display())
    }
}

impl Database {
    /// Whether a text is meant as the URL of a database.
    pub fn is_url(text: &str) -> bool {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// A URL as written, without its password.
    pub(crate) fn without_password(url: &str) -> String {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut shown = address.to_owned();
        if let Some((scheme, rest)) = address.split_once("://")
            // The last one: nothing of a password that should have been escaped is left.
            && let Some((credentials, place)) = rest.rsplit_once('@')
        {
            let user = credentials.split(':').next().unwrap_or_default();
            shown = format!("{scheme}://{user}@{place}");
        }
        let is_password = |pair: &&str| {
            form_urlencoded::parse(pair.as_bytes()).any(|(name, _)| name.eq_ignore_ascii_case("password"))
        };
        let kept: Vec<&str> =
            query.split('&').filter(|pair| !pair.is_empty() && !is_password(pair)).collect();
        if kept.is_empty() { shown } else { format!("{shown}?{}", kept.join("&")) }
    }

    /// Parses a URL. Reads the files that it names; their paths are relative to `base`.
    pub fn parse(url: &str, base: &Path) -> Result<Database, JournalError> {
        let wrong = |why: &str| JournalError::Address(format!("invalid PostgreSQL URL: {why}"));
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut party, mut mode, mut roots, mut passfile) = (None, None, None, None);
        let mut rest = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "party" => party = Some(value.into_owned()),
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => roots = Some(base.join(&*value)),
                "passfile" => passfile = Some(base.join(&*value)),
                _ => drop(rest.append_pair(&name, &value)),
            }
        }
        let rest = rest.finish();
        let url = if rest.is_empty() { address.to_owned() } else { format!("{address}?{rest}") };
        // The error of the parser names the parameter, never a value.
        let mut config = Config::from_str(&url).map_err(|why| wrong(&said(&why)))?;
        if config.get_hosts().is_empty() {
            return Err(wrong("it has no host; write postgres://user@host/database"));
        }
        if config.get_dbname().is_none() {
            return Err(wrong("it has no database; write postgres://user@host/database"));
        }
        let local = config.get_hosts().iter().all(is_local);
        let encrypted = match mode.as_deref() {
            None => !local,
            Some("disable") => false,
            Some("require" | "verify-full") => true,
            Some(other) => {
                let other = other.escape_debug();
                return Err(wrong(&format!("unknown sslmode {other}; use verify-full or disable")));
            }
        };
        config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        config.application_name("bookahead");
        let tls = encrypted.then(|| trusting(roots.as_deref())).transpose()?;
        if config.get_password().is_none()
            && let Some(password) = password(&config, passfile)?
        {
            config.password(password);
        }
        let shown = shown(&config);
        Ok(Database { config, tls, party, shown })
    }

    /// Whether every server that it names is on another machine, with a clock of its own.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.config.get_hosts().iter().any(is_local)
    }

    /// Address without the password.
    pub fn shown(&self) -> &Path {
        &self.shown
    }
}

/// Unix sockets and loopback addresses, where nobody can listen in.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

fn shown(config: &Config) -> PathBuf {
    let mut shown = String::from("postgres://");
    let ports = config.get_ports();
    for (at, host) in config.get_hosts().iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        // Writing to a String cannot fail.
        let _ = match host {
            Host::Tcp(name) => write!(shown, "{comma}{name}:{port}"),
            Host::Unix(path) => write!(shown, "{comma}{}", path.display()),
        };
    }
    let _ = write!(shown, "/{}", config.get_dbname().unwrap_or_default());
    PathBuf::from(shown)
}

/// The password from the environment or a password file of libpq.
fn password(config: &Config, passfile: Option<PathBuf>) -> Result<Option<String>, JournalError> {
    if let Ok(password) = env::var("PGPASSWORD") {
        return Ok(Some(password));
    }
    let Some(path) = passfile.or_else(|| env::var_os("PGPASSFILE").map(PathBuf::from)) else {
        return Ok(None);
    };
    let failed = |why: &dyn fmt::Display| {
        JournalError::Address(format!("cannot use the password file {}: {why}", path.display()))
    };
    let text = std::fs::read_to_string(&path).map_err(|why| failed(&why))?;
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(&path).map_err(|why| failed(&why))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed(&"others can read it; run chmod 600 on it"));
    }
    let found = text.lines().find_map(|line| matching(line, config));
    found
        .map(Some)
        .ok_or_else(|| failed(&"it has no line host:port:database:user:password for this database"))
}

/// The password in a line `host:port:database:user:password`, if the line is about this database.
fn matching(line: &str, config: &Config) -> Option<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => fields.last_mut()?.extend(letters.next()),
            ':' if fields.len() < 5 => fields.push(String::new()),
            letter => fields.last_mut()?.push(letter),
        }
    }
    let [host, port, database, user, password]: [String; 5] = fields.try_into().ok()?;
    let hosts = config.get_hosts().iter().any(|known| match known {
        Host::Tcp(name) => *name == host,
        Host::Unix(path) => host == "localhost" || path.as_os_str() == host.as_str(),
    });
    let ports = config.get_ports().iter().any(|known| known.to_string() == port);
    let is = |field: &str, known: Option<&str>| field == "*" || Some(field) == known;
    ((host == "*" || hosts)
        && (port == "*" || ports || (config.get_ports().is_empty() && port == "5432"))
        && is(&database, config.get_dbname())
        && is(&user, config.get_user()))
    .then_some(password)
}

/// TLS that verifies the name of the server.
fn trusting(roots: Option<&Path>) -> Result<Arc<ClientConfig>, JournalError> {
    let system = || AUTHORITIES.iter().map(Path::new).find(|path| path.exists());
    let path = roots.or_else(system).ok_or_else(|| {
        JournalError::Address(
            "no certificate authorities found on this system; add sslrootcert=FILE".to_owned(),
        )
    })?;
    let bad = |why: &dyn fmt::Display| {
        JournalError::Address(format!("cannot use the certificates in {}: {why}", path.display()))
    };
    let mut store = RootCertStore::empty();
    let found = rustls::pki_types::CertificateDer::pem_file_iter(path).map_err(|why| bad(&why))?;
    // System stores contain certificates that rustls cannot parse. They must not make all others useless.
    store.add_parsable_certificates(found.filter_map(Result::ok));
    if store.is_empty() {
        return Err(bad(&"it contains no usable certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| bad(&why))?;
    Ok(Arc::new(builder.with_root_certificates(store).with_no_client_auth()))
}

/// Why a statement has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The database could not be reached, or is not ready. If the statement was sent, it may have taken effect.
    Away(String),
    /// The database refused the statement, which had no effect.
    Refused {
        why: String,
        full: bool,
        /// The object or row is there already.
        exists: bool,
    },
}

impl Failure {
    pub(crate) fn why(&self) -> &str {
        match self {
            Failure::Away(why) | Failure::Refused { why, .. } => why,
        }
    }

    pub(crate) fn into_error(self, path: &Path, doing: &'static str) -> JournalError {
        let full = matches!(self, Failure::Refused { full: true, .. });
        JournalError::Storage { path: path.to_owned(), doing, why: self.why().to_owned(), full }
    }
}

/// The whole chain of causes: the outermost alone says "error connecting to server".
fn said(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", database.message(), database.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    if text.contains("UnknownIssuer") {
        text.push_str("; name its certificate authority with sslrootcert=FILE");
    }
    text
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        let why = said(&error);
        let Some(code) = error.code() else { return Failure::Away(why) };
        let class = &code.code()[..2];
        // Serialization failures and deadlocks were rolled back and can be repeated. Classes 08 and 57 are lost
        // connections and shutdowns. A server that was demoted to a replica is read-only.
        let away = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
            || [SqlState::TOO_MANY_CONNECTIONS, SqlState::READ_ONLY_SQL_TRANSACTION].contains(code)
            || ["08", "57"].contains(&class);
        if away {
            return Failure::Away(why);
        }
        let full = *code == SqlState::DISK_FULL;
        let exists = [
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_TABLE,
            SqlState::DUPLICATE_SCHEMA,
            SqlState::DUPLICATE_OBJECT,
        ];
        Failure::Refused { why, full, exists: exists.contains(code) }
    }
}

/// A connection that is opened when it is needed, and again after a failure.
pub(crate) struct Session {
    database: Database,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    open: Option<Open>,
    /// Whether settings that lose acknowledged writes are accepted.
    unsafe_settings: bool,
    /// In a transaction, which ends with its connection.
    pinned: bool,
}

impl Drop for Session {
    /// Does not wait, so that a session may be dropped where async code runs.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Open {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A value and its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

impl Session {
    /// Opens no connection yet.
    pub(crate) fn new(database: &Database, unsafe_settings: bool) -> Result<Session, JournalError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|why| JournalError::io(&database.shown, "starting its runtime", &why))?;
        let runtime = Some(runtime);
        Ok(Session { database: database.clone(), runtime, open: None, unsafe_settings, pinned: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.database.shown
    }

    /// Runs one statement, which has at most `within`.
    pub(crate) fn query(
        &mut self,
        within: Duration,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.with(within, async |client| Ok(client.query_typed(statement, values).await?))
    }

    /// Begins a transaction. A statement after the loss of the connection fails, instead of running outside of it.
    pub(crate) fn begin(&mut self, within: Duration, how: &str) -> Result<(), Failure> {
        self.batch(within, how)?;
        self.pinned = true;
        Ok(())
    }

    /// Runs statements without values, as one transaction.
    pub(crate) fn batch(&mut self, within: Duration, statements: &str) -> Result<(), Failure> {
        self.with(within, async |client| Ok(client.batch_execute(statements).await?))
    }

    fn with<T>(
        &mut self,
        within: Duration,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let open = self.open.take().filter(|open| !open.client.is_closed());
        if self.pinned && open.is_none() {
            return Err(Failure::Away("the connection was lost".to_owned()));
        }
        let (database, accepts) = (&self.database, self.unsafe_settings);
        let Some(runtime) = &self.runtime else { return Err(Failure::Away("it is closed".to_owned())) };
        let outcome = runtime.block_on(async {
            let work = async {
                let open = match open {
                    Some(open) => open,
                    None => connect(database, accepts).await?,
                };
                let outcome = work(&open.client).await;
                Ok::<_, Failure>((open, outcome))
            };
            let late = || Failure::Away(format!("no answer within {within:?}"));
            tokio::time::timeout(within, work).await.unwrap_or_else(|_| Err(late()))
        });
        let (open, outcome) = outcome?;
        // After a failure that may be the connection's, a new one is opened.
        self.open = (!matches!(outcome, Err(Failure::Away(_)))).then_some(open);
        outcome
    }
}

async fn connect(database: &Database, unsafe_settings: bool) -> Result<Open, Failure> {
    let (client, task) = match &database.tls {
        None => {
            let (client, connection) = database.config.connect(NoTls).await?;
            (client, tokio::spawn(async move { drop(connection.await) }))
        }
        Some(tls) => {
            let (client, connection) = database.config.connect(Tls(tls.clone())).await?;
            (client, tokio::spawn(async move { drop(connection.await) }))
        }
    };
    let open = Open { client, task };
    if !unsafe_settings {
        check_settings(&open.client).await?;
    }
    Ok(open)
}

/// Refuses a server that acknowledges writes before they are on disk. Checked for every connection, because an
/// operator can change both while the service runs.
async fn check_settings(client: &Client) -> Result<(), Failure> {
    let query = "SELECT current_setting('fsync'), current_setting('synchronous_commit')";
    let row = client.query_typed_one(query, &[]).await?;
    for (at, name) in ["fsync", "synchronous_commit"].into_iter().enumerate() {
        let value: &str = row.try_get(at)?;
        if value == "off" {
            let why = format!(
                "{name} is off, so acknowledged promises could be lost; set it to on for this database and role"
            );
            return Err(Failure::Refused { why, full: false, exists: false });
        }
    }
    Ok(())
}

/// Makes TLS connections with rustls.
#[derive(Clone)]
struct Tls(Arc<ClientConfig>);

struct TlsTo(tokio_rustls::TlsConnector, ServerName<'static>);

struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = TlsTo;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<TlsTo, Self::Error> {
        Ok(TlsTo(self.0.clone().into(), ServerName::try_from(domain.to_owned())?))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for TlsTo {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.0.connect(self.1, stream).await.map(Encrypted) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate is verified, which is what channel binding would replace.
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Database, String> {
        Database::parse(url, Path::new("")).map_err(|why| why.to_string())
    }

    #[test]
    fn a_password_is_never_printed() {
        let database = parse("postgres://ada:secret@localhost:5433/grid").unwrap();
        assert_eq!(database.shown(), Path::new("postgres://localhost:5433/grid"));
        assert!(!format!("{database:?} {:?}", database.config).contains("secret"));
        for (url, printed) in [
            ("postgres://ada:secret@db/grid?party=a", "postgres://ada@db/grid?party=a"),
            ("postgres://ada:secret@x/@db/grid?password=secret", "postgres://ada@db/grid"),
            ("postgres://db/grid?a=1&passwor%64=secret&b=2", "postgres://db/grid?a=1&b=2"),
        ] {
            assert_eq!(Database::without_password(url), printed);
        }
        let why = parse("postgres://ada:secret@localhost:x/grid?password=secret&nonsense=1").unwrap_err();
        assert!(!why.contains("secret"), "{why}");
    }

    #[test]
    fn a_database_elsewhere_needs_tls_and_one_here_does_not() {
        assert!(parse("postgres://ada@127.0.0.1/grid").unwrap().tls.is_none());
        assert!(parse("postgres://ada@%2Frun%2Fpostgresql/grid").unwrap().tls.is_none());
        assert!(parse("postgres://ada@db.example.org/grid?sslmode=disable").unwrap().tls.is_none());
        let remote = parse("postgres://ada@db.example.org/grid");
        assert!(remote.is_err() || remote.unwrap().tls.is_some());
        assert!(
            parse("postgres://ada@db/grid?sslmode=prefer").unwrap_err().contains("verify-full or disable")
        );
        assert!(parse("postgres://ada@db/grid?sslrootcert=gone.pem").unwrap_err().contains("gone.pem"));
        assert!(parse("postgres://ada@localhost").unwrap_err().contains("no database"));
    }

    #[test]
    fn a_password_file_is_read_as_by_libpq() {
        let config = Config::from_str("postgres://ada@db.example.org/grid").unwrap();
        let found = |line: &str| matching(line, &config);
        assert_eq!(found("db.example.org:5432:grid:ada:pa\\:ss\\\\").as_deref(), Some("pa:ss\\"));
        assert_eq!(found("*:*:*:ada:x:y").as_deref(), Some("x:y"));
        for other in ["other:*:*:*:x", "*:5433:*:*:x", "*:*:other:*:x", "*:*:*:bob:x", "", "# text"] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
