//! Keys of an identity provider: fetched by one task, cached, and replaced while the service runs. Verifying a
//! token with a known key never waits for the provider. A token with an unknown key triggers a fetch, at most one
//! in [`Timing::on_demand`] for any number of such tokens, and its caller waits at most [`Timing::wait`]. While the
//! provider fails, the old keys stay in use for at most [`Timing::keep`].

use super::discovery::{Discovery, Endpoints, Published};
use super::error::{ProviderFault, SecurityError};
use super::keys::Keys;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

/// Shortest interval that a provider can request with `max-age`.
const LEAST_MAX_AGE: Duration = Duration::from_secs(60);

/// Longest wait before a failed fetch is repeated, so that the service recovers soon after the provider.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Intervals and timeouts of fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Longest interval between two fetches. A provider can shorten it with `Cache-Control: max-age`, to one minute
    /// at least.
    pub refresh: Duration,
    /// How long to use fetched keys while the provider fails.
    pub keep: Duration,
    /// Shortest interval between fetches caused by tokens with unknown keys.
    pub on_demand: Duration,
    /// Wait before the first repetition of a failed fetch; doubled for each further one, up to a minute.
    pub retry: Duration,
    /// Timeout of each of the two requests of a fetch.
    pub timeout: Duration,
    /// How long the caller of a token with an unknown key waits for a fetch.
    pub wait: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            refresh: Duration::from_secs(10 * 60),
            keep: Duration::from_secs(24 * 60 * 60),
            on_demand: Duration::from_secs(10),
            retry: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            wait: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Interval until the next fetch.
    fn next_fetch(&self, max_age: Option<Duration>) -> Duration {
        max_age.map_or(self.refresh, |age| age.max(LEAST_MAX_AGE).min(self.refresh))
    }
}

/// An identity provider and its cached keys. Nothing is fetched unless [`Provider::keep_fetching`] runs.
#[derive(Debug)]
pub struct Provider {
    pub(super) discovery: Discovery,
    timing: Timing,
    state: Mutex<State>,
    /// Wakes the fetching task.
    wanted: Notify,
    /// Number of completed fetches. Changed while `state` is locked.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    fetched: Option<Fetched>,
    failing_since: Option<Instant>,
    /// Whether a fetch is in progress or about to start.
    under_way: bool,
    /// Time of the last fetch caused by a token.
    on_demand: Option<Instant>,
}

#[derive(Debug)]
struct Fetched {
    keys: Arc<Keys>,
    endpoints: Option<Endpoints>,
    at: Instant,
}

/// Health of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderHealth {
    /// Whether its keys can be fetched and used.
    pub state: ProviderState,
    /// Age of the keys. `None` if there are none.
    pub age: Option<Duration>,
    /// Time since fetches fail. `None` if the last one succeeded, or none was tried.
    pub failing_for: Option<Duration>,
}

/// Whether the keys of a provider can be fetched and used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderState {
    /// The last fetch succeeded.
    Ok,
    /// The last fetch failed; the old keys are in use.
    Failing,
    /// There are no keys, or they are too old. No token can be verified.
    NoKeys,
}

impl Provider {
    /// `issuer` is the URL of the provider, `ca` its certificate authorities, if not those of the system. Does not
    /// fetch yet.
    pub fn new(issuer: &str, ca: Option<PathBuf>, timing: Timing) -> Result<Provider, SecurityError> {
        let discovery = Discovery::new(issuer, ca, timing.timeout)?;
        Ok(Provider {
            discovery,
            timing,
            state: Mutex::default(),
            wanted: Notify::new(),
            ended: watch::Sender::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// URL of the provider.
    pub fn issuer(&self) -> &str {
        &self.discovery.issuer
    }

    /// The keys. `None` before the first fetch, and if they are too old.
    pub(super) fn keys(&self) -> Option<Arc<Keys>> {
        let state = self.state();
        // Tested at each use: the next failed fetch, which also drops old keys, may be a minute away.
        let usable = state.fetched.as_ref().filter(|fetched| fetched.at.elapsed() <= self.timing.keep);
        usable.map(|fetched| fetched.keys.clone())
    }

    /// Where users sign in. `None` before the first fetch, or if the provider does not say.
    pub(super) fn endpoints(&self) -> Option<Endpoints> {
        self.state().fetched.as_ref().and_then(|fetched| fetched.endpoints.clone())
    }

    /// Current health.
    pub fn health(&self) -> ProviderHealth {
        let state = self.state();
        let age = state.fetched.as_ref().map(|fetched| fetched.at.elapsed());
        let failing_for = state.failing_since.map(|since| since.elapsed());
        let state = match age {
            Some(age) if age <= self.timing.keep && failing_for.is_some() => ProviderState::Failing,
            Some(age) if age <= self.timing.keep => ProviderState::Ok,
            _ => ProviderState::NoKeys,
        };
        ProviderHealth { state, age, failing_for }
    }

    /// Requests a fetch at once, regardless of the last one.
    pub fn fetch_soon(&self) {
        self.wanted.notify_one();
    }

    /// After a token with an unknown key: triggers a fetch, if allowed, and waits for it or for the one in
    /// progress. Returns whether a fetch has completed, so that the keys should be checked again.
    pub(super) async fn fetched_for_unknown_key(&self) -> bool {
        // Subscribes under the lock: a fetch that completes in between would go unnoticed otherwise.
        let mut ended = {
            let mut state = self.state();
            if !state.under_way {
                let too_soon = |at: Instant| at.elapsed() < self.timing.on_demand;
                if state.on_demand.is_some_and(too_soon) {
                    return false;
                }
                state.on_demand = Some(Instant::now());
                state.under_way = true;
                self.wanted.notify_one();
            }
            self.ended.subscribe()
        };
        matches!(timeout(self.timing.wait, ended.changed()).await, Ok(Ok(())))
    }

    /// Fetches the keys once and returns their number, without using them.
    pub async fn examine(&self) -> Result<usize, ProviderFault> {
        self.discovery.fetch().await.map(|published| published.keys.len())
    }

    /// Fetches the keys periodically.
    pub async fn keep_fetching(self: Arc<Provider>) {
        let mut retry = self.timing.retry;
        loop {
            // Also for a regular fetch: tokens with unknown keys then wait for it instead of causing another.
            self.state().under_way = true;
            let fetched = self.discovery.fetch().await;
            let pause = match &fetched {
                Ok(published) => {
                    retry = self.timing.retry;
                    self.timing.next_fetch(published.max_age)
                }
                Err(_) => {
                    let pause = retry;
                    retry = (retry * 2).min(LONGEST_RETRY);
                    pause.min(self.timing.refresh)
                }
            };
            self.note(fetched);
            // `notify_one` leaves a permit, so a request that arrived during the fetch above is not lost.
            tokio::select! {
                () = sleep(pause) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    /// Stores the result of a fetch, and logs changes.
    fn note(&self, fetched: Result<Published, ProviderFault>) {
        let (issuer, mut state) = (self.issuer(), self.state());
        state.under_way = false;
        match fetched {
            Ok(Published { keys, endpoints, .. }) => {
                let same = |old: &Fetched| old.keys.ids().eq(keys.ids());
                if state.failing_since.is_some() || !state.fetched.as_ref().is_some_and(same) {
                    let (event, count) = ("provider_keys_fetched", keys.len());
                    tracing::info!(event, issuer, keys = count, "keys of the identity provider fetched");
                }
                state.failing_since = None;
                state.fetched = Some(Fetched { keys: Arc::new(keys), endpoints, at: Instant::now() });
            }
            Err(fault) => self.note_failure(&mut state, &fault),
        }
        // Last, and still under the lock: a caller that this wakes must find the new keys.
        self.ended.send_modify(|ended| *ended += 1);
    }

    /// The first of several failures is a warning. Keys that become too old are an error, logged once.
    fn note_failure(&self, state: &mut State, fault: &ProviderFault) {
        let (event, issuer) = ("provider_fetch_failed", self.issuer());
        let age = state.fetched.as_ref().map(|fetched| fetched.at.elapsed());
        let consequence = if age.is_some() { "the old keys stay in use" } else { "no token can be verified" };
        if state.failing_since.is_some() {
            tracing::debug!(event, issuer, "cannot fetch keys: {fault}");
        } else {
            tracing::warn!(event, issuer, "cannot fetch keys, retrying; {consequence}: {fault}");
        }
        state.failing_since.get_or_insert_with(Instant::now);
        if age.is_some_and(|age| age > self.timing.keep) {
            state.fetched = None;
            let event = "provider_keys_expired";
            tracing::error!(event, issuer, "the keys are too old and no longer used: {fault}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_can_shorten_the_time_between_fetches_within_bounds() {
        let timing = Timing::default();
        for (max_age, due) in
            [(None, 600), (Some(0), 60), (Some(120), 120), (Some(86_400), 600), (Some(u64::MAX), 600)]
        {
            let next = timing.next_fetch(max_age.map(Duration::from_secs));
            assert_eq!(next, Duration::from_secs(due), "{max_age:?}");
        }
        let often = Timing { refresh: Duration::from_secs(5), ..timing };
        assert_eq!(often.next_fetch(Some(Duration::from_secs(1))), Duration::from_secs(5));
    }
}
