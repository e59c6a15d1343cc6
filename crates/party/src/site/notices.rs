//! What a site tells about a change in its ledger.

use super::Site;
use crate::step::{Missing, Notice};
use bookahead_protocol::Moment;
use bookahead_protocol::ledger::{self, What};

impl Site {
    pub(super) fn notice(&mut self, now: Moment, event: &ledger::Event) -> Option<Notice> {
        let mut notice = self.plain_notice(event)?;
        if let (Some(missing), Some(id)) = (&mut notice.missing, notice.id)
            && missing.capacity.0 > 0
        {
            missing.could_begin = self.could_begin(now, id);
        }
        Some(notice)
    }

    /// The notice of an event, without alternative starts, which need a search.
    pub(super) fn plain_notice(&self, event: &ledger::Event) -> Option<Notice> {
        let id = event.what.id();
        let (missing, because) = match &event.what {
            What::Missing { capacity, .. } => {
                (Some(Missing { capacity: *capacity, could_begin: Vec::new() }), None)
            }
            What::Cancelled { because, .. } | What::Terminated { because, .. } => {
                (None, Some(because.word()))
            }
            What::NotGranted { problem, .. } => (None, Some(problem.why.code())),
            _ => (None, None),
        };
        let told = id.is_some() || matches!(event.what, What::Lost { .. } | What::Restored { .. });
        let entry = id.and_then(|id| self.ledger.entry(id));
        told.then(|| Notice {
            at: event.at,
            kind: event.what.word(),
            id,
            job: None,
            owner: entry.map(|entry| entry.owner.clone()),
            shared_with: entry.map(|entry| entry.guests().shared_with.clone()).unwrap_or_default(),
            consents: entry.map(|entry| entry.guests().consents.clone()).unwrap_or_default(),
            state: entry.map(|entry| entry.state),
            version: entry.map(|entry| entry.version),
            missing,
            because,
            webhook: entry.and_then(|entry| entry.request.webhook.clone()),
        })
    }
}
