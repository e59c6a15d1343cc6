//! One user under attack by another: how long a light client waits for its answers during each attack, compared with an
//! idle service. The light client has another address than the attacker. It lists, probes, books and cancels in turn,
//! each call 5 ms after the previous answer.
//!
//! The p50 beside that of the idle service is compared with the committed ratio; a p99 varies too much for that.
//! The idle service is measured after a warm-up round. The bench fails if the p99 is more than ten times that of the
//! idle service, or if the light client gets an error. Service, attacker and light client share the machine, each with
//! threads of its own.

use bookahead_benches::{Guard, Outcome, Report, Secret, guard, peer};
use bookahead_service::config::{BrokerConfig, PeerLink, SiteConfig};
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_service::security::Role;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// Duration of each attack.
const ROUND: Duration = Duration::from_secs(6);
/// Time for an attack to take effect before the light client is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Pause between an answer to the light client and its next call.
const PAUSE: Duration = Duration::from_millis(5);
/// Largest accepted ratio of the p99 under attack to that of the idle service.
const MOST: f64 = 10.0;
/// Timeout of a call: far longer than any answer should take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections that an attacker tries to keep open: more than the default limits of an address (256) and of the service
/// (1,024).
const CONNECTIONS: usize = 1_100;
/// Connections on which an attacker sends as fast as it can.
const BUSY: usize = 8;
const SITES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

pub(crate) fn main() -> Report {
    guard("overload", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("overload-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = all(guard, &folder);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn all(guard: &mut Guard, folder: &Path) -> Outcome<()> {
    let secret = Secret::create(folder)?;
    let token = |user| secret.token(user, Role::User);
    let tokens = Tokens { light: token("light")?, mallory: token("mallory")? };
    let services = runtime(2)?;
    let grid = services.block_on(Grid::start(folder))?;
    println!("A light client beside one attack at a time, {} s each", ROUND.as_secs());
    println!("  {:<44} {:>7} {:>9} {:>9} {:>8} {:>6}", "", "calls", "p50", "p99", "to idle", "errors");
    let mut bad = Vec::new();
    for (target, attacks) in [(Target::Site, &SITE_ATTACKS[..]), (Target::Broker, &BROKER_ATTACKS[..])] {
        if !guard.wants(&format!("{target:?}")) {
            continue;
        }
        let address = grid.address(target);
        // The first round is slower, because caches and connections are set up.
        measure(address, &tokens, target, None)?;
        let idle = measure(address, &tokens, target, None)?;
        idle.print(&format!("{target:?}, idle"), None);
        for attack in attacks {
            let row = format!("{target:?} {}", attack.name);
            if !guard.wants(&row) {
                continue;
            }
            let seen = measure(address, &tokens, target, Some(*attack))?;
            let ratio = seen.p99 / idle.p99;
            seen.print(attack.name, Some(ratio));
            guard.times(row, seen.p50, idle.p50);
            if ratio > MOST || seen.errors > 0 {
                bad.push(attack.name);
            }
        }
    }
    services.block_on(grid.stop())?;
    if bad.is_empty() {
        return Ok(());
    }
    Err(format!("more than {MOST} times the p99 of the idle service, or errors: {}", bad.join(", ")).into())
}

fn runtime(threads: usize) -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?)
}

struct Tokens {
    light: String,
    mallory: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    Site,
    Broker,
}

struct Grid {
    sites: Vec<Running>,
    broker: Running,
}

impl Grid {
    /// A site with authentication, seven sites without, and a broker with authentication over those.
    async fn start(folder: &Path) -> Outcome<Grid> {
        // Without a rate limit, which would end the overload.
        let guard = "[server]\nrequests_per_second = 0\n[security]\nkeys = \"secret.key\"\n";
        let site = |name: &str, guard: &str| {
            format!(
                "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\n[[resource]]\nname = \"cluster\"\nkind = \"processors\"\n\
                 capacity = 4096\nmethod = \"earliest\"\n[user_limits.mallory]\ncount = 1\n{guard}"
            )
        };
        let mut sites = Vec::new();
        for (name, guard) in [("alone", guard)].into_iter().chain(SITES.map(|name| (name, ""))) {
            let config = SiteConfig::parse(Path::new(name), &site(name, guard))?;
            sites.push(daemon::site(&config, folder, OnLostJournal::Ask).await?);
        }
        let text = format!("name = \"grid\"\nlisten = \"127.0.0.1:0\"\nopen = false\n{guard}");
        let text = text.replace("open", "[[peer]]\nname = \"x\"\nurl = \"http://127.0.0.1:1\"\n# open");
        let mut config = BrokerConfig::parse(Path::new("grid"), &text)?;
        let named = |site: &Running| PeerLink {
            name: site.name().to_string(),
            url: site.url().to_owned(),
            ..config.peers[0].clone()
        };
        config.peers = sites[1..].iter().map(named).collect();
        let broker = daemon::broker(&config, folder).await?;
        Ok(Grid { sites, broker })
    }

    fn address(&self, target: Target) -> SocketAddr {
        let running = if target == Target::Site { &self.sites[0] } else { &self.broker };
        running.addresses()[0].tcp().unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into())
    }

    async fn stop(self) -> Outcome<()> {
        self.broker.stop().await?;
        for site in self.sites {
            site.stop().await?;
        }
        Ok(())
    }
}

struct Seen {
    calls: usize,
    p50: f64,
    p99: f64,
    errors: usize,
}

impl Seen {
    fn print(&self, name: &str, ratio: Option<f64>) {
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.1} x"));
        let (p50, p99) = (self.p50 * 1e3, self.p99 * 1e3);
        println!("  {name:<44} {:>7} {p50:>6.2} ms {p99:>6.2} ms {ratio:>8} {:>6}", self.calls, self.errors);
    }
}

/// Measures the light client during an attack.
fn measure(address: SocketAddr, tokens: &Tokens, target: Target, attack: Option<Attack>) -> Outcome<Seen> {
    let attackers = runtime(2)?;
    let stop = Arc::new(AtomicBool::new(false));
    let mallory = Arc::new(Mallory { address, token: tokens.mallory.clone(), stop: stop.clone() });
    let attacking = attack.map(|attack| {
        let mallory = mallory.clone();
        attackers.spawn_blocking(move || (attack.begin)(&mallory))
    });
    std::thread::sleep(WARM_UP);
    let token = tokens.light.clone();
    let light = std::thread::spawn(move || light_client(address, &token, target));
    let seen = light.join().map_err(|_| "the light client has ended unexpectedly")??;
    stop.store(true, Ordering::Relaxed);
    if let Some(attacking) = attacking {
        attackers.block_on(attacking)?;
    }
    attackers.shutdown_timeout(Duration::from_secs(1));
    Ok(seen)
}

/// Calls in turn from another address over one persistent connection, which is reopened if it was closed.
fn light_client(address: SocketAddr, token: &str, target: Target) -> Outcome<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let connect = || -> Outcome<TcpStream> {
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into())?;
            socket.connect(address).await
        })?;
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    };
    let mut stream = connect()?;
    let (mut took, mut errors, began, mut number) = (Vec::new(), 0, Instant::now(), 0);
    let mut booked: Option<String> = None;
    while began.elapsed() < ROUND {
        number += 1;
        let (method, path, body) = match (number % 4, booked.take()) {
            (_, Some(id)) => ("DELETE", format!("/v1/reservations/{id}"), String::new()),
            (1, None) => {
                ("POST", "/v1/probes".to_owned(), json!({"request": {"parts": [part()]}}).to_string())
            }
            (2, None) => {
                let book = json!({"request": {"parts": [part()]}, "book": true});
                ("POST", "/v1/reservations".to_owned(), book.to_string())
            }
            _ => ("GET", "/v1/reservations?limit=10".to_owned(), String::new()),
        };
        let sent = Instant::now();
        let key = format!("idempotency-key: \"{target:?}-{number}-{}\"\r\n", random());
        match exchange(&mut stream, (method, &path), token, &key, &body) {
            Ok((200..=299, answer)) => {
                took.push(sent.elapsed().as_secs_f64());
                if path == "/v1/reservations" {
                    let document: Value = serde_json::from_str(&answer)?;
                    booked = document["id"].as_str().map(ToOwned::to_owned);
                }
            }
            Ok((status, answer)) => {
                errors += 1;
                if errors == 1 {
                    eprintln!("    {method} {path}: {status} {answer}");
                }
            }
            Err(why) => {
                errors += 1;
                if errors == 1 {
                    eprintln!("    {method} {path}: {why}");
                }
                stream = connect()?;
            }
        }
        std::thread::sleep(PAUSE);
    }
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took.get(((took.len().max(1) - 1) as f64 * share).round() as usize).copied();
    let (p50, p99) = (at(0.5).unwrap_or(f64::INFINITY), at(0.99).unwrap_or(f64::INFINITY));
    Ok(Seen { calls: took.len(), p50, p99, errors })
}

/// A number that was not used before.
fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Two processors for an hour, tomorrow.
fn part() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let at =
        |hours: u64| bookahead_api::Timestamp::nearest(bookahead_plan::Time((now + hours * 3_600) as i64));
    json!({"capacity": 2, "duration_seconds": 3600, "earliest_start": at(24), "latest_end": at(72)})
}

fn head((method, path): (&str, &str), token: &str, more: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nif-match: *\r\n{more}\r\n"
    )
}

/// Sends one request and reads its answer.
fn exchange(
    stream: &mut TcpStream,
    what: (&str, &str),
    token: &str,
    more: &str,
    body: &str,
) -> Outcome<(u16, String)> {
    peer::exchange(stream, &(head(what, token, more, body.len()) + body))
}

/// An attacker with a valid token.
struct Mallory {
    address: SocketAddr,
    token: String,
    stop: Arc<AtomicBool>,
}

impl Mallory {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Sends requests on several connections, each as soon as the previous one is answered.
    fn flood(&self, connections: usize, request: impl Fn(u64) -> (&'static str, String, String) + Sync) {
        std::thread::scope(|scope| {
            for _ in 0..connections {
                scope.spawn(|| {
                    while self.goes_on() {
                        // A closed connection is opened again.
                        let _ = self.on_one_connection(&request);
                    }
                });
            }
        });
    }

    fn on_one_connection(&self, request: &impl Fn(u64) -> (&'static str, String, String)) -> Outcome<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        while self.goes_on() {
            let number = random();
            let (method, path, body) = request(number);
            let key = format!("idempotency-key: \"mallory-{number}\"\r\n");
            exchange(&mut stream, (method, &path), &self.token, &key, &body)?;
        }
        Ok(())
    }

    /// Opens as many connections as it can, and sends the beginning of a request on each.
    fn hoard(&self, first: &str, more: &[u8]) {
        let mut held: Vec<TcpStream> = Vec::new();
        while self.goes_on() {
            if held.len() < CONNECTIONS {
                if let Ok(mut stream) = TcpStream::connect(self.address) {
                    let _ = stream.write_all(first.as_bytes());
                    held.push(stream);
                }
                continue;
            }
            // Closed connections are replaced.
            held.retain_mut(|stream| stream.write_all(more).is_ok());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[derive(Clone, Copy)]
struct Attack {
    name: &'static str,
    begin: fn(&Mallory),
}

const SITE_ATTACKS: [Attack; 8] = [
    Attack { name: "cancels unknown ids", begin: cancel_invented },
    Attack { name: "sends requests of 900 kB that are refused", begin: send_large },
    Attack { name: "does not read its answers", begin: read_nothing },
    Attack { name: "sends bodies a byte at a time", begin: send_slowly },
    Attack { name: "sends heads a byte at a time", begin: ask_slowly },
    Attack { name: "watches as often as it can", begin: watch },
    Attack { name: "lists as fast as it can", begin: list },
    Attack { name: "probes as fast as it can", begin: probe },
];

const BROKER_ATTACKS: [Attack; 2] = [
    Attack { name: "sends requests that cannot be met", begin: ask_the_impossible },
    Attack { name: "cancels unknown ids", begin: cancel_invented },
];

fn cancel_invented(mallory: &Mallory) {
    mallory
        .flood(BUSY, |number| ("DELETE", format!("/v1/reservations/rsv_{:032x}", number + 1), String::new()));
}

fn send_large(mallory: &Mallory) {
    let requirement =
        json!({"attribute": "x".repeat(200), "test": "one-of", "values": vec!["y".repeat(250); 64]});
    let mut part = part();
    part["requirements"] = json!(vec![requirement; 3]);
    let request = json!({"request": {"parts": vec![part; 16]}, "book": true}).to_string();
    mallory.flood(4, |_| ("POST", "/v1/reservations".to_owned(), request.clone()));
}

fn read_nothing(mallory: &Mallory) {
    let ask = head(("GET", "/openapi.json"), &mallory.token, "", 0).repeat(20);
    mallory.hoard(&ask, b"");
}

fn send_slowly(mallory: &Mallory) {
    let first = head(("POST", "/v1/reservations"), &mallory.token, "idempotency-key: \"slow\"\r\n", 10_000);
    mallory.hoard(&first, b" ");
}

fn ask_slowly(mallory: &Mallory) {
    mallory.hoard("GET /v1/reservations HTTP/1.1\r\n", b"x");
}

fn watch(mallory: &Mallory) {
    mallory.hoard(&head(("GET", "/v1/events"), &mallory.token, "", 0), b"");
}

fn list(mallory: &Mallory) {
    mallory.flood(BUSY, |_| ("GET", "/v1/reservations".to_owned(), String::new()));
}

fn probe(mallory: &Mallory) {
    let body = json!({"request": {"parts": [part()]}}).to_string();
    mallory.flood(BUSY, |_| ("POST", "/v1/probes".to_owned(), body.clone()));
}

/// Requests eight parts at different sites of seven, with the largest accepted number of constraints.
fn ask_the_impossible(mallory: &Mallory) {
    let pairs = (0..8).flat_map(|second| (0..second).map(move |first| (first, second)));
    let apart =
        pairs.map(|(first, second)| json!({"type": "different-sites", "first": first, "second": second}));
    let apart: Vec<Value> = apart.cycle().take(2_048).collect();
    let body = json!({"request": {"parts": vec![part(); 8], "constraints": apart}}).to_string();
    mallory.flood(BUSY, |_| ("POST", "/v1/probes".to_owned(), body.clone()));
}
