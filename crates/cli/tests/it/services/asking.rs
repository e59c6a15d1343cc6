//! Clients: every call has a key, and is repeated with it until there is an answer, as a careful client does. An answer
//! that a careful client must never get is a failure.

use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options, make};
use bookahead_plan::placement;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{
    Answer, Call, Caller, Constraint, Envelope, Millis, Name, Part, Request, Reservation, ReservationId,
    State, Why,
};
use bookahead_tests::polling::PATIENCE;
use std::time::{Duration, Instant};

/// Longer than any answer takes, unless the server is stopped or hangs.
const TIME_OUT: Duration = Duration::from_secs(30);

/// Default hold time: longer than any test.
pub(crate) const HOLD: Millis = Millis::seconds(240);

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Asker {
    client: Client,
    caller: Caller,
}

impl Asker {
    pub(crate) fn new(url: &str, user: &str) -> Asker {
        Asker::with_time_out(url, user, TIME_OUT)
    }

    /// A client that gives up on a server that does not answer soon.
    pub(crate) fn hasty(url: &str) -> Asker {
        Asker::with_time_out(url, "operator", Duration::from_secs(10))
    }

    /// A client that waits this long for an answer.
    pub(crate) fn with_time_out(url: &str, user: &str, timeout: Duration) -> Asker {
        let user = Name::from(user);
        // The account of the service may act for users and operators: it sees everything.
        let roles: Vec<Name> = vec!["user".into(), "operator".into()];
        let options =
            Options { user: Some(user.clone()), roles: roles.clone(), timeout, ..Options::default() };
        Asker { client: Client::new(url, options).unwrap(), caller: Caller { user, roles } }
    }

    /// The client library, for requests that are not calls of the protocol.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The present value of a metric, with its labels if it has some.
    pub(crate) async fn figure(&self, series: &str) -> f64 {
        let metrics = self.client.metrics().await.unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
    }

    /// A call with a new key.
    pub(crate) fn envelope(&self, call: Call) -> Envelope {
        Envelope { key: make::key().unwrap(), caller: self.caller.clone(), call }
    }

    /// Makes a call, and repeats it with its key until there is an answer.
    pub(crate) async fn insist(&self, envelope: &Envelope) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(10);
        loop {
            let failure = match self.client.call(envelope, None).await {
                Ok(answer) => return answer,
                Err(failure) => failure,
            };
            let word = envelope.call.word();
            assert!(is_passing(&failure), "{word} was answered by {}: {failure:?}", self.client.url());
            assert!(Instant::now() < deadline, "{word} was never answered: {failure}");
            // Short at first, because most outages here are; but fifty clients that wait for a slow batch system must
            // not keep the site busy with their repetitions.
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(Duration::from_secs(1));
        }
    }

    /// Makes a call with a new key.
    pub(crate) async fn ask(&self, call: Call) -> Answer {
        self.insist(&self.envelope(call)).await
    }

    /// Makes a call whose answer must be a reservation.
    #[track_caller]
    pub(crate) fn get(&self, call: Call) -> impl Future<Output = Reservation> {
        let at = std::panic::Location::caller();
        async move {
            match self.ask(call).await {
                Answer::Reservation(reservation) => reservation,
                other => panic!("{other:?} was answered at {at}"),
            }
        }
    }

    /// Makes a call whose answer must be a refusal.
    #[track_caller]
    pub(crate) fn refused(&self, call: Call) -> impl Future<Output = Why> {
        let at = std::panic::Location::caller();
        async move {
            match self.ask(call).await {
                Answer::Problem(problem) => problem.why,
                other => panic!("{other:?} was answered at {at}"),
            }
        }
    }

    /// All reservations that the server lists.
    pub(crate) async fn all(&self) -> Result<Vec<api::Reservation>, ClientError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.client.list(&api::ListQuery { cursor, ..api::ListQuery::default() }).await?;
            all.extend(page.reservations);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// The listed reservations that take capacity.
    pub(crate) async fn live(&self) -> Result<Vec<api::Reservation>, ClientError> {
        let mut all = self.all().await?;
        all.retain(|reservation| is_live(reservation.state));
        Ok(all)
    }
}

/// Whether the same call may be answered differently a little later.
fn is_passing(failure: &ClientError) -> bool {
    let late = failure.problem().is_some_and(|problem| problem.status == 504);
    failure.may_pass() || late
}

/// Whether a reservation in this state takes capacity.
pub(crate) fn is_live(state: api::State) -> bool {
    State::from(state).holds_capacity()
}

/// The present.
pub(crate) fn now() -> Time {
    Time(jiff::Timestamp::now().as_second())
}

/// A part of this capacity that starts at an exact time.
pub(crate) fn part(capacity: u32, begin: Time, seconds: i64) -> Part {
    window(capacity, begin, seconds, begin + Seconds(seconds))
}

/// A part of this capacity within a window.
pub(crate) fn window(capacity: u32, earliest_start: Time, seconds: i64, latest_end: Time) -> Part {
    let (duration, capacity) = (Seconds(seconds), Capacity(capacity));
    let wanted = placement::Request { earliest_start, latest_end, duration, capacity };
    Part::new(wanted, "processors")
}

/// A part that starts in two seconds, or later if the machine is too slow for that.
pub(crate) fn soon(capacity: u32, seconds: i64) -> Part {
    window(capacity, now() + Seconds(2), seconds, now() + Seconds(seconds + 120))
}

/// Several parts that start together.
pub(crate) fn together(parts: Vec<Part>) -> Request {
    let offset = |second| Constraint::Offset { first: 0, second, by: Seconds(0) };
    let constraints = (1..parts.len()).map(offset).collect();
    Request::new(parts, constraints)
}

/// A call that holds a request.
pub(crate) fn hold(id: ReservationId, request: Request) -> Call {
    Call::Reserve { id, request, hold_for: HOLD, book: false }
}

/// A call that books a request at once.
pub(crate) fn book(id: ReservationId, request: Request) -> Call {
    Call::Reserve { id, request, hold_for: HOLD, book: true }
}

/// A new id.
pub(crate) fn new_id() -> ReservationId {
    make::reservation_id().unwrap()
}

/// Whether two answers are the same, apart from the remaining time of a hold.
pub(crate) fn is_same(one: &Answer, other: &Answer) -> bool {
    let plain = |answer: &Answer| match answer.clone() {
        Answer::Reservation(shown) => {
            Answer::Reservation(Reservation { held_for: shown.held_for.map(|_| Millis::ZERO), ..shown })
        }
        other => other,
    };
    plain(one) == plain(other)
}
