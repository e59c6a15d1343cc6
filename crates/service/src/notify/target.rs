//! One delivery attempt of a notice: a signed POST, or a command that reads it. Does not schedule attempts.

use super::prefix::{self, Prefix};
use crate::config::{WebhookConfig, Wrong};
use crate::daemon::DaemonError;
use crate::security::SecurityError;
use crate::security::tls::Content;
use bookahead_client::{Options, Poster};
use bookahead_lrms::command::{Command, Runner};
use bookahead_protocol::ReservationId;
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// Shortest secret in bytes. Shorter ones can be guessed.
const SHORTEST_SECRET: usize = 16;

/// Concurrent commands: enough that a slow one does not delay the next reservation, few enough to cause no load.
const COMMANDS_AT_ONCE: usize = 4;

/// Concurrent requests below one prefix.
const POSTS_AT_ONCE: usize = 8;

/// Attempts of a failing command: it runs on this machine, so waiting does not help.
const COMMAND_TRIES: u32 = 5;

/// How long delivery to a webhook is tried. Its receiver may be down overnight.
const POSTED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A notice for one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Letter {
    /// Number of its event.
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) reservation: ReservationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) webhook: Option<String>,
    /// Time of arrival in milliseconds since 1970.
    pub(super) since_ms: u64,
    pub(super) body: String,
}

impl Letter {
    /// Time of arrival since 1970.
    pub(super) fn since(&self) -> Duration {
        Duration::from_millis(self.since_ms)
    }
}

/// A receiver of notices.
pub(crate) enum Target {
    /// A command of the operator, for every notice.
    Command { words: Vec<String>, timeout: Duration },
    /// Webhooks below a prefix, for the reservations that use one.
    Webhook(Box<Webhook>),
}

pub(crate) struct Webhook {
    prefix: Prefix,
    secret: Key,
    poster: Poster,
    timeout: Duration,
}

impl Target {
    pub(super) fn command(words: &[String], timeout: Duration) -> Result<Target, Wrong> {
        let wrong = |why: String| Wrong::new("command", why);
        let Some(program) = words.first().filter(|program| !program.is_empty()) else {
            return Err(wrong("command must name a program; write command = [\"/path/program\"]".to_owned()));
        };
        if !Path::new(program).is_absolute() {
            return Err(wrong(format!(
                "{program} is not an absolute path; write command = [\"/path/program\"]"
            )));
        }
        if !is_executable(Path::new(program)) {
            let why = format!("{program} is not executable; check the path, and chmod +x {program}");
            return Err(wrong(why));
        }
        Ok(Target::Command { words: words.to_vec(), timeout })
    }

    pub(super) fn webhook(
        config: &WebhookConfig,
        timeout: Duration,
        base: &Path,
    ) -> Result<Target, DaemonError> {
        let prefix = Prefix::parse(&config.prefix);
        let prefix = prefix.map_err(|why| Wrong::new("prefix", format!("{}: {why}", config.prefix)))?;
        let content = Content::read("the secret of a webhook", &base.join(&config.secret_file))?;
        content.must_be_private()?;
        let secret = content.bytes.trim_ascii();
        if secret.len() < SHORTEST_SECRET {
            let path = config.secret_file.display();
            let why = format!(
                "the secret in {path} has fewer than {SHORTEST_SECRET} bytes; make one with: openssl rand -hex 32"
            );
            return Err(SecurityError::Settings(why).into());
        }
        let ca: Option<PathBuf> = config.ca.as_ref().map(|ca| base.join(ca));
        let poster = Poster::new(&prefix.to_string(), &Options { ca, ..Options::default() })?;
        let secret = Key::new(HMAC_SHA256, secret);
        Ok(Target::Webhook(Box::new(Webhook { prefix, secret, poster, timeout })))
    }

    /// Name for metrics and logs.
    pub(crate) fn name(&self) -> String {
        match self {
            Target::Command { .. } => "command".to_owned(),
            Target::Webhook(webhook) => webhook.prefix.to_string(),
        }
    }

    /// Whether it delivers notices for this webhook. `None` stands for the command.
    pub(super) fn is_for(&self, webhook: Option<&str>) -> bool {
        match (self, webhook) {
            (Target::Command { .. }, None) => true,
            (Target::Webhook(own), Some(webhook)) => {
                prefix::sound(webhook).is_ok_and(|url| own.prefix.covers(&url))
            }
            _ => false,
        }
    }

    pub(super) fn at_once(&self) -> usize {
        match self {
            Target::Command { .. } => COMMANDS_AT_ONCE,
            Target::Webhook(_) => POSTS_AT_ONCE,
        }
    }

    /// Whether to retry after this many attempts.
    pub(super) fn tries_again(&self, letter: &Letter, tries: u32) -> bool {
        match self {
            Target::Command { .. } => tries < COMMAND_TRIES,
            Target::Webhook(_) => now().saturating_sub(letter.since()) < POSTED_FOR,
        }
    }

    /// Makes one attempt.
    pub(super) async fn attempt(&self, letter: &Letter) -> Result<(), String> {
        match self {
            Target::Command { words, timeout } => run(words, *timeout, &letter.body).await,
            Target::Webhook(webhook) => webhook.post(letter).await,
        }
    }
}

impl Webhook {
    async fn post(&self, letter: &Letter) -> Result<(), String> {
        let timestamp = now().as_secs().to_string();
        let headers = [
            ("bookahead-notice", letter.id.clone()),
            ("bookahead-signature", signature(&self.secret, &timestamp, &letter.body)),
            ("bookahead-timestamp", timestamp),
        ];
        // `is_for` has matched this URL with the prefix, so the request cannot leave it.
        let url = letter.webhook.as_deref().unwrap_or_default();
        match self.poster.post(url, &headers, letter.body.clone(), self.timeout).await {
            Ok(200..=299) => Ok(()),
            Ok(status) => Err(format!("it answered with status {status}")),
            Err(why) => Err(why.to_string()),
        }
    }
}

/// The system clock, not the validated one: receivers compare timestamps with their own clocks.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// HMAC of timestamp and body. The receiver computes it with the shared secret.
fn signature(secret: &Key, timestamp: &str, body: &str) -> String {
    let tag = sign(secret, format!("{timestamp}.{body}").as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Runs the command on a thread of its own, so that stopping the service does not wait for it. `env -i` clears the
/// environment, which may contain secrets.
async fn run(words: &[String], timeout: Duration, body: &str) -> Result<(), String> {
    let kept =
        ["PATH", "HOME"].iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    let command = Command::new("env").arg("-i").args(kept).args(words).input(body);
    let (tell, told) = oneshot::channel();
    // A new runner for each command: after a timeout a runner refuses further commands.
    let work = move || drop(tell.send(Runner::local(timeout).run(&command)));
    std::thread::Builder::new().name("notice".into()).spawn(work).map_err(|why| why.to_string())?;
    match told.await {
        Ok(Ok(outcome)) if outcome.is_success() => Ok(()),
        Ok(Ok(outcome)) => {
            let code = outcome.code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
            let said: String = outcome.said().chars().take(200).collect();
            Err(format!("it ended with {code}: {said}"))
        }
        Ok(Err(why)) => Err(why.to_string()),
        Err(_) => Err("it did not run".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second case of RFC 4231, split at the full stop that separates timestamp and body.
    #[test]
    fn a_signature_is_the_hmac_of_timestamp_and_body() {
        let key = Key::new(HMAC_SHA256, b"Jefe");
        let whole = sign(&key, b"what do ya want for nothing?");
        let digits: String = whole.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        // openssl dgst -sha256 -hmac Jefe of 1794819600.{"id":"ntc_1"}
        assert_eq!(
            signature(&key, "1794819600", "{\"id\":\"ntc_1\"}"),
            "sha256=ddd63431159de55187e229afb84d4ba804f98e2ef9dc4ae6a09911850a9a4cb8"
        );
    }

    #[test]
    fn a_command_must_be_a_program_with_an_absolute_path() {
        let wrong = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Target::command(&words, Duration::from_secs(1)).map(|_| ()).map_err(|wrong| wrong.why)
        };
        assert_eq!(wrong(&["/bin/sh", "-c", "true"]), Ok(()));
        assert!(wrong(&[]).unwrap_err().contains("must name a program"));
        assert!(wrong(&["sh"]).unwrap_err().contains("absolute"));
        assert!(wrong(&["/etc/passwd"]).unwrap_err().contains("chmod +x"));
        assert!(wrong(&["/no/such"]).unwrap_err().contains("check the path"));
    }
}
