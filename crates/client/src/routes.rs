//! One method for each route. Calls that create or change something are repeated with the same key until there is
//! an answer or patience runs out. Queries are sent once. [`Client::call`] is sent once, too: brokers repeat calls
//! themselves.

use crate::client::Client;
use crate::error::ClientError;
use crate::make;
use crate::message::{JobOutput, Order, Reply};
use crate::watch::Watch;
use bookahead_api as api;
use bookahead_api::operation::Method;
use bookahead_api::{Offers, Operation, Reservation};
use bookahead_protocol::{Answer, Envelope, JobId, Key, Name, Problem, ReservationId};
use serde::de::DeserializeOwned;

impl Client {
    /// Asks for offers. Books nothing.
    pub async fn probe(&self, probe: &api::Probe) -> Result<api::Offers, ClientError> {
        // Without a key, although it is a POST: a probe has no effect that a repetition could double.
        let order = Order::new(Method::Post, "/v1/probes").with_body(probe)?;
        self.ask(&order).await?.document()
    }

    /// Holds or books. If the document has no id, one is made before the first attempt. To repeat the call later,
    /// use the same `key` ([`crate::make::key`]).
    pub async fn reserve(&self, reserve: &api::Reserve, key: &str) -> Result<api::Reservation, ClientError> {
        let mut reserve = reserve.clone();
        // The same id in all attempts: a repetition must not create a second reservation.
        if reserve.id.is_none() {
            reserve.id = Some(make::reservation_id()?);
        }
        let order = Order::new(Method::Post, "/v1/reservations").with_body(&reserve)?.with_key(key)?;
        self.insist(&order).await?.document()
    }

    /// Prolongs a hold.
    pub async fn hold(&self, id: ReservationId, hold: &api::Hold) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Hold(id, *hold)).await
    }

    /// Prolongs a reservation if it still has this version. `None` matches any version.
    pub async fn extend(
        &self,
        id: ReservationId,
        version: Option<u32>,
        extend: &api::Extend,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Extend(id, version, *extend)).await
    }

    /// Commits a hold.
    pub async fn commit(
        &self,
        id: ReservationId,
        commit: &api::Commit,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Commit(id, commit.clone())).await
    }

    /// Attaches a job.
    pub async fn attach(
        &self,
        id: ReservationId,
        attach: &api::Attach,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Attach(id, *attach)).await
    }

    /// Changes the terms if the reservation still has this version. `None` matches any version.
    pub async fn change(
        &self,
        id: ReservationId,
        version: Option<u32>,
        change: &api::Change,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Change(id, version, change.clone())).await
    }

    /// Releases capacity before the end.
    pub async fn release(
        &self,
        id: ReservationId,
        release: &api::Release,
    ) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Release(id, *release)).await
    }

    /// Cancels a reservation.
    pub async fn cancel(&self, id: ReservationId) -> Result<api::Reservation, ClientError> {
        self.change_something(&Operation::Cancel(id)).await
    }

    /// Answers an invitation: a reservation that another user shares with the caller.
    pub async fn answer_invitation(
        &self,
        id: ReservationId,
        answer: api::Consent,
    ) -> Result<api::Reservation, ClientError> {
        let order = Order::new(Method::Post, format!("/v1/reservations/{id}/invitation"));
        let order = order.with_body(&api::InvitationAnswer { answer })?.with_own_key(make::key()?)?;
        self.insist(&order).await?.document()
    }

    /// Users whose invitations are not shown to the caller.
    pub async fn blocked_users(&self) -> Result<api::BlockedUsers, ClientError> {
        self.get(Order::get("/v1/blocked-users")).await
    }

    /// Hides the invitations of a user from the caller.
    pub async fn block_user(&self, user: &Name) -> Result<(), ClientError> {
        self.change_blocked(Method::Put, user).await
    }

    /// Shows the invitations of a user to the caller again.
    pub async fn unblock_user(&self, user: &Name) -> Result<(), ClientError> {
        self.change_blocked(Method::Delete, user).await
    }

    async fn change_blocked(&self, method: Method, user: &Name) -> Result<(), ClientError> {
        let query = api::BlockedUser { user: user.clone() };
        self.done(&Order::new(method, "/v1/blocked-users").with_query(&query)?).await
    }

    /// Gets a reservation.
    pub async fn show(&self, id: ReservationId) -> Result<api::Reservation, ClientError> {
        self.get(Order::get(format!("/v1/reservations/{id}"))).await
    }

    /// A page of reservations.
    pub async fn list(&self, query: &api::ListQuery) -> Result<api::Reservations, ClientError> {
        self.get(Order::get("/v1/reservations").with_query(query)?).await
    }

    /// Resources of the server.
    pub async fn resources(&self) -> Result<api::Resources, ClientError> {
        self.get(Order::get("/v1/resources")).await
    }

    /// Schedules of the resources.
    pub async fn schedule(&self, query: &api::ScheduleQuery) -> Result<api::Schedule, ClientError> {
        self.get(Order::get("/v1/schedule").with_query(query)?).await
    }

    /// What a slot would do to the jobs that wait.
    pub async fn what_if(&self, slot: &api::TrySlot) -> Result<api::WhatIf, ClientError> {
        let reply = self.ask(&Order::new(Method::Post, "/v1/what-if").with_body(slot)?).await?;
        if reply.is_success() { reply.document() } else { Err(reply.refusal()) }
    }

    /// What happened to a reservation.
    pub async fn history(&self, id: ReservationId) -> Result<api::History, ClientError> {
        self.get(Order::get(format!("/v1/reservations/{id}/history"))).await
    }

    /// Usage by user, project, site, resource and month.
    pub async fn usage(&self, query: &api::UsageQuery) -> Result<api::Usage, ClientError> {
        self.get(Order::get("/v1/usage").with_query(query)?).await
    }

    /// A page of ended and live jobs and reservations of the history.
    pub async fn usage_records(&self, query: &api::RecordsQuery) -> Result<api::UsageRecords, ClientError> {
        self.get(Order::get("/v1/usage/records").with_query(query)?).await
    }

    /// Known sites and brokers.
    pub async fn sites(&self) -> Result<api::Sites, ClientError> {
        self.get(Order::get("/v1/sites")).await
    }

    /// Registers a site or broker. Sent once, because heartbeats are periodic.
    pub async fn heartbeat(&self, heartbeat: &api::Heartbeat) -> Result<(), ClientError> {
        let order = Order::new(Method::Post, "/v1/sites").with_body(heartbeat)?;
        let reply = self.ask(&order).await?;
        if reply.is_success() { Ok(()) } else { Err(reply.refusal()) }
    }

    /// Submits a job. If the document has no id, one is made before the first attempt. To repeat the call later,
    /// use the same `key` ([`crate::make::key`]).
    pub async fn submit(&self, submit: &api::SubmitJob, key: &str) -> Result<api::Job, ClientError> {
        let mut submit = submit.clone();
        if submit.id.is_none() {
            // As for reservations: a repetition must not submit a second job.
            submit.id = Some(make::job_id()?);
        }
        let order = Order::new(Method::Post, "/v1/jobs").with_body(&submit)?.with_key(key)?;
        self.insist(&order).await?.document()
    }

    /// Gets a job.
    pub async fn job(&self, id: JobId) -> Result<api::Job, ClientError> {
        self.get(Order::get(format!("/v1/jobs/{id}"))).await
    }

    /// A page of jobs.
    pub async fn jobs(&self, query: &api::JobsQuery) -> Result<api::Jobs, ClientError> {
        self.get(Order::get("/v1/jobs").with_query(query)?).await
    }

    /// Part of what a job has printed, from a byte on.
    pub async fn job_output(
        &self,
        id: JobId,
        stream: api::OutputStream,
        from: u64,
    ) -> Result<JobOutput, ClientError> {
        let query = api::OutputQuery { stream: Some(stream), from: Some(from) };
        let reply = self.ask(&Order::get(format!("/v1/jobs/{id}/output")).with_query(&query)?).await?;
        if !reply.is_success() {
            return Err(reply.refusal());
        }
        let (size, ended) = reply.output.ok_or_else(|| reply.not_our_kind())?;
        // `from` may be far beyond the end, when only the size is wanted.
        let next = from.saturating_add(reply.body.len() as u64);
        Ok(JobOutput { bytes: reply.body, next, size, ended })
    }

    /// Cancels a job.
    pub async fn cancel_job(&self, id: JobId) -> Result<api::Job, ClientError> {
        let order = Order::new(Method::Delete, format!("/v1/jobs/{id}"));
        self.insist(&order.with_own_key(make::key()?)?).await?.document()
    }

    /// Lets a claiming job run: its broker has chosen this copy. Idempotent.
    pub async fn go(&self, id: JobId) -> Result<api::Job, ClientError> {
        let order = Order::new(Method::Post, format!("/v1/jobs/{id}/go"));
        self.insist(&order.with_own_key(make::key()?)?).await?.document()
    }

    /// Reservations in iCalendar format.
    pub async fn calendar(&self, query: &api::CalendarQuery) -> Result<String, ClientError> {
        self.ask(&Order::get("/v1/calendar.ics").with_query(query)?).await?.text()
    }

    /// Makes an address for the caller's calendar. An earlier one is withdrawn.
    pub async fn make_calendar_address(&self) -> Result<api::CalendarAddress, ClientError> {
        self.ask(&Order::new(Method::Post, "/v1/calendar-address")).await?.document()
    }

    /// Withdraws the address of the calendar of the caller, or of another user.
    pub async fn withdraw_calendar_address(&self, of: &api::OfUser) -> Result<(), ClientError> {
        self.done(&Order::new(Method::Delete, "/v1/calendar-address").with_query(of)?).await
    }

    /// Ends all sessions and tokens of the caller, or of another user, that were issued up to now.
    pub async fn sign_out_everywhere(&self, of: &api::OfUser) -> Result<(), ClientError> {
        self.done(&Order::new(Method::Delete, "/v1/sessions").with_query(of)?).await
    }

    async fn done(&self, order: &Order) -> Result<(), ClientError> {
        let reply = self.ask(order).await?;
        if reply.is_success() { Ok(()) } else { Err(reply.refusal()) }
    }

    /// Health of the server. A server that is not healthy answers with the same document and an error status.
    pub async fn health(&self) -> Result<api::Health, ClientError> {
        let reply = self.ask(&Order::get("/v1/health")).await?;
        // The body is parsed before the status is checked: 503 carries a health document, too.
        serde_json::from_slice(&reply.body).or_else(|_| reply.document())
    }

    /// Metrics in the format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.ask(&Order::get("/metrics")).await?.text()
    }

    /// OpenAPI document of the server.
    pub async fn openapi(&self) -> Result<serde_json::Value, ClientError> {
        self.get(Order::get("/openapi.json")).await
    }

    /// Events of one reservation, or of everything that the caller may see: new ones, or those after a known event.
    pub async fn watch(
        &self,
        about: Option<ReservationId>,
        after: Option<u64>,
    ) -> Result<Watch, ClientError> {
        let path = about.map_or_else(|| "/v1/events".into(), |id| format!("/v1/reservations/{id}/events"));
        Watch::begin(self.clone(), path, after).await
    }

    /// Events of one job: new ones, or those after a known event.
    pub async fn watch_job(&self, id: JobId, after: Option<u64>) -> Result<Watch, ClientError> {
        Watch::begin(self.clone(), format!("/v1/jobs/{id}/events"), after).await
    }

    async fn get<T: DeserializeOwned>(&self, order: Order) -> Result<T, ClientError> {
        self.ask(&order).await?.document()
    }

    async fn change_something(&self, operation: &Operation) -> Result<api::Reservation, ClientError> {
        // The key is made before the first attempt: with a new key, a repetition would be a second change.
        self.insist(&order(operation, make::key()?)?).await?.document()
    }
}

impl Client {
    /// Sends a protocol call for the caller of the envelope and with its key. A refusal with a protocol reason is
    /// an answer; a refusal by the HTTP layer is an error.
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
    // The server keeps the answer to a call with a key for repetitions, which a query does not need.
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
        // A problem without a known reason comes from the HTTP layer or a newer version. The broker must not take
        // it for a decision of the peer.
        ClientError::Refused(problem) => match Problem::try_from((*problem).clone()) {
            Ok(word) => Ok(word.into()),
            Err(_) => Err(ClientError::Refused(problem)),
        },
        other => Err(other),
    }
}
