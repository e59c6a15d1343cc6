//! A method for each route. What makes or changes something is repeated with the same key until there is an answer or
//! patience ends; what only asks is sent once. So is a call of the protocol, for brokers: parties repeat by themselves.

use crate::client::Client;
use crate::error::ClientError;
use crate::make;
use crate::message::{Order, Reply};
use crate::watch::Watch;
use bookahead_api as api;
use bookahead_api::operation::Method;
use bookahead_api::{Offers, Operation, Reservation};
use bookahead_protocol::{Answer, Envelope, JobId, Key, Problem, ReservationId};
use serde::de::DeserializeOwned;

impl Client {
    /// What could be had? Nothing is booked.
    pub async fn probe(&self, probe: &api::Probe) -> Result<api::Offers, ClientError> {
        let order = Order::new(Method::Post, "/v1/probes").with_body(probe)?;
        self.ask(&order).await?.document()
    }

    /// Holds or books. Where there is no id, one is made before anything is sent. Whoever repeats the call repeats its
    /// `key` ([`crate::make::key`]).
    pub async fn reserve(&self, reserve: &api::Reserve, key: &str) -> Result<api::Reservation, ClientError> {
        let mut reserve = reserve.clone();
        if reserve.id.is_none() {
            reserve.id = Some(make::reservation_id()?);
        }
        let order = Order::new(Method::Post, "/v1/reservations").with_body(&reserve)?.with_key(key)?;
        self.insist(&order).await?.document()
    }

    /// Makes a hold longer.
    pub async fn hold(&self, id: ReservationId, hold: &api::Hold) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Hold(id, *hold)).await
    }

    /// Makes a reservation longer, if it is still at the version that was seen; without one, at any.
    pub async fn extend(
        &self,
        id: ReservationId,
        version: Option<u32>,
        extend: &api::Extend,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Extend(id, version, *extend)).await
    }

    /// Confirms a hold.
    pub async fn commit(
        &self,
        id: ReservationId,
        commit: &api::Commit,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Commit(id, commit.clone())).await
    }

    /// Adds a job.
    pub async fn attach(
        &self,
        id: ReservationId,
        attach: &api::Attach,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Attach(id, *attach)).await
    }

    /// Changes the terms, if it is still at the version that was seen; without one, at any.
    pub async fn change(
        &self,
        id: ReservationId,
        version: Option<u32>,
        change: &api::Change,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Change(id, version, change.clone())).await
    }

    /// Gives back early.
    pub async fn release(
        &self,
        id: ReservationId,
        release: &api::Release,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Release(id, *release)).await
    }

    /// Gives up.
    pub async fn cancel(&self, id: ReservationId) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Cancel(id)).await
    }

    /// How is it?
    pub async fn show(&self, id: ReservationId) -> Result<api::Reservation, ClientError> {
        self.get(Order::get(format!("/v1/reservations/{id}"))).await
    }

    /// A page of reservations.
    pub async fn list(&self, query: &api::ListQuery) -> Result<api::Reservations, ClientError> {
        self.get(Order::get("/v1/reservations").with_query(query)?).await
    }

    /// What there is.
    pub async fn resources(&self) -> Result<api::Resources, ClientError> {
        self.get(Order::get("/v1/resources")).await
    }

    /// What is taken when.
    pub async fn schedule(&self, query: &api::ScheduleQuery) -> Result<api::Schedule, ClientError> {
        self.get(Order::get("/v1/schedule").with_query(query)?).await
    }

    /// Who is there.
    pub async fn sites(&self) -> Result<api::Sites, ClientError> {
        self.get(Order::get("/v1/sites")).await
    }

    /// Says that somebody is there. It is said again soon anyhow, so it is sent once.
    pub async fn heartbeat(&self, heartbeat: &api::Heartbeat) -> Result<(), ClientError> {
        let order = Order::new(Method::Post, "/v1/sites").with_body(heartbeat)?;
        let reply = self.ask(&order).await?;
        if reply.is_success() { Ok(()) } else { Err(reply.refusal()) }
    }

    /// Has something run. Whoever repeats the call repeats its `key` ([`crate::make::key`]). Where there is no id, one is
    /// made before anything is sent.
    pub async fn submit(&self, submit: &api::SubmitJob, key: &str) -> Result<api::Job, ClientError> {
        let mut submit = submit.clone();
        if submit.id.is_none() {
            submit.id = Some(make::job_id()?);
        }
        let order = Order::new(Method::Post, "/v1/jobs").with_body(&submit)?.with_key(key)?;
        self.insist(&order).await?.document()
    }

    /// How is a job?
    pub async fn job(&self, id: JobId) -> Result<api::Job, ClientError> {
        self.get(Order::get(format!("/v1/jobs/{id}"))).await
    }

    /// A page of jobs.
    pub async fn jobs(&self, query: &api::JobsQuery) -> Result<api::Jobs, ClientError> {
        self.get(Order::get("/v1/jobs").with_query(query)?).await
    }

    /// Ends a job.
    pub async fn cancel_job(&self, id: JobId) -> Result<api::Job, ClientError> {
        let order = Order::new(Method::Delete, format!("/v1/jobs/{id}"));
        self.insist(&order.with_own_key(make::key()?)?).await?.document()
    }

    /// Lets a job run that claims: its broker has chosen this copy. Saying it again changes nothing.
    pub async fn go(&self, id: JobId) -> Result<api::Job, ClientError> {
        let order = Order::new(Method::Post, format!("/v1/jobs/{id}/go"));
        self.insist(&order.with_own_key(make::key()?)?).await?.document()
    }

    /// Reservations as iCalendar.
    pub async fn calendar(&self) -> Result<String, ClientError> {
        self.ask(&Order::get("/v1/calendar.ics")).await?.text()
    }

    /// Whether the server is well. One that is not says so with the same document.
    pub async fn health(&self) -> Result<api::Health, ClientError> {
        let reply = self.ask(&Order::get("/v1/health")).await?;
        serde_json::from_slice(&reply.body).or_else(|_| reply.document())
    }

    /// What is measured, as Prometheus reads it.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.ask(&Order::get("/metrics")).await?.text()
    }

    /// The description of the API.
    pub async fn openapi(&self) -> Result<serde_json::Value, ClientError> {
        self.get(Order::get("/openapi.json")).await
    }

    /// What happens, to one reservation or to all that the caller may see: from now on, or after an event that was seen.
    pub async fn watch(
        &self,
        about: Option<ReservationId>,
        after: Option<u64>,
    ) -> Result<Watch, ClientError> {
        Watch::begin(self.clone(), about, after).await
    }

    async fn get<T: DeserializeOwned>(&self, order: Order) -> Result<T, ClientError> {
        self.ask(&order).await?.document()
    }

    async fn change_something(&self, operation: &Operation) -> Result<api::Reservation, ClientError> {
        self.insist(&order(operation, make::key()?)?).await?.document()
    }
}

impl Client {
    /// Asks, on behalf of the envelope's caller and with its key. A refusal in words of the protocol is an answer; a
    /// refusal of the HTTP layer is an error.
    pub async fn call(&self, envelope: &Envelope, trace: Option<&str>) -> Result<Answer, ClientError> {
        let mut client = self.on_behalf_of(&envelope.caller);
        if let Some(trace) = trace {
            client = client.traced(trace)?;
        }
        let operation = Operation::try_from(envelope.call.clone())?;
        let reply = client.ask(&order(&operation, envelope.key)?).await?;
        if reply.is_success() { answer(&operation, reply) } else { refusal(&reply) }
    }
}

fn order(operation: &Operation, key: Key) -> Result<Order, ClientError> {
    let mut order = Order::new(operation.method(), operation.path());
    order.body = operation
        .body()
        .map_err(|why| ClientError::BadHeader { what: "the document", why: why.to_string() })?;
    if !operation.only_asks() {
        order = order.with_own_key(key)?;
    }
    match operation.version() {
        Some(version) => order.with_version(version),
        None => Ok(order),
    }
}

fn answer(operation: &Operation, reply: Reply) -> Result<Answer, ClientError> {
    match operation {
        Operation::Probe(_) => reply.document::<Offers>().map(|offers| Answer::Offers(offers.into())),
        _ => reply.document::<Reservation>().map(|reservation| Answer::Reservation(reservation.into())),
    }
}

fn refusal(reply: &Reply) -> Result<Answer, ClientError> {
    match reply.refusal() {
        ClientError::Refused(problem) => match Problem::try_from((*problem).clone()) {
            Ok(word) => Ok(word.into()),
            Err(_) => Err(ClientError::Refused(problem)),
        },
        other => Err(other),
    }
}
