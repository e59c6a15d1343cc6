//! Creates reservations with `pbs_rsub`. It exits with 0 even if the scheduler denies: its output decides, and the
//! grant is read back.

use super::Pbs;
use super::nodes::{Takes, Vnodes};
use super::reservations::{self, FREED_WITHIN, Known, State};
use super::tres;
use crate::batch::{Handle, Node, Picture, ReservationSystem, Reserved, Unit, Wanted};
use crate::command::{Command, Outcome};
use crate::dialect::calendar;
use crate::dialect::{denied, differs, ended, is_plain, refused, the_reservation, undone, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use std::time::Duration;

/// Lead time for a reservation that should begin at once, as PBS rejects a begin in the past.
pub(super) const LEAD: Seconds = Seconds(3);
/// Lead time for the second attempt, if the first begin was already past when PBS received it.
const LONG_LEAD: Seconds = Seconds(15);

/// Minimum age of an active reservation before its select is changed. In the second of the begin, OpenPBS 23.06.06
/// does not free the old resources (`resources_assigned` of its vnodes stays until the server is restarted); one more
/// second covers the resolution of the clocks.
const BEGUN_FOR: Seconds = Seconds(2);

const NO_ROOM: &str =
    "the scheduler denied it: there is no room at that time, or a job without walltime runs there";

/// The scheduler's decision: the second word of the output.
pub(super) enum Verdict {
    Confirmed(Handle),
    Denied,
    Undecided(Handle),
}

impl ReservationSystem for Pbs {
    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        let request = Request::new(self, wanted, picture)?;
        for account in wanted.accounts() {
            if !self.tools.has_account(account)? {
                let why = format!(
                    "there is no account {account} where the commands run (id {account} fails), but PBS would \
                     create the reservation anyway"
                );
                return Err(refused(what(wanted), why));
            }
        }
        let now = picture.clock.unwrap_or(Time(0));
        let begin = wanted.interval.begin.max(now + LEAD);
        let (verdict, begin) = match request.submit(begin)? {
            Some(verdict) => (verdict, begin),
            // The picture was too old, so the begin had passed.
            None => {
                let begin = wanted.interval.begin.max(now + LONG_LEAD);
                let late = || {
                    refused(
                        what(wanted),
                        "Bad time specification(s): its begin is in the past; compare the clocks",
                    )
                };
                (request.submit(begin)?.ok_or_else(late)?, begin)
            }
        };
        let handle = match verdict {
            Verdict::Confirmed(handle) => handle,
            Verdict::Denied => return Err(request.no_room(NO_ROOM)),
            Verdict::Undecided(handle) => {
                let why = format!(
                    "the scheduler did not decide within {} s; increase confirm_within in the configuration of \
                     the site",
                    self.settings.confirm_within.0
                );
                return Err(undone(what(wanted), &handle, &why, self.delete(&handle)));
            }
        };
        request.confirm(&handle, Interval::new(begin, wanted.interval.end))
    }

    /// Changes in place: times, and fewer cores or vnodes. If a change is denied, PBS keeps the old terms; if the
    /// result is not as wanted, they are restored.
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
        // A reservation that has begun keeps its begin and cannot be postponed.
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
        // See `BEGUN_FOR`. The wait is at most two seconds.
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
            None => "it no longer exists".into(),
        };
        if let Some(known) = found {
            let back = request.alteration(handle, &known, old.reserved.interval, &old.select)?;
            request.alter(&back)?;
        }
        Err(refused(what(wanted), format!("{wrong}; the old terms were restored")))
    }

    /// Deletes a reservation with its jobs. If a job runs in it, PBS occupies its cores for another half a minute.
    /// This does not wait for that: see [`FREED_WITHIN`].
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
    /// Validates a request without running commands.
    fn new(pbs: &'a Pbs, wanted: &'a Wanted, picture: &'a Picture) -> Result<Request<'a>, LrmsError> {
        if wanted.amount == 0 || wanted.interval.is_empty() {
            return Err(refused(what(wanted), "its size or duration is zero; request more"));
        }
        if let Some(why) = tres::impossible(&wanted.tres) {
            return Err(refused(what(wanted), why));
        }
        if let Some(account) = wanted.accounts().find(|account| !is_plain(account)) {
            return Err(refused(what(wanted), format!("{account:?} is not a valid account")));
        }
        let mine = picture.nodes.iter().filter(|node| node.resources.contains(&wanted.place.resource));
        let nodes: Vec<&Node> = mine.filter(|node| node.usable).collect();
        if nodes.is_empty() {
            return Err(refused(what(wanted), "none of its vnodes is usable now; check pbsnodes -av"));
        }
        let request = Request { pbs, wanted, nodes, vnodes: pbs.vnodes(picture) };
        match request.cannot_be_exact() {
            Some(why) => Err(refused(what(wanted), why)),
            None => Ok(request),
        }
    }

    /// If one core occupies a whole vnode, or one vnode its host, PBS would grant more than requested.
    fn cannot_be_exact(&self) -> Option<String> {
        let Wanted { place, .. } = self.wanted;
        let exclusive = self.vnodes.exclusive(&place.resource);
        let by_host = |takes: &Takes| *takes == Takes::TheHost && self.vnodes.share_hosts(&place.resource);
        let (name, more) = match place.unit {
            Unit::Cores => (exclusive.first()?.0, "one core occupies all of it; count the resource in nodes"),
            Unit::Nodes => {
                let (name, _) = exclusive.iter().find(|(_, takes)| by_host(takes))?;
                (*name, "one vnode occupies its whole host; set sharing = default_excl")
            }
        };
        Some(format!("vnode {name} is exclusive (sharing, see pbsnodes -v {name}): {more}"))
    }

    /// The error for a lack of room. Cores of deleted reservations are not free at once, which deserves its own
    /// message.
    fn no_room(&self, otherwise: &str) -> LrmsError {
        let leaving = reservations::leaving(&self.pbs.tools, &self.vnodes, self.wanted.interval);
        let leaving = leaving.unwrap_or_default().into_iter().map(|handle| handle.0).collect::<Vec<_>>();
        if leaving.is_empty() {
            return refused(what(self.wanted), otherwise);
        }
        let why = format!(
            "cores are still being freed by {}, which was deleted or ended while a job ran in it; try again in {} s",
            leaving.join(", "),
            FREED_WITHIN.0
        );
        refused(what(self.wanted), why)
    }

    /// Submits the request; None if its begin was past when PBS received it.
    fn submit(&self, begin: Time) -> Result<Option<Verdict>, LrmsError> {
        let wanted = self.wanted;
        if wanted.interval.end <= begin {
            return Err(refused(what(wanted), "it would end before it could begin"));
        }
        let within = self.pbs.settings.confirm_within.0.max(1).to_string();
        let mut command = self.pbs.tools.command("pbs_rsub").args(["-I", &within, "-N", &wanted.name]);
        command = command.args(["-R", &self.date(begin)?, "-E", &self.date(wanted.interval.end)?]);
        command = command.args(["-l", &format!("select={}", self.select())]);
        command = command.args(["-l", &format!("place={}", self.arrangement()), "-m", "n"]);
        let command = command.args(["-U", &wanted.joined_accounts(",")]);
        let outcome = self.deciding(&command)?;
        if !outcome.is_success() {
            // The begin passed before the server received it; the caller tries a later one.
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
        calendar::compact(time)
            .ok_or_else(|| refused(what(self.wanted), "its time is outside of the calendar"))
    }

    /// Single cores anywhere; or vnodes, each with the cores of the smallest one.
    pub(super) fn select(&self) -> String {
        let cores = match self.wanted.place.unit {
            Unit::Cores => 1,
            Unit::Nodes => self.nodes.iter().map(|node| node.cores).min().unwrap_or(1),
        };
        // With things beside cores, as many equal chunks as possible.
        let (amount, cores) = match self.wanted.place.unit {
            Unit::Cores => {
                let count = tres::chunks(self.wanted.amount, &self.wanted.tres);
                (count, self.wanted.amount / count)
            }
            Unit::Nodes => (self.wanted.amount, cores),
        };
        chunks(amount, cores, &self.wanted.place.features) + &tres::words(&self.wanted.tres, amount)
    }

    fn arrangement(&self) -> &'static str {
        let place = &self.wanted.place;
        arrangement(place.unit, self.vnodes.share_hosts(&place.resource))
    }

    /// Reads a reservation back. One that is not as wanted is deleted.
    fn confirm(&self, handle: &Handle, interval: Interval) -> Result<Reserved, LrmsError> {
        let found = match reservations::one(&self.pbs.tools, handle, &self.vnodes) {
            Ok(found) => found,
            Err(error) => {
                // It was granted but cannot be verified, so it must not stay.
                self.pbs.delete(handle)?;
                return Err(error);
            }
        };
        let wrong = match found {
            Some(known) => match self.differs(&known, interval) {
                None => return Ok(known.reserved),
                Some(wrong) => wrong,
            },
            None => "it was granted, but does not exist".into(),
        };
        Err(undone(what(self.wanted), handle, &wrong, self.pbs.delete(handle)))
    }

    /// The first difference from the wanted reservation.
    pub(super) fn differs(&self, known: &Known, interval: Interval) -> Option<String> {
        if known.state != State::Holds {
            return Some("it is not confirmed".into());
        }
        if self.wanted.place.unit == Unit::Nodes && !known.place.contains("excl") {
            return Some("its vnodes are not exclusive".into());
        }
        let (got, Interval { begin, end }) = (known.reserved.interval, interval);
        if got != interval {
            return Some(format!("{} to {} was granted instead of {begin} to {end}", got.begin, got.end));
        }
        if let Some((name, all)) = known.tres.lacks(&self.wanted.tres) {
            return Some(format!("it has {} of {name} instead of {all}", known.tres.of(name)));
        }
        differs(&known.reserved, self.wanted, self.nodes.iter().copied())
    }
}

/// Placement of chunks: anywhere; or each on its own host, exclusively; or each on its own vnode if hosts have
/// several.
pub(super) fn arrangement(unit: Unit, share_hosts: bool) -> &'static str {
    match unit {
        Unit::Cores => "free",
        Unit::Nodes if share_hosts => "vscatter:excl",
        Unit::Nodes => "scatter:excl",
    }
}

/// `amount` chunks of `cores` cores, with features.
pub(super) fn chunks(amount: u32, cores: u32, features: &[String]) -> String {
    let features = features.iter().map(|feature| match feature.contains('=') {
        true => format!(":{feature}"),
        false => format!(":{feature}=True"),
    });
    format!("{amount}:ncpus={cores}{}", features.collect::<String>())
}

/// Parses `R5.server CONFIRMED`, with or without the name of the command in front.
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

/// Describes the request in messages.
pub(super) fn what(wanted: &Wanted) -> String {
    the_reservation(wanted, ["cores", "vnodes"])
}

/// Whether it can be changed in place: chunks are removed and none added, and name and users stay.
fn can_become(old: &Known, select: &str, wanted: &Wanted) -> bool {
    let parts = |select: &str| {
        let (amount, chunk) = select.split_once(':')?;
        Some((amount.parse::<u32>().ok()?, chunk.to_owned()))
    };
    let (Some((before, old_chunk)), Some((after, new_chunk))) = (parts(&old.select), parts(select)) else {
        return false;
    };
    let same = old.reserved.name == wanted.name
        && wanted.accounts().all(|account| old.reserved.accounts.contains(account));
    same && old_chunk == new_chunk && after <= before
}

impl Request<'_> {
    /// A command that changes only the differences.
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
            Some(Verdict::Denied) => {
                Err(self.no_room("the scheduler denied the change; the old terms remain"))
            }
            Some(Verdict::Undecided(_)) | None => Err(unreadable(command, outcome.said())),
        }
    }
}
