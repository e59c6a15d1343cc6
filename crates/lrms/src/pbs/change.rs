//! Changing reservations with `pbs_ralter`, which succeeds also where the scheduler denies: what it prints decides, and what is
//! there afterwards is read back.

use super::create::{LEAD, Request, Verdict, denied, verdict, what};
use super::reservations::{self, Known};
use crate::batch::{Handle, Picture, Reserved, Wanted};
use crate::command::Command;
use crate::dialect::{Tools, refused, unreadable};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Time};

/// Changes what can be changed in place: times, and fewer cores or vnodes. Where a change is denied PBS keeps the old
/// terms; where it came out otherwise than wanted they are put back.
pub(super) fn change(
    tools: &Tools,
    decided_within: u32,
    handle: &Handle,
    wanted: &Wanted,
    picture: &Picture,
) -> Result<Option<Reserved>, LrmsError> {
    let request = Request::new(tools, decided_within, wanted, picture)?;
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
    let command = request.alteration(handle, &old, interval, &select)?;
    alter(tools, wanted, &command)?;
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
        alter(tools, wanted, &back)?;
    }
    Err(refused(what(wanted), format!("{wrong}; the old terms were put back")))
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
        let within = self.decided_within.to_string();
        let mut command = self.tools.command("pbs_ralter").args(["-I", &within]);
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
}

fn alter(tools: &Tools, wanted: &Wanted, command: &Command) -> Result<(), LrmsError> {
    let outcome = tools.run(command)?;
    if !outcome.is_success() {
        return Err(denied(wanted, command, &outcome));
    }
    match verdict(&outcome.out) {
        Some(Verdict::Confirmed(_)) => Ok(()),
        Some(Verdict::Denied) => {
            Err(refused(what(wanted), "the scheduler denies the change; the old terms hold"))
        }
        Some(Verdict::Undecided(_)) | None => Err(unreadable(command, outcome.said())),
    }
}
