//! The HTTP face of a party: one set of routes for a site and a broker. A request that changes something becomes a call to the
//! party ([`crate::thread`]); one that only reads is answered by a copy of it. The answer becomes a document
//! ([`documents`]). What can be refused without the party is refused here, always as a problem document. Relies on
//! [`crate::security`] to say who calls. Never decides anything that a party should decide, and keeps nothing that must survive.
//!
//! - on the way in: [`observe`] (trace, metrics), [`guard`] (who, how often, how many at once), [`via`] (through whom), [`asking`] (what he may),
//!   [`body`] and [`query`] (what), [`check`] (within bounds), [`key`] (once)
//! - the routes: [`probes`], [`reservations`], [`looking`], [`jobs`], [`watch`], [`calendar`], [`health`]
//! - on the way out: [`call`] (to the party and back), [`answer`], [`problem`], [`audit`], [`server_clock`]

mod answer;
mod asking;
mod audit;
mod body;
mod calendar;
mod call;
mod check;
mod conditions;
pub(crate) mod documents;
mod guard;
mod health;
mod jobs;
mod key;
mod limits;
mod looking;
mod metrics;
mod observe;
mod openapi;
mod probes;
mod problem;
mod query;
mod rate;
mod reservations;
pub mod serve;
mod server_clock;
mod stop;
mod trace;
mod via;
mod watch;

pub use limits::Limits;
pub use openapi::openapi;
pub use stop::{Stop, Stopper};

use crate::security::Gate;
use crate::thread::PartyHandle;
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use bookahead_api as api;
use bookahead_lrms::command::Runner;
use bookahead_protocol::{Millis, Name};
use key::UnderWay;
use metrics::Metrics;
use rate::Rates;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Semaphore;

/// What is served, and how.
#[derive(Clone)]
pub struct Served {
    /// The party.
    pub party: PartyHandle,
    /// Who says who calls.
    pub gate: Arc<Gate>,
    /// What is too much.
    pub limits: Limits,
    /// What the party says of itself.
    pub about: About,
    /// Of a site with a batch system: what runs its commands.
    pub commands: Option<Runner>,
    /// Of a site with a batch system: how often it looks at that. Who probes after an older look has it look again.
    pub look_every: Option<Millis>,
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

/// All routes of a party.
pub fn router(served: Served) -> Router {
    router_until(served, Stop::never())
}

/// All routes of a party; those who watch are let go when it stops.
pub fn router_until(served: Served, stop: Stop) -> Router {
    let shared = Arc::new(Shared::new(served, stop));
    let guard = from_fn_with_state(shared.clone(), guard::guard);
    let routes = openapi::open_routes().merge(openapi::guarded_routes().route_layer(guard));
    Router::from(routes)
        .fallback(problem::nothing_here)
        .method_not_allowed_fallback(problem::not_that_method)
        .layer(DefaultBodyLimit::max(shared.limits.most_body))
        .layer(from_fn_with_state(shared.clone(), observe::observe))
        .with_state(shared)
}

/// What all handlers share.
struct Shared {
    party: PartyHandle,
    gate: Arc<Gate>,
    limits: Limits,
    about: About,
    look_every: Option<Millis>,
    /// When the party was last asked to look at its batch system.
    nudged: Mutex<Option<Instant>>,
    stop: Stop,
    metrics: Metrics,
    /// Keys whose calls are not answered yet.
    under_way: Arc<UnderWay>,
    rates: Rates,
    /// Places for requests that are being worked on.
    places: Arc<Semaphore>,
    /// Places for those who watch.
    watchers: Arc<Semaphore>,
    /// The OpenAPI document, as it is sent.
    openapi: Bytes,
}

impl Shared {
    fn new(served: Served, stop: Stop) -> Shared {
        let Served { party, gate, limits, about, commands, look_every } = served;
        Shared {
            metrics: Metrics::new(&about, commands),
            under_way: Arc::default(),
            rates: Rates::new(limits.requests_per_second, limits.burst),
            places: Arc::new(Semaphore::new(limits.concurrent.min(Semaphore::MAX_PERMITS))),
            watchers: Arc::new(Semaphore::new(limits.watchers.min(Semaphore::MAX_PERMITS))),
            openapi: openapi::text().into(),
            party,
            gate,
            limits,
            about,
            look_every,
            nudged: Mutex::new(None),
            stop,
        }
    }
}
