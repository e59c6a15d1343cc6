//! The set-up of the paper (Sections 4.1 and 4.2) and, in one struct, everything about requests that the paper leaves
//! open. [`CHOICES`] were made before the first run and never changed; [`ALTERNATIVES`] show what others would have given.

use bookahead_plan::Seconds;
use bookahead_protocol::broker::LeftOut;

/// Processors of the eight machines.
pub(super) const MACHINES: [u32; 8] = [512, 256, 256, 128, 128, 96, 32, 32];
/// The shortest and the longest sub-job, in slots of one second.
pub(super) const DURATIONS: (i64, i64) = (1_250, 3_750);
/// The narrowest and the widest sub-job, in processors.
pub(super) const PROCESSORS: (i64, i64) = (1, 10);

/// How many in a hundred of the requests go through the evaluated broker (Figures 6 and 8).
pub(super) const SHARES: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Mean slots between two requests in Figures 6 and 8, as printed.
pub(super) const INTER_ARRIVAL: u32 = 20;
/// Mean slots between two requests in Figure 7. The paper's axis is not readable in the text at hand.
pub(super) const INTER_ARRIVALS: [u32; 8] = [10, 15, 20, 30, 40, 60, 80, 100];
/// The share in Figure 7, as printed.
pub(super) const HALF: u32 = 50;

/// Rejecters for each thousand accepters (Figure 9).
pub(super) const REJECTERS: [u32; 7] = [0, 100, 250, 500, 1_000, 2_000, 4_000];
/// Time-outs of holds in slots (Figure 9).
pub(super) const TIMEOUTS: [u32; 9] = [1, 50, 100, 200, 300, 500, 1_000, 2_000, 4_000];
/// The longest of them: what a site grants where nothing else limits a hold.
pub(super) const LONGEST: u32 = TIMEOUTS[TIMEOUTS.len() - 1];
/// Mean slots between two accepters in Figure 9, where the paper prints none. At 20 the accepters alone would want more
/// than there is, so that a rate of 0.8 could not be reached at any time-out; see the page.
pub(super) const ACCEPTER_INTER_ARRIVAL: u32 = 40;
/// Acceptance rates that sites adapt their holds to, per million; the first is the paper's example.
pub(super) const TARGETS: [u32; 2] = [800_000, 900_000];

/// What the paper does not say about requests, brokers and sites.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choices {
    /// The fewest and the most sub-jobs of a request, every number alike.
    pub(super) parts: (i64, i64),
    /// The mean of the advance booking period.
    pub(super) book_ahead: f64,
    /// By how much every sub-job may begin later than at the earliest.
    pub(super) window: Seconds,
    /// How the sub-jobs of a request follow each other.
    pub(super) order: Order,
    /// What a broker leaves out after a refusal.
    pub(super) left_out: LeftOut,
    /// Whether sites tell what is free beside a slot.
    pub(super) tell_free: bool,
}

/// How the sub-jobs of a request follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// All begin at the same moment.
    Together,
    /// Each begins after the end of the one before it.
    OneAfterTheOther,
}

/// What the page's figures are made with. A reservation candidate of the paper has a begin, an end and a capacity, so
/// sites do not tell what is free beside it; after a refusal the whole resource is left out, as in its step 6b.
pub(super) const CHOICES: Choices = Choices {
    parts: (2, 5),
    book_ahead: 2_500.0,
    window: Seconds(2_500),
    order: Order::Together,
    left_out: LeftOut::Resource,
    tell_free: false,
};

/// Where in [`sets`] the second mean of the advance booking period stands.
pub(super) const LONGER_AHEAD: usize = 1;

/// Other choices, each with one thing changed, to see what depends on them.
pub(super) const ALTERNATIVES: [(&str, Choices); 6] = [
    ("booked 10,000 slots ahead on average", Choices { book_ahead: 10_000.0, ..CHOICES }),
    ("sites tell what is free beside a slot", Choices { tell_free: true, ..CHOICES }),
    ("only the refused slot is left out", Choices { left_out: LeftOut::Slot, ..CHOICES }),
    ("sub-jobs one after the other", Choices { order: Order::OneAfterTheOther, ..CHOICES }),
    ("no flexibility in time", Choices { window: Seconds(0), ..CHOICES }),
    ("two sub-jobs each", Choices { parts: (2, 2), ..CHOICES }),
];

/// All sets of choices, ours first.
pub(super) fn sets() -> impl Iterator<Item = (&'static str, Choices)> {
    std::iter::once(("ours", CHOICES)).chain(ALTERNATIVES)
}

impl Choices {
    /// How much is asked for, of all that the machines have, where a request comes every so many slots.
    pub(super) fn load(&self, inter_arrival: u32) -> f64 {
        let middle = |(low, high): (i64, i64)| (low + high) as f64 / 2.0;
        let wanted = middle(self.parts) * middle(DURATIONS) * middle(PROCESSORS);
        wanted / f64::from(inter_arrival) / f64::from(MACHINES.iter().sum::<u32>())
    }
}
