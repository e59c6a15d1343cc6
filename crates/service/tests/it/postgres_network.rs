//! What is between a service and its PostgreSQL: TLS, and a pooler in transaction mode (PgBouncer).

use crate::connections::Authority;
use crate::{Note, folded, folder, notes};
use bookahead_service::journal::{Journal, JournalError, Kind, Lease, LeaseTerms, Options, Store, Ticket};
use bookahead_service::journal::{check, copy, export};
use bookahead_tests::polling::{until, until_true};
use bookahead_tests::postgres::{Server, url};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn store(url: &str) -> Store {
    Store::parse(Path::new(url), Path::new("")).unwrap()
}

type Opened = (Journal<Note>, bookahead_service::journal::Replay<Note>);

fn open(url: &str, party: &str) -> Result<Opened, JournalError> {
    let terms = LeaseTerms { length: Duration::from_secs(5), ..LeaseTerms::default() };
    let options = Options { lease: Lease::new(terms, "http://here"), ..Options::default() };
    Journal::open_with(store(url), &Kind::new("notes", party, 1), &options)
}

/// Runs as the account of the server, if the test runs as root.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Gives a file to the account of the server.
fn give(path: &Path) {
    if is_root() {
        assert!(Command::new("chown").arg("postgres").arg(path).status().unwrap().success());
    }
}

/// The certificate of an authority that signed nothing.
fn another_authority() -> (tempfile::TempDir, PathBuf) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "another authority");
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authority.pem");
    fs::write(&path, certificate.pem()).unwrap();
    (folder, path)
}

/// Makes a server use a certificate for localhost.
fn encrypt(server: &Server, authority: &Authority) {
    let own = authority.server();
    for (from, name) in [(&own.certificate, "server.pem"), (&own.key, "server.key")] {
        let to = server.folder().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        give(&to);
    }
    for (setting, value) in [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")] {
        let path = server.folder().join(value);
        server.sql("postgres", &format!("ALTER SYSTEM SET {setting} = '{}'", path.display()));
    }
    server.sql("postgres", "ALTER SYSTEM SET ssl = on");
    server.sql("postgres", "SELECT pg_reload_conf()");
    until_true("the server uses its certificate", || server.sql("postgres", "SHOW ssl") == "on");
}

#[test]
fn a_server_is_used_over_tls_only_with_a_certificate_of_a_known_authority_for_its_name() {
    let server = Server::start(&[]);
    let plain = server.database("private");
    let known = Authority::new();
    let (_folder, other) = another_authority();
    let over_tls = |host: &str, roots: &Path| {
        let roots = roots.display();
        format!("{}?sslmode=verify-full&sslrootcert={roots}", plain.replace("127.0.0.1", host))
    };
    let refused = |url: &str| {
        let why = open(url, "north").map(drop).unwrap_err().to_string();
        assert!(!why.contains("only-for-tests"), "{why}");
        why
    };
    let why = refused(&over_tls("localhost", &known.file()));
    assert!(why.contains("server does not support TLS"), "{why}");
    encrypt(&server, &known);
    let (journal, _) = open(&over_tls("localhost", &known.file()), "north").unwrap();
    journal.append(&notes(0..3)).unwrap().wait().unwrap();
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'bookahead'";
    assert_eq!(server.sql("postgres", encrypted), "t");
    journal.close().unwrap();
    let why = refused(&over_tls("localhost", &other));
    assert!(why.contains("certificate") && why.contains("sslrootcert"), "{why}");
    let why = refused(&over_tls("127.0.0.1", &known.file()));
    assert!(why.contains("not valid for name"), "{why}");
    assert_eq!(check(store(&plain)).unwrap().records, 3);
}

/// PgBouncer in transaction mode in front of a server: each statement may run in another session.
struct Pooler {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Pooler {
    fn start(server: &Server, database: &str) -> Pooler {
        let own = tempfile::tempdir().unwrap();
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (users, config) = (own.path().join("users"), own.path().join("pgbouncer.ini"));
        fs::write(&users, "\"bookahead\" \"only-for-tests\"\n").unwrap();
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = 3\n",
            server.port(),
            users.display()
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        }
        command.args(["--pdeathsig=TERM", "--", "/usr/sbin/pgbouncer", "-q"]).arg(&config);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let pooler = Pooler { child, port, _folder: own };
        until(|| std::net::TcpStream::connect(("127.0.0.1", port)));
        server.database(database);
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[test]
fn journals_behind_a_pooler_in_transaction_mode_are_written_taken_over_read_and_copied() {
    let server = Server::start(&[]);
    let pooler = Pooler::start(&server, "pooled");
    let pooled = url(pooler.port, "pooled");
    // More parties than sessions, so that their statements alternate in each session.
    let parties: Vec<String> = (0..6).map(|number| format!("party{number}")).collect();
    std::thread::scope(|scope| {
        for party in &parties {
            scope.spawn(|| {
                let (journal, _) = open(&pooled, party).unwrap();
                for number in 0..40 {
                    journal.append(&notes(number..number + 1)).unwrap().wait().unwrap();
                }
                journal.snapshot(20, &notes(0..20)).unwrap();
                journal.compact().unwrap();
                journal.close().unwrap();
            });
        }
    });
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'pooled'";
    assert_eq!(server.sql("postgres", sessions), "3");
    let named = |party: &str| store(&format!("{pooled}?party={party}"));
    for party in &parties {
        let mut lines = Vec::new();
        assert!(check(named(party)).unwrap().is_sound());
        assert_eq!(export(named(party), &mut lines).unwrap(), 20);
    }
    let (old, _) = open(&pooled, "party0").unwrap();
    assert!(matches!(open(&pooled, "party0"), Err(JournalError::Held { .. })));
    server.sql("pooled", "UPDATE bookahead.party SET lease_until = now() - interval '1 hour'");
    let (new, replay) = open(&pooled, "party0").unwrap();
    assert!(new.lease().epoch() > old.lease().epoch());
    assert_eq!(folded(&replay).len(), 40);
    let why = old.append(&notes(40..41)).and_then(Ticket::wait).unwrap_err();
    assert!(matches!(why, JournalError::LeaseLost { .. }), "{why}");
    new.append(&notes(40..42)).unwrap().wait().unwrap();
    new.close().unwrap();
    let (_folder, file) = folder();
    assert_eq!(copy(named("party0"), &*file).unwrap().last, 42);
    server.database("copied");
    assert_eq!(copy(&*file, store(&url(pooler.port, "copied"))).unwrap().last, 42);
}
