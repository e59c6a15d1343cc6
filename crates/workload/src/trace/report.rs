//! The account of a loaded log: how many job lines were read and kept, and how often each reason to drop or
//! mend applied. For every loaded trace, kept + dropped + outside the range = read.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::reason::{Mends, Reason};

/// What became of the job lines of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleaningReport {
    /// Job lines read.
    pub read: u64,
    /// Jobs in the trace.
    pub kept: u64,
    /// Jobs submitted outside the chosen range.
    pub outside_range: u64,
    counts: [u64; Reason::ALL.len()],
}

impl CleaningReport {
    /// How often `reason` applied.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason.index()]
    }

    /// All reasons that applied, in the order of [`Reason::ALL`].
    pub fn counts(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.count(reason))).filter(|(_, count)| *count > 0)
    }

    /// Jobs dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.counts().filter(|(reason, _)| reason.is_drop()).map(|(_, count)| count).sum()
    }

    pub(super) fn drop_one(&mut self, reason: Reason) {
        self.counts[reason.index()] += 1;
    }

    /// Counts a job that is kept.
    #[inline]
    pub(super) fn keep_one(&mut self, mends: Mends) {
        self.kept += 1;
        if !mends.is_empty() {
            for reason in mends.iter() {
                self.counts[reason.index()] += 1;
            }
        }
    }
}

impl fmt::Display for CleaningReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} job lines read, {} kept", self.read, self.kept)?;
        if self.outside_range > 0 {
            write!(f, ", {} outside the range", self.outside_range)?;
        }
        for (reason, count) in self.counts() {
            write!(f, ", {count} {}", reason.code())?;
        }
        Ok(())
    }
}

/// Those counts whose reason drops, or those whose reason mends, as a map from code to count.
struct CountMap<'a> {
    report: &'a CleaningReport,
    drops: bool,
}

impl Serialize for CountMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (reason, count) in self.report.counts().filter(|(reason, _)| reason.is_drop() == self.drops) {
            map.serialize_entry(reason.code(), &count)?;
        }
        map.end()
    }
}

impl Serialize for CleaningReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("CleaningReport", 5)?;
        report.serialize_field("read", &self.read)?;
        report.serialize_field("kept", &self.kept)?;
        report.serialize_field("outside_range", &self.outside_range)?;
        report.serialize_field("dropped", &CountMap { report: self, drops: true })?;
        report.serialize_field("mended", &CountMap { report: self, drops: false })?;
        report.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> CleaningReport {
        let mut mends = Mends::NONE;
        mends.add(Reason::RunCutAtRequest);
        let mut report = CleaningReport { read: 5, outside_range: 1, ..CleaningReport::default() };
        report.drop_one(Reason::NoRunTime);
        report.drop_one(Reason::NoRunTime);
        report.keep_one(Mends::NONE);
        report.keep_one(mends);
        report
    }

    #[test]
    fn a_report_is_written_as_maps_from_code_to_count() {
        let json = serde_json::to_string(&example()).unwrap();
        let expected = r#"{"read":5,"kept":2,"outside_range":1,"#.to_owned()
            + r#""dropped":{"no-run-time":2},"mended":{"run-cut-at-request":1}}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn a_report_is_a_sentence_for_people() {
        assert_eq!(
            example().to_string(),
            "5 job lines read, 2 kept, 1 outside the range, 2 no-run-time, 1 run-cut-at-request"
        );
    }

    #[test]
    fn only_drops_count_as_dropped() {
        assert_eq!(example().dropped(), 2);
    }
}
