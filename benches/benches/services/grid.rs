//! Co-reservations of four parts at four sites over HTTP, without and with tokens, and what a broker costs.

use super::{BOOKINGS, ROUNDS, body, client, milliseconds, request, reserve, start_site};
use bookahead_api as api;
use bookahead_benches::peer::{self, PlainStore};
use bookahead_benches::{Guard, Outcome, Secret, median};
use bookahead_client::{Client, make};
use bookahead_service::config::BrokerConfig;
use bookahead_service::daemon::{self, Running};
use bookahead_service::journal::Durability;
use bookahead_service::security::Role;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Four sites and a broker.
struct Grid {
    sites: Vec<Running>,
    broker: Running,
    through_broker: Client,
    at_site: Client,
}

impl Grid {
    async fn start(folder: &Path, with_tokens: bool) -> Outcome<Grid> {
        std::fs::create_dir(folder)?;
        let secret = if with_tokens { Some(Secret::create(folder)?) } else { None };
        // Without a rate limit: a few users stand for many.
        let security = match with_tokens {
            true => "[server]\nrequests_per_second = 0\n[security]\nkeys = \"secret.key\"\n",
            false => "",
        };
        let mut sites: Vec<Running> = Vec::new();
        for name in ["east", "north", "south", "west"] {
            sites.push(start_site(folder, name, security).await?);
        }
        let mut text = format!("name = \"broker\"\nlisten = \"127.0.0.1:0\"\nstate = \"broker\"\n{security}");
        let token_file = folder.join("broker.token");
        if let Some(secret) = &secret {
            std::fs::write(&token_file, secret.token("broker", Role::Broker)?)?;
            std::fs::set_permissions(&token_file, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        for site in &sites {
            text += &format!("[[peer]]\nname = \"{}\"\nurl = \"{}\"\n", site.name(), site.url());
            if with_tokens {
                text += &format!("token_file = \"{}\"\n", token_file.display());
            }
        }
        let config = BrokerConfig::parse(Path::new("broker"), &text)?;
        let broker = daemon::broker(&config, folder).await?;
        let through_broker = client(broker.url(), secret.as_ref(), "ada")?;
        let at_site = client(sites[0].url(), secret.as_ref(), "ada")?;
        while through_broker.resources().await?.resources.len() < sites.len() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(Grid { sites, broker, through_broker, at_site })
    }

    /// Seconds of each co-reservation of a round.
    async fn co_reserve(&self, round: usize) -> Outcome<Vec<f64>> {
        let mut took = Vec::new();
        for number in round * BOOKINGS / ROUNDS..(round + 1) * BOOKINGS / ROUNDS {
            let reserve = four_parts(number as u64)?;
            let sent = Instant::now();
            let held = self.through_broker.reserve(&reserve, &make::key()?.to_string()).await?;
            self.through_broker.commit(held.id, &api::Commit::default()).await?;
            took.push(sent.elapsed().as_secs_f64());
        }
        Ok(took)
    }

    async fn stop(self) -> Outcome<()> {
        self.broker.stop().await?;
        for site in self.sites {
            site.stop().await?;
        }
        Ok(())
    }
}

pub(super) async fn run(guard: &mut Guard, folder: &Path) -> Outcome<()> {
    let open = Grid::start(&folder.join("open"), false).await?;
    let secured = Grid::start(&folder.join("secured"), true).await?;
    let echo = peer::echo(Some(PlainStore::open(&folder.join("grid.plain"), Durability::Grouped)?)).await?;
    let mut took: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        took[0].extend(open.co_reserve(round).await?);
        took[1].extend(secured.co_reserve(round).await?);
        took[2].extend(plain_calls(echo).await?);
    }
    let [mut open_took, mut secured_took, plain] = took;
    println!(
        "a co-reservation of four parts at four sites, held and then committed over HTTP, {BOOKINGS} in a row"
    );
    let (p50, p99) = (milliseconds(&mut open_took, 0.5), milliseconds(&mut open_took, 0.99));
    let ratio = 13.7 / median(open_took.clone());
    println!(
        "  p50 {p50}, p99 {p99}; one reservation took the co-reservation paper's system 13.7 s, {ratio:.0} x p50"
    );
    let (p50, p99) = (milliseconds(&mut secured_took, 0.5), milliseconds(&mut secured_took, 0.99));
    println!("  with tokens at the broker and at all sites: p50 {p50}, p99 {p99}");
    let plain = median(plain);
    println!("  one plain call that is stored: p50 {:.2} ms", plain * 1e3);
    guard.times("co-reservation", median(open_took), plain);
    guard.times("co-reservation with tokens", median(secured_took), plain);
    cost_of_a_broker(guard, echo, &open.through_broker, &open.at_site).await?;
    open.stop().await?;
    secured.stop().await
}

/// Seconds of each of several plain calls that are stored.
async fn plain_calls(echo: SocketAddr) -> Outcome<Vec<f64>> {
    let body = body()?;
    let calls = move || -> Outcome<Vec<f64>> {
        let mut stream = peer::connect(echo)?;
        let call = |_| -> Outcome<f64> {
            let sent = Instant::now();
            peer::send(&mut stream, &body)?;
            Ok(sent.elapsed().as_secs_f64())
        };
        (0..BOOKINGS).map(call).collect()
    };
    tokio::task::spawn_blocking(calls).await?
}

async fn cost_of_a_broker(
    guard: &mut Guard,
    echo: SocketAddr,
    broker: &Client,
    site: &Client,
) -> Outcome<()> {
    let (mut through, mut direct, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..BOOKINGS as u64 {
        for (client, took) in [(broker, &mut through), (site, &mut direct)] {
            let reserve = reserve(api::Request::try_from(request(number))?, true);
            let sent = Instant::now();
            client.reserve(&reserve, &make::key()?.to_string()).await?;
            took.push(sent.elapsed().as_secs_f64());
        }
        if number % 100 == 0 {
            plain.extend(plain_calls(echo).await?);
        }
    }
    let (through_p50, direct_p50, plain) = (median(through.clone()), median(direct.clone()), median(plain));
    let ratio = through_p50 / direct_p50;
    guard.times("booked through a broker", through_p50, plain);
    guard.times("booked at a site", direct_p50, plain);
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
    Ok(reserve(request, false))
}
