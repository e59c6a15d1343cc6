//! One command's talk with one server: a client, the server's clock, the user's zone, and what to say when it says no.

use super::dates::Dates;
use super::failure::{Refused, Usage};
use super::place::Place;
use super::reader::Reader;
use super::refusal;
use super::shell::command_line;
use super::spinner::waiting;
use super::token;
use super::when::{Clock, When};
use crate::json;
use crate::talk::say;
use anyhow::{Context, Result};
use bookahead_api::{Health, Timestamp};
use bookahead_client::{Client, ClientError};
use bookahead_plan::Seconds;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::cell::Cell;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// A server whose clock is off by less, in seconds, goes like everybody's.
const SAME_CLOCK: u64 = 30;

pub(crate) struct Session {
    runtime: Runtime,
    pub(crate) client: Client,
    health: Health,
    asked: Instant,
    zone: TimeZone,
    pub(crate) dates: Dates,
    pub(crate) json: bool,
    again: Vec<String>,
    user: Option<String>,
    clock_is_told: Cell<bool>,
}

impl Session {
    /// Asks the server how it is: whether it is there at all, and what its clock says.
    pub(crate) fn open(place: &Place) -> Result<Session> {
        let decided = place.decide()?;
        let runtime =
            Builder::new_current_thread().enable_all().build().context("no runtime could be made")?;
        let user = decided.options.user.as_ref().map(|user| user.as_str().to_owned());
        let user = user.or_else(|| decided.options.token.as_deref().and_then(token::user));
        let client = Client::new(&decided.server, decided.options).map_err(|error| failure(error, None))?;
        let health = runtime.block_on(waiting("asking", client.health()));
        let health = health.map_err(|error| failure(error, None))?;
        Ok(Session {
            runtime,
            client,
            health,
            asked: Instant::now(),
            dates: Dates::new(decided.zone.clone()),
            zone: decided.zone,
            json: place.json,
            again: place.again(),
            user,
            clock_is_told: Cell::new(false),
        })
    }

    /// Waits for an answer. A spinner says what is being done, if it takes a while and somebody looks.
    pub(crate) fn ask<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T> {
        self.run(waiting(doing, call))
    }

    /// Waits for something that talks by itself.
    pub(crate) fn run<T>(&self, call: impl Future<Output = Result<T, ClientError>>) -> Result<T> {
        self.runtime.block_on(call).map_err(|error| self.failure(error))
    }

    /// What it means to the user that there is no answer. Programs get the document of a refusal.
    pub(crate) fn failure(&self, error: ClientError) -> anyhow::Error {
        let failure = failure(error, Some(&self.dates));
        if let Some(refused) = failure.downcast_ref::<Refused>().filter(|_| self.json)
            && let Err(error) = json::print(&refused.problem)
        {
            return error.into();
        }
        failure
    }

    /// Who asks, as far as that is known here.
    pub(crate) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("anonymous")
    }

    /// What the server is called.
    pub(crate) fn server_name(&self) -> &str {
        self.health.name.as_str()
    }

    /// Reads times by the server's clock. Where that is not everybody's, it is said.
    pub(crate) fn reader(&self) -> Result<Reader> {
        let passed = self.asked.elapsed().as_millis().saturating_mul(u128::from(self.speed())) / 1_000;
        let second = self.health.now.time() + Seconds(i64::try_from(passed).unwrap_or(i64::MAX));
        let now = jiff::Timestamp::from_second(second.0).unwrap_or(jiff::Timestamp::MAX);
        let reader = Reader::new(Clock { now, zone: self.zone.clone() });
        reader
            .with_context(|| format!("the clock of {} shows a time beyond all calendars", self.server_name()))
    }

    /// Reads one time, and says what was assumed.
    pub(crate) fn read(&self, when: &When) -> Result<Timestamp> {
        let reader = self.reader()?;
        if when.needs_now() {
            self.tell_clock();
        }
        let instant = reader.read(when).map_err(|unclear| Usage(unclear.to_string()))?;
        self.tell_assumed(&reader);
        Ok(instant)
    }

    /// Says what a reader had to assume.
    pub(crate) fn tell_assumed(&self, reader: &Reader) {
        reader.take_assumed().iter().for_each(|note| say!("note: {note}"));
    }

    /// Says once where the server's clock is not the one on the wall.
    pub(crate) fn tell_clock(&self) {
        let wall = jiff::Timestamp::now().as_second();
        let off = self.health.now.time().0.abs_diff(wall) > SAME_CLOCK;
        if self.clock_is_told.replace(true) || (!off && self.speed() == 1) {
            return;
        }
        let (name, now) = (self.server_name(), self.dates.both(self.health.now));
        match self.speed() {
            1 => say!("note: the clock of {name} says {now}, and times count by it"),
            speed => say!(
                "note: the clock of {name} says {now} and runs {speed} times as fast as yours; times count by it"
            ),
        }
    }

    /// How many seconds pass on the server's clock in one of the user's.
    fn speed(&self) -> u32 {
        self.health.clock_speed.max(1)
    }

    /// A hold of so long on the user's clock, in milliseconds of the server's.
    pub(crate) fn hold_ms(&self, length: Seconds) -> i64 {
        length.0.saturating_mul(1_000).saturating_mul(i64::from(self.speed()))
    }

    /// What is left of a hold on the user's clock, in milliseconds.
    pub(crate) fn left_ms(&self, held_for_ms: i64) -> i64 {
        held_for_ms / i64::from(self.speed())
    }

    /// A command that continues this one, to be copied.
    pub(crate) fn command(&self, words: &[String]) -> String {
        let program = ["bookahead".to_owned()];
        command_line(program.iter().chain(words).chain(&self.again))
    }

    /// Prints the document for programs, or lets `people` print what they read.
    pub(crate) fn print(
        &self,
        document: &impl Serialize,
        people: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<()> {
        if self.json {
            json::print(document)?;
        } else {
            people()?;
        }
        Ok(())
    }
}

/// A server that says no is not one that fails.
fn failure(error: ClientError, dates: Option<&Dates>) -> anyhow::Error {
    match error {
        ClientError::Refused(problem) => {
            let text = refusal::text(&problem, dates);
            Refused { problem, text }.into()
        }
        ClientError::BadUrl { .. } | ClientError::BadHeader { .. } => Usage(error.to_string()).into(),
        other => other.into(),
    }
}
