//! One command's talk with one server: a client, the clock and the zone that times are read by, and what to say when the
//! server says no. Relies on answers to tell the server's clock; never makes a call of its own. While an answer is awaited
//! a spinner turns on standard error, only on a terminal and only once it takes a moment.

use super::dates::{Dates, Reader};
use super::place::Place;
use super::refusal;
use super::refusal::{Refused, Usage};
use super::when::When;
use crate::output::{print_json, say};
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bookahead_api::{Code, Timestamp};
use bookahead_client::{Client, ClientError};
use bookahead_plan::{Seconds, Time};
use bookahead_service::http::listener::UNIX;
use bookahead_service::security::own_account;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, stderr};
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Clocks that differ by less, in seconds, are the same to a user: as much as tokens allow them.
const SAME_CLOCK: u64 = 30;

pub(crate) struct Session {
    runtime: Runtime,
    pub(crate) client: Client,
    zone: TimeZone,
    pub(crate) json: bool,
    pub(crate) full_ids: bool,
    again: Vec<String>,
    user: Option<String>,
    /// Whether something that is to be sent was computed by a clock.
    by_clock: Cell<bool>,
    clock_is_told: Cell<bool>,
    /// What the user is told when the answer has come.
    notes: RefCell<Vec<String>>,
}

/// Runs a command that sends times or lengths. They are computed by the user's clock. A server whose clock runs at another
/// speed refuses them without any effect, and its answer tells its clock: then the command runs once more, by that clock.
pub(crate) fn by_clock(place: &Place, command: impl Fn(&Session) -> Result<()>) -> Result<()> {
    let session = Session::open(place)?;
    match command(&session) {
        Err(error) if is_other_clock(&error) => command(&session),
        outcome => outcome,
    }
}

impl Session {
    /// Decides where to ask, and as whom. Nothing is sent yet.
    pub(crate) fn open(place: &Place) -> Result<Session> {
        let decided = place.decide()?;
        let runtime =
            Builder::new_current_thread().enable_all().build().context("no runtime could be made")?;
        let user = decided.options.user.as_ref().map(|user| user.as_str().to_owned());
        let user = user.or_else(|| decided.options.token.as_deref().and_then(token_user));
        let is_socket = decided.server.starts_with(UNIX) && decided.options.token.is_none();
        let own = || is_socket.then(own_account).flatten().map(|account| account.to_string());
        let user = user.or_else(own);
        let client = Client::new(&decided.server, decided.options).map_err(|error| failure(error, None))?;
        Ok(Session {
            runtime,
            client,
            zone: decided.zone,
            json: place.json,
            full_ids: place.full_ids,
            again: place.again(),
            user,
            by_clock: Cell::new(false),
            clock_is_told: Cell::new(false),
            notes: RefCell::default(),
        })
    }

    /// The client for a call that sends times: it says for which speed they are, if they were computed by a clock.
    pub(crate) fn timed_client(&self) -> Client {
        if self.by_clock.get() { self.client.with_clock_speed(self.speed()) } else { self.client.clone() }
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
        let outcome = self.runtime.block_on(call).map_err(|error| self.failure(error));
        if outcome.as_ref().is_err_and(is_other_clock) {
            self.notes.take();
        } else {
            self.tell_clock();
            self.notes.take().iter().for_each(|note| say!("note: {note}"));
        }
        outcome
    }

    /// What it means to the user that there is no answer. Programs get the document of a refusal.
    pub(crate) fn failure(&self, error: ClientError) -> anyhow::Error {
        let failure = failure(error, Some(&self.dates()));
        if let Some(refused) = failure.downcast_ref::<Refused>().filter(|_| self.json)
            && !is_other_clock(&failure)
            && let Err(error) = print_json(&refused.problem)
        {
            return error.into();
        }
        failure
    }

    /// Who asks, as far as that is known here.
    pub(crate) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("anonymous")
    }

    /// Reads times by the user's clock, or by the server's where that runs at another speed.
    pub(crate) fn reader(&self) -> Reader {
        let now = if self.speed() == 1 { wall() } else { self.server_now() };
        Reader::new(now, self.zone.clone())
    }

    pub(crate) fn read(&self, when: &When) -> Result<Timestamp> {
        let reader = self.reader();
        let instant = reader.read(when).map_err(|unclear| Usage(unclear.to_string()))?;
        self.has_read(&reader);
        Ok(instant)
    }

    /// Keeps what a reader had to assume, to be told with the answer.
    pub(crate) fn has_read(&self, reader: &Reader) {
        self.by_clock.set(self.by_clock.get() || reader.has_used_now());
        self.notes.borrow_mut().extend(reader.take_assumed());
    }

    /// The zone in which times are shown, and what today is by the server's clock.
    pub(crate) fn dates(&self) -> Dates {
        Dates::new(self.zone.clone(), self.server_now())
    }

    /// The present by the server's clock, as far as its answers have told it.
    pub(crate) fn server_now(&self) -> Timestamp {
        let Some(clock) = self.client.server_clock() else { return wall() };
        let passed = clock.told.elapsed().as_millis().saturating_mul(u128::from(clock.speed)) / 1_000;
        Timestamp::nearest(clock.now.time() + Seconds(i64::try_from(passed).unwrap_or(i64::MAX)))
    }

    /// Says once, if it matters to what was sent, that the server's clock is not the user's.
    fn tell_clock(&self) {
        let now = self.server_now();
        let off = now.time().0.abs_diff(wall().time().0) > SAME_CLOCK;
        let differs = off || self.speed() != 1;
        if !differs || !self.by_clock.get() || self.clock_is_told.replace(true) {
            return;
        }
        let now = self.dates().both(now);
        match self.speed() {
            1 => say!("note: the clock of the server says {now}; times count by yours"),
            speed => say!(
                "note: the clock of the server says {now} and runs {speed} times as fast as yours; times count by it"
            ),
        }
    }

    /// How many seconds pass on the server's clock in one of the user's.
    fn speed(&self) -> u32 {
        self.client.server_clock().map_or(1, |clock| clock.speed)
    }

    /// A hold of so long on the user's clock, in milliseconds of the server's.
    pub(crate) fn hold_ms(&self, length: Seconds) -> i64 {
        self.by_clock.set(true);
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
            print_json(document)?;
        } else {
            people()?;
        }
        Ok(())
    }
}

/// What the user's clock shows.
fn wall() -> Timestamp {
    Timestamp::nearest(Time(jiff::Timestamp::now().as_second()))
}

/// Whether the server has done nothing since what was sent is for a clock of another speed.
fn is_other_clock(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.problem.code == Code::OtherClock.word())
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

const QUIET_FOR: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(100);

/// Awaits `call`, and says what is being done meanwhile.
async fn waiting<T>(doing: &str, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    if !stderr().is_terminal() {
        return call.await;
    }
    if let Ok(outcome) = timeout(QUIET_FOR, &mut call).await {
        return outcome;
    }
    let spinner = spinner(&format!("{doing}, {{elapsed}}"));
    let outcome = call.await;
    spinner.finish_and_clear();
    outcome
}

/// A spinner that turns by itself; the text may name `{elapsed}` and `{msg}`.
pub(crate) fn spinner(text: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(&format!("{{spinner}} {text}"));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(TICK);
    bar
}

/// The words of a command, each in quotes where a shell would take it for something else.
fn command_line<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
}

/// The user whom a JSON Web Token is about, read without checking it: that is for the server. Only used to say "mine".
/// None where it is no such token.
fn token_user(token: &str) -> Option<String> {
    let claims = token.split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice(&bytes).ok().map(|claims: Claims| claims.sub)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_what_was_meant() {
        let words =
            ["probe", "--require", "gpus>=4", "", "it's", "2026-11-16T09:00:00+01:00"].map(String::from);
        assert_eq!(command_line(&words), "probe --require 'gpus>=4' '' 'it'\\''s' 2026-11-16T09:00:00+01:00");
    }
}

#[cfg(test)]
mod token_tests {
    use super::*;

    #[test]
    fn a_token_names_its_user() {
        let claims = URL_SAFE_NO_PAD.encode("{\"sub\":\"ada\",\"exp\":1}");
        assert_eq!(token_user(&format!("e30.{claims}.c2ln")).as_deref(), Some("ada"));
        for other in ["", "opaque", "a.b.c", "..", "e30.e30.e30"] {
            assert_eq!(token_user(other), None, "{other}");
        }
    }
}
