//! Telling owners what happens to their reservations, beside the stream of events: by a webhook that the request names, and by
//! a command of the operator (`[notify]`).
//!
//! - [`Outbox`]: what has to be delivered. Filled when events are durable, and after a restart from the journal
//! - [`deliver`]: one task for each [`Target`], which tries until it succeeds or gives up, in order for each reservation
//! - [`prefix`]: which addresses owners may name; [`target`]: how one notice is delivered, and its signature
//!
//! Nothing here delays the party: it hands over what happened and goes on. A notice is delivered at least once; its id says
//! which are the same.

mod deliver;
mod outbox;
mod prefix;
mod target;

pub(crate) use deliver::deliver;
pub use outbox::Outbox;
pub(crate) use outbox::{Counts, not_allowed};
pub(crate) use target::Target;

use crate::config::NotifyConfig;
use crate::daemon::DaemonError;
use bookahead_protocol::Name;
use std::path::Path;
use std::sync::Arc;

/// The file of an outbox, in the state folder of its party.
const FILE: &str = "notices.json";

impl NotifyConfig {
    /// All that is told; empty where nothing is configured. Secrets are read, and the command is looked for.
    pub(crate) fn targets(&self, base: &Path) -> Result<Vec<Target>, DaemonError> {
        let command = self.command.as_deref().map(|words| Target::command(words, self.timeout.duration()));
        let webhooks = self.webhooks.iter().enumerate().map(|(at, webhook)| {
            Target::webhook(webhook, self.timeout.duration(), base).map_err(|why| match why {
                DaemonError::Wrong(wrong) => wrong.within(at).within("webhook").within("notify").into(),
                other => other,
            })
        });
        let command = command.transpose().map_err(|wrong| wrong.within("notify"))?;
        command.into_iter().map(Ok).chain(webhooks).collect()
    }

    /// The outbox of a party with this state folder; None where nobody is told.
    pub(crate) fn outbox(
        &self,
        name: &str,
        base: &Path,
        state: &Path,
    ) -> Result<Option<Arc<Outbox>>, DaemonError> {
        let targets = self.targets(base)?;
        let outbox = || Outbox::new(Name::from(name), state.join(FILE), targets);
        Ok((self.command.is_some() || !self.webhooks.is_empty()).then(|| Arc::new(outbox())))
    }
}
