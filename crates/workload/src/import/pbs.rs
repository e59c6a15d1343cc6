//! Accounting logs of PBS and Torque: `11/17/2026 09:00:00;E;17.server;user=ada ctime=1794906000 ...`. The end of a job
//! (`E`) has all that is needed. Starts (`S`) tell which jobs had not ended when the log did; other records are counted.

use super::value::{chunks, duration, of_chunks};
use super::{Accounted, Import, Problem, Skipped, Unit};

/// Kinds of records that only tell of jobs, reservations, licenses and the server.
const OTHERS: &str = "QDARLBFKMUYsmrzTCPGXucaiNW";

/// Most jobs that are remembered to have started. Beyond that their number is a lower bound.
const MOST_STARTED: usize = 1_000_000;

/// Whether a line looks like a record: a date, a letter and an id.
pub(super) fn is_record(line: &str) -> bool {
    fields(line).is_some()
}

/// The kind, the id and the attributes.
fn fields(line: &str) -> Option<(char, &str, &str)> {
    let mut fields = line.splitn(4, ';');
    let (date, kind, id) = (fields.next()?, fields.next()?, fields.next()?);
    let is_date = date.len() >= 19 && date.as_bytes()[2] == b'/' && date.contains(':');
    let mut letters = kind.chars();
    let kind = letters.next().filter(|letter| letters.next().is_none() && letter.is_ascii_alphabetic())?;
    is_date.then_some((kind, id, fields.next().unwrap_or_default()))
}

/// Reads a line.
pub(super) fn line(line: &str, into: &mut Import<'_>) -> Result<(), Problem> {
    let (kind, id, text) = fields(line).ok_or(Problem::NotARecord)?;
    match kind {
        'E' if id.contains("[]") => into.report.skip(Skipped::ArrayParent),
        'E' => {
            into.started.remove(id);
            end(id, text, into)?;
        }
        'S' => {
            if into.started.len() < MOST_STARTED && !id.contains("[]") {
                into.started.insert(id.to_owned());
            }
            into.report.skip(Skipped::OtherRecord);
        }
        kind if OTHERS.contains(kind) => {
            // Deleted, aborted or queued again: if it runs again, there is another start.
            into.started.remove(id);
            into.report.skip(Skipped::OtherRecord);
        }
        _ => return Err(Problem::NotARecord),
    }
    Ok(())
}

fn end(id: &str, text: &str, into: &mut Import<'_>) -> Result<(), Problem> {
    let all = Attributes::of(text);
    let submit = all.number("ctime")?.or(all.number("qtime")?);
    let exit = all.number("Exit_status")?;
    let size = match into.options.unit {
        Unit::Processors => all.processors()?,
        Unit::Nodes => all.nodes()?,
    };
    into.add(&Accounted {
        number: id.split('.').next().and_then(|number| number.parse().ok()),
        submit,
        eligible: all.number("etime")?,
        // A job that never ran has 0.
        start: all.number("start")?.filter(|start| *start > 0),
        end: all.number("end")?,
        limit: all.duration("Resource_List.walltime")?,
        allocated: size,
        requested: size,
        // 271 and above 256: ended by a signal, most often by a deletion or the time limit.
        status: exit.map(|exit| if exit == 0 { 1 } else { 0 }),
        user: all.get("user").unwrap_or_default(),
        group: all.get("account").or(all.get("project")).or(all.get("group")).unwrap_or_default(),
        queue: all.get("queue").unwrap_or_default(),
        partition: "",
        application: all.get("jobname").unwrap_or_default(),
    })
}

/// `key=value` pairs, separated by blanks; a value with blanks is in quotes.
struct Attributes<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Attributes<'a> {
    fn of(text: &'a str) -> Attributes<'a> {
        let mut quoted = false;
        let words = text.split(|letter: char| {
            quoted ^= letter == '"';
            letter == ' ' && !quoted
        });
        let pairs = words.filter_map(|word| word.split_once('='));
        Attributes(pairs.map(|(key, value)| (key, value.trim_matches('"'))).collect())
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| *value)
            .filter(|value| !value.is_empty())
    }

    fn read(&self, key: &str, read: impl Fn(&str) -> Option<i64>) -> Result<Option<i64>, Problem> {
        let Some(text) = self.get(key) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| Problem::bad_value(key, text))
    }

    fn number(&self, key: &str) -> Result<Option<i64>, Problem> {
        self.read(key, |text| text.parse().ok())
    }

    fn duration(&self, key: &str) -> Result<Option<i64>, Problem> {
        self.read(key, duration)
    }

    /// The first that is there: the total, the chunks of PBS, the nodes of Torque.
    fn processors(&self) -> Result<Option<i64>, Problem> {
        let ncpus = self.number("Resource_List.ncpus")?;
        let select = self.read("Resource_List.select", |text| of_chunks(text, "ncpus"))?;
        let nodes = self.read("Resource_List.nodes", |text| of_chunks(text, "ppn"))?;
        let procs = self.number("Resource_List.procs")?;
        Ok(ncpus.or(select).or(nodes).or(procs).or(self.number("Resource_List.nodect")?))
    }

    fn nodes(&self) -> Result<Option<i64>, Problem> {
        let select = self.read("Resource_List.select", chunks)?;
        let nodes = self.read("Resource_List.nodes", chunks)?;
        Ok(self.number("Resource_List.nodect")?.or(select).or(nodes))
    }
}
