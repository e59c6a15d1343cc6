//! The protocol, broken on purpose: what the fault tests must catch. Without the feature `flaws`, which only tests turn
//! on, nothing here can be set and nothing is ever broken.

/// A way to break it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flaw {
    /// A broker commits what it holds although a part was refused.
    IgnoreRefusals,
    /// A broker does not give back what it does not want any more.
    ForgetToCancel,
    /// A broker that restarts has forgotten that it decided to commit.
    ForgetDecisions,
    /// A ledger does not count holds as taken.
    HoldsTakeNoRoom,
    /// A ledger accepts late commits without looking whether the room is still free.
    LateCommitsUnseen,
    /// A broker does not look after what it booked.
    ForgetParts,
    /// A broker changes the other parts of a booking although one was refused.
    ChangeInPart,
    /// A race of copies grants every claim.
    GrantTwoClaims,
}

/// Whether, and how, a value is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Broken {
    #[cfg(feature = "flaws")]
    by: Option<Flaw>,
}

impl Broken {
    #[cfg(feature = "flaws")]
    pub(crate) fn by(flaw: Flaw) -> Broken {
        Broken { by: Some(flaw) }
    }

    #[cfg(feature = "flaws")]
    pub(crate) fn is(self, flaw: Flaw) -> bool {
        self.by == Some(flaw)
    }

    #[cfg(not(feature = "flaws"))]
    pub(crate) fn is(self, _: Flaw) -> bool {
        false
    }
}
