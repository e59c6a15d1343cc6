//! Jobs from `qstat`. The listing (`qstat -f -r`) has states, slots and limits; only the details (`qstat -j`) have
//! the advance reservation, the submission time of a running job, and its earliest start time.

use super::nodes::{Instance, Queues};
use super::submit::{CLAIMS, CONTEXT};
use crate::batch::{FactState, Handle, JobFact, Unreadable, add_cores, count};
use crate::command::Command;
use crate::dialect::calendar;
use crate::dialect::xml::Element;
use crate::dialect::{Tools, document, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Most tasks of arrays to show as waiting; more would not change any relevant plan.
const MOST_TASKS: usize = 10_000;

/// Parsed output of `qstat`.
pub(super) struct Listing {
    document: Element,
    details: BTreeMap<u64, Detail>,
    slack: Seconds,
}

struct Detail {
    submitted: Option<Time>,
    not_before: Option<Time>,
    reservation: Option<Handle>,
    awaits_go: bool,
}

/// Grid Engine's default for the time it adds to the limit of each job in its plans.
const DURATION_OFFSET: Seconds = Seconds(60);

/// Data shared by the rows of one job.
struct Common<'a> {
    row: &'a Element,
    number: u64,
    detail: Option<&'a Detail>,
    slack: Seconds,
}

/// Lists queue instances and jobs.
pub(super) fn listing(tools: &Tools) -> Command {
    tools.command("qstat").args(["-f", "-u", "*", "-r", "-xml"])
}

/// Prints the details of all jobs.
pub(super) fn details(tools: &Tools) -> Command {
    tools.command("qstat").args(["-j", "*", "-xml"])
}

impl Listing {
    /// From the output of [`listing`] and, from about the same time, of [`details`]; `slack` is the result of
    /// [`slack`].
    pub(super) fn read(
        tools: &Tools,
        listed: &str,
        detailed: Result<String, LrmsError>,
        slack: Seconds,
    ) -> Result<Listing, LrmsError> {
        let command = listing(tools);
        let document = document(&command, listed)?;
        if document.name != "job_info" {
            return Err(unreadable(&command, format!("it begins with <{}>", document.name)));
        }
        let mut listing = Listing { document, details: BTreeMap::new(), slack };
        // A failure of the details does not matter if no job is listed.
        if !listing.is_complete() {
            listing.details = read_details(&details(tools), &detailed?)?;
        }
        if !listing.is_complete() {
            // The details are older than a job in the listing: query them once more.
            let command = details(tools);
            listing.details = read_details(&command, &tools.ask(&command)?)?;
        }
        Ok(listing)
    }

    /// Whether all listed jobs have details.
    fn is_complete(&self) -> bool {
        self.rows().filter_map(|row| self.common(row)).all(|common| common.detail.is_some())
    }

    fn rows(&self) -> impl Iterator<Item = &Element> {
        self.running().map(|(_, row)| row).chain(self.pending())
    }

    /// Rows without a job number, which are skipped.
    pub(super) fn unreadable(&self) -> Vec<Unreadable> {
        Unreadable::jobs(self.rows().filter(|row| self.common(row).is_none()).count()).collect()
    }

    pub(super) fn instances(&self) -> Vec<Instance> {
        self.queues().filter_map(Instance::read).collect()
    }

    fn queues(&self) -> impl Iterator<Item = &Element> {
        self.document.all("queue_info").flat_map(|info| info.all("Queue-List"))
    }

    /// The rows of running jobs, each with its queue instance.
    fn running(&self) -> impl Iterator<Item = (&str, &Element)> {
        self.queues().flat_map(|queue| {
            let instance = queue.text_of("name").unwrap_or("");
            queue.all("job_list").map(move |row| (instance, row))
        })
    }

    fn pending(&self) -> impl Iterator<Item = &Element> {
        self.document.all("job_info").flat_map(|info| info.all("job_list"))
    }

    fn common<'a>(&'a self, row: &'a Element) -> Option<Common<'a>> {
        let number = row.text_of("JB_job_number")?.parse().ok()?;
        Some(Common { row, number, detail: self.details.get(&number), slack: self.slack })
    }
}

/// All jobs that concern a resource: running ones, then waiting ones by priority.
pub(super) fn facts(listing: &Listing, queues: &Queues, clock: Option<Time>) -> Vec<JobFact> {
    let mut facts = running(listing, queues);
    facts.extend(waiting(listing, queues, clock));
    facts
}

/// A parallel job has a row at each of its queue instances.
fn running(listing: &Listing, queues: &Queues) -> Vec<JobFact> {
    let mut facts: BTreeMap<(u64, String), JobFact> = BTreeMap::new();
    for (instance, row) in listing.running() {
        let Some(common) = listing.common(row) else { continue };
        let task = row.text_of("tasks").unwrap_or("").to_owned();
        let started = row.text_of("JAT_start_time").and_then(calendar::iso);
        let native = native(common.number, &task);
        let fact = match facts.entry((common.number, task)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mut fact = common.fact(native, FactState::Running);
                fact.started = started;
                // Summed up over its rows below.
                fact.cores = 0;
                new.insert(fact)
            }
        };
        let slots = slots(row);
        add_cores(&mut fact.placed, instance, slots);
        fact.cores = fact.cores.saturating_add(slots);
        fact.nodes = count(fact.placed.len());
        for resource in queues.resources(instance) {
            if !fact.resources.contains(resource) {
                fact.resources.push(resource.clone());
            }
        }
    }
    facts.into_values().filter(|fact| !fact.resources.is_empty()).collect()
}

fn waiting(listing: &Listing, queues: &Queues, clock: Option<Time>) -> Vec<JobFact> {
    let mut ranked = Vec::new();
    let mut left = MOST_TASKS;
    for row in listing.pending() {
        let Some(common) = listing.common(row) else { continue };
        let patterns: Vec<&str> = row.all("hard_req_queue").map(Element::text).collect();
        let resources = queues.asked(&patterns);
        if resources.is_empty() {
            continue;
        }
        let priority = row.text_of("JAT_prio").and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        // Printed with five decimal places, so an integer keeps the order.
        let rank = Reverse((priority * 1e5) as i64);
        for task in tasks(row.text_of("tasks").unwrap_or(""), left) {
            // Only tasks of arrays count against the limit.
            left -= usize::from(!task.is_empty());
            let mut fact = common.fact(native(common.number, &task), common.state(clock));
            fact.resources.clone_from(&resources);
            fact.cores = wanted(row);
            ranked.push((rank, fact.submitted, common.number, fact));
        }
    }
    ranked.sort_by_key(|(rank, submitted, number, _)| (*rank, *submitted, *number));
    ranked.into_iter().map(|(_, _, _, fact)| fact).collect()
}

impl Common<'_> {
    fn fact(&self, native: String, state: FactState) -> JobFact {
        let row = self.row;
        let text = |name| row.text_of(name).unwrap_or("").to_owned();
        let shown = |name| row.text_of(name).and_then(calendar::iso);
        let reservation = self.detail.and_then(|detail| detail.reservation.clone());
        let submitted = self.detail.and_then(|detail| detail.submitted);
        let submitted = submitted.or_else(|| shown("JB_submission_time")).or_else(|| shown("JAT_start_time"));
        JobFact {
            name: row.text_of("full_job_name").map_or_else(|| text("JB_name"), str::to_owned),
            account: text("JB_owner"),
            state,
            cores: slots(row),
            submitted: submitted.unwrap_or(Time(0)),
            limit: limit(row).map(|limit| if reservation.is_some() { limit } else { limit + self.slack }),
            reservations: reservation.into_iter().collect(),
            awaits_go: self.detail.is_some_and(|detail| detail.awaits_go),
            ..JobFact::new(native)
        }
    }

    /// State of a waiting job.
    fn state(&self, clock: Option<Time>) -> FactState {
        let letters = self.row.text_of("state").unwrap_or("");
        let not_before = self.detail.and_then(|detail| detail.not_before);
        let why = if letters.contains('E') {
            "it could not be started, and waits until its error is cleared (qmod -cj)"
        } else if letters.contains('d') {
            "it is being deleted"
        } else if self.row.child("predecessor_jobs").is_some() {
            "it waits for another job"
        } else if letters.contains('h') {
            "it is held"
        } else if not_before.is_some_and(|begin| clock.is_some_and(|now| now < begin)) {
            "its time has not come"
        } else {
            return FactState::Waiting;
        };
        FactState::Held { why: why.into(), orphaned: false }
    }
}

/// Parses the output of [`details`]. Without jobs it is `<unknown_jobs>`, which contains none.
fn read_details(command: &Command, printed: &str) -> Result<BTreeMap<u64, Detail>, LrmsError> {
    let document = document(command, printed)?;
    let jobs = document.all("djob_info").flat_map(|info| info.all("element"));
    let read = |job: &Element| {
        let number = |name| job.text_of(name).and_then(|text| text.parse::<i64>().ok());
        let detail = Detail {
            submitted: number("JB_submission_time").map(Time),
            not_before: number("JB_execution_time").filter(|time| *time > 0).map(Time),
            reservation: number("JB_ar").filter(|id| *id > 0).map(|id| Handle(id.to_string())),
            awaits_go: context(job) == Some(CLAIMS),
        };
        Some((u64::try_from(number("JB_job_number")?).ok()?, detail))
    };
    Ok(jobs.filter_map(read).collect())
}

/// The state of the go-ahead in the context of a job.
fn context(job: &Element) -> Option<&str> {
    let pairs = job.all("JB_context").flat_map(|context| context.all("context_list"));
    let mut ours = pairs.filter(|pair| pair.text_of("VA_variable") == Some(CONTEXT));
    ours.next().and_then(|pair| pair.text_of("VA_value"))
}

/// The time that Grid Engine adds to the limits of jobs in its plans (`DURATION_OFFSET` in `params`, see
/// sched_conf(5)). It counts as in use here as well, since Grid Engine grants no reservation there.
pub(super) fn slack(tools: &Tools) -> Result<Seconds, LrmsError> {
    let text = tools.ask(&tools.command("qconf").arg("-ssconf"))?;
    let mut words = text.split([' ', ',', '\t', '\n']).map(str::trim);
    let given = words.find_map(|word| calendar::length_of_time(word.strip_prefix("DURATION_OFFSET=")?));
    Ok(given.map_or(DURATION_OFFSET, Seconds))
}

/// The id of a job, or of one of its tasks, in commands.
fn native(number: u64, task: &str) -> String {
    if task.is_empty() { number.to_string() } else { format!("{number}.{task}") }
}

/// Expands tasks such as `1-9:2,12`, at most `most`; a single empty one for a job outside of an array.
fn tasks(text: &str, most: usize) -> Vec<String> {
    if text.is_empty() {
        return vec![String::new()];
    }
    let ranges = text.split(',').filter_map(|range| {
        let (range, step) = range.split_once(':').unwrap_or((range, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        Some((number(first)?..=number(last)?).step_by(number(step)?.max(1)))
    });
    ranges.flatten().take(most).map(|task| task.to_string()).collect()
}

fn slots(row: &Element) -> u32 {
    row.text_of("slots").and_then(|slots| slots.parse().ok()).unwrap_or(1)
}

/// The fewest slots with which a waiting job would start: 2 for `2-8`, 1 for `-8`.
fn wanted(row: &Element) -> u32 {
    let range = row.text_of("requested_pe").unwrap_or("");
    let fewest = range.split(['-', ',']).next().unwrap_or("");
    if range.starts_with('-') { 1 } else { fewest.trim().parse().unwrap_or_else(|_| slots(row)) }
}

/// `h_rt`, the limit that Grid Engine enforces; None if the job has none.
fn limit(row: &Element) -> Option<Seconds> {
    let mut requests = row.all("hard_request").filter(|request| request.attribute("name") == Some("h_rt"));
    requests.next().and_then(|request| calendar::length_of_time(request.text())).map(Seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::damage::survives;
    use crate::dialect::xml;

    const LISTED: &str = "<?xml version='1.0'?>\n<job_info><queue_info>\n<Queue-List><name>all.q@n1</name>\n\
        <job_list state=\"running\">\n<JB_job_number>6</JB_job_number>\n<JB_owner>ann</JB_owner>\n<slots>2</slots>\n\
        </job_list></Queue-List></queue_info>\n<job_info><job_list state=\"pending\">\n<JB_job_number>7</JB_job_number>\n\
        <JAT_prio>0.5</JAT_prio><tasks>1-9:2</tasks></job_list>\n</job_info></job_info>\n";

    fn listing(text: &str) -> Option<Listing> {
        let document = xml::read(text).ok()?;
        Some(Listing { document, details: BTreeMap::new(), slack: Seconds(60) })
    }

    #[test]
    fn damaged_lists_are_read_or_refused_and_jobs_without_a_number_left_out() {
        survives(LISTED, |text| {
            let Some(listing) = listing(text) else { return };
            let _read =
                (listing.instances(), listing.is_complete(), facts(&listing, &Queues::default(), None));
        });
        let whole = listing(LISTED).unwrap();
        assert_eq!((whole.rows().count(), whole.unreadable().len()), (2, 0));
        let odd = listing(&LISTED.replace(">6<", ">\u{fffd}<")).unwrap();
        assert_eq!((odd.rows().count(), odd.unreadable().len()), (2, 1));
    }

    #[test]
    fn tasks_of_arrays_are_counted_one_by_one_up_to_a_bound() {
        assert_eq!(tasks("", 5), [""]);
        assert_eq!(tasks("1-9:2", 10), ["1", "3", "5", "7", "9"]);
        assert_eq!(tasks("2,5-6", 10), ["2", "5", "6"]);
        assert_eq!(tasks("1-18446744073709551615:1", 3), ["1", "2", "3"]);
        assert!(tasks("garbage", 3).is_empty());
        assert_eq!(tasks("1-3:0", 9).len(), 3);
    }
}
