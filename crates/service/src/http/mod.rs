//! The HTTP face of a party: one set of routes for a site and a broker. A request that changes something becomes a call to the
//! party ([`crate::thread`]); one that only reads is answered by a copy of it. The answer becomes a document
//! ([`answer`]). What can be refused without the party is refused here, always as a problem document. Relies on
//! [`crate::security`] to say who calls. Never decides anything that a party should decide, and keeps nothing that must survive.
//!
//! - in: [`observe`] (trace, metrics, audit), [`requester`] (who, how often, through whom), [`request`] (what), [`limits`]
//! - routes: [`reservations`], [`queries`], [`jobs`], [`watch`], [`calendar`], [`health`]
//! - out: [`call`] (to the party and back), [`answer`]

pub(crate) mod answer;
mod calendar;
mod call;
mod health;
mod jobs;
pub(crate) mod limits;
pub mod listener;
mod metrics;
mod observe;
mod openapi;
mod queries;
mod request;
mod requester;
mod reservations;
pub mod serve;
mod shares;
mod watch;

pub use limits::Limits;
pub use openapi::openapi;
pub use serve::{Stop, Stopper};

use crate::notify::Outbox;
use crate::security::{Accounts, Authenticator};
use crate::thread::PartyHandle;
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use bookahead_api as api;
use bookahead_lrms::command::Runner;
use bookahead_protocol::{Millis, Name};
use listener::Source;
use metrics::Metrics;
use request::UnderWay;
use requester::Rates;
use shares::Shares;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Semaphore;

/// What is served, and how.
#[derive(Clone)]
pub struct Served {
    /// The party.
    pub party: PartyHandle,
    /// Who says who calls.
    pub authenticator: Arc<Authenticator>,
    /// Who says who calls on a Unix socket.
    pub accounts: Arc<Accounts>,
    /// What is too much.
    pub limits: Limits,
    /// What the party says of itself.
    pub about: About,
    /// Of a site with a batch system: what runs its commands.
    pub commands: Option<Runner>,
    /// Of a site with a batch system: how often it looks at that. Who probes after an older look has it look again.
    pub look_every: Option<Millis>,
    /// Tells owners; None where none can be told.
    pub outbox: Option<Arc<Outbox>>,
}

/// What a party says of itself.
#[derive(Debug, Clone)]
pub struct About {
    /// What it is called.
    pub name: Name,
    /// What it is.
    pub role: api::Role,
    /// The version of the software.
    pub version: String,
    /// Where others reach it.
    pub url: String,
    /// Of a broker: the name by which it knows a call that has come through it before.
    pub identity: Option<Name>,
}

/// All routes of a party; those who watch are let go when it stops.
pub fn router(served: Served, stop: Stop) -> Router {
    let shared = Arc::new(Shared::new(served, stop));
    let guard = from_fn_with_state(shared.clone(), requester::guard);
    let routes = openapi::open_routes().merge(openapi::guarded_routes().route_layer(guard));
    Router::from(routes)
        .fallback(answer::nothing_here)
        .method_not_allowed_fallback(answer::not_that_method)
        .layer(DefaultBodyLimit::max(shared.limits.most_body))
        .layer(from_fn_with_state(shared.clone(), observe::observe))
        .with_state(shared)
}

/// Bodies that are read at the same time. Those of honest clients are there at once, and each may take as much memory as
/// `most_body` says.
const MOST_READING: usize = 256;

struct Shared {
    party: PartyHandle,
    authenticator: Arc<Authenticator>,
    accounts: Arc<Accounts>,
    limits: Limits,
    about: About,
    look_every: Option<Millis>,
    /// When the party was last asked to look at its batch system.
    nudged: Mutex<Option<Instant>>,
    stop: Stop,
    outbox: Option<Arc<Outbox>>,
    metrics: Metrics,
    /// Keys whose calls are not answered yet.
    under_way: Arc<UnderWay>,
    rates: Rates,
    /// Places for requests whose bodies are being read.
    reading: Shares<Name>,
    /// The turn to parse a large body.
    large_bodies: Arc<Semaphore>,
    /// Places for requests that are being worked on.
    places: Shares<Name>,
    /// Places for those who watch.
    watchers: Shares<Name>,
    /// Requests that come through proxies, by where the proxies say that they are from.
    proxied: Shares<Source>,
    /// The OpenAPI document, as it is sent.
    openapi: Bytes,
}

impl Shared {
    fn new(served: Served, stop: Stop) -> Shared {
        let Served { party, authenticator, accounts, limits, about, commands, look_every, outbox } = served;
        Shared {
            metrics: Metrics::new(&about, commands, outbox.clone(), authenticator.provider().cloned()),
            under_way: Arc::default(),
            rates: Rates::new(limits.requests_per_second, limits.burst),
            reading: Shares::quarters(limits.concurrent.min(MOST_READING)),
            large_bodies: Arc::new(Semaphore::new(1)),
            places: Shares::quarters(limits.concurrent),
            watchers: Shares::quarters(limits.watchers),
            proxied: Shares::new(usize::MAX, limits.connections_per_address),
            openapi: openapi::text().into(),
            party,
            authenticator,
            accounts,
            limits,
            about,
            look_every,
            nudged: Mutex::new(None),
            stop,
            outbox,
        }
    }
}
