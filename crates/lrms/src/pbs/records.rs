//! Records in the output of `qstat -f -F dsv` and `pbsnodes -F dsv`: one line each, `Job Id: 7.server|name=value|…`.
//! Of PBS's formats, only this one cannot be broken by values: its JSON has unescaped keys, values such as `00` and
//! `inf` without quotes, and quotes inside of values. Here `|` and backslashes in values are escaped, and line feeds
//! are written as `
//! `, with one exception: PBS prints the byte 0xCA as `^` and a line feed, so a line may continue on the next.
//!
//! No text of a user can affect other records, and parsing never fails: text that is not a record is skipped.

use std::collections::BTreeMap;

/// One job, vnode or server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) id: String,
    values: BTreeMap<String, String>,
}

/// How a kind of record begins.
pub(super) struct Head {
    /// Text in front of the id.
    label: &'static str,
    /// Its first attribute. After a line that may continue, a line with another attribute is not a record.
    first: &'static str,
}

pub(super) const JOB: Head = Head { label: "Job Id: ", first: "Job_Name=" };
pub(super) const VNODE: Head = Head { label: "Name=", first: "Mom=" };
pub(super) const SERVER: Head = Head { label: "Server: ", first: "server_state=" };

impl Record {
    /// An attribute, such as `Resource_List.ncpus`.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.trim().parse().ok()
    }

    /// A number of processors; zero if missing.
    pub(super) fn count(&self, name: &str) -> u32 {
        self.number(name).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    /// All attributes whose names begin with this, without it.
    pub(super) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.values.iter();
        all.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

/// All records of a kind. None if there is output without any record: then it is something else.
pub(super) fn read(out: &str, head: &Head) -> Option<Vec<Record>> {
    let mut begins = Vec::new();
    let (mut at, mut may_go_on) = (0, false);
    for line in out.split_inclusive('\n') {
        if head.begins(line, may_go_on) {
            begins.push(at);
        }
        at += line.len();
        // The end of a line may be the byte 0xCA, see above.
        may_go_on = line.trim_end_matches('\n').ends_with('^');
    }
    if begins.is_empty() {
        return out.trim().is_empty().then(Vec::new);
    }
    let ends = begins.iter().skip(1).copied().chain([out.len()]);
    let records = begins.iter().zip(ends).filter_map(|(begin, end)| record(out.get(*begin..end)?, head));
    Some(records.collect())
}

impl Head {
    fn begins(&self, line: &str, may_go_on: bool) -> bool {
        let Some((id, rest)) = line.strip_prefix(self.label).and_then(|line| line.split_once('|')) else {
            return false;
        };
        is_id(id) && (!may_go_on || rest.starts_with(self.first))
    }
}

/// Names of hosts, vnodes and jobs. Backslashes are not allowed, so an escaped `|` cannot end an id.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-[]@:".contains(&byte))
}

fn record(text: &str, head: &Head) -> Option<Record> {
    let mut fields = fields(text.strip_prefix(head.label)?.trim_end_matches('\n')).into_iter();
    let id = fields.next()?;
    let mut values = BTreeMap::new();
    for field in fields {
        if let Some((name, value)) = field.split_once('=') {
            values.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    Some(Record { id, values })
}

/// Splits at each `|` that is not escaped.
fn fields(text: &str) -> Vec<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '|' => fields.push(std::mem::take(&mut field)),
            '\\' => match characters.next() {
                Some('n') => field.push('\n'),
                Some(escaped @ ('\\' | '|')) => field.push(escaped),
                other => field.extend(['\\'].into_iter().chain(other)),
            },
            plain => field.push(plain),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::damage::{loses_only_one, survives};

    fn names(out: &str) -> Vec<String> {
        read(out, &JOB).unwrap().into_iter().map(|record| record.id).collect()
    }

    #[test]
    fn values_are_what_was_escaped() {
        let out = "Job Id: 7.s|Job_Name=a\\|b|Variable_List=X=a\\\\x\\,b\\nc,Y=1=2|Resource_List.ncpus=4\n";
        let job = &read(out, &JOB).unwrap()[0];
        assert_eq!((job.id.as_str(), job.text("Job_Name")), ("7.s", Some("a|b")));
        assert_eq!(job.text("Variable_List"), Some("X=a\\x\\,b\nc,Y=1=2"));
        assert_eq!((job.count("Resource_List.ncpus"), job.count("Job_Name")), (4, 0));
    }

    #[test]
    fn a_line_that_goes_on_makes_no_job_and_takes_none_away() {
        // 0xCA is printed as ^ and a line feed.
        let forged = "Job Id: 7.s|Job_Name=a|Variable_List=X=^\nJob Id: 9.s|etime=now\n";
        assert_eq!(names(forged), ["7.s"]);
        let escaped = "Job Id: 7.s|Job_Name=a|comment=^\nJob Id: 9.s\\|Job_Name=evil|etime=now\n";
        assert_eq!(names(escaped), ["7.s"]);
        let last = "Job Id: 7.s|Job_Name=a|project=x^\nJob Id: 9.s|Job_Name=b\n";
        assert_eq!(names(last), ["7.s", "9.s"]);
    }

    #[test]
    fn damage_to_one_job_or_vnode_loses_no_other() {
        let (jobs, vnodes) = (
            include_str!("../../tests/it/pbs/fixtures/qstat.dsv"),
            include_str!("../../tests/it/pbs/fixtures/pbsnodes.dsv"),
        );
        for (text, head) in [(jobs, &JOB), (vnodes, &VNODE)] {
            survives(text, |text| drop(read(text, head)));
            let ids = |text: &str| {
                let records = read(text, head).unwrap_or_default();
                records.into_iter().map(|record| record.id).collect::<Vec<_>>()
            };
            loses_only_one(text, ids);
        }
    }

    #[test]
    fn what_has_no_record_is_something_else() {
        assert_eq!(read("", &JOB), Some(Vec::new()));
        for odd in ["[]", "{", "Job Id: |x=y", "Job Id: 7", "Name=n1|Mom=n1", "oh\nno\n"] {
            assert_eq!(read(odd, &JOB), None, "{odd}");
        }
        assert_eq!(names("warning: x\nJob Id: 7.s|Job_Name=a\n"), ["7.s"]);
    }
}
