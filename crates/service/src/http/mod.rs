//! HTTP interface of a party, with the same routes for sites and brokers. A request that changes something becomes
//! a call to the party ([`crate::thread`]); a query reads a copy of it. The result becomes a document ([`answer`]).
//! Everything that can be refused without the party is refused here, always as a problem document. Relies on
//! [`crate::security`] for authentication. Makes no decisions of a party, and keeps no durable state.
//!
//! - in: [`observe`] (trace, metrics, audit), [`requester`] (caller, rate, brokers), [`request`] (contents),
//!   [`limits`]
//! - routes: [`reservations`], [`queries`], [`jobs`], [`output`], [`watch`], [`calendar`], [`usage`], [`health`],
//!   [`pages`], [`session`], [`sign_in`], [`dashboard`]
//! - out: [`call`] (to the party and back), [`answer`]

pub(crate) mod answer;
mod calendar;
mod call;
mod dashboard;
pub(crate) mod epochs;
mod figures;
mod flexible;
mod health;
mod invitations;
mod jobs;
pub(crate) mod limits;
pub mod listener;
mod metrics;
mod observe;
mod openapi;
mod output;
mod pages;
mod projects;
mod queries;
mod request;
mod requester;
mod reservations;
pub mod serve;
mod session;
mod shares;
mod sign_in;
mod silent;
pub(crate) mod standby;
mod usage;
mod watch;

pub use epochs::Epochs;
pub use limits::Limits;
pub use openapi::document as openapi;
pub use output::JobOutputs;
pub use projects::Projects;
pub use serve::{Stop, Stopper};

use crate::notify::Outbox;
use crate::security::{Accounts, Authenticator};
use crate::thread::PartyHandle;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{
    AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH, LOCATION, RETRY_AFTER,
};
use axum::http::{HeaderValue, Method};
use axum::middleware::from_fn_with_state;
use bookahead_api as api;
use bookahead_api::header::{CLOCK_SPEED, IDEMPOTENCY_KEY, NOW};
use bookahead_lrms::command::Runner;
use bookahead_protocol::{Millis, Name};
use listener::Source;
use metrics::Metrics;
use request::UnderWay;
use requester::Rates;
use shares::Shares;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tower_http::cors::CorsLayer;

/// Everything that the routes need.
#[derive(Clone)]
pub struct Served {
    /// Handle of the party.
    pub party: PartyHandle,
    /// Authenticates callers by token or certificate.
    pub authenticator: Arc<Authenticator>,
    /// Identifies callers on a Unix socket.
    pub accounts: Arc<Accounts>,
    /// Limits on load.
    pub limits: Limits,
    /// Name, role and URL of the service.
    pub about: About,
    /// Site with a batch system: the runner of its commands, for metrics.
    pub commands: Option<Runner>,
    /// Site with a batch system: how often it polls. A probe after an older poll triggers a new one.
    pub look_every: Option<Millis>,
    /// Notices to owners. `None` if none are configured.
    pub outbox: Option<Arc<Outbox>>,
    /// Where the output of jobs is read.
    pub outputs: JobOutputs,
    /// Users of projects, with which reservations are shared.
    pub projects: Projects,
    /// Processes of callers.
    pub epochs: Arc<Epochs>,
}

/// Name, role and URL of a service.
#[derive(Debug, Clone)]
pub struct About {
    /// Name of the site or broker.
    pub name: Name,
    /// Site or broker.
    pub role: api::Role,
    /// Software version.
    pub version: String,
    /// URL for other services.
    pub url: String,
    /// Brokers only: identity in the `via` list of calls.
    pub identity: Option<Name>,
}

/// Settings of the routes that an operator can change while they serve.
#[derive(Clone)]
pub struct Settings {
    /// Authenticates callers by token or certificate.
    pub authenticator: Arc<Authenticator>,
    /// Identifies callers on a Unix socket.
    pub accounts: Arc<Accounts>,
    /// Limits on load.
    pub limits: Limits,
    /// Users of projects, with which reservations are shared.
    pub projects: Projects,
}

/// All routes of a party. Event streams end when it stops.
pub fn router(served: Served, stop: Stop) -> Router {
    Routes::new(served, stop).router()
}

/// The routes of a party, with settings that can change.
pub struct Routes(Arc<Shared>);

impl Routes {
    /// Event streams end when the party stops.
    pub fn new(served: Served, stop: Stop) -> Routes {
        Routes(Arc::new(Shared::new(served, stop)))
    }

    /// The routes with other settings. Requests in progress end with the old ones; counters, limits in use and event
    /// streams carry on.
    #[must_use]
    pub fn with(&self, settings: Settings) -> Routes {
        Routes(Arc::new(self.0.with(settings)))
    }

    /// Records for the metrics whether the configuration could be read again.
    pub fn note_reload(&self, succeeded: bool) {
        self.0.metrics.reloaded(succeeded);
    }

    /// The routes for a server.
    pub fn router(&self) -> Router {
        let shared = self.0.clone();
        // `route_layer` runs the guard only for paths that exist, so that an unknown path is 404 and not 401.
        let guard = from_fn_with_state(shared.clone(), requester::guard);
        let open = openapi::open_routes().layer(DefaultBodyLimit::max(MOST_OPEN_BODY));
        let routes = open.merge(openapi::guarded_routes().route_layer(guard));
        let origins = browser_origins(&shared.limits);
        let router = Router::from(routes)
            .merge(dashboard::routes())
            .merge(sign_in::routes())
            .fallback(answer::nothing_here)
            .method_not_allowed_fallback(answer::not_that_method)
            .layer(DefaultBodyLimit::max(shared.limits.most_body))
            // Around the fallbacks, so that requests for unknown paths and methods are counted as well.
            .layer(from_fn_with_state(shared.clone(), observe::observe))
            .with_state(shared);
        // Outermost: a browser sends its preflight request without a token, and no route has its method.
        match origins {
            Some(origins) => router.layer(origins),
            None => router,
        }
    }
}

/// Lets web pages of the configured origins call the service (CORS). They need a token, as any other client: cookies
/// are not used.
fn browser_origins(limits: &Limits) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> =
        limits.browser_origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    let name = HeaderName::from_static;
    let allowed = [
        AUTHORIZATION,
        CONTENT_TYPE,
        IF_MATCH,
        IF_NONE_MATCH,
        name(IDEMPOTENCY_KEY),
        name(CLOCK_SPEED),
        name("last-event-id"),
    ];
    let exposed = [ETAG, LOCATION, RETRY_AFTER, name(NOW), name(CLOCK_SPEED)];
    let layer = CorsLayer::new()
        .allow_origin(origins.clone())
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers(allowed)
        .expose_headers(exposed)
        .max_age(PREFLIGHT_KEPT);
    (!origins.is_empty()).then_some(layer)
}

/// How long a browser may keep the answer to its preflight request. Browsers allow at most two hours.
const PREFLIGHT_KEPT: Duration = Duration::from_secs(600);

/// Largest body on a route without authentication: a token or a time. The bodies of callers that are not known yet must
/// not take the memory that is kept for requests.
const MOST_OPEN_BODY: usize = 16 * 1024;

/// Most bodies that are read at the same time. Those of honest clients arrive at once, and each may take
/// `most_body` bytes of memory.
const MOST_READING: usize = 256;

struct Shared {
    party: PartyHandle,
    authenticator: Arc<Authenticator>,
    accounts: Arc<Accounts>,
    limits: Limits,
    about: About,
    look_every: Option<Millis>,
    /// Time of the last request for a poll of the batch system.
    nudged: Mutex<Option<Instant>>,
    stop: Stop,
    outbox: Option<Arc<Outbox>>,
    epochs: Arc<Epochs>,
    metrics: Arc<Metrics>,
    /// Keys of calls in progress.
    under_way: Arc<UnderWay>,
    rates: Arc<Rates>,
    /// Slots for reading bodies.
    reading: Shares<Name>,
    /// Permit to parse a large body; one at a time.
    large_bodies: Arc<Semaphore>,
    /// Slots for requests in progress.
    places: Shares<Name>,
    /// Where the output of jobs is read.
    outputs: JobOutputs,
    projects: Projects,
    /// Slots for reading the output of jobs.
    output_reads: Shares<Name>,
    /// Slots for event streams.
    watchers: Shares<Name>,
    /// Requests through trusted proxies, by client address.
    proxied: Shares<Source>,
}

impl Shared {
    fn new(served: Served, stop: Stop) -> Shared {
        let Served {
            party,
            authenticator,
            accounts,
            limits,
            about,
            commands,
            look_every,
            outbox,
            outputs,
            projects,
            epochs,
        } = served;
        let provider = authenticator.provider().cloned();
        let metrics = Metrics::new(&about, party.clone(), commands, outbox.clone(), provider);
        Shared {
            metrics: Arc::new(metrics),
            under_way: Arc::default(),
            rates: Arc::new(Rates::new(limits.requests_per_second, limits.burst)),
            reading: Shares::quarters(limits.concurrent.min(MOST_READING)),
            large_bodies: Arc::new(Semaphore::new(1)),
            places: Shares::quarters(limits.concurrent),
            watchers: Shares::quarters(limits.watchers),
            // Without a total, which `reading` and `places` bound: it only limits single addresses.
            proxied: Shares::new(usize::MAX, limits.connections_per_address),
            party,
            authenticator,
            accounts,
            limits,
            about,
            look_every,
            nudged: Mutex::new(None),
            stop,
            outbox,
            epochs,
            outputs,
            projects,
            output_reads: Shares::quarters(output::MOST_READS),
        }
    }

    /// The same service with other settings.
    fn with(&self, settings: Settings) -> Shared {
        let Settings { authenticator, accounts, limits, projects } = settings;
        self.reading.resize_quarters(limits.concurrent.min(MOST_READING));
        self.places.resize_quarters(limits.concurrent);
        self.watchers.resize_quarters(limits.watchers);
        self.proxied.resize(usize::MAX, limits.connections_per_address);
        let rate = |limits: &Limits| (limits.requests_per_second, limits.burst);
        let rates = if rate(&limits) == rate(&self.limits) {
            self.rates.clone()
        } else {
            Arc::new(Rates::new(limits.requests_per_second, limits.burst))
        };
        let nudged = *self.nudged.lock().unwrap_or_else(PoisonError::into_inner);
        Shared {
            party: self.party.clone(),
            authenticator,
            accounts,
            limits,
            about: self.about.clone(),
            look_every: self.look_every,
            nudged: Mutex::new(nudged),
            stop: self.stop.clone(),
            outbox: self.outbox.clone(),
            epochs: self.epochs.clone(),
            metrics: self.metrics.clone(),
            under_way: self.under_way.clone(),
            rates,
            reading: self.reading.clone(),
            large_bodies: self.large_bodies.clone(),
            places: self.places.clone(),
            outputs: self.outputs.clone(),
            projects,
            output_reads: self.output_reads.clone(),
            watchers: self.watchers.clone(),
            proxied: self.proxied.clone(),
        }
    }
}
