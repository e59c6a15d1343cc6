//! What competes: the two methods of the paper, and what none has shown beside them.

use bookahead_plan::placement::{Admission, Method, Preference, Rules, SlotRules, Weights};
use bookahead_plan::{Policy, Seconds};
use bookahead_sim::Rated;

/// A way to place reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contender {
    /// The paper's earlier method.
    Load,
    /// The paper's new method.
    WhatIf,
    /// Vacancies around all planned jobs.
    LocalJobsPreferred,
    /// Vacancies around running jobs and the first in the queue.
    ReservationsFirst,
    /// What-if, where no waiting job may be delayed by more than an hour.
    WhatIfWithinAnHour,
}

impl Contender {
    /// The two that the paper compares.
    pub const PAPER: [Contender; 2] = [Contender::Load, Contender::WhatIf];
    /// All.
    pub const ALL: [Contender; 5] = [
        Contender::Load,
        Contender::WhatIf,
        Contender::LocalJobsPreferred,
        Contender::ReservationsFirst,
        Contender::WhatIfWithinAnHour,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Load => "load",
            Contender::WhatIf => "what-if",
            Contender::LocalJobsPreferred => "earliest start, local jobs preferred",
            Contender::ReservationsFirst => "earliest start, reservations first",
            Contender::WhatIfWithinAnHour => "what-if, delays of an hour at most",
        }
    }

    /// It, ready to decide.
    pub fn placement(self) -> Rated {
        let what_if = Method::WhatIf(Weights::EVEN);
        let hour = Admission { longest_delay: Some(Seconds(3_600)), ..Admission::default() };
        let (method, admission, preference) = match self {
            Contender::Load => (Method::Load, Admission::default(), Preference::BestAvailability),
            Contender::WhatIf => (what_if, Admission::default(), Preference::BestAvailability),
            Contender::LocalJobsPreferred => (
                Method::EarliestStart { local_jobs_preferred: true },
                Admission::default(),
                Preference::Earliest,
            ),
            Contender::ReservationsFirst => (
                Method::EarliestStart { local_jobs_preferred: false },
                Admission::default(),
                Preference::Earliest,
            ),
            Contender::WhatIfWithinAnHour => (what_if, hour, Preference::BestAvailability),
        };
        // The paper bounds the number of slots and their gap, and adds the start as a job; it says no numbers.
        let slots = SlotRules { most: 20, gap: Seconds(900), natural: false };
        Rated::new(Rules { policy: Policy::EASY, method, slots, admission }, preference)
    }
}
