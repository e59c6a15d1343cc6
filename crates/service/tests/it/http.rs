//! The HTTP interface of a site over real sockets: answers and refusals of its routes, all of them described.

mod access;
mod life;
mod limits;
mod looking;
mod once;
mod pages;
mod refusals;
mod watching;
mod wire;

use bookahead_api as api;
use bookahead_client::{Client, Options};
use bookahead_lrms::{Builtin, Hosted};
use bookahead_party::Heartbeat;
use bookahead_party::site::{Site, SiteOptions};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Time};
use bookahead_protocol::ledger::{Offered, Rules};
use bookahead_protocol::{Millis, Resource};
use bookahead_service::clock::Clock;
use bookahead_service::http::listener::Listener;
use bookahead_service::http::{About, JobOutputs, Limits, Served, Stop, Stopper, router, serve};
use bookahead_service::journal::Store;
use bookahead_service::security::{
    Accounts, Authenticator, Claims, Keys, Role, Secret, Security, TokenRules, mint,
};
use bookahead_service::thread::{BatchSide, Outlets, PartyError, PartyHandle, PartyOptions, PartyThread};
use bookahead_tests::postgres::{Database, Locked};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, block_in_place};
pub(crate) use wire::{Reply, Wire};

/// Secret that signs tokens here.
const SECRET: &[u8] = b"only tests sign their tokens with this";

/// Longer than anything here takes, unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running site named north with one cluster. Its journal is in a file, or in a database if the tests run with
/// PostgreSQL.
pub(crate) struct North {
    pub(crate) address: SocketAddr,
    stopper: Stopper,
    thread: PartyThread,
    serving: JoinHandle<()>,
    folder: TempDir,
    database: Option<Database>,
}

impl North {
    /// With eight processors and default limits.
    pub(crate) async fn start() -> North {
        North::with_limits(Limits::default()).await
    }

    /// With eight processors.
    pub(crate) async fn with_limits(limits: Limits) -> North {
        let scheduler = BatchSide::Inline(Box::new(scheduler()));
        North::with_batch(limits, None, (site_rules(None), SiteOptions::default()), |_| scheduler).await
    }

    /// With another batch system than the built-in scheduler. A probe after a poll older than `look_every` triggers
    /// another.
    pub(crate) async fn with_batch(
        limits: Limits,
        look_every: Option<Millis>,
        (rules, options): (Rules, SiteOptions),
        batch: impl FnOnce(&PartyHandle) -> BatchSide,
    ) -> North {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(rules, about(), options).unwrap();
        let database = Database::of_this_run();
        let place = database.as_ref().map_or(folder.path().join("journal"), |database| database.url().into());
        let store = Store::parse(&place, folder.path()).unwrap();
        let mut options = PartyOptions::new("north".into(), store, Clock::WALL);
        options.options = crate::unsynced();
        let start = || options.start(site, |party| Outlets::only(batch(party))).unwrap();
        let thread = if database.is_some() { block_in_place(start) } else { start() };
        let (stopper, stop) = Stop::pair();
        let about = About {
            name: "north".into(),
            role: api::Role::Site,
            version: "0.1.0".into(),
            url: format!("http://{address}"),
            identity: None,
        };
        let authenticator =
            Authenticator::new(Keys::of_secret(Secret::new(SECRET).unwrap()), TokenRules::default());
        let (party, authenticator) = (thread.handle().clone(), Arc::new(authenticator));
        let accounts = Arc::new(Accounts::new(&Security::default()));
        let served = Served {
            party,
            authenticator,
            accounts,
            limits,
            about,
            commands: None,
            look_every,
            outbox: None,
            outputs: JobOutputs::None,
            projects: [("physics".into(), ["ada", "kim"].map(Into::into).into())].into(),
            epochs: Default::default(),
        };
        let router = router(served, stop.clone());
        let mut stopping = stop;
        let until = async move { stopping.said().await };
        let serving = tokio::spawn(serve::serve(
            serve::Bounds::default(),
            vec![Listener::Tcp(listener, None)],
            router,
            until,
        ));
        North { address, stopper, thread, serving, folder, database }
    }

    /// Handle of the party, bypassing the routes.
    pub(crate) fn party(&self) -> &PartyHandle {
        self.thread.handle()
    }

    /// A client that speaks plain HTTP.
    pub(crate) fn wire(&self, user: &str, role: Role) -> Wire {
        Wire::new(self.address, Some(token(user, role)))
    }

    /// Ada, with the role user.
    pub(crate) fn ada(&self) -> Wire {
        self.wire("ada", Role::User)
    }

    /// A client with the client library.
    pub(crate) fn client(&self, user: &str, role: Role) -> Client {
        let options = Options { token: Some(token(user, role)), ..Options::default() };
        Client::new(&format!("http://{}", self.address), options).unwrap()
    }

    /// Blocks the disk until the guard is dropped, so that no reply can leave.
    pub(crate) fn hold_up(&self) -> Held {
        if let Some(database) = &self.database {
            return Held::Database(database.lock());
        }
        let journal = rusqlite::Connection::open(self.folder.path().join("journal")).unwrap();
        journal.execute_batch("BEGIN IMMEDIATE").unwrap();
        Held::File(journal)
    }

    /// Waits until the party has ended by itself.
    pub(crate) fn ended(self) -> Result<(), PartyError> {
        self.thread.wait()
    }

    /// Stops the site and waits for its end.
    pub(crate) async fn end(self) {
        self.stopper.stop();
        tokio::time::timeout(LONG, self.serving).await.unwrap().unwrap();
        self.thread.close().unwrap();
    }
}

/// No reply leaves while this exists.
#[allow(dead_code, reason = "dropping it releases the lock")]
pub(crate) enum Held {
    File(rusqlite::Connection),
    Database(Locked),
}

/// Eight processors. With `consent`, the site waits for its batch system.
pub(crate) fn site_rules(consent: Option<Millis>) -> Rules {
    let placement = placement::Rules {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules::default(),
        admission: Admission::default(),
    };
    let resource = Resource::new("north", "cluster", "processors", 8);
    Rules { consent, ..Rules::new("north", vec![Offered { resource, placement }]) }
}

fn about() -> Heartbeat {
    Heartbeat {
        changes: None,
        registered_by: None,
        name: "north".into(),
        url: "http://north".into(),
        role: bookahead_party::Role::Site,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: None,
        batch: None,
        version: None,
    }
}

fn scheduler() -> Builtin {
    Builtin::new(vec![Hosted::new("cluster".into(), Capacity(8))], Clock::WALL.now(), None).unwrap()
}

/// A token of a user with one role.
pub(crate) fn token(user: &str, role: Role) -> String {
    let claims = Claims {
        user: user.into(),
        roles: BTreeSet::from([role]),
        expires: Clock::WALL.now().second().0 + 3_600,
        not_before: None,
        issued: None,
        audience: None,
        issuer: None,
        id: None,
    };
    mint(&Secret::new(SECRET).unwrap(), &claims)
}

/// Start of the tests, so that repeated requests are equal to the second.
static BEGAN: LazyLock<i64> = LazyLock::new(|| Clock::WALL.now().second().0);

/// A time this many seconds after the start.
pub(crate) fn ahead(seconds: i64) -> String {
    api::Timestamp::try_from(Time(*BEGAN + seconds)).unwrap().to_string()
}

/// An hour of some processors, starting in an hour at the earliest and ending in eleven at the latest.
pub(crate) fn request(capacity: u32) -> Value {
    json!({"parts": [{
        "capacity": capacity, "duration_seconds": 3600, "earliest_start": ahead(3_600), "latest_end": ahead(39_600)
    }]})
}

/// The same as a reservation.
pub(crate) fn reserve(capacity: u32) -> Value {
    json!({"request": request(capacity)})
}
