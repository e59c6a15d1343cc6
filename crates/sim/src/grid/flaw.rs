//! Parties, and what drives them, broken on purpose: what fault schedules must catch. Without the feature `flaws`, which only
//! tests turn on, most of it stays as it is.

use bookahead_party::broker::Broker;
use bookahead_party::site::{Site, SiteFlaw};
use bookahead_protocol::flaw::Flaw as Core;

/// A way to break a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// In the deciding code.
    Core(Core),
    /// In sites.
    Site(SiteFlaw),
    /// What drives a party lets its outputs leave before its events are durable.
    AnswerBeforeWriting,
    /// A site that restarts has forgotten until when it holds.
    ForgetDeadlines,
    /// A site takes a repeated reservation for a new one.
    RepeatsAreNew,
}

impl Flaw {
    #[cfg(feature = "flaws")]
    pub(super) fn set_in_site(self, site: &mut Site) {
        match self {
            Flaw::Core(flaw) => site.break_book_by(flaw),
            Flaw::Site(flaw) => site.break_by(flaw),
            _ => {}
        }
    }

    #[cfg(not(feature = "flaws"))]
    pub(super) fn set_in_site(self, _: &mut Site) {}

    #[cfg(feature = "flaws")]
    pub(super) fn set_in_broker(self, broker: &mut Broker) {
        if let Flaw::Core(flaw) = self {
            broker.break_by(flaw);
        }
    }

    #[cfg(not(feature = "flaws"))]
    pub(super) fn set_in_broker(self, _: &mut Broker) {}
}
