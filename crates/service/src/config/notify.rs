//! The table `[notify]`: receivers of notices about reservations, in addition to the event stream.

use super::error::Wrong;
use bookahead_api::Length;
use bookahead_protocol::Millis;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Receivers of notices. Paths are relative to the folder of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct NotifyConfig {
    pub command: Option<Vec<String>>,
    pub timeout: Length,
    #[serde(rename = "webhook")]
    pub webhooks: Vec<WebhookConfig>,
}

/// Webhook URLs that owners may use: `[[notify.webhook]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct WebhookConfig {
    pub prefix: String,
    pub secret_file: PathBuf,
    pub ca: Option<PathBuf>,
}

impl Default for NotifyConfig {
    fn default() -> NotifyConfig {
        NotifyConfig { command: None, timeout: Length::of_seconds(10), webhooks: Vec::new() }
    }
}

impl NotifyConfig {
    /// Checks the timeout. Files are checked when they are opened.
    pub fn check(&self) -> Result<(), Wrong> {
        // A receiver that hangs takes one of a few slots for this long and delays other reservations. In less
        // than 100ms a command can hardly start, nor a distant receiver answer.
        let bounds = Length(Millis(100))..=Length::of_seconds(300);
        Wrong::unless(
            bounds.contains(&self.timeout),
            "timeout",
            "timeout must be 100ms to 5m; usually \"10s\"",
        )
    }
}
