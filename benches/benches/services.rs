//! Services under load, on loopback and on the disk of the target folder.
//!
//! - Pairs of reserve and commit per second that become durable with 64 waiting clients, at the party thread and over
//!   HTTP; with one sync for all waiting clients, one per command, and none.
//! - Probes per second over HTTP at a site with 10,000 live reservations, and their latency.
//! - Latency of a co-reservation of four parts at four sites, from the request to the commit, over HTTP.
//! - What a broker costs: a reservation at the best of four sites through the broker, and at one site directly.
//! - What tokens, the usage history and a rate limit cost: pairs and probes at sites started from a configuration, with one
//!   more of them at each site, and co-reservations with tokens at the broker and at all sites.
//!
//! The baseline is a store that only appends texts, and a server that only stores and answers what it was sent. Clients
//! and servers share the machine. The modes and their baselines take turns; medians count.

#[path = "services/configured.rs"]
mod configured;
#[path = "services/grid.rs"]
mod grid;

use bookahead_api as api;
use bookahead_benches::peer::{self, PlainStore};
use bookahead_benches::{Guard, Outcome, Report, Secret, guard, median};
use bookahead_client::{Client, make};
use bookahead_lrms::builtin::{Builtin, Hosted};
use bookahead_party::site::{Site, SiteOptions};
use bookahead_party::{Heartbeat, Origin, Role};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::ledger::{Offered, Rules};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, Key, Millis, Part, Request, ReservationId, Resource,
};
use bookahead_service::clock::Clock;
use bookahead_service::config::SiteConfig;
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_service::http::{self, About, JobOutputs, Limits, Served};
use bookahead_service::journal::{Durability, Options};
use bookahead_service::security::{self, Accounts, Authenticator, Security};
use bookahead_service::thread::{BatchSide, Outlets, PartyHandle, PartyOptions, PartyThread};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
const ROUND: Duration = Duration::from_millis(2_000);
const ROUNDS: usize = 3;
const LIVE: u64 = 10_000;
const PROBERS: usize = 16;
const BOOKINGS: usize = 300;
const PATIENCE: Duration = Duration::from_secs(30);
const MODES: [(&str, Durability); 3] = [
    ("one sync per command", Durability::EachAppend),
    ("one shared sync", Durability::Grouped),
    ("no sync", Durability::None),
];

/// Duration of a round of a baseline, which varies less.
const PLAIN_ROUND: Duration = Duration::from_millis(1_000);
pub(crate) fn main() -> Report {
    guard("services", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("services-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(all(guard, &folder));
    std::fs::remove_dir_all(&folder)?;
    outcome
}

async fn all(guard: &mut Guard, folder: &Path) -> Outcome<()> {
    pairs(guard, folder).await?;
    if guard.wants("probes over HTTP") {
        probes(guard, folder).await?;
    }
    if guard.wants("configured") {
        configured::run(guard, folder).await?;
    }
    if guard.wants("co-reservation") || guard.wants("booked") {
        grid::run(guard, folder).await?;
    }
    Ok(())
}

fn rules() -> Rules {
    let placement = placement::Rules {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules { most: 5, gap: Seconds(900), natural: true },
        admission: Admission::default(),
    };
    let resource = Resource::new("north", "cluster", "processors", 4_096);
    Rules::new("north", vec![Offered { resource, placement }])
}

fn about() -> Heartbeat {
    Heartbeat {
        registered_by: None,
        changes: None,
        name: "north".into(),
        url: String::new(),
        role: Role::Site,
        resources: Vec::new(),
        attributes: Default::default(),
        loads: Vec::new(),
        hold_takes: None,
        batch: None,
        version: None,
    }
}

fn site(journal: &Path, durability: Durability) -> Outcome<PartyThread> {
    let hosted = Hosted::new("cluster".into(), Capacity(4_096));
    let scheduler = BatchSide::Inline(Box::new(Builtin::new(vec![hosted], Clock::WALL.now(), None)?));
    let site = Site::new(rules(), about(), SiteOptions::default())?;
    let mut options = PartyOptions::new("north".into(), journal.to_owned(), Clock::WALL);
    options.options = Options { durability, ..Options::default() };
    Ok(options.start(site, |_| Outlets::only(scheduler))?)
}

/// Serves a site over HTTP and returns its address.
async fn serve(party: &PartyThread) -> Outcome<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let about = About {
        name: "north".into(),
        role: api::Role::Site,
        version: String::new(),
        url: url.clone(),
        identity: None,
    };
    let limits = Limits { requests_per_second: 0, ..Limits::default() };
    let (party, authenticator) = (party.handle().clone(), Arc::new(Authenticator::open()));
    let accounts = Arc::new(Accounts::new(&Security::default()));
    let served = Served {
        party,
        authenticator,
        accounts,
        limits,
        about,
        commands: None,
        look_every: None,
        outbox: None,
        outputs: JobOutputs::None,
        projects: Default::default(),
        epochs: Default::default(),
    };
    let (stopper, stop) = http::Stop::pair();
    let router = http::router(served, stop);
    tokio::spawn(async move {
        let _running = stopper;
        axum::serve(listener, router).await
    });
    Ok(url)
}

fn wanted(number: u64) -> placement::Request {
    let now = Clock::WALL.now().second();
    let begin = Time(now.0 + 86_400 + 60 * i64::try_from(number % 100_000).unwrap_or(0));
    let (duration, capacity) = (Seconds(3_600), Capacity(1));
    placement::Request { earliest_start: begin, latest_end: begin + Seconds(7_200), duration, capacity }
}

fn request(number: u64) -> Request {
    let wanted = wanted(number);
    Request::single(Part::new(wanted, "processors"))
}

async fn pairs(guard: &mut Guard, folder: &Path) -> Outcome<()> {
    for (where_, over_http) in [("at the party thread", false), ("over HTTP", true)] {
        if !guard.wants(&format!("pairs {where_}")) {
            continue;
        }
        println!(
            "{CLIENTS} clients, each reserving and committing in turn, {where_}; {ROUNDS} rounds, the median"
        );
        let mut rates: [Vec<f64>; 3] = Default::default();
        let mut plain: [Vec<f64>; 3] = Default::default();
        for round in 0..ROUNDS {
            for (at, (_, durability)) in MODES.into_iter().enumerate() {
                let store =
                    PlainStore::open(&folder.join(format!("{over_http}-{round}-{at}.plain")), durability)?;
                plain[at].push(plain_rate_of_pairs(store, over_http).await?);
                let journal = folder.join(format!("{over_http}-{round}-{at}.journal"));
                let party = site(&journal, durability)?;
                rates[at].push(rate_of_pairs(&party, over_http).await?);
                tokio::task::spawn_blocking(move || party.close()).await??;
            }
        }
        let (rates, plain) = (rates.map(median), plain.map(median));
        for (((name, _), rate), plain) in MODES.into_iter().zip(rates).zip(plain) {
            let (each, none) = (rate / rates[0], rates[2] / rate);
            println!(
                "  {name:<28} {rate:>9.0} pairs/s  {each:>6.1} x one each   no sync is {none:.2} x it   plain: {plain:.0}"
            );
            guard.rates(format!("pairs {where_}, {name}"), rate, plain);
        }
    }
    Ok(())
}

/// Pairs of stored texts per second, of the size of requests.
async fn plain_rate_of_pairs(store: PlainStore, over_http: bool) -> Outcome<f64> {
    let body = body()?;
    if over_http {
        let address = peer::echo(Some(store)).await?;
        return Ok(plain_rate_of_calls(address, CLIENTS).await? / 2.0);
    }
    let (store, body, began) = (Arc::new(store), Arc::new(body), Instant::now());
    let client = || {
        let (store, body) = (store.clone(), body.clone());
        tokio::spawn(async move {
            let mut made = 0;
            while began.elapsed() < PLAIN_ROUND {
                store.append(body.to_string()).await?;
                store.append(body.to_string()).await?;
                made += 1;
            }
            Outcome::Ok(made)
        })
    };
    let tasks: Vec<_> = (0..CLIENTS).map(|_| client()).collect();
    let mut made = 0;
    for task in tasks {
        made += task.await??;
    }
    Ok(f64::from(made) / began.elapsed().as_secs_f64())
}

async fn plain_rate_of_calls(address: SocketAddr, clients: usize) -> Outcome<f64> {
    let body = body()?;
    tokio::task::spawn_blocking(move || peer::rate_of_calls(address, clients, PLAIN_ROUND, &body)).await?
}

/// The body of a request to reserve.
fn body() -> Outcome<String> {
    Ok(serde_json::to_string(&reserve(api::Request::try_from(request(0))?, false))?)
}

fn reserve(request: api::Request, book: bool) -> api::Reserve {
    api::Reserve { id: None, request, hold_for_seconds: api::FineSeconds(60_000), book }
}

async fn rate_of_pairs(party: &PartyThread, over_http: bool) -> Outcome<f64> {
    let url = if over_http { Some(serve(party).await?) } else { None };
    let (made, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let mut tasks = Vec::new();
    for client in 0..CLIENTS {
        let (handle, made) = (party.handle().clone(), made.clone());
        let http = url.as_deref().map(|url| Client::new(url, Default::default())).transpose()?;
        tasks.push(tokio::spawn(async move {
            while began.elapsed() < ROUND {
                let number = made.fetch_add(1, Ordering::Relaxed);
                match &http {
                    Some(http) => pair_over_http(http, number).await?,
                    None => pair_at_thread(&handle, number, client).await?,
                }
            }
            Outcome::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(made.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}

async fn pair_at_thread(party: &PartyHandle, number: u64, client: usize) -> Outcome<()> {
    let id = ReservationId(u128::from(number) + 1);
    let caller = Caller { user: format!("user-{client}").into(), roles: vec!["user".into()] };
    let hold = Call::Reserve { id, request: request(number), hold_for: Millis::seconds(60), book: false };
    for (at, call) in [hold, Call::Commit { id, jobs: vec![] }].into_iter().enumerate() {
        let key = Key(u128::from(number) * 2 + at as u128 + 1);
        let envelope = Envelope { key, caller: caller.clone(), call };
        if let Answer::Problem(problem) = party.call(PATIENCE, envelope, Origin::default()).await? {
            return Err(problem.why.to_string().into());
        }
    }
    Ok(())
}

async fn pair_over_http(client: &Client, number: u64) -> Outcome<()> {
    let reserve = reserve(api::Request::try_from(request(number))?, false);
    let held = client.reserve(&reserve, &make::key()?.to_string()).await?;
    client.commit(held.id, &api::Commit::default()).await?;
    Ok(())
}

async fn probes(guard: &mut Guard, folder: &Path) -> Outcome<()> {
    let party = site(&folder.join("probes.journal"), Durability::Grouped)?;
    for number in 0..LIVE {
        pair_at_thread(party.handle(), number, 0).await?;
    }
    let url = serve(&party).await?;
    let clients: Vec<Client> =
        (0..PROBERS).map(|_| Client::new(&url, Default::default())).collect::<Result<_, _>>()?;
    let echo = peer::echo(None).await?;
    let (mut rates, mut plain, mut took) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(plain_rate_of_calls(echo, PROBERS).await?);
        let (rate, latencies) = rate_of_probes(&clients, ROUND).await?;
        rates.push(rate);
        took.extend(latencies);
    }
    let (rate, plain) = (median(rates), median(plain));
    println!("{PROBERS} clients probing over HTTP, {LIVE} live reservations");
    println!(
        "  {rate:.0} probes/s, p50 {}, p99 {}   plain: {plain:.0}",
        milliseconds(&mut took, 0.5),
        milliseconds(&mut took, 0.99)
    );
    guard.rates("probes over HTTP", rate, plain);
    tokio::task::spawn_blocking(move || party.close()).await??;
    Ok(())
}

/// Probes per second, and how long each took, in seconds.
async fn rate_of_probes(clients: &[Client], round: Duration) -> Outcome<(f64, Vec<f64>)> {
    let began = Instant::now();
    let mut tasks = Vec::new();
    for (prober, client) in clients.iter().cloned().enumerate() {
        tasks.push(tokio::spawn(async move {
            let (mut took, mut number) = (Vec::new(), prober as u64 * 577);
            while began.elapsed() < round {
                let request = api::Request::try_from(request(number))?;
                let probe = api::Probe { request, most: Some(5), starts: Vec::new() };
                let sent = Instant::now();
                client.probe(&probe).await?;
                took.push(sent.elapsed().as_secs_f64());
                number += 37;
            }
            Outcome::Ok(took)
        }));
    }
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await??);
    }
    Ok((took.len() as f64 / began.elapsed().as_secs_f64(), took))
}

/// Starts a site with one cluster. `more` has fields, and then tables.
async fn start_site(folder: &Path, name: &str, more: &str) -> Outcome<Running> {
    let text = format!(
        "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\nstate = \"{name}\"\n{more}[[resource]]\nname = \"cluster\"\n\
         kind = \"processors\"\ncapacity = 4096\nmethod = \"earliest\"\n"
    );
    Ok(daemon::site(&SiteConfig::parse(Path::new(name), &text)?, folder, OnLostJournal::Ask).await?)
}

/// A client of a service, with a token if the service wants one.
fn client(url: &str, secret: Option<&Secret>, user: &str) -> Outcome<Client> {
    let token = secret.map(|secret| secret.token(user, security::Role::User)).transpose()?;
    Ok(Client::new(url, bookahead_client::Options { token, ..Default::default() })?)
}

/// The quantile `share` of the figures, in milliseconds.
fn milliseconds(figures: &mut [f64], share: f64) -> String {
    figures.sort_by(f64::total_cmp);
    let at = ((figures.len() - 1) as f64 * share).round() as usize;
    format!("{:.2} ms", figures[at] * 1e3)
}
