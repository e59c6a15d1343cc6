//! Making reservations with `pbs_rsub`, which succeeds also where the scheduler denies: what it prints decides, and what is there
//! afterwards is read back.

use super::Pbs;
use super::nodes::{Takes, Vnodes};
use super::reservations::{self, FREED_WITHIN, Known, State};
use crate::batch::{Handle, Node, Picture, ReservationSystem, Reserved, Unit, Wanted};
use crate::command::{Command, Outcome};
use crate::dialect::calendar;
use crate::dialect::{denied, differs, ended, is_plain, refused, the_reservation, undone, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use std::time::Duration;

/// A reservation that is to begin at once begins so much later, since PBS takes none that has begun.
pub(super) const LEAD: Seconds = Seconds(3);
/// And so much where even that was over before PBS saw it.
const LONG_LEAD: Seconds = Seconds(15);

/// A reservation that has just begun gets another select so long after its begin. In the second of the begin OpenPBS 23.06.06
/// does not give back what it had (`resources_assigned` of its vnodes stays until the server is restarted); one second more for
/// clocks that are read to the second.
const BEGUN_FOR: Seconds = Seconds(2);

const NO_ROOM: &str = "the scheduler denies it: there is no room then, or a job without walltime runs there";

/// What the scheduler says, by the second word that is printed.
pub(super) enum Verdict {
    Confirmed(Handle),
    Denied,
    Undecided(Handle),
}

impl ReservationSystem for Pbs {
    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        let request = Request::new(self, wanted, picture)?;
        if !self.tools.has_account(&wanted.account)? {
            let why = format!(
                "there is no account {} where its commands run (id {0}), and PBS would reserve for it all the same",
                wanted.account
            );
            return Err(refused(what(wanted), why));
        }
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
            Verdict::Denied => return Err(request.no_room(NO_ROOM)),
            Verdict::Undecided(handle) => {
                let why = format!(
                    "the scheduler did not decide within {} s; see confirm_within in the configuration of the site",
                    self.settings.confirm_within.0
                );
                return Err(undone(what(wanted), &handle, &why, self.delete(&handle)));
            }
        };
        request.confirm(&handle, Interval::new(begin, wanted.interval.end))
    }

    /// Changes what can be changed in place: times, and fewer cores or vnodes. Where a change is denied PBS keeps the old
    /// terms; where it came out otherwise than wanted they are put back.
    fn change(
        &self,
        handle: &Handle,
        wanted: &Wanted,
        picture: &Picture,
    ) -> Result<Option<Reserved>, LrmsError> {
        let tools = &self.tools;
        let request = Request::new(self, wanted, picture)?;
        let Some(old) = reservations::one(tools, handle, &request.vnodes)? else { return Ok(None) };
        let now = picture.clock.unwrap_or(Time(0));
        let has_begun = old.reserved.interval.begin <= now;
        let (begin, end) = (wanted.interval.begin, wanted.interval.end);
        let begin = match (has_begun, begin <= now) {
            (true, true) => old.reserved.interval.begin,
            (true, false) => return Ok(None),
            (false, _) if begin == old.reserved.interval.begin => begin,
            (false, _) => begin.max(now + LEAD),
        };
        let interval = Interval::new(begin, end);
        let select = request.select();
        if request.differs(&old, interval).is_none() {
            return Ok(Some(old.reserved));
        }
        if !can_become(&old, &select, wanted) {
            return Ok(None);
        }
        if has_begun && select != old.select {
            let early = old.reserved.interval.begin + BEGUN_FOR - now;
            std::thread::sleep(Duration::from_secs(u64::try_from(early.0).unwrap_or(0)));
        }
        let command = request.alteration(handle, &old, interval, &select)?;
        request.alter(&command)?;
        let found = reservations::one(tools, handle, &request.vnodes)?;
        let wrong = match &found {
            Some(known) => match request.differs(known, interval) {
                None => return Ok(Some(known.reserved.clone())),
                Some(wrong) => wrong,
            },
            None => "it is not there any more".into(),
        };
        if let Some(known) = found {
            let back = request.alteration(handle, &known, old.reserved.interval, &old.select)?;
            request.alter(&back)?;
        }
        Err(refused(what(wanted), format!("{wrong}; the old terms were put back")))
    }

    /// Deletes a reservation with its jobs. Where a job runs in it PBS keeps its cores for half a minute, which is not waited
    /// for: see [`FREED_WITHIN`].
    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("pbs_rdel").arg(&handle.0);
        let outcome = tools.run(&command)?;
        let what = format!("deleting reservation {handle}");
        ended(&command, &outcome, what, &["Unknown Reservation"], &["Unauthorized"])
    }
}

struct Request<'a> {
    pbs: &'a Pbs,
    wanted: &'a Wanted,
    nodes: Vec<&'a Node>,
    pub(super) vnodes: Vnodes,
}

impl<'a> Request<'a> {
    /// What can be told without asking.
    fn new(pbs: &'a Pbs, wanted: &'a Wanted, picture: &'a Picture) -> Result<Request<'a>, LrmsError> {
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
        let request = Request { pbs, wanted, nodes, vnodes: pbs.vnodes(picture) };
        match request.cannot_be_exact() {
            Some(why) => Err(refused(what(wanted), why)),
            None => Ok(request),
        }
    }

    /// Where one core takes a vnode, or one vnode its host, PBS would take more than it is asked for.
    fn cannot_be_exact(&self) -> Option<String> {
        let Wanted { place, .. } = self.wanted;
        let exclusive = self.vnodes.exclusive(&place.resource);
        let by_host = |takes: &Takes| *takes == Takes::TheHost && self.vnodes.share_hosts(&place.resource);
        let (name, more) = match place.unit {
            Unit::Cores => (exclusive.first()?.0, "one core takes all of it; count the resource in nodes"),
            Unit::Nodes => {
                let (name, _) = exclusive.iter().find(|(_, takes)| by_host(takes))?;
                (*name, "one vnode takes its whole host; set sharing = default_excl")
            }
        };
        Some(format!("vnode {name} is exclusive (sharing, see pbsnodes -v {name}): {more}"))
    }

    /// Why there is no room: cores of reservations that were deleted are not free at once.
    fn no_room(&self, otherwise: &str) -> LrmsError {
        let leaving = reservations::leaving(&self.pbs.tools, &self.vnodes, self.wanted.interval);
        let leaving = leaving.unwrap_or_default().into_iter().map(|handle| handle.0).collect::<Vec<_>>();
        if leaving.is_empty() {
            return refused(what(self.wanted), otherwise);
        }
        let why = format!(
            "cores are still being freed by {}, deleted or over while a job ran in it; try again in {} s",
            leaving.join(", "),
            FREED_WITHIN.0
        );
        refused(what(self.wanted), why)
    }

    /// Asks for it; None where its begin was past when PBS saw it.
    fn submit(&self, begin: Time) -> Result<Option<Verdict>, LrmsError> {
        let wanted = self.wanted;
        if wanted.interval.end <= begin {
            return Err(refused(what(wanted), "it would be over before it could begin"));
        }
        let within = self.pbs.settings.confirm_within.0.max(1).to_string();
        let mut command = self.pbs.tools.command("pbs_rsub").args(["-I", &within, "-N", &wanted.name]);
        command = command.args(["-R", &self.date(begin)?, "-E", &self.date(wanted.interval.end)?]);
        command = command.args(["-l", &format!("select={}", self.select())]);
        command = command.args(["-l", &format!("place={}", self.arrangement()), "-m", "n"]);
        let command = command.args(["-U", &wanted.account]);
        let outcome = self.deciding(&command)?;
        if !outcome.is_success() {
            return if outcome.said().contains("Bad time") {
                Ok(None)
            } else {
                Err(denied(what(wanted), &command, &outcome))
            };
        }
        verdict(&outcome.out).map(Some).ok_or_else(|| unreadable(&command, outcome.said()))
    }

    /// Runs a command that waits for the scheduler.
    fn deciding(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let seconds = u64::try_from(self.pbs.settings.confirm_within.0).unwrap_or(0);
        self.pbs.tools.patient(Duration::from_secs(seconds)).run(command)
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

    fn arrangement(&self) -> &'static str {
        let place = &self.wanted.place;
        arrangement(place.unit, self.vnodes.share_hosts(&place.resource))
    }

    /// Reads a reservation back. One that is otherwise than it should be is deleted.
    fn confirm(&self, handle: &Handle, interval: Interval) -> Result<Reserved, LrmsError> {
        let found = match reservations::one(&self.pbs.tools, handle, &self.vnodes) {
            Ok(found) => found,
            Err(error) => {
                self.pbs.delete(handle)?;
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
        Err(undone(what(self.wanted), handle, &wrong, self.pbs.delete(handle)))
    }

    /// What is otherwise than it should be.
    pub(super) fn differs(&self, known: &Known, interval: Interval) -> Option<String> {
        if known.state != State::Holds {
            return Some("it is not confirmed".into());
        }
        if self.wanted.place.unit == Unit::Nodes && !known.place.contains("excl") {
            return Some("others may use its vnodes, too".into());
        }
        let (got, Interval { begin, end }) = (known.reserved.interval, interval);
        if got != interval {
            return Some(format!("{} to {} was granted instead of {begin} to {end}", got.begin, got.end));
        }
        differs(&known.reserved, self.wanted, self.nodes.iter().copied())
    }
}

/// How chunks are placed: wherever there is room, or each on a host of its own that nobody else uses; on a vnode of its own where
/// hosts have several.
pub(super) fn arrangement(unit: Unit, share_hosts: bool) -> &'static str {
    match unit {
        Unit::Cores => "free",
        Unit::Nodes if share_hosts => "vscatter:excl",
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

/// What was asked for, for people.
pub(super) fn what(wanted: &Wanted) -> String {
    the_reservation(wanted, ["cores", "vnodes"])
}

/// Whether it can be done in place: chunks are taken away and none added, and name and users stay.
fn can_become(old: &Known, select: &str, wanted: &Wanted) -> bool {
    let parts = |select: &str| {
        let (amount, chunk) = select.split_once(':')?;
        Some((amount.parse::<u32>().ok()?, chunk.to_owned()))
    };
    let (Some((before, old_chunk)), Some((after, new_chunk))) = (parts(&old.select), parts(select)) else {
        return false;
    };
    let same = old.reserved.name == wanted.name && old.reserved.accounts.contains(&wanted.account);
    same && old_chunk == new_chunk && after <= before
}

impl Request<'_> {
    /// Only what differs.
    fn alteration(
        &self,
        handle: &Handle,
        old: &Known,
        interval: Interval,
        select: &str,
    ) -> Result<Command, LrmsError> {
        let within = self.pbs.settings.confirm_within.0.max(1).to_string();
        let mut command = self.pbs.tools.command("pbs_ralter").args(["-I", &within]);
        if old.reserved.interval.begin != interval.begin {
            command = command.args(["-R", &self.date(interval.begin)?]);
        }
        if old.reserved.interval.end != interval.end {
            command = command.args(["-E", &self.date(interval.end)?]);
        }
        if old.select != select {
            command = command.args(["-l", &format!("select={select}")]);
        }
        Ok(command.arg(&handle.0))
    }

    fn alter(&self, command: &Command) -> Result<(), LrmsError> {
        let outcome = self.deciding(command)?;
        if !outcome.is_success() {
            return Err(denied(what(self.wanted), command, &outcome));
        }
        match verdict(&outcome.out) {
            Some(Verdict::Confirmed(_)) => Ok(()),
            Some(Verdict::Denied) => Err(self.no_room("the scheduler denies the change; the old terms hold")),
            Some(Verdict::Undecided(_)) | None => Err(unreadable(command, outcome.said())),
        }
    }
}
