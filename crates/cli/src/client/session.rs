//! The session of one command with one server: a client, the clock and zone for times, and error messages. The server's
//! clock is learned from its answers; a session makes no call of its own. A spinner appears on standard error while an
//! answer is outstanding, only on a terminal and only after [`QUIET_FOR`].

use super::dates::{Dates, Reader};
use super::place::Place;
use super::refusal;
use super::refusal::{Refused, Usage};
use crate::output::{print_json, say};
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bookahead_api::when::When;
use bookahead_api::{Code, FineSeconds, Timestamp};
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

/// Seconds by which the clocks may differ before the user is told: the same leeway as in the validation of tokens.
const SAME_CLOCK: u64 = 30;

pub(crate) struct Session {
    runtime: Runtime,
    pub(crate) client: Client,
    zone: TimeZone,
    pub(crate) json: bool,
    pub(crate) full_ids: bool,
    again: Vec<String>,
    user: Option<String>,
    /// Whether a value to be sent was computed from a clock.
    by_clock: Cell<bool>,
    clock_is_told: Cell<bool>,
    /// Printed after the answer has arrived, and dropped if the command runs again by another clock.
    notes: RefCell<Vec<String>>,
}

/// Runs a command that sends times or durations. They are first computed by the user's clock. A server whose clock runs
/// at another speed (the demo) refuses them without any effect, and its answer carries its clock: then the command runs
/// once more, by that clock.
pub(crate) fn by_clock(place: &Place, command: impl Fn(&Session) -> Result<()>) -> Result<()> {
    let session = Session::open(place)?;
    match command(&session) {
        // Only once: the clock is known now, and a second refusal must reach the user instead of a loop.
        Err(error) if is_other_clock(&error) => command(&session),
        outcome => outcome,
    }
}

impl Session {
    /// Chooses server and credentials. Nothing is sent yet.
    pub(crate) fn open(place: &Place) -> Result<Session> {
        let decided = place.decide()?;
        // One thread is enough, and starts faster: a command waits for one call at a time.
        let runtime =
            Builder::new_current_thread().enable_all().build().context("cannot start the async runtime")?;
        let user = decided.options.user.as_ref().map(|user| user.as_str().to_owned());
        let user = user.or_else(|| decided.options.token.as_deref().and_then(token_user));
        // A server behind a Unix socket identifies its callers by their account.
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

    /// The client for a call that sends times. If they were computed from a clock, the call states the speed of that
    /// clock.
    pub(crate) fn timed_client(&self) -> Client {
        if self.by_clock.get() { self.client.with_clock_speed(self.speed()) } else { self.client.clone() }
    }

    /// Waits for an answer, with a spinner that shows `doing`.
    pub(crate) fn ask<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T> {
        self.run(waiting(doing, call))
    }

    /// Waits for a call without a spinner, then prints the notes.
    pub(crate) fn run<T>(&self, call: impl Future<Output = Result<T, ClientError>>) -> Result<T> {
        let outcome = self.runtime.block_on(call).map_err(|error| self.failure(error));
        // The command will run again by the server's clock, and the notes were made by the wrong one.
        if outcome.as_ref().is_err_and(is_other_clock) {
            self.notes.take();
        } else {
            self.tell_clock();
            self.notes.take().iter().for_each(|note| say!("note: {note}"));
        }
        outcome
    }

    /// Turns a client error into one for the user. With `--json` a refusal is printed as its problem document.
    pub(crate) fn failure(&self, error: ClientError) -> anyhow::Error {
        let failure = failure(error, Some(&self.dates()));
        // The refusal of another clock is not printed: the command runs again and then prints its document.
        if let Some(refused) = failure.downcast_ref::<Refused>().filter(|_| self.json)
            && !is_other_clock(&failure)
            && let Err(error) = print_json(&refused.problem)
        {
            return error.into();
        }
        failure
    }

    /// The calling user as far as the client knows; only used for `--mine`.
    pub(crate) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("anonymous")
    }

    /// A reader by the user's clock, or by the server's if that runs at another speed.
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

    /// Collects the assumptions of a reader, to be printed after the answer.
    pub(crate) fn has_read(&self, reader: &Reader) {
        self.by_clock.set(self.by_clock.get() || reader.has_used_now());
        self.notes.borrow_mut().extend(reader.take_assumed());
    }

    /// Formats times in the user's zone, with today by the server's clock.
    pub(crate) fn dates(&self) -> Dates {
        Dates::new(self.zone.clone(), self.server_now())
    }

    /// The present by the server's clock; by the user's before the first answer.
    pub(crate) fn server_now(&self) -> Timestamp {
        let Some(clock) = self.client.server_clock() else { return wall() };
        // Extrapolated from the last answer, so that no call is needed.
        let passed = clock.told.elapsed().as_millis().saturating_mul(u128::from(clock.speed)) / 1_000;
        Timestamp::nearest(clock.now.time() + Seconds(i64::try_from(passed).unwrap_or(i64::MAX)))
    }

    /// Prints once, if a time from a clock was sent, that the server's clock differs from the user's.
    fn tell_clock(&self) {
        let now = self.server_now();
        let off = now.time().0.abs_diff(wall().time().0) > SAME_CLOCK;
        let differs = off || self.speed() != 1;
        // The last condition has a side effect: it must be evaluated only if the note is really printed.
        if !differs || !self.by_clock.get() || self.clock_is_told.replace(true) {
            return;
        }
        let now = self.dates().both(now);
        match self.speed() {
            1 => say!("note: the clock of the server shows {now}; times are taken by your clock"),
            speed => say!(
                "note: the clock of the server shows {now} and runs {speed} times as fast as yours; times are taken by it"
            ),
        }
    }

    /// Seconds of the server's clock per second of the user's.
    fn speed(&self) -> u32 {
        self.client.server_clock().map_or(1, |clock| clock.speed)
    }

    /// Converts a hold time by the user's clock to one by the server's.
    pub(crate) fn hold_for(&self, length: Seconds) -> FineSeconds {
        self.by_clock.set(true);
        // Saturated: an absurd length asks for the longest hold, which the server limits.
        FineSeconds(length.0.saturating_mul(1_000).saturating_mul(i64::from(self.speed())))
    }

    /// Converts the remaining time of a hold by the server's clock to milliseconds by the user's.
    pub(crate) fn left_ms(&self, held_for: FineSeconds) -> i64 {
        held_for.0 / i64::from(self.speed())
    }

    /// A follow-up command to copy, with the server options of this one.
    pub(crate) fn command(&self, words: &[String]) -> String {
        let program = ["bookahead".to_owned()];
        command_line(program.iter().chain(words).chain(&self.again))
    }

    /// Prints the document as JSON with `--json`, and calls `people` otherwise.
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

fn wall() -> Timestamp {
    Timestamp::nearest(Time(jiff::Timestamp::now().as_second()))
}

/// Whether the server refused, without effect, because the times were computed for a clock of another speed.
fn is_other_clock(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.problem.code == Code::OtherClock.word())
}

/// Tells a refusal and wrong usage from a failure, because their exit codes differ.
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

/// Faster answers show no spinner, which would only flicker.
const QUIET_FOR: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(100);

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

/// Joins words to a command line, quoted for a POSIX shell.
fn command_line<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    // A list of harmless characters, not of special ones: what is missing here is quoted and still works.
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

/// The subject of a JSON Web Token, or None if `token` is something else. The signature is not verified, because only
/// the server can do that and the name is only used for `--mine`.
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
