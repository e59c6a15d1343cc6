//! What tokens, the usage history and a rate limit cost at a site that is started as users start it, with the default
//! limits of connections and concurrent requests. Pairs of reserve and commit, and probes.

use super::{
    CLIENTS, LIVE, PLAIN_ROUND, PROBERS, ROUNDS, client, pair_over_http, plain_rate_of_calls, rate_of_probes,
    start_site,
};
use bookahead_benches::peer::{self, PlainStore};
use bookahead_benches::{Guard, Outcome, Secret, median};
use bookahead_client::Client;
use bookahead_service::daemon::Running;
use bookahead_service::journal::Durability;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Pairs of a round at the sites of [`CONFIGURED`]: so many that all have as many live reservations after all rounds.
const PAIRS: u64 = LIVE.div_ceil(ROUNDS as u64);
/// Sites with one more of what most real sites have, each after the one before. Those with tokens have no rate limit, except
/// the last, where no user reaches it.
const CONFIGURED: [(&str, &str); 4] = [
    ("open, no history", "history = \"off\"\n"),
    (
        "with tokens",
        "history = \"off\"\n[security]\nkeys = \"secret.key\"\n[server]\nrequests_per_second = 0\n",
    ),
    ("with tokens and history", "[security]\nkeys = \"secret.key\"\n[server]\nrequests_per_second = 0\n"),
    (
        "with tokens, history and a rate limit",
        "[security]\nkeys = \"secret.key\"\n[server]\nrequests_per_second = 10000\n",
    ),
];

pub(super) async fn run(guard: &mut Guard, folder: &Path) -> Outcome<()> {
    let secret = Secret::create(folder)?;
    let mut sites = Vec::new();
    for (at, (_, more)) in CONFIGURED.into_iter().enumerate() {
        sites.push(Configured::start(folder, &format!("configured-{at}"), more, &secret).await?);
    }
    let store = PlainStore::open(&folder.join("configured.plain"), Durability::Grouped)?;
    let (storing, echo) = (peer::echo(Some(store)).await?, peer::echo(None).await?);
    let mut pairs = vec![Vec::new(); sites.len() + 1];
    let mut probes = pairs.clone();
    for round in 0..ROUNDS {
        for (site, pairs) in sites.iter().zip(&mut pairs) {
            pairs.push(site.rate_of_pairs(round).await?);
        }
        pairs[sites.len()].push(plain_rate_of_calls(storing, CLIENTS).await? / 2.0);
    }
    for _ in 0..ROUNDS {
        for (site, probes) in sites.iter().zip(&mut probes) {
            probes.push(rate_of_probes(&site.clients[..PROBERS], PLAIN_ROUND).await?.0);
        }
        probes[sites.len()].push(plain_rate_of_calls(echo, PROBERS).await?);
    }
    println!("configured sites over HTTP: {CLIENTS} users reserving and committing, {PROBERS} users probing");
    let [pairs, probes] = [pairs, probes].map(|rates| rates.into_iter().map(median).collect::<Vec<f64>>());
    for (at, (name, _)) in CONFIGURED.into_iter().enumerate() {
        let [pairs_of, probes_of] = [pairs[at] / pairs[0], probes[at] / probes[0]];
        println!(
            "  {name:<40} {:>7.0} pairs/s {pairs_of:>5.2} x open {:>7.0} probes/s {probes_of:>5.2} x open",
            pairs[at], probes[at]
        );
        guard.rates(format!("configured {name}, pairs"), pairs[at], pairs[sites.len()]);
        guard.rates(format!("configured {name}, probes"), probes[at], probes[sites.len()]);
    }
    for site in sites {
        site.site.stop().await?;
    }
    Ok(())
}

/// A site from a configuration, and clients of different users.
struct Configured {
    site: Running,
    clients: Vec<Client>,
}

impl Configured {
    async fn start(folder: &Path, name: &str, more: &str, secret: &Secret) -> Outcome<Configured> {
        let site = start_site(folder, name, more).await?;
        let secret = more.contains("[security]").then_some(secret);
        let client = |at: usize| client(site.url(), secret, &format!("user-{at}"));
        let clients = (0..CLIENTS).map(client).collect::<Outcome<_>>()?;
        Ok(Configured { site, clients })
    }

    /// Pairs per second. All sites get the same ones.
    async fn rate_of_pairs(&self, round: usize) -> Outcome<f64> {
        let (first, last) = (round as u64 * PAIRS, (round as u64 + 1) * PAIRS);
        let (next, began) = (Arc::new(AtomicU64::new(first)), Instant::now());
        let mut tasks = Vec::new();
        for client in &self.clients {
            let (client, next) = (client.clone(), next.clone());
            tasks.push(tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= last {
                        return Outcome::Ok(());
                    }
                    pair_over_http(&client, number).await?;
                }
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(PAIRS as f64 / began.elapsed().as_secs_f64())
    }
}
