//! Services under load, on loopback and on the disk of the target folder.
//!
//! - Pairs of reserve and commit per second that become durable with 64 waiting clients, at the party thread and over
//!   HTTP; with one sync for all waiting clients, one per command, and none.
//! - Probes per second over HTTP at a site with 10,000 live reservations, and their latency.
//! - Latency of a co-reservation of four parts at four sites, from the request to the commit, over HTTP.
//! - What a broker costs: a reservation at the best of four sites through the broker, and at one site directly.
//!
//! Clients and servers share the machine. The modes take turns; medians count.

use bookahead_api as api;
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
use bookahead_service::config::{BrokerConfig, PeerLink, SiteConfig};
use bookahead_service::daemon::{self, OnLostJournal, Running};
use bookahead_service::http::{self, About, JobOutputs, Limits, Served};
use bookahead_service::journal::{Durability, Options};
use bookahead_service::security::{Accounts, Authenticator, Security};
use bookahead_service::thread::{BatchSide, Outlets, PartyHandle, PartyOptions, PartyThread};
use std::error::Error;
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

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("services-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(all(&folder));
    std::fs::remove_dir_all(&folder)?;
    outcome
}

async fn all(folder: &Path) -> Outcome<()> {
    pairs(folder).await?;
    probes(folder).await?;
    co_reservations(folder).await
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

async fn pairs(folder: &Path) -> Outcome<()> {
    for (where_, over_http) in [("at the party thread", false), ("over HTTP", true)] {
        println!(
            "{CLIENTS} clients, each reserving and committing in turn, {where_}; {ROUNDS} rounds, the median"
        );
        let mut rates: [Vec<f64>; 3] = Default::default();
        for round in 0..ROUNDS {
            for (at, (_, durability)) in MODES.into_iter().enumerate() {
                let journal = folder.join(format!("{over_http}-{round}-{at}.journal"));
                let party = site(&journal, durability)?;
                rates[at].push(rate_of_pairs(&party, over_http).await?);
                tokio::task::spawn_blocking(move || party.close()).await??;
            }
        }
        let rates = rates.map(median);
        for ((name, _), rate) in MODES.into_iter().zip(rates) {
            let (each, none) = (rate / rates[0], rates[2] / rate);
            println!("  {name:<28} {rate:>9.0} pairs/s  {each:>6.1} x one each   no sync is {none:.2} x it");
        }
    }
    Ok(())
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
    let request = api::Request::try_from(request(number))?;
    let reserve = api::Reserve { id: None, request, hold_for_seconds: api::FineSeconds(60_000), book: false };
    let held = client.reserve(&reserve, &make::key()?.to_string()).await?;
    client.commit(held.id, &api::Commit::default()).await?;
    Ok(())
}

async fn probes(folder: &Path) -> Outcome<()> {
    let party = site(&folder.join("probes.journal"), Durability::Grouped)?;
    for number in 0..LIVE {
        pair_at_thread(party.handle(), number, 0).await?;
    }
    let url = serve(&party).await?;
    let began = Instant::now();
    let mut tasks = Vec::new();
    for prober in 0..PROBERS {
        let client = Client::new(&url, Default::default())?;
        tasks.push(tokio::spawn(async move {
            let (mut took, mut number) = (Vec::new(), prober as u64 * 577);
            while began.elapsed() < ROUND {
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
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    println!("{PROBERS} clients probing over HTTP, {LIVE} live reservations");
    println!(
        "  {rate:.0} probes/s, p50 {}, p99 {}",
        milliseconds(&mut took, 0.5),
        milliseconds(&mut took, 0.99)
    );
    tokio::task::spawn_blocking(move || party.close()).await??;
    Ok(())
}

async fn co_reservations(folder: &Path) -> Outcome<()> {
    let mut sites: Vec<Running> = Vec::new();
    for name in ["east", "north", "south", "west"] {
        let text = format!(
            "name = \"{name}\"\nlisten = \"127.0.0.1:0\"\nstate = \"{name}\"\n[[resource]]\nname = \"cluster\"\n\
             kind = \"processors\"\ncapacity = 4096\nmethod = \"earliest\"\n"
        );
        sites.push(
            daemon::site(&SiteConfig::parse(Path::new(name), &text)?, folder, OnLostJournal::Ask).await?,
        );
    }
    let text = "name = \"broker\"\nlisten = \"127.0.0.1:0\"\nstate = \"broker\"\n";
    let mut config = BrokerConfig::parse(Path::new("broker"), text)?;
    let peer = |site: &Running| PeerLink {
        name: site.name().to_string(),
        url: site.url().to_owned(),
        token_file: None,
        audience: None,
    };
    config.peers = sites.iter().map(peer).collect();
    let broker = daemon::broker(&config, folder).await?;
    let client = Client::new(broker.url(), Default::default())?;
    while client.resources().await?.resources.len() < sites.len() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut took = Vec::new();
    for number in 0..BOOKINGS {
        let reserve = four_parts(number as u64)?;
        let sent = Instant::now();
        let held = client.reserve(&reserve, &make::key()?.to_string()).await?;
        client.commit(held.id, &api::Commit::default()).await?;
        took.push(sent.elapsed().as_secs_f64());
    }
    println!(
        "a co-reservation of four parts at four sites, held and then committed over HTTP, {BOOKINGS} in a row"
    );
    let (p50, p99) = (milliseconds(&mut took, 0.5), milliseconds(&mut took, 0.99));
    let ratio = 13.7 / took[took.len() / 2];
    println!(
        "  p50 {p50}, p99 {p99}; one reservation took the co-reservation paper's system 13.7 s, {ratio:.0} x p50"
    );
    let direct = Client::new(sites[0].url(), Default::default())?;
    cost_of_a_broker(&client, &direct).await?;
    broker.stop().await?;
    for site in sites {
        site.stop().await?;
    }
    Ok(())
}

async fn cost_of_a_broker(broker: &Client, site: &Client) -> Outcome<()> {
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for number in 0..BOOKINGS as u64 {
        for (client, took) in [(broker, &mut through), (site, &mut direct)] {
            let request = api::Request::try_from(request(number))?;
            let hold_for_seconds = api::FineSeconds(60_000);
            let reserve = api::Reserve { id: None, request, hold_for_seconds, book: true };
            let sent = Instant::now();
            client.reserve(&reserve, &make::key()?.to_string()).await?;
            took.push(sent.elapsed().as_secs_f64());
        }
    }
    let ratio = median(through.clone()) / median(direct.clone());
    println!("a reservation booked over HTTP, {BOOKINGS} in a row at each in turn");
    for (what, mut took) in [("through the broker, best of four sites", through), ("at one site", direct)] {
        println!("  {what}: p50 {}, p99 {}", milliseconds(&mut took, 0.5), milliseconds(&mut took, 0.99));
    }
    println!("  the broker takes {ratio:.1} times as long");
    Ok(())
}

/// One part at each of four sites, all together.
fn four_parts(number: u64) -> Outcome<api::Reserve> {
    let part = api::Request::try_from(request(number))?.parts.remove(0);
    let offset = |second| api::Constraint::Offset { first: 0, second, by_seconds: 0 };
    let apart = |(first, second)| api::Constraint::DifferentSites { first, second };
    let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    let request =
        api::Request::new(vec![part; 4], (1..4).map(offset).chain(pairs.into_iter().map(apart)).collect());
    Ok(api::Reserve { id: None, request, hold_for_seconds: api::FineSeconds(60_000), book: false })
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The quantile `share` of the figures, in milliseconds.
fn milliseconds(figures: &mut [f64], share: f64) -> String {
    figures.sort_by(f64::total_cmp);
    let at = ((figures.len() - 1) as f64 * share).round() as usize;
    format!("{:.2} ms", figures[at] * 1e3)
}
