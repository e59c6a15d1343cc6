//! Making reservations with `pbs_rsub`, which succeeds also where the scheduler denies: what it prints decides, and what is there
//! afterwards is read back.

use super::delete::delete;
use super::nodes::Vnodes;
use super::reservations::{self, Known};
use crate::batch::{Handle, Node, Picture, Reserved, Unit, Wanted};
use crate::command::{Command, Outcome};
use crate::dialect::{Tools, differs, failed, is_plain, refused, said, the_reservation, undone, unreadable};
use crate::error::LrmsError;
use crate::text::calendar;
use bookahead_plan::{Interval, Seconds, Time};

/// A reservation that is to begin at once begins so much later, since PBS takes none that has begun.
pub(super) const LEAD: Seconds = Seconds(3);
/// And so much where even that was over before PBS saw it.
const LONG_LEAD: Seconds = Seconds(15);

const NO_ROOM: &str = "the scheduler denies it: there is no room then, or a job without walltime runs there";

/// What the scheduler says, by the second word that is printed.
pub(super) enum Verdict {
    Confirmed(Handle),
    Denied,
    Undecided(Handle),
}

/// Makes a reservation. One that is granted otherwise than wanted is deleted again.
pub(super) fn create(
    tools: &Tools,
    decided_within: u32,
    wanted: &Wanted,
    picture: &Picture,
) -> Result<Reserved, LrmsError> {
    let request = Request::new(tools, decided_within, wanted, picture)?;
    let now = picture.clock.unwrap_or(Time(0));
    let begin = wanted.interval.begin.max(now + LEAD);
    let (verdict, begin) = match request.submit(begin)? {
        Some(verdict) => (verdict, begin),
        // The picture was too old.
        None => {
            let begin = wanted.interval.begin.max(now + LONG_LEAD);
            let late =
                || refused(what(wanted), "Bad time specification(s): its begin is past; see the clocks");
            (request.submit(begin)?.ok_or_else(late)?, begin)
        }
    };
    let handle = match verdict {
        Verdict::Confirmed(handle) => handle,
        Verdict::Denied => return Err(refused(what(wanted), NO_ROOM)),
        Verdict::Undecided(handle) => {
            let why = format!("the scheduler did not decide within {decided_within} s");
            return Err(undone(what(wanted), &handle, &why, delete(tools, &handle)));
        }
    };
    request.confirm(&handle, Interval::new(begin, wanted.interval.end))
}

pub(super) struct Request<'a> {
    pub(super) tools: &'a Tools,
    pub(super) decided_within: u32,
    wanted: &'a Wanted,
    nodes: Vec<&'a Node>,
    pub(super) vnodes: Vnodes,
}

impl<'a> Request<'a> {
    /// What can be told without asking.
    pub(super) fn new(
        tools: &'a Tools,
        decided_within: u32,
        wanted: &'a Wanted,
        picture: &'a Picture,
    ) -> Result<Request<'a>, LrmsError> {
        if wanted.amount == 0 || wanted.interval.is_empty() {
            return Err(refused(what(wanted), "it is empty; ask for something for some time"));
        }
        if !is_plain(&wanted.account) {
            return Err(refused(what(wanted), format!("{:?} cannot be an account", wanted.account)));
        }
        let mine = picture.nodes.iter().filter(|node| node.resources.contains(&wanted.place.resource));
        let nodes: Vec<&Node> = mine.filter(|node| node.usable).collect();
        if nodes.is_empty() {
            return Err(refused(what(wanted), "no vnode of it is usable now; see pbsnodes -av"));
        }
        Ok(Request { tools, decided_within, wanted, nodes, vnodes: Vnodes::of(&picture.nodes) })
    }

    /// Asks for it; None where its begin was past when PBS saw it.
    fn submit(&self, begin: Time) -> Result<Option<Verdict>, LrmsError> {
        let wanted = self.wanted;
        if wanted.interval.end <= begin {
            return Err(refused(what(wanted), "it would be over before it could begin"));
        }
        let within = self.decided_within.to_string();
        let mut command = self.tools.command("pbs_rsub").args(["-I", &within, "-N", &wanted.name]);
        command = command.args(["-R", &self.date(begin)?, "-E", &self.date(wanted.interval.end)?]);
        command = command.args(["-l", &format!("select={}", self.select())]);
        command = command.args(["-l", &format!("place={}", arrangement(wanted.place.unit)), "-m", "n"]);
        let command = command.args(["-U", &wanted.account]);
        let outcome = self.tools.run(&command)?;
        if !outcome.is_success() {
            return if outcome.said().contains("Bad time") {
                Ok(None)
            } else {
                Err(denied(wanted, &command, &outcome))
            };
        }
        verdict(&outcome.out).map(Some).ok_or_else(|| unreadable(&command, outcome.said()))
    }

    pub(super) fn date(&self, time: Time) -> Result<String, LrmsError> {
        calendar::compact(time).ok_or_else(|| refused(what(self.wanted), "it lies outside of the calendar"))
    }

    /// Cores one by one, wherever they are; or vnodes with as many cores as each of them has.
    pub(super) fn select(&self) -> String {
        let cores = match self.wanted.place.unit {
            Unit::Cores => 1,
            Unit::Nodes => self.nodes.iter().map(|node| node.cores).min().unwrap_or(1),
        };
        chunks(self.wanted.amount, cores, &self.wanted.place.features)
    }

    /// Reads a reservation back. One that is otherwise than it should be is deleted.
    fn confirm(&self, handle: &Handle, interval: Interval) -> Result<Reserved, LrmsError> {
        let found = match reservations::one(self.tools, handle, &self.vnodes) {
            Ok(found) => found,
            Err(error) => {
                delete(self.tools, handle)?;
                return Err(error);
            }
        };
        let wrong = match found {
            Some(known) => match self.differs(&known, interval) {
                None => return Ok(known.reserved),
                Some(wrong) => wrong,
            },
            None => "it was granted, and is not there".into(),
        };
        Err(undone(what(self.wanted), handle, &wrong, delete(self.tools, handle)))
    }

    /// What is otherwise than it should be.
    pub(super) fn differs(&self, known: &Known, interval: Interval) -> Option<String> {
        if !known.confirmed {
            return Some("it is not confirmed".into());
        }
        if self.wanted.place.unit == Unit::Nodes && !known.exclusive {
            return Some("others may use its vnodes, too".into());
        }
        let (got, Interval { begin, end }) = (known.reserved.interval, interval);
        if got != interval {
            return Some(format!("{} to {} was granted instead of {begin} to {end}", got.begin, got.end));
        }
        differs(&known.reserved, self.wanted, self.nodes.iter().copied())
    }
}

/// How chunks are placed: wherever there is room, or each on a host of its own that nobody else uses.
pub(super) fn arrangement(unit: Unit) -> &'static str {
    match unit {
        Unit::Cores => "free",
        Unit::Nodes => "scatter:excl",
    }
}

/// `amount` chunks of so many cores, with features.
pub(super) fn chunks(amount: u32, cores: u32, features: &[String]) -> String {
    let features = features.iter().map(|feature| match feature.contains('=') {
        true => format!(":{feature}"),
        false => format!(":{feature}=True"),
    });
    format!("{amount}:ncpus={cores}{}", features.collect::<String>())
}

/// Reads `R5.server CONFIRMED`, with or without the command's name before it.
pub(super) fn verdict(out: &str) -> Option<Verdict> {
    let line = out.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let mut words = line.split_whitespace().rev();
    let (verdict, id) = (words.next()?, words.next()?);
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_id = id.starts_with(['R', 'S', 'M']) && id.bytes().all(legal);
    match verdict {
        _ if !is_id => None,
        "CONFIRMED" => Some(Verdict::Confirmed(Handle(id.into()))),
        "DENIED" => Some(Verdict::Denied),
        "UNCONFIRMED" => Some(Verdict::Undecided(Handle(id.into()))),
        _ => None,
    }
}

/// What a command means that failed.
pub(super) fn denied(wanted: &Wanted, command: &Command, outcome: &Outcome) -> LrmsError {
    let said = said(outcome);
    let unknown = outcome.code.is_none() || said.is_empty();
    if unknown { failed(command, outcome) } else { refused(what(wanted), said) }
}

/// What was asked for, for people.
pub(super) fn what(wanted: &Wanted) -> String {
    the_reservation(wanted, ["cores", "vnodes"])
}
