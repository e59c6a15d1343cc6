//! Notices to owners: by a webhook that fails first, by a command, across restarts, in order and at least once.
//! Deliveries, even failing ones, do not delay bookings.

use crate::daemon::{GRID, broker, client, registered, site, stop, wanted};
use bookahead_api as api;
use bookahead_client::{Client, ClientError, make};
use bookahead_protocol::ReservationId;
use bookahead_service::config::SiteConfig;
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_tests::polling::until_some;
use ring::hmac;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// How a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Status(u16),
    /// No answer, keeping the connection.
    Hang,
    /// No answer, closing the connection.
    Close,
}

/// A receiver of webhooks.
struct Receiver {
    url: String,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    /// The next answers; afterwards it accepts everything.
    first: VecDeque<Answer>,
    /// Ids of all notices received.
    tried: BTreeSet<String>,
    /// Accepted notices, in order.
    accepted: Vec<api::Notice>,
}

impl Receiver {
    /// A receiver with these first answers, which accepts everything afterwards.
    async fn new(first: &[Answer]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/", listener.local_addr().unwrap());
        let heard =
            Arc::new(Mutex::new(Heard { first: first.iter().copied().collect(), ..Heard::default() }));
        let hears = heard.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(attend(stream, hears.clone()));
            }
        });
        Receiver { url, heard }
    }

    fn accepted(&self) -> Vec<api::Notice> {
        self.heard.lock().unwrap().accepted.clone()
    }

    /// Accepted notices about a reservation, in order and without repetitions.
    fn told(&self, id: ReservationId) -> Vec<String> {
        let mut ids = BTreeSet::new();
        let accepted = self.accepted().into_iter().filter(|notice| notice.reservation == id);
        accepted.filter(|notice| ids.insert(notice.id.clone())).map(|notice| notice.what).collect()
    }

    async fn is_told(&self, id: ReservationId, what: &[&str]) {
        until_some(&format!("{what:?}"), || async { (self.told(id) == what).then_some(()) }).await;
    }
}

/// Reads requests from one connection and answers them.
async fn attend(mut stream: TcpStream, heard: Arc<Mutex<Heard>>) {
    while let Some((head, body)) = request(&mut stream).await {
        let notice = verified(&head, &body);
        let answer = {
            let mut heard = heard.lock().unwrap();
            heard.tried.insert(notice.id.clone());
            heard.first.pop_front().unwrap_or(Answer::Status(204))
        };
        let status = match answer {
            Answer::Status(status) => status,
            Answer::Hang => return std::future::pending().await,
            Answer::Close => return,
        };
        if status == 204 {
            heard.lock().unwrap().accepted.push(notice);
        }
        let redirect = if status == 307 { "location: /hooks/elsewhere\r\n" } else { "" };
        let line = format!("HTTP/1.1 {status} X\r\n{redirect}content-length: 0\r\n\r\n");
        stream.write_all(line.as_bytes()).await.unwrap();
    }
}

async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut text = String::new();
    let mut some = [0; 4_096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length: usize = header(&head, "content-length").parse().unwrap();
            if body.len() == length {
                return Some((head, body.to_owned()));
            }
        }
        match stream.read(&mut some).await {
            Ok(count @ 1..) => text += std::str::from_utf8(&some[..count]).unwrap(),
            _ => return None,
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))
}

/// Verifies a notice as a receiver should.
fn verified(head: &str, body: &str) -> api::Notice {
    let timestamp = header(head, "bookahead-timestamp");
    let age = jiff::Timestamp::now().as_second() - timestamp.parse::<i64>().unwrap();
    assert!((0..60).contains(&age), "{age}");
    let digits = header(head, "bookahead-signature").strip_prefix("sha256=").unwrap();
    let tag: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::verify(&key, format!("{timestamp}.{body}").as_bytes(), &tag).unwrap();
    let notice: api::Notice = serde_json::from_str(body).unwrap();
    assert_eq!(header(head, "bookahead-notice"), notice.id);
    notice
}

/// A folder with the secret.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    secret(folder.path(), 0o600);
    folder
}

fn secret(folder: &Path, mode: u32) {
    let path = folder.join("portal.secret");
    std::fs::write(&path, format!("{SECRET}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn webhook(prefix: &str) -> String {
    format!(
        "[notify]\ntimeout = \"2s\"\n[[notify.webhook]]\nprefix = \"{prefix}\"\nsecret_file = \"portal.secret\"\n"
    )
}

fn north(more: &str) -> SiteConfig {
    site(&format!(
        "name = \"north\"\nlisten = \"127.0.0.1:0\"\nheartbeat = \"100ms\"\n\
         [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n{more}"
    ))
}

async fn book(client: &Client, webhook: Option<String>) -> Result<ReservationId, ClientError> {
    let id = make::reservation_id().unwrap();
    let request = api::Request { webhook, ..wanted() };
    let reserve =
        api::Reserve { id: Some(id), request, hold_for_seconds: api::FineSeconds(60_000), book: true };
    client.reserve(&reserve, &make::key().unwrap().to_string()).await?;
    Ok(id)
}

async fn metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: north\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn cancel(client: &Client, id: ReservationId) {
    client.cancel(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_first_is_told_everything_in_order() {
    let folder = folder();
    let failures =
        [Answer::Status(500), Answer::Close, Answer::Hang, Answer::Status(307), Answer::Status(404)];
    let receiver = Receiver::new(&failures).await;
    let running =
        daemon::site(&north(&webhook(&receiver.url)), folder.path(), OnLostJournal::Ask).await.unwrap();
    let ada = client(running.url());
    let url = |name: &str| Some(format!("{}{name}", receiver.url));
    let (one, other) = (book(&ada, url("one")).await.unwrap(), book(&ada, url("other")).await.unwrap());
    let untold = book(&ada, None).await.unwrap();
    for id in [one, other, untold] {
        cancel(&ada, id).await;
    }
    for id in [one, other] {
        receiver.is_told(id, &["committed", "cancelled"]).await;
    }
    assert!(receiver.told(untold).is_empty());
    let last = receiver.accepted().into_iter().rfind(|notice| notice.reservation == one).unwrap();
    assert_eq!((last.because.as_deref(), last.state), (Some("owner"), Some(api::State::Cancelled)));
    assert_eq!((last.service.as_str(), last.owner.as_str()), ("north", "ada"));
    let counted = format!("bookahead_notices_delivered_total{{to=\"{}\"}} 4", receiver.url);
    until_some("all is counted", || async {
        metrics(running.addresses()[0].tcp().unwrap()).await.contains(&counted).then_some(())
    })
    .await;
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_delivered_is_found_in_the_journal_also_by_a_compaction() {
    let folder = folder();
    let receiver = Receiver::new(&[Answer::Status(503); 1_000]).await;
    let config = north(&webhook(&receiver.url));
    let running = daemon::site(&config, folder.path(), OnLostJournal::Ask).await.unwrap();
    let path = folder.path().join("bookahead-north/notices.json");
    let at_first = std::fs::read(&path).unwrap();
    let ada = client(running.url());
    let id = book(&ada, Some(format!("{}ada", receiver.url))).await.unwrap();
    cancel(&ada, id).await;
    until_some("one is tried", || async { receiver.heard.lock().unwrap().tried.first().cloned() }).await;
    stop(running).await;
    // As if the service was killed before it wrote the file; the missing events are about to leave the journal.
    std::fs::write(&path, at_first).unwrap();
    daemon::compact_site(&config, folder.path()).unwrap();
    receiver.heard.lock().unwrap().first.clear();
    let running = daemon::site(&config, folder.path(), OnLostJournal::Ask).await.unwrap();
    receiver.is_told(id, &["committed", "cancelled"]).await;
    assert_eq!(receiver.heard.lock().unwrap().tried.len(), 2, "ids are the same after the restart");
    stop(running).await;
    // Nothing is delivered again.
    let told = receiver.accepted().len();
    let running = daemon::site(&config, folder.path(), OnLostJournal::Ask).await.unwrap();
    let id = book(&client(running.url()), Some(format!("{}ada", receiver.url))).await.unwrap();
    receiver.is_told(id, &["committed"]).await;
    assert_eq!(receiver.accepted().len(), told + 1);
    stop(running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_tells_the_owner_of_loss_and_healing_and_its_sites_do_not() {
    let folder = folder();
    let receiver = Receiver::new(&[]).await;
    let config = broker(&format!("{GRID}[rules]\nheal_after = \"100ms\"\n{}", webhook(&receiver.url)));
    let grid = daemon::broker(&config, folder.path()).await.unwrap();
    let ada = client(grid.url());
    let mut sites = Vec::new();
    for name in ["north", "south"] {
        let registers = format!("[[broker]]\nurl = \"{}\"\n{}", grid.url(), webhook(&receiver.url));
        let config = SiteConfig { name: name.to_owned(), ..north(&registers) };
        sites.push(daemon::site(&config, folder.path(), OnLostJournal::Ask).await.unwrap());
        registered(&ada, name).await;
    }
    let id = book(&ada, Some(format!("{}ada", receiver.url))).await.unwrap();
    receiver.is_told(id, &["committed"]).await;
    // An operator cancels it at its site; without authentication every caller is an operator.
    let caller = bookahead_protocol::Caller { user: "root".into(), roles: vec!["operator".into()] };
    for site in &sites {
        let there = client(site.url()).on_behalf_of(&caller);
        for reservation in there.list(&api::ListQuery::default()).await.unwrap().reservations {
            cancel(&there, reservation.id).await;
        }
    }
    receiver.is_told(id, &["committed", "broken", "healed"]).await;
    let accepted = receiver.accepted();
    assert_eq!(accepted.iter().find(|one| one.what == "broken").unwrap().because.as_deref(), Some("revoked"));
    assert!(accepted.iter().all(|notice| notice.service.as_str() == "grid"), "{accepted:?}");
    for site in sites {
        stop(site).await;
    }
    stop(grid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_the_operator_does_not_allow_is_refused() {
    let folder = folder();
    let refused = async |config: SiteConfig, webhook: &str| {
        let running = daemon::site(&config, folder.path(), OnLostJournal::Ask).await.unwrap();
        let why = book(&client(running.url()), Some(webhook.to_owned())).await.unwrap_err().to_string();
        stop(running).await;
        why
    };
    let why = refused(north(""), "https://portal.example.org/hooks/ada").await;
    assert!(why.contains("[[notify.webhook]] prefix"), "{why}");
    let config = || north(&webhook("http://127.0.0.1:9/hooks/"));
    let why = refused(config(), "http://127.0.0.1:9/other").await;
    assert!(why.contains("[[notify.webhook]] prefix"), "{why}");
    let why = refused(config(), "http://127.0.0.1:9/hooks/../other").await;
    assert!(why.contains("write it as http://127.0.0.1:9/other"), "{why}");
}

#[tokio::test]
async fn a_secret_that_all_can_read_and_a_command_that_cannot_run_are_found_by_the_check() {
    let folder = folder();
    let check = |more: &str| daemon::check_site(&north(more), folder.path()).map_err(|why| why.to_string());
    let config = webhook("https://portal.example.org/hooks/");
    assert_eq!(check(&config), Ok(()));
    secret(folder.path(), 0o644);
    assert!(check(&config).unwrap_err().contains("portal.secret"));
    secret(folder.path(), 0o600);
    assert!(check(&webhook("http://portal.example.org/")).unwrap_err().contains("write https"));
    std::fs::write(folder.path().join("portal.secret"), "short").unwrap();
    assert!(check(&config).unwrap_err().contains("openssl rand"));
    let command = |program: &str| format!("[notify]\ncommand = [\"{program}\"]\n");
    assert_eq!(check(&command("/bin/true")), Ok(()));
    assert!(check(&command("/no/such/program")).unwrap_err().contains("chmod +x"));
}

/// A program that writes its input and its environment to files.
fn program(folder: &Path, text: &str) -> String {
    let path = folder.join("tell.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_reads_every_notice_in_a_clean_environment() {
    let folder = folder();
    let told = folder.path().join("told");
    // Fails the first time.
    let text = format!(
        "cd {0}; env > env; [ -e failed ] || {{ touch failed; exit 3; }}; {{ cat; echo; }} >> told",
        folder.path().display()
    );
    let command = program(folder.path(), &text);
    let more = format!("[notify]\ncommand = [\"{command}\", \"arg\"]\n");
    let running = daemon::site(&north(&more), folder.path(), OnLostJournal::Ask).await.unwrap();
    let ada = client(running.url());
    let id = book(&ada, None).await.unwrap();
    cancel(&ada, id).await;
    let read = until_some("both are told", || async {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        let notices: Vec<api::Notice> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (notices.len() == 2).then_some(notices)
    });
    let read = read.await;
    assert_eq!(
        read.iter().map(|notice| notice.what.as_str()).collect::<Vec<_>>(),
        ["committed", "cancelled"]
    );
    assert!(read.iter().all(|notice| notice.reservation == id));
    let env = std::fs::read_to_string(folder.path().join("env")).unwrap();
    let names: Vec<&str> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.iter().all(|name| ["PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)), "{env}");
    stop(running).await;
}

/// A site whose commands for notices hang for at most this long, and the numbers of the processes that it started.
async fn with_hanging_command(folder: &TempDir, timeout: &str) -> (Running, PathBuf) {
    let pids = folder.path().join("pids");
    let command = program(folder.path(), &format!("echo $$ >> {}; exec sleep 600", pids.display()));
    let more = format!("[notify]\ncommand = [\"{command}\"]\ntimeout = \"{timeout}\"\n");
    (daemon::site(&north(&more), folder.path(), OnLostJournal::Ask).await.unwrap(), pids)
}

/// Whether a process has not ended.
fn is_alive(process: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn book_and_cancel(ada: &Client) {
    let id = book(ada, None).await.unwrap();
    cancel(ada, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_hangs_delays_no_booking() {
    let folder = folder();
    let (running, pids) = with_hanging_command(&folder, "5m").await;
    let ada = client(running.url());
    book_and_cancel(&ada).await;
    let first = until_some("a command is started", || async {
        let text = std::fs::read_to_string(&pids).unwrap_or_default();
        text.split_once('\n').map(|(first, _)| first.to_owned())
    })
    .await;
    for _ in 0..8 {
        book_and_cancel(&ada).await;
    }
    assert!(is_alive(&first), "all were booked while it hangs");
    stop(running).await;
    // Commands outlive a service that stops.
    let started = std::fs::read_to_string(&pids).unwrap();
    std::process::Command::new("kill").arg("-9").args(started.lines()).status().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_hangs_is_killed() {
    let folder = folder();
    let (running, pids) = with_hanging_command(&folder, "500ms").await;
    let ada = client(running.url());
    for _ in 0..8 {
        book_and_cancel(&ada).await;
    }
    // More are started than may run concurrently, so the first were ended.
    let started = until_some("commands are ended", || async {
        let text = std::fs::read_to_string(&pids).unwrap_or_default();
        let started: Vec<String> = text.lines().map(str::to_owned).collect();
        (started.len() > 8).then_some(started)
    });
    let first = started.await.swap_remove(0);
    until_some("the first is gone", || async { (!is_alive(&first)).then_some(()) }).await;
    stop(running).await;
}
