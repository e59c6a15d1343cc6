//! The HTTP face of a site over real sockets: what its routes answer and refuse, and that all of it is described.

mod life;
mod limits;
mod looking;
mod once;
mod refusals;
mod watching;
mod wire;

use bookahead_api as api;
use bookahead_client::{Client, Options};
use bookahead_lrms::builtin::sources;
use bookahead_lrms::{Builtin, Hosted};
use bookahead_plan::placement::{self, Admission, Method, SlotRules};
use bookahead_plan::{Capacity, Policy, Time};
use bookahead_protocol::Resource;
use bookahead_protocol::ledger::{Offered, Rules};
use bookahead_service::clock::Clock;
use bookahead_service::http::{About, Limits, Served, Stop, Stopper, router_until, serve};
use bookahead_service::keeper::{Door, Keeper, Keeping};
use bookahead_service::security::{Claims, Gate, Keys, Role, Secret, TokenRules, mint};
use bookahead_service::site::Site;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
pub(crate) use wire::{Reply, Wire};

/// What tokens are signed with here.
const SECRET: &[u8] = b"only tests sign their tokens with this";

/// Nothing here takes that long, unless it hangs.
const LONG: Duration = Duration::from_secs(20);

/// A site named north with one cluster, at work behind its routes.
pub(crate) struct North {
    pub(crate) address: SocketAddr,
    stopper: Stopper,
    keeper: Keeper,
    serving: JoinHandle<()>,
    _folder: TempDir,
}

impl North {
    /// With eight processors and the usual limits.
    pub(crate) async fn start() -> North {
        North::with_limits(Limits::default()).await
    }

    /// With eight processors.
    pub(crate) async fn with_limits(limits: Limits) -> North {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut keeping = Keeping::new("north".into(), folder.path().join("journal"), Clock::WALL);
        keeping.options = crate::unsynced();
        let keeper = keeping.start(|_| site()).unwrap();
        let (stopper, stop) = Stop::pair();
        let about = About {
            name: "north".into(),
            role: api::Role::Site,
            version: "0.1.0".into(),
            url: format!("http://{address}"),
            identity: None,
        };
        let gate = Gate::new(Keys::of_secret(Secret::new(SECRET).unwrap()), TokenRules::default());
        let served =
            Served { door: keeper.door().clone(), gate: Arc::new(gate), limits, about, commands: None };
        let router = router_until(served, stop.clone());
        let mut stopping = stop;
        let until = async move { stopping.said().await };
        let serving = tokio::spawn(serve::serve(listener, None, router, until));
        North { address, stopper, keeper, serving, _folder: folder }
    }

    /// The way to the party, past the routes.
    pub(crate) fn door(&self) -> &Door {
        self.keeper.door()
    }

    /// Somebody who speaks plain HTTP.
    pub(crate) fn wire(&self, user: &str, role: Role) -> Wire {
        Wire::new(self.address, Some(token(user, role)))
    }

    /// Ada, who books for herself.
    pub(crate) fn ada(&self) -> Wire {
        self.wire("ada", Role::User)
    }

    /// Somebody who uses the client library.
    pub(crate) fn client(&self, user: &str, role: Role) -> Client {
        let options = Options { token: Some(token(user, role)), ..Options::default() };
        Client::new(&format!("http://{}", self.address), options).unwrap()
    }

    /// Keeps the head from answering until the guard is dropped.
    pub(crate) fn hold_up(&self) -> Held {
        let (release, wait) = mpsc::channel::<()>();
        let door = self.door().clone();
        let (begun, held) = mpsc::channel();
        tokio::spawn(async move {
            let look = door.look(LONG, move |_, _| {
                begun.send(()).unwrap();
                let _ = wait.recv_timeout(LONG);
            });
            look.await
        });
        tokio::task::block_in_place(|| held.recv_timeout(LONG)).unwrap();
        Held(release)
    }

    /// Stops, and waits until it has.
    pub(crate) async fn end(self) {
        self.stopper.stop();
        tokio::time::timeout(LONG, self.serving).await.unwrap().unwrap();
        self.keeper.close().unwrap();
    }
}

/// The head answers nobody for as long as this is there.
pub(crate) struct Held(#[allow(dead_code, reason = "its end is what is waited for")] mpsc::Sender<()>);

fn site() -> Site {
    let placement = placement::Rules {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules::default(),
        admission: Admission::default(),
    };
    let resource = Resource::new("north", "cluster", "processors", 8);
    let hosted = Hosted {
        name: "cluster".into(),
        capacity: Capacity(8),
        policy: Policy::EASY,
        source: Box::new(sources::Nothing),
    };
    let lrms = Builtin::new(vec![hosted], Clock::WALL.now(), None).unwrap();
    let about =
        json!({"name": "north", "url": "http://north", "role": "site", "resources": [], "state": "up"});
    let about = serde_json::from_value(about).unwrap();
    Site::new(Rules::new("north", vec![Offered { resource, placement }]), about, Box::new(lrms)).unwrap()
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
    };
    mint(&Secret::new(SECRET).unwrap(), &claims)
}

/// When the tests began: a request that is repeated is the same to the second.
static BEGAN: LazyLock<i64> = LazyLock::new(|| Clock::WALL.now().second().0);

/// A time so many seconds from then.
pub(crate) fn ahead(seconds: i64) -> String {
    api::Timestamp::try_from(Time(*BEGAN + seconds)).unwrap().to_string()
}

/// An hour of some processors, to begin in an hour at the earliest and to end in eleven at the latest.
pub(crate) fn request(capacity: u32) -> Value {
    json!({"parts": [{
        "capacity": capacity, "duration_seconds": 3600, "earliest_start": ahead(3_600), "latest_end": ahead(39_600)
    }]})
}

/// The same, to be reserved.
pub(crate) fn reserve(capacity: u32) -> Value {
    json!({"request": request(capacity)})
}
