//! Notices to owners about their reservations, in addition to the event stream: by the webhook of a request, and by
//! a command of the operator (`[notify]`).
//!
//! - [`Outbox`]: notices to deliver, filled when events are durable, and from the journal after a restart
//! - [`deliver`]: one task for each [`Target`], which retries until it succeeds or gives up, in order for each
//!   reservation
//! - [`prefix`]: URLs that owners may use; [`target`]: delivery and signature of one notice
//!
//! Never delays the party, which hands over its notices and continues. Delivery is at least once; repeated
//! deliveries have the same id.

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
use crate::journal::{Lease, Store};
use crate::state_file::StateFile;
use bookahead_protocol::Name;
use std::path::Path;
use std::sync::Arc;

/// Name of the outbox file in the state folder.
const FILE: &str = "notices.json";

impl NotifyConfig {
    /// All configured targets. Reads secrets and checks that the command exists.
    pub(crate) fn targets(&self, base: &Path) -> Result<Vec<Target>, DaemonError> {
        let command = self.command.as_deref().map(|words| Target::command(words, self.timeout.duration()));
        let webhooks = self.webhooks.iter().enumerate().map(|(at, webhook)| {
            Target::webhook(webhook, self.timeout.duration(), base).map_err(|why| match why {
                DaemonError::Wrong(wrong) => wrong.within(at).within("webhook").within("notify").into(),
                // Other errors name their file, by which the entry is found.
                other => other,
            })
        });
        let command = command.transpose().map_err(|wrong| wrong.within("notify"))?;
        command.into_iter().map(Ok).chain(webhooks).collect()
    }

    /// The outbox of a party. `None` if no receivers are configured.
    pub(crate) fn outbox(
        &self,
        (what, name): (&'static str, &str),
        base: &Path,
        state: &Path,
        journal: (&Store, &Lease),
    ) -> Result<Option<Arc<Outbox>>, DaemonError> {
        let targets = self.targets(base)?;
        let place = StateFile::new(FILE, (what, name), state, journal);
        let outbox = || Outbox::new(Name::from(name), place, targets);
        Ok((self.command.is_some() || !self.webhooks.is_empty()).then(|| Arc::new(outbox())))
    }
}
