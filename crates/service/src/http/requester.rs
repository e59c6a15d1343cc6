//! The caller of a request. The [`guard`] in front of all routes except the open ones authenticates the caller,
//! enforces rate and concurrency limits, refuses cycles of brokers and mismatched clock speeds, and passes a
//! [`Requester`] to the handler. A handler takes [`Requester`], [`Changing`] or [`Registering`], depending on the
//! permission that its route needs.

use super::answer::{Refusal, ToldCode};
use super::listener::{PeerAddress, Source};
use super::observe::{Line, Traced};
use super::request::{BodyLimit, broken};
use super::serve::Peer;
use super::shares::{Full, Place, Shares};
use super::{Shared, calendar, observe, serve, session};
use crate::clock::Clock;
use crate::security::{Identity, Role};
use axum::body::{Bytes, HttpBody as _};
use axum::extract::{DefaultBodyLimit, FromRequest as _, FromRequestParts, MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bookahead_api::{Code, Problem, Timestamp, header};
use bookahead_party::{Origin, Viewer};
use bookahead_protocol as protocol;
use bookahead_protocol::{Caller, Name, Why};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone)]
pub(super) struct Requester(Arc<Inner>);

struct Inner {
    identity: Identity,
    /// Users whose invitations the caller does not want to see.
    blocked: Arc<BTreeSet<Name>>,
    origin: Origin,
    line: Option<Arc<Line>>,
}

/// A caller that may book and change.
pub(super) struct Changing(pub(super) Requester);

/// A caller that may register peers.
pub(super) struct Registering(pub(super) Requester);

impl Requester {
    pub(super) fn new(
        identity: Identity,
        blocked: Arc<BTreeSet<Name>>,
        origin: Origin,
        line: Option<Arc<Line>>,
    ) -> Requester {
        Requester(Arc::new(Inner { identity, blocked, origin, line }))
    }

    pub(super) fn blocked(&self) -> Arc<BTreeSet<Name>> {
        self.0.blocked.clone()
    }

    pub(super) fn user(&self) -> &Name {
        &self.0.identity.user
    }

    pub(super) fn subject(&self) -> &Name {
        self.0.identity.subject()
    }

    pub(super) fn caller(&self) -> Caller {
        self.0.identity.caller()
    }

    /// The caller for a query about one reservation. The party knows operators but not readers, so a reader is
    /// passed on as an operator. Queries change nothing.
    pub(super) fn looking_caller(&self) -> Caller {
        let mut caller = self.caller();
        let operator = Name::from(Role::Operator.word());
        if self.viewer().sees_all && !caller.roles.contains(&operator) {
            caller.roles.push(operator);
        }
        caller
    }

    pub(super) fn viewer(&self) -> Viewer {
        Viewer { blocked: self.blocked(), ..self.0.identity.viewer() }
    }

    /// Owner to filter by. Callers who may not see everything are limited to their own.
    pub(super) fn whose(&self, owner: Option<Name>) -> Result<Option<Name>, Refusal> {
        let viewer = self.viewer();
        match owner {
            Some(owner) if !viewer.sees(&owner) => {
                let why = format!("{} may not see what belongs to {owner}; remove owner", viewer.user);
                Err(Refusal::new(Code::Forbidden, why))
            }
            None if !viewer.sees_all => Ok(Some(viewer.user)),
            owner => Ok(owner),
        }
    }

    /// Which reservations to list: the owner to filter by, and the user that must be allowed to see them.
    pub(super) fn lists(&self, owner: Option<Name>) -> Result<(Option<Name>, Option<Name>), Refusal> {
        let viewer = self.viewer();
        let owner = owner.map(|owner| self.whose(Some(owner))).transpose()?.flatten();
        Ok((owner, (!viewer.sees_all).then_some(viewer.user)))
    }

    /// The user whose access this caller ends or gives: itself, or, as an operator, another one.
    pub(super) fn manages(&self, user: Option<Name>) -> Result<Name, Refusal> {
        let Identity { user: own, roles, through } = &self.0.identity;
        if through.is_some() {
            let why = "a broker cannot do this for a user; call the service itself";
            return Err(Refusal::new(Code::Forbidden, why));
        }
        match user {
            Some(other) if other != *own && !roles.contains(&Role::Operator) => Err(Refusal::new(
                Code::Forbidden,
                format!("{own} may not end the access of {other}; this requires the role operator"),
            )),
            user => {
                let user = user.unwrap_or_else(|| own.clone());
                self.is_about(&user);
                Ok(user)
            }
        }
    }

    /// Trace and brokers that the request came through.
    pub(super) fn origin(&self) -> Origin {
        self.0.origin.clone()
    }

    /// The audit line, if the request may change something.
    pub(super) fn line(&self) -> Option<&Arc<Line>> {
        self.0.line.as_ref()
    }

    /// Records the subject of the request in the audit line.
    pub(super) fn is_about(&self, subject: &impl ToString) {
        if let Some(line) = self.line() {
            line.note_subject(subject.to_string());
        }
    }

    fn unless_forbidden(self, may: bool, what: &str, roles: &str) -> Result<Requester, Refusal> {
        let forbidden = || {
            Refusal::new(
                Code::Forbidden,
                format!("{} may not {what}; this requires the role {roles}", self.user()),
            )
        };
        if may { Ok(self) } else { Err(forbidden()) }
    }
}

impl<S: Sync> FromRequestParts<S> for Requester {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Requester, Refusal> {
        // All routes with this extractor are behind the guard.
        let found = parts.extensions.get::<Requester>().cloned();
        found.ok_or_else(|| Refusal::internal("the caller was not authenticated; this is a defect"))
    }
}

impl<S: Sync> FromRequestParts<S> for Changing {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Changing, Refusal> {
        let requester = Requester::from_request_parts(parts, state).await?;
        let may = requester.0.identity.may_change();
        requester.unless_forbidden(may, "book or change anything", "user or operator").map(Changing)
    }
}

impl<S: Sync> FromRequestParts<S> for Registering {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Registering, Refusal> {
        let requester = Requester::from_request_parts(parts, state).await?;
        let may = requester.0.identity.may_register();
        requester.unless_forbidden(may, "register sites", "broker or operator").map(Registering)
    }
}

pub(super) async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    if let Err(refusal) = session::apply(&shared, &mut request) {
        observe::turned_away(&request, &refusal);
        return refusal.into_response();
    }
    let identified = match calendar::address(&request) {
        Some(secret) => shared.calendar_reader(secret),
        None => shared.identify(serve::peer(request.extensions()), request.headers()).await,
    };
    let admitted = match identified {
        Ok(identity) => match admit(&shared, &identity, &request) {
            Ok(via) => {
                let party = calling_party(&identity, shared.authenticator.is_open());
                shared.epochs.admit(party.as_ref(), request.headers()).await.map(|()| (identity, via))
            }
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal),
    };
    let (identity, via) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => {
            observe::turned_away(&request, &refusal);
            return refusal.into_response();
        }
    };
    serve::authenticated(request.extensions());
    let arrived = async {
        // The body is read before a slot for the work is taken: slow clients must not occupy those.
        let of_address = shared.proxied_place(&request)?;
        let request = shared.with_body(&identity.user, request).await?;
        let place = shared.take_place(&shared.places, &identity.user, "concurrent")?;
        Ok::<_, Refusal>((request, (of_address, place)))
    };
    let (mut request, _place) = match arrived.await {
        Ok(arrived) => arrived,
        Err(refusal) => return refusal.into_response(),
    };
    let line = Arc::new(Line::new(&identity, &request));
    let logged = changes(&request).then(|| line.clone());
    let blocked = shared.authenticator.lists().blocked_by(&identity.user);
    let trace = request.extensions().get::<Traced>().cloned().unwrap_or_default().trace;
    request.extensions_mut().insert(Requester::new(identity, blocked, Origin { trace, via }, logged));
    let response = next.run(request).await;
    let told = response.extensions().get::<ToldCode>().map(|told| told.0.as_str());
    // Handlers have noted a more specific outcome, if they know one.
    line.note_outcome(told.unwrap_or(response.status().as_str()));
    response
}

/// The broker or site that calls, for itself or for a user. Without authentication every caller may act as any, and
/// only the name of the party counts.
fn calling_party(identity: &Identity, is_open: bool) -> Option<Name> {
    match &identity.through {
        Some(broker) => Some(broker.clone()),
        None if is_open => Some(Name::from("")),
        None => identity.may_register().then(|| identity.user.clone()),
    }
}

impl Shared {
    /// Identifies the caller by token or certificate, or by account on a Unix socket.
    pub(super) async fn identify(
        &self,
        peer: Option<Peer>,
        headers: &HeaderMap,
    ) -> Result<Identity, Refusal> {
        let certificate = peer.and_then(|peer| peer.certificate);
        let by_token = headers.contains_key(AUTHORIZATION) && !self.authenticator.is_open();
        let identified = match peer.map(|peer| peer.address) {
            Some(PeerAddress::Account(account)) if !by_token => {
                self.accounts.identify(account, headers).await
            }
            _ => self.authenticator.authenticate(headers, certificate.as_ref()).await,
        };
        Ok(identified?)
    }

    /// Reads the whole body before the work begins, so that a slow body takes no slot from others.
    async fn with_body(&self, user: &Name, request: Request) -> Result<Request, Refusal> {
        if request.body().is_end_stream() {
            return Ok(request);
        }
        let _reading = self.take_place(&self.reading, user, "bodies")?;
        let (parts, body) = request.into_parts();
        // Without the head, which would have to be copied.
        let mut bare = Request::new(body);
        DefaultBodyLimit::max(self.limits.most_body).apply(&mut bare);
        let whole = Bytes::from_request(bare, self).await;
        let whole =
            whole.map_err(|rejection| broken(&rejection, BodyLimit::Configured(self.limits.most_body)))?;
        Ok(Request::from_parts(parts, whole.into()))
    }

    fn take_place(
        &self,
        places: &Shares<Name>,
        user: &Name,
        what: &'static str,
    ) -> Result<Place<Name>, Refusal> {
        places.take(user).map_err(|full| {
            self.metrics.turned_away(what);
            match full {
                Full::All => {
                    let why =
                        "the service is at its limit of concurrent requests; try again in a moment";
                    Refusal::new(Code::Unavailable, why)
                }
                Full::Own => {
                    let most = places.most_each();
                    let why =
                        format!("{user} has {most} requests in progress, the limit for one user; try again in a moment");
                    Refusal::new(Code::TooManyRequests, why).retry_after(1)
                }
            }
        })
    }

    /// A slot for the client address that a trusted proxy reports.
    fn proxied_place(&self, request: &Request) -> Result<Option<Place<Source>>, Refusal> {
        let Some(Peer { address: PeerAddress::Tcp(proxy), .. }) = serve::peer(request.extensions()) else {
            return Ok(None);
        };
        let is_proxy = |address: &IpAddr| self.limits.trusted_proxies.contains(&address.to_canonical());
        if !is_proxy(&proxy.ip()) {
            return Ok(None);
        }
        let Some(client) = forwarded_for(request.headers(), is_proxy) else { return Ok(None) };
        let place = self.proxied.take(&Source::of_address(client)).map_err(|_| {
            self.metrics.turned_away("address");
            let most = self.proxied.most_each();
            let why = format!(
                "{client} has {most} requests in progress, the limit for one address; try again in a moment"
            );
            Refusal::new(Code::TooManyRequests, why).retry_after(1)
        })?;
        Ok(Some(place))
    }
}

/// The last address in `X-Forwarded-For` that is not a trusted proxy. Clients can forge the addresses before it.
fn forwarded_for(headers: &HeaderMap, is_proxy: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
    let lists = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let addresses: Vec<&str> = lists.flat_map(|list| list.split(',')).map(str::trim).collect();
    let mut from_the_last = addresses.into_iter().rev().map_while(|text| text.parse::<IpAddr>().ok());
    from_the_last.find(|address| !is_proxy(address))
}

/// Checks rate, clock and cycles. Returns the brokers that the call came through.
fn admit(shared: &Shared, identity: &Identity, request: &Request) -> Result<Via, Refusal> {
    let headers = request.headers();
    // Counted after authentication, because limits are per user. A broker that calls for a user counts as that user;
    // its own calls, such as heartbeats, grow with its bookings, and it is trusted.
    // Without authentication every caller may be any user or broker, so there is no one to count for.
    let account =
        matches!(serve::peer(request.extensions()), Some(Peer { address: PeerAddress::Account(_), .. }));
    let known = account || !shared.authenticator.is_open();
    let counts = known && !identity.roles.contains(&Role::Broker);
    let taken = if counts { shared.rates.take(&identity.user, Instant::now()) } else { Ok(()) };
    taken.map_err(|wait| {
        shared.metrics.turned_away("rate");
        let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
        let why = format!(
            "{} exceeds the limit of {} requests per second; wait for {seconds} s",
            identity.user, shared.limits.requests_per_second
        );
        Refusal::new(Code::TooManyRequests, why).retry_after(seconds)
    })?;
    check_clock(shared.party.clock(), headers)?;
    through(headers, shared.about.identity.as_ref())
}

/// Whether a request may change something. A probe does not, and neither does trying a slot, although it is a POST.
pub(super) fn changes(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
        && ![super::reservations::PATH, super::queries::TRY_SLOT].contains(&route(request))
}

pub(super) fn route(request: &Request) -> &str {
    request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str)
}

/// Most users with a bucket, to bound the memory.
const MOST_BUCKETS: usize = 10_000;

pub(super) struct Rates {
    /// Tokens per second; 0 is no limit.
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<Name, Bucket>>,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rates {
    /// `per_second` 0 means no limit. The burst is at least the requests of one second.
    pub(super) fn new(per_second: u32, burst: u32) -> Rates {
        let burst = f64::from(burst.max(per_second).max(1));
        Rates { per_second: f64::from(per_second), burst, buckets: Mutex::default() }
    }

    /// Counts a request of a user. Fails with the time to wait.
    pub(super) fn take(&self, user: &Name, now: Instant) -> Result<(), Duration> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_BUCKETS && !buckets.contains_key(user) {
            // A full bucket is the same as none. If that frees nothing, all users start anew: better than unbounded
            // memory.
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
            if buckets.len() >= MOST_BUCKETS {
                buckets.clear();
            }
        }
        let full = || Bucket { tokens: self.burst, at: now };
        let bucket = buckets.entry(user.clone()).or_insert_with(full);
        let tokens = self.filled(bucket, now);
        let enough = tokens >= 1.0;
        *bucket = Bucket { tokens: if enough { tokens - 1.0 } else { tokens }, at: now };
        if enough { Ok(()) } else { Err(Duration::from_secs_f64((1.0 - tokens) / self.per_second)) }
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }
}

/// Identities of the brokers that forwarded a call, first broker first.
pub(super) type Via = Arc<[Name]>;

/// Parses `Bookahead-Via`, and refuses cycles and long chains. `itself` is the identity of a broker.
pub(super) fn through(headers: &HeaderMap, itself: Option<&Name>) -> Result<Via, Refusal> {
    let mut values = headers.get_all(header::VIA).iter();
    let Some(value) = values.next() else { return Ok(Via::default()) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let text = text.ok_or_else(|| Refusal::bad_request("Bookahead-Via must appear once, in plain ASCII"))?;
    let via =
        header::read_names(text).map_err(|fault| Refusal::bad_request(format!("Bookahead-Via: {fault}")))?;
    if itself.is_some_and(|itself| via.contains(itself)) {
        return Err(protocol::Problem::new(Why::Circle).into());
    }
    // A broker would add itself before it forwards the call; a site forwards nothing.
    if via.len() + usize::from(itself.is_some()) > header::MOST_VIA {
        let detail = format!(
            "the call has come through {} brokers; at most {} are allowed",
            via.len(),
            header::MOST_VIA
        );
        return Err(Problem { detail, ..protocol::Problem::new(Why::Circle).into() }.into());
    }
    Ok(via.into())
}

/// Adds the clock to the headers of an answer, unless its time is outside of the calendar.
pub(super) fn tell_clock(clock: Clock, headers: &mut HeaderMap) {
    let now = Timestamp::try_from(clock.now().second()).ok();
    if let Some(now) = now.and_then(|now| HeaderValue::from_str(&now.to_string()).ok()) {
        headers.insert(header::NOW, now);
    }
    if clock.speed() != 1 {
        headers.insert(header::CLOCK_SPEED, clock.speed().into());
    }
}

/// Refuses a request for a clock of another speed. Requests without the header are accepted.
pub(super) fn check_clock(clock: Clock, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(value) = headers.get(header::CLOCK_SPEED) else { return Ok(()) };
    let meant = value.to_str().ok().and_then(|text| text.trim().parse::<u32>().ok());
    let meant = meant.ok_or_else(|| Refusal::bad_request("Bookahead-Clock-Speed must be a whole number"))?;
    if meant == clock.speed() {
        return Ok(());
    }
    let why = format!(
        "the times of this request are for a clock of speed {meant}, but this clock has speed {}; compute them with \
         Bookahead-Now and Bookahead-Clock-Speed of this answer",
        clock.speed()
    );
    Err(Refusal::new(Code::OtherClock, why))
}

#[cfg(test)]
mod rate_tests {
    use super::*;

    #[test]
    fn a_user_may_ask_in_bursts_and_then_at_the_rate() {
        let (rates, start) = (Rates::new(2, 3), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let asks = |millis| rates.take(&"ada".into(), at(millis)).is_ok();
        assert_eq!(
            [0, 0, 0, 0, 400, 500, 600, 1_000].map(asks),
            [true, true, true, false, false, true, false, true]
        );
        assert_eq!(rates.take(&"ada".into(), at(1_000)), Err(Duration::from_millis(500)));
        assert!(rates.take(&"grace".into(), at(1_000)).is_ok(), "others have buckets of their own");
        assert!((0..1_000).all(|_| Rates::new(0, 0).take(&"ada".into(), start).is_ok()));
    }

    #[test]
    fn proxies_are_believed_only_what_they_have_seen_themselves() {
        let proxies: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            forwarded_for(&headers, |address| proxies.contains(address)).map(|address| address.to_string())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["192.0.2.7"]).as_deref(), Some("192.0.2.7"));
        assert_eq!(of(&["1.1.1.1, 192.0.2.7", "10.0.0.2"]).as_deref(), Some("192.0.2.7"));
        assert_eq!(of(&["192.0.2.7, unknown, 10.0.0.2"]), None);
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let (rates, start) = (Rates::new(1, 1), Instant::now());
        for user in 0..3 * MOST_BUCKETS {
            assert!(rates.take(&user.to_string().into(), start).is_ok());
            assert!(rates.buckets.lock().unwrap().len() <= MOST_BUCKETS);
        }
        let later = start + Duration::from_secs(2);
        rates.take(&"ada".into(), later).unwrap();
        assert!(rates.buckets.lock().unwrap().len() <= MOST_BUCKETS);
    }
}

#[cfg(test)]
mod via_tests {
    use super::*;

    fn of(values: &[&str], itself: Option<&str>) -> Result<Vec<String>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::VIA, value.parse().unwrap());
        }
        let itself = itself.map(Name::from);
        let via = through(&headers, itself.as_ref()).map_err(|refusal| refusal.code().to_owned())?;
        Ok(via.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_broker_that_finds_itself_in_the_way_of_a_call_says_so() {
        assert_eq!(of(&[], Some("grid#1")), Ok(vec![]));
        assert_eq!(of(&["west#7"], Some("grid#1")), Ok(vec!["west#7".into()]));
        assert_eq!(of(&["west#7,grid#1"], Some("grid#1")), Err("circle".into()));
        assert_eq!(
            of(&["west#7,grid#1"], None),
            Ok(vec!["west#7".into(), "grid#1".into()]),
            "a site has no peers"
        );
    }

    #[test]
    fn brokers_of_one_name_are_no_circle() {
        assert_eq!(of(&["grid#2"], Some("grid#1")), Ok(vec!["grid#2".into()]));
    }

    #[test]
    fn a_way_has_an_end() {
        let brokers = |count: usize| (0..count).map(|at| format!("b#{at}")).collect::<Vec<_>>().join(",");
        assert_eq!(of(&[&brokers(7)], Some("grid#1")).map(|via| via.len()), Ok(7));
        assert_eq!(of(&[&brokers(8)], Some("grid#1")), Err("circle".into()));
        assert_eq!(of(&[&brokers(8)], None).map(|via| via.len()), Ok(8));
        assert_eq!(of(&[&brokers(9)], None), Err("circle".into()));
    }

    #[test]
    fn what_is_no_list_of_names_is_refused() {
        assert_eq!(of(&["a", "b"], None), Err("bad-request".into()));
        assert_eq!(of(&["%zz"], None), Err("bad-request".into()));
    }
}

#[cfg(test)]
mod server_clock_tests {
    use super::*;
    use bookahead_protocol::Moment;

    #[test]
    fn the_speed_is_told_where_it_is_not_that_of_every_clock() {
        for (clock, speed) in [(Clock::WALL, None), (Clock::accelerated(Moment(0), 60), Some("60"))] {
            let mut headers = HeaderMap::new();
            tell_clock(clock, &mut headers);
            let now: Timestamp = headers[header::NOW].to_str().unwrap().parse().unwrap();
            assert!(now.time() <= clock.now().second());
            assert_eq!(headers.get(header::CLOCK_SPEED).map(|value| value.to_str().unwrap()), speed);
        }
    }

    #[test]
    fn times_for_a_clock_of_another_speed_are_refused() {
        let asked = |clock: Clock, speed: &str| {
            let headers = HeaderMap::from_iter([(
                header::CLOCK_SPEED.parse().unwrap(),
                HeaderValue::from_str(speed).unwrap(),
            )]);
            check_clock(clock, &headers).map_err(|refusal| refusal.code().to_owned())
        };
        let fast = Clock::accelerated(Moment(0), 60);
        assert_eq!(check_clock(fast, &HeaderMap::new()), Ok(()));
        assert_eq!((asked(Clock::WALL, "1"), asked(fast, " 60")), (Ok(()), Ok(())));
        assert_eq!(asked(fast, "1"), Err("other-clock".into()));
        assert_eq!(asked(Clock::WALL, "60"), Err("other-clock".into()));
        assert_eq!(asked(Clock::WALL, "fast"), Err("bad-request".into()));
    }
}
