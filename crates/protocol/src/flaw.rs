//! Deliberate protocol faults that the fault tests must detect. Release builds ignore them.

/// A deliberate fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flaw {
    /// A broker commits its holds although a part was refused.
    IgnoreRefusals,
    /// A broker does not release holds that it no longer needs.
    ForgetToCancel,
    /// A restarted broker has lost its commit decisions.
    ForgetDecisions,
    /// A ledger does not count holds as taken.
    HoldsTakeNoRoom,
    /// A ledger accepts late commits without checking that the capacity is still free.
    LateCommitsUnseen,
    /// A broker does not watch the parts that it booked.
    ForgetParts,
    /// A broker changes the other parts of a booking although one was refused.
    ChangeInPart,
    /// A race of copies grants every claim.
    GrantTwoClaims,
    /// A race of copies takes a silent site for one that lost its copy.
    RetryWhenSilent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Broken {
    by: Option<Flaw>,
}

impl Broken {
    pub(crate) fn by(flaw: Flaw) -> Broken {
        Broken { by: Some(flaw) }
    }

    pub(crate) fn is(self, flaw: Flaw) -> bool {
        cfg!(debug_assertions) && self.by == Some(flaw)
    }
}
