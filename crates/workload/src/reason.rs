//! Reasons for dropping or correcting a job line. Every reason has a stable code and a sentence for people;
//! [`Mends`] is a set of them. The reader and the cleaning rules decide which apply.

/// Why a job was dropped, or how it was corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// A field is not a number.
    MalformedLine,
    /// The line is longer than 64 KiB.
    LineTooLong,
    /// A number is too large for a time or a number of processors.
    NumberOutOfRange,
    /// The submit time is unknown.
    NoSubmitTime,
    /// The run time is zero, negative or unknown.
    NoRunTime,
    /// Requested and allocated processors are zero, negative or unknown.
    NoProcessors,
    /// The job is larger than the machine.
    AboveMachine,
    /// The job ran longer than requested, and such jobs are dropped.
    RunAboveRequest,
    /// The requested processors are unknown; the allocated ones are used.
    ProcessorsFromAllocated,
    /// The requested time is unknown; the run time is used.
    RequestFromRun,
    /// The job ran longer than requested and was cut at the request.
    RunCutAtRequest,
    /// The job ran longer than requested and was kept like that.
    OverrunKept,
    /// The job was submitted before a job on an earlier line, and was moved.
    SubmitOutOfOrder,
    /// A field had a fraction instead of a whole number, and was rounded.
    FractionRounded,
    /// The line has fewer than 18 fields; the others count as unknown.
    MissingFieldsFilled,
    /// The line has more than 18 fields; the others are ignored.
    ExtraFieldsIgnored,
}

/// Every reason at its [`Reason::index`], with its code and its sentence.
const REASONS: [(Reason, &str, &str); 16] = [
    (Reason::MalformedLine, "malformed-line", "a field is not a number"),
    (Reason::LineTooLong, "line-too-long", "the line is longer than 64 KiB"),
    (
        Reason::NumberOutOfRange,
        "number-out-of-range",
        "a number is too large to be a time or a count of processors",
    ),
    (Reason::NoSubmitTime, "no-submit-time", "the submit time (field 2) is unknown"),
    (Reason::NoRunTime, "no-run-time", "the job did not run (field 4)"),
    (Reason::NoProcessors, "no-processors", "the job has no processors (fields 8 and 5)"),
    (Reason::AboveMachine, "above-machine", "the job needs more processors than the machine has"),
    (Reason::RunAboveRequest, "run-above-request", "the job ran longer than it asked for"),
    (
        Reason::ProcessorsFromAllocated,
        "processors-from-allocated",
        "the requested processors (field 8) are unknown, the allocated ones (field 5) were taken",
    ),
    (
        Reason::RequestFromRun,
        "request-from-run",
        "the requested time (field 9) is unknown, the run time (field 4) was taken",
    ),
    (Reason::RunCutAtRequest, "run-cut-at-request", "the job ran longer than it asked for and was cut there"),
    (Reason::OverrunKept, "overrun-kept", "the job ran longer than it asked for and was kept so"),
    (
        Reason::SubmitOutOfOrder,
        "submit-out-of-order",
        "the job was submitted before one on an earlier line and was moved",
    ),
    (
        Reason::FractionRounded,
        "fraction-rounded",
        "a fraction stood where a whole number belongs and was rounded",
    ),
    (
        Reason::MissingFieldsFilled,
        "missing-fields-filled",
        "the line has fewer than 18 fields, the rest were taken as unknown",
    ),
    (
        Reason::ExtraFieldsIgnored,
        "extra-fields-ignored",
        "the line has more than 18 fields, the rest were ignored",
    ),
];

impl Reason {
    /// All reasons, in the order of reports: those that drop a job first.
    pub const ALL: [Reason; REASONS.len()] = {
        // A constant cannot be computed with iterators.
        let mut all = [Reason::MalformedLine; REASONS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = REASONS[at].0;
            at += 1;
        }
        all
    };

    /// Whether the job is dropped; otherwise it is corrected and kept.
    pub fn is_drop(self) -> bool {
        // The order of the variants matters: those that drop a job come first, and this is the last of them.
        self <= Reason::RunAboveRequest
    }

    /// A name for programs; it never changes.
    pub fn code(self) -> &'static str {
        REASONS[self.index()].1
    }

    /// A sentence for people.
    pub fn sentence(self) -> &'static str {
        REASONS[self.index()].2
    }

    /// Index into an array with one entry per reason.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// A set of corrections of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mends(u16);

impl Mends {
    /// The empty set.
    pub const NONE: Mends = Mends(0);

    /// Adds a reason; adding it twice changes nothing.
    #[inline]
    pub fn add(&mut self, reason: Reason) {
        // Each of the 16 bits belongs to a reason; a further reason needs a wider type.
        self.0 |= 1 << reason.index();
    }

    /// Whether the job was not corrected.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `reason` is in the set.
    pub fn contains(self, reason: Reason) -> bool {
        self.0 & (1 << reason.index()) != 0
    }

    /// The first in the order of [`Reason::ALL`].
    #[inline]
    pub fn first(self) -> Option<Reason> {
        if self.is_empty() { None } else { self.iter().next() }
    }

    /// All reasons of the set, in the order of [`Reason::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        Reason::ALL.into_iter().filter(move |reason| self.contains(*reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_listed_at_its_index() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }

    #[test]
    fn codes_are_kebab_case_and_differ() {
        let mut codes: Vec<_> = Reason::ALL.map(Reason::code).to_vec();
        assert!(codes.iter().all(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Reason::ALL.len());
    }

    #[test]
    fn a_set_of_mends_gives_back_what_was_added() {
        let mut mends = Mends::NONE;
        assert!(mends.is_empty());
        mends.add(Reason::ExtraFieldsIgnored);
        mends.add(Reason::RequestFromRun);
        mends.add(Reason::RequestFromRun);
        assert_eq!(mends.iter().collect::<Vec<_>>(), [Reason::RequestFromRun, Reason::ExtraFieldsIgnored]);
    }
}
