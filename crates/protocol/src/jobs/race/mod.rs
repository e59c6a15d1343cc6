//! Selective flooding: copies of a best-effort job wait at several sites, one of them runs, and the others
//! are dropped.
//!
//! Two sites could start their copies at the same moment, so a copy claims before it runs. When its turn
//! comes, its site reports it as claiming and keeps its capacity. The broker grants one claim, journals that,
//! and then sends a go. A copy without a go in time is ended by its site without running.
//!
//! The job runs at most once. After a grant no other copy is granted, unless the site reports that the
//! granted one ended without running. If that cannot be known, the job is lost and not run again, unless its
//! owner allowed that ([`Order::retries`]): then another copy may run after the site reported that the granted
//! one was lost. A site that does not answer reports nothing.
//!
//! ```text
//! broker                                  site
//!   Submit ──────────────────────────────►  queued
//!   Look   ──────────────────────────────►  waits, or claims since its turn has come
//!   Go     ──────────────────────────────►  runs
//!   Drop   ──────────────────────────────►  ended, whether it waits or runs
//! ```
//!
//! Only the broker sends messages, repeated until they are answered; a site never calls. Messages and answers
//! may be lost, repeated or reordered. If a site refuses, ends or loses its copy or does not answer, the next
//! site of the ranking gets one. A site gets a second copy only under a new id, after the first is gone.
//!
//! It relies on sites to remember a copy's id for longer than any call is in flight, and on its driver to
//! journal events before anything is sent. Time is an argument.

mod copy;
mod messages;

pub use messages::{
    Ask, Effects, Entry, Event, Gone, Incoming, Order, Outcome, Outgoing, Pace, SiteReport, copy_of,
};

use super::words::Ending;
use crate::clock::Moment;
use crate::flaw::{Broken, Flaw};
use crate::ids::{JobId, Name};
use bookahead_plan::Seconds;
use copy::{Copy, CopyState};

/// One job with copies at several sites.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Race {
    /// In the order of the ranking.
    copies: Vec<Copy>,
    at_once: usize,
    /// Whether a claim may be granted.
    allowed: bool,
    granted: Option<Name>,
    withdrawn: bool,
    late: bool,
    retries: u32,
    outcome: Option<Outcome>,
    /// Why copies are gone, the last one of each site.
    gone: Vec<(Name, Gone)>,
    broken: Broken,
}

/// The moment of an input, current intervals, and the effects so far.
struct Turn<'a> {
    now: Moment,
    pace: &'a Pace,
    effects: Effects,
}

impl Race {
    /// Breaks the race on purpose, so that tests can prove they would notice.
    pub fn break_by(&mut self, flaw: Flaw) {
        self.broken = Broken::by(flaw);
    }

    /// Sends copies to the best sites. Does nothing if called before.
    pub fn start(&mut self, now: Moment, mut order: Order, pace: &Pace) -> Effects {
        let mut turn = Turn { now, pace, effects: Effects::default() };
        if self.copies.is_empty() && self.outcome.is_none() {
            let mut one_each: Vec<Entry> = Vec::new();
            for entry in order.entries {
                if !one_each.iter().any(|known| known.site == entry.site) {
                    one_each.push(entry);
                }
            }
            order.entries = one_each;
            self.note(Event::Begun(order), &mut turn);
            self.fill(&mut turn);
        }
        turn.effects
    }

    /// Handles a site's answer about a copy. Outdated answers are ignored.
    pub fn on_answer(&mut self, now: Moment, answer: Incoming, pace: &Pace) -> Effects {
        let mut turn = Turn { now, pace, effects: Effects::default() };
        let Incoming { from, copy, asked, report } = answer;
        let its = |known: &Copy| known.id() == copy && known.entry.site == from && known.sent > 0;
        let Some(at) = self.copies.iter().position(its) else { return turn.effects };
        if report == SiteReport::Unknown {
            self.unknown(at, asked, &mut turn);
        } else {
            // A site that refuses queries gives no information, so it must count as silent in the end.
            if asked == Ask::Submit || !matches!(report, SiteReport::Refused(_)) {
                self.copies[at].heard(now, pace);
            }
            match self.copies[at].state {
                CopyState::Sent | CopyState::Queued => {
                    self.waiting_one_reported(at, asked, report, &mut turn);
                }
                CopyState::Granted => self.granted_one_reported(at, report, &mut turn),
                CopyState::Dropping => self.unwanted_one_reported(at, asked, report, &mut turn),
                CopyState::Gone => self.gone_one_reported(at, &report, &mut turn),
                CopyState::Unasked => {}
            }
        }
        self.drop_the_late(&mut turn);
        self.grant_a_claim(&mut turn);
        self.fill(&mut turn);
        turn.effects
    }

    /// For a job that is itself a copy of another broker's: it may run.
    pub fn go(&mut self, now: Moment, pace: &Pace) -> Effects {
        let mut turn = Turn { now, pace, effects: Effects::default() };
        if !self.allowed && self.outcome.is_none() {
            self.note(Event::Allowed, &mut turn);
            self.grant_a_claim(&mut turn);
        }
        turn.effects
    }

    /// The owner cancelled the job: drops all copies.
    pub fn withdraw(&mut self, now: Moment, pace: &Pace) -> Effects {
        let mut turn = Turn { now, pace, effects: Effects::default() };
        if self.outcome.is_none() && !self.withdrawn {
            self.note(Event::Withdrawn, &mut turn);
            self.ask_all(&mut turn, |copy| copy.state == CopyState::Dropping);
        }
        turn.effects
    }

    /// Handles the passing of time: repeats messages, replaces copies at silent sites, drops late ones.
    pub fn tick(&mut self, now: Moment, pace: &Pace) -> Effects {
        let mut turn = Turn { now, pace, effects: Effects::default() };
        self.drop_the_late(&mut turn);
        self.give_up_the_silent(&mut turn);
        for copy in &mut self.copies {
            turn.effects.send.extend(copy.ask_again(now, pace));
        }
        self.fill(&mut turn);
        turn.effects
    }

    /// When [`Race::tick`] has work to do.
    pub fn next_timer(&self, pace: &Pace) -> Option<Moment> {
        let asked = self.copies.iter().filter(|copy| copy.question().is_some());
        let repeats = asked.map(|copy| copy.repeated.at);
        let open = self.is_open();
        let spare = open && self.copies.iter().any(Copy::is_free);
        let waiting = self.copies.iter().filter(|copy| spare && copy.state.waits() && !copy.replaced);
        let silences = waiting.map(|copy| copy.silent_at(pace));
        let late = self.copies.iter().filter(|_| open).filter_map(Copy::start_by);
        repeats.chain(silences).chain(late).min()
    }

    /// Applies an event, live or on replay.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Begun(order) => {
                self.copies = order.entries.iter().cloned().map(Copy::new).collect();
                (self.at_once, self.allowed, self.retries) =
                    (order.at_once.max(1), !order.claims, order.retries);
            }
            Event::Sent(site) => self.at(site).into_iter().for_each(Copy::send_another),
            Event::Queued(site) => self.set(site, CopyState::Queued),
            Event::Allowed => self.allowed = true,
            Event::Granted(site) => {
                self.granted = Some(site.clone());
                self.set(site, CopyState::Granted);
                if !self.broken.is(Flaw::GrantTwoClaims) {
                    self.drop_where(CopyState::waits);
                }
            }
            Event::Late(site) => {
                self.late = true;
                if let Some(copy) = self.at(site) {
                    copy.closed = true;
                    copy.state = match copy.state {
                        CopyState::Unasked => CopyState::Gone,
                        state if state.waits() => CopyState::Dropping,
                        state => state,
                    };
                }
            }
            Event::Withdrawn => {
                self.withdrawn = true;
                self.drop_where(|state| state.waits() || state == CopyState::Granted);
            }
            Event::Gone { site, how } => self.note_gone(site, how),
            Event::Found(site) => self.set(site, CopyState::Dropping),
            Event::Ended(_) => self.granted.clone().iter().for_each(|site| self.set(site, CopyState::Gone)),
        }
        self.outcome = self.outcome.take().or_else(|| self.concluded(event));
    }

    /// Continues after a restart, when all events are applied: sends the pending message to every site that
    /// may have a copy.
    pub fn resume(&mut self, now: Moment, pace: &Pace) -> Effects {
        let mut turn = Turn { now, pace, effects: Effects::default() };
        self.copies.iter_mut().for_each(|copy| copy.since = now);
        self.ask_all(&mut turn, |_| true);
        self.fill(&mut turn);
        turn.effects
    }

    /// Whether it was started.
    pub fn has_begun(&self) -> bool {
        !self.copies.is_empty() || self.outcome.is_some()
    }

    /// Places for copies, with the ids of the current ones.
    pub fn places(&self) -> impl Iterator<Item = (&Entry, JobId)> {
        self.copies.iter().map(|copy| (&copy.entry, copy.id()))
    }

    /// Ids of all copies sent, including those that are gone.
    pub fn ids(&self) -> impl Iterator<Item = JobId> {
        self.copies.iter().flat_map(Copy::ids)
    }

    /// Sites that acknowledged a waiting copy.
    pub fn queued(&self) -> impl Iterator<Item = &Name> {
        self.sites_in(CopyState::Queued)
    }

    /// Sites whose copy is still to be dropped.
    pub fn dropping(&self) -> impl Iterator<Item = &Name> {
        self.sites_in(CopyState::Dropping)
    }

    /// For a job that is itself a copy: whether one of its own copies claims, so that it waits for its go.
    pub fn is_claiming(&self) -> bool {
        !self.allowed && self.copies.iter().any(|copy| copy.state.waits() && copy.claims)
    }

    /// Why copies are gone, the last one of each site.
    pub fn gone(&self) -> &[(Name, Gone)] {
        &self.gone
    }

    /// Time that copies ran without a go, at sites that do not wait for one.
    pub fn wasted(&self) -> impl Iterator<Item = (&Name, Seconds)> {
        self.gone.iter().filter_map(|(site, how)| match how {
            Gone::Dropped { ran } if *ran > Seconds(0) => Some((site, *ran)),
            _ => None,
        })
    }

    /// Whether a copy was dropped because it had not started in time.
    pub fn is_late(&self) -> bool {
        self.late
    }

    /// The site whose copy may run.
    pub fn granted(&self) -> Option<&Name> {
        self.granted.as_ref()
    }

    /// The result, once there is one.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether there is a result and no copy is left anywhere.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && self.copies.iter().all(|copy| copy.question().is_none())
    }

    fn sites_in(&self, state: CopyState) -> impl Iterator<Item = &Name> {
        self.copies.iter().filter(move |copy| copy.state == state).map(|copy| &copy.entry.site)
    }

    /// Applies an event and adds it to the effects. The event that decides the race also reports the outcome.
    fn note(&mut self, event: Event, turn: &mut Turn<'_>) {
        let was_open = self.outcome.is_none();
        self.apply(&event);
        turn.effects.events.push(event);
        if was_open {
            turn.effects.outcome = self.outcome.clone();
        }
    }

    fn site(&self, at: usize) -> Name {
        self.copies[at].entry.site.clone()
    }

    fn at(&mut self, site: &Name) -> Option<&mut Copy> {
        self.copies.iter_mut().find(|copy| copy.entry.site == *site)
    }

    fn set(&mut self, site: &Name, state: CopyState) {
        self.at(site).into_iter().for_each(|copy| copy.state = state);
    }

    fn drop_where(&mut self, unwanted: impl Fn(CopyState) -> bool) {
        let unwanted = self.copies.iter_mut().filter(|copy| unwanted(copy.state));
        unwanted.for_each(|copy| copy.state = CopyState::Dropping);
    }

    fn note_gone(&mut self, site: &Name, how: &Gone) {
        let left = |copy: &Copy| copy.state.waits() || copy.is_eligible();
        let elsewhere = self.copies.iter().any(|copy| copy.entry.site != *site && left(copy));
        if let Some(copy) = self.at(site) {
            copy.state = CopyState::Gone;
            match how {
                Gone::Refused(_) => copy.closed = true,
                Gone::NeverRan { again, .. } => {
                    copy.closed |= !again;
                    copy.failed += 1;
                }
                Gone::Lost => copy.failed += 1,
                Gone::LostAfterGo(_) => {
                    copy.failed += 1;
                    // Not again at the site that lost it, if there is another.
                    copy.closed |= elsewhere;
                }
                Gone::Dropped { .. } => {}
            }
        }
        if matches!(how, Gone::LostAfterGo(_)) {
            self.retries = self.retries.saturating_sub(1);
        }
        if self.outcome.is_none() && self.granted.as_ref() == Some(site) {
            // It has not run, or was lost and may run again, so another copy may.
            self.granted = None;
        }
        self.gone.retain(|(known, _)| known != site);
        self.gone.push((site.clone(), how.clone()));
    }

    /// Whether a claim may still be granted.
    fn is_open(&self) -> bool {
        let granted = self.granted.is_some() && !self.broken.is(Flaw::GrantTwoClaims);
        !granted && !self.withdrawn && self.outcome.is_none()
    }

    /// The result, if this event decides it.
    fn concluded(&self, event: &Event) -> Option<Outcome> {
        match event {
            Event::Ended(how) => Some(Outcome::Ended { site: self.granted.clone()?, how: *how }),
            Event::Begun(_) | Event::Withdrawn | Event::Gone { .. } | Event::Late(_) => {
                let left = |copy: &Copy| copy.state.waits() || copy.is_eligible();
                match &self.granted {
                    Some(_) => None,
                    None if self.withdrawn => Some(Outcome::Withdrawn),
                    None => (!self.copies.iter().any(left)).then_some(Outcome::NowhereLeft),
                }
            }
            Event::Sent(_) | Event::Queued(_) | Event::Allowed | Event::Granted(_) | Event::Found(_) => None,
        }
    }

    /// Handles a report about a waiting copy.
    fn waiting_one_reported(&mut self, at: usize, asked: Ask, report: SiteReport, turn: &mut Turn<'_>) {
        let site = self.site(at);
        let is_new = self.copies[at].state == CopyState::Sent;
        let gone = match report {
            SiteReport::Refused(why) if asked == Ask::Submit && is_new => Gone::Refused(why),
            SiteReport::Refused(_) | SiteReport::Unknown => return,
            SiteReport::NeverRan { why, again } => Gone::NeverRan { why, again },
            SiteReport::Ran { since: None, .. } => {
                Gone::NeverRan { why: "it was lost at the site before it got a go".to_owned(), again: true }
            }
            SiteReport::Waits | SiteReport::Claims | SiteReport::Runs { .. } | SiteReport::Ran { .. } => {
                if is_new {
                    self.note(Event::Queued(site.clone()), turn);
                    // From now on it is queried.
                    self.copies[at].heard(turn.now, turn.pace);
                }
                self.copies[at].claims = report == SiteReport::Claims;
                self.copies[at].runs = matches!(report, SiteReport::Runs { .. });
                // A site that does not wait for a go has already decided. Granting it keeps the others from
                // running.
                if self.copies[at].runs || matches!(report, SiteReport::Ran { .. }) {
                    self.grant(at, turn);
                }
                if matches!(report, SiteReport::Ran { .. }) {
                    self.granted_one_reported(at, report, turn);
                }
                return;
            }
        };
        self.note(Event::Gone { site, how: gone }, turn);
    }

    /// Handles a report about the granted copy.
    fn granted_one_reported(&mut self, at: usize, report: SiteReport, turn: &mut Turn<'_>) {
        match report {
            // The go is repeated until the copy runs.
            SiteReport::Waits | SiteReport::Claims | SiteReport::Refused(_) | SiteReport::Unknown => {}
            SiteReport::Runs { .. } => {
                self.copies[at].runs = true;
                self.copies[at].heard(turn.now, turn.pace);
            }
            SiteReport::Ran { how: Ending::Lost, .. } => self.lost_after_go(at, "the site lost it", turn),
            SiteReport::Ran { how, .. } => self.note(Event::Ended(how), turn),
            SiteReport::NeverRan { .. } if self.copies[at].runs => {
                self.note(Event::Ended(Ending::Failed), turn);
            }
            SiteReport::NeverRan { why, again } => {
                let site = self.site(at);
                self.note(Event::Gone { site, how: Gone::NeverRan { why, again } }, turn);
            }
        }
    }

    /// Handles a report about a copy to be dropped.
    fn unwanted_one_reported(&mut self, at: usize, asked: Ask, report: SiteReport, turn: &mut Turn<'_>) {
        let site = self.site(at);
        let granted = self.granted.as_ref() == Some(&site) && self.outcome.is_none();
        let ran = match report {
            SiteReport::Ran { how, .. } if granted => return self.note(Event::Ended(how), turn),
            SiteReport::Ran { since, until, .. } => since.map_or(Seconds(0), |since| until - since),
            SiteReport::NeverRan { .. } => Seconds(0),
            SiteReport::Refused(why) if asked == Ask::Submit => {
                return self.note(Event::Gone { site, how: Gone::Refused(why) }, turn);
            }
            // The drop may have arrived before the submission. Now there is a copy to drop.
            SiteReport::Waits | SiteReport::Claims | SiteReport::Runs { .. } if asked == Ask::Submit => {
                return self.ask(at, turn);
            }
            _ => return,
        };
        self.note(Event::Gone { site, how: Gone::Dropped { ran } }, turn);
    }

    /// Handles a report about a copy that counted as gone. If it still exists, it is dropped.
    fn gone_one_reported(&mut self, at: usize, report: &SiteReport, turn: &mut Turn<'_>) {
        if matches!(report, SiteReport::Waits | SiteReport::Claims | SiteReport::Runs { .. }) {
            let site = self.site(at);
            self.note(Event::Found(site), turn);
            self.ask(at, turn);
        }
    }

    /// The site does not know the copy. A granted one may have run, so the job is lost.
    fn unknown(&mut self, at: usize, asked: Ask, turn: &mut Turn<'_>) {
        let copy = &mut self.copies[at];
        let acknowledged = matches!(copy.state, CopyState::Queued | CopyState::Granted | CopyState::Dropping);
        if !acknowledged || asked == Ask::Submit || !copy.is_unknown(turn.now, turn.pace) {
            return;
        }
        let (site, state) = (copy.entry.site.clone(), copy.state);
        if self.granted.as_ref() == Some(&site) && self.outcome.is_none() {
            return self.lost_after_go(at, "the site no longer knows it", turn);
        }
        let event = if state == CopyState::Queued {
            Event::Gone { site, how: Gone::Lost }
        } else {
            Event::Gone { site, how: Gone::Dropped { ran: Seconds(0) } }
        };
        self.note(event, turn);
    }

    /// The granted copy was lost with its site. Another may run, if the owner allowed that.
    fn lost_after_go(&mut self, at: usize, why: &str, turn: &mut Turn<'_>) {
        let event = match self.retries > 0 && !self.withdrawn {
            true => Event::Gone { site: self.site(at), how: Gone::LostAfterGo(why.to_owned()) },
            false => Event::Ended(Ending::Lost),
        };
        self.note(event, turn);
    }

    /// The deliberate fault of a broker that takes silence for a loss.
    fn give_up_the_silent(&mut self, turn: &mut Turn<'_>) {
        let (now, pace) = (turn.now, turn.pace);
        let silent = |copy: &Copy| copy.state == CopyState::Granted && copy.silent_at(pace) <= now;
        if self.broken.is(Flaw::RetryWhenSilent)
            && let Some(at) = self.copies.iter().position(silent)
        {
            self.lost_after_go(at, "the site is silent", turn);
        }
    }

    /// Grants a claim if allowed; of several, that of the best ranked site.
    fn grant_a_claim(&mut self, turn: &mut Turn<'_>) {
        let claims = |copy: &Copy| copy.state.waits() && copy.claims;
        if self.is_open()
            && self.allowed
            && let Some(at) = self.copies.iter().position(claims)
        {
            self.grant(at, turn);
        }
    }

    fn grant(&mut self, at: usize, turn: &mut Turn<'_>) {
        self.note(Event::Granted(self.site(at)), turn);
        self.ask(at, turn);
        self.ask_all(turn, |copy| copy.state == CopyState::Dropping);
    }

    fn drop_the_late(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        let is_late = |copy: &Copy| copy.start_by().is_some_and(|by| by <= now);
        while self.is_open()
            && let Some(at) = self.copies.iter().position(is_late)
        {
            self.note(Event::Late(self.site(at)), turn);
            self.ask(at, turn);
        }
    }

    /// Sends copies until enough are waiting: to sites with the fewest failures first, then by rank.
    fn fill(&mut self, turn: &mut Turn<'_>) {
        let present = self.copies.iter().filter(|copy| copy.is_present(turn.now, turn.pace)).count();
        for copy in self.copies.iter_mut().filter(|copy| copy.state.waits()) {
            copy.replaced = !copy.is_present(turn.now, turn.pace);
        }
        for _ in present..self.at_once {
            let free = self.copies.iter().enumerate().filter(|(_, copy)| copy.is_free());
            let next = free.min_by_key(|(at, copy)| (copy.failed, *at)).map(|(at, _)| at);
            let Some(at) = next.filter(|_| self.is_open()) else { return };
            self.note(Event::Sent(self.site(at)), turn);
            let copy = &mut self.copies[at];
            copy.since = turn.now;
            turn.effects.send.extend(copy.ask(turn.now, turn.pace));
        }
    }

    fn ask(&mut self, at: usize, turn: &mut Turn<'_>) {
        turn.effects.send.extend(self.copies[at].ask(turn.now, turn.pace));
    }

    fn ask_all(&mut self, turn: &mut Turn<'_>, which: impl Fn(&Copy) -> bool) {
        for copy in self.copies.iter_mut().filter(|copy| which(copy)) {
            turn.effects.send.extend(copy.ask(turn.now, turn.pace));
        }
    }
}
