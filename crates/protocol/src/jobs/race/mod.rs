//! Flooding over batch systems: copies of a best-effort job wait at several sites, the first that starts wins, and the others
//! are dropped.
//!
//! A batch system starts a job without asking, so nothing like the claim of [`super::flooding`] is possible. The broker looks
//! at the copies instead. Two may start before the others are dropped; then the one that started later is dropped, and what
//! it ran is told as wasted. What holds is that no copy is forgotten: each is written down before it is sent, and is either
//! the one that won, or is asked after until its site says that it is gone.
//!
//! ```text
//! broker                                  site
//!   Submit ──────────────────────────────►  queued
//!   Look   ──────────────────────────────►  waits, or runs
//!   Drop   ──────────────────────────────►  ended, whether it waits or runs
//! ```
//!
//! Everything is asked again until it is answered. Where a site refuses, loses its copy or is silent, the next of the ranking
//! gets one in its place.
//!
//! It relies on sites to know a repeated submission by its id, and on whoever drives it to journal events before anything is
//! sent. It never has two winners, and knows no clock: time is an argument.

mod copy;
mod words;

pub use words::{Ask, Effects, Entry, Event, Gone, Outcome, Outgoing, Pace, Told, copy_of};

use super::flooding::Ending;
use crate::clock::Moment;
use crate::ids::{JobId, Name};
use bookahead_plan::{Seconds, Time};
use copy::{Copy, Sighted, Stand, length};

/// One job at several sites.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Race {
    /// In the order of the ranking.
    copies: Vec<Copy>,
    at_once: usize,
    winner: Option<Name>,
    withdrawn: bool,
    late: bool,
    outcome: Option<Outcome>,
    /// What became of the copies that are gone.
    gone: Vec<(Name, Gone)>,
    /// Since when it is known that a copy runs, and not decided which has won. Lost with a crash.
    deciding: Option<Moment>,
}

impl Race {
    /// Sends copies to the best of these sites, so many at a time. Does nothing where that was done before.
    pub fn start(&mut self, now: Moment, entries: Vec<Entry>, at_once: usize, pace: &Pace) -> Effects {
        let mut effects = Effects::default();
        if self.copies.is_empty() && self.outcome.is_none() {
            let mut one_each: Vec<Entry> = Vec::new();
            for entry in entries {
                if !one_each.iter().any(|known| known.site == entry.site) {
                    one_each.push(entry);
                }
            }
            self.note(Event::Begun { entries: one_each, at_once: at_once.max(1) }, &mut effects);
            self.fill(now, pace, &mut effects);
        }
        effects
    }

    /// A site has answered a question about a copy. What matters no more is ignored.
    pub fn on_answer(
        &mut self,
        now: Moment,
        from: &Name,
        (copy, asked): (JobId, Ask),
        told: Told,
        pace: &Pace,
    ) -> Effects {
        let mut effects = Effects::default();
        let its = |known: &Copy| known.entry.copy == copy && known.entry.site == *from;
        let Some(at) = self.copies.iter().position(its) else { return effects };
        if told == Told::Unknown {
            self.unknown(now, at, asked, pace, &mut effects);
        } else {
            // One that may not be looked at is as good as silent.
            if asked == Ask::Submit || !matches!(told, Told::Refused(_)) {
                self.copies[at].heard(now, pace);
            }
            match self.copies[at].stand {
                Stand::Sent | Stand::Queued => self.told(now, at, asked, told, pace, &mut effects),
                Stand::Dropping => self.told_of_a_drop(now, at, asked, told, pace, &mut effects),
                Stand::Gone => self.told_of_the_gone(now, at, &told, pace, &mut effects),
                Stand::Unasked => {}
            }
        }
        self.decide(now, pace, &mut effects);
        self.fill(now, pace, &mut effects);
        effects
    }

    /// The owner does not want it any more.
    pub fn withdraw(&mut self, now: Moment, pace: &Pace) -> Effects {
        let mut effects = Effects::default();
        if self.outcome.is_none() && !self.withdrawn {
            // One that runs is the one that the owner means.
            if let Some((first, _)) = self.first().filter(|_| self.winner.is_none()) {
                self.note(Event::Won(first), &mut effects);
            }
            self.note(Event::Withdrawn, &mut effects);
            self.ask_all(now, pace, &mut effects, |copy| copy.stand == Stand::Dropping);
        }
        effects
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment, pace: &Pace) -> Effects {
        let mut effects = Effects::default();
        self.drop_the_late(now, pace, &mut effects);
        self.decide(now, pace, &mut effects);
        for copy in &mut self.copies {
            effects.send.extend(copy.ask_again(now, pace));
        }
        self.fill(now, pace, &mut effects);
        effects
    }

    /// When [`Race::tick`] wants to be called next.
    pub fn next_timer(&self, pace: &Pace) -> Option<Moment> {
        let asked = self.copies.iter().filter(|copy| copy.stand.ask().is_some());
        let repeats = asked.map(|copy| copy.repeated.at);
        let undecided = self.is_open();
        let spare = undecided && self.copies.iter().any(|copy| copy.stand == Stand::Unasked);
        let waiting = self.copies.iter().filter(|copy| spare && copy.stand.may_start() && !copy.replaced);
        let silences = waiting.map(|copy| copy.silent_at(pace));
        let late = self.copies.iter().filter(|_| undecided).filter_map(Copy::start_by);
        repeats.chain(silences).chain(late).chain(self.decide_by(pace)).min()
    }

    /// The fold: takes over what happened.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Begun { entries, at_once } => {
                self.copies = entries.iter().cloned().map(Copy::new).collect();
                self.at_once = *at_once;
            }
            Event::Sent(site) => self.set(site, Stand::Sent),
            Event::Queued(site) => self.set(site, Stand::Queued),
            Event::Won(site) => {
                self.winner = Some(site.clone());
                self.drop_where(|copy| copy.entry.site != *site);
            }
            Event::Late(site) => {
                self.late = true;
                let sent = self.copies.iter().any(|copy| copy.entry.site == *site && copy.stand.may_start());
                self.set(site, if sent { Stand::Dropping } else { Stand::Gone });
            }
            Event::Withdrawn => {
                self.withdrawn = true;
                self.drop_where(|_| true);
            }
            Event::Gone { site, how } => {
                self.set(site, Stand::Gone);
                self.gone.retain(|(known, _)| known != site);
                self.gone.push((site.clone(), how.clone()));
            }
            Event::Found(site) => self.set(site, Stand::Dropping),
            Event::Ended(_) => self.winner.clone().iter().for_each(|site| self.set(site, Stand::Gone)),
        }
        self.outcome = self.outcome.take().or_else(|| self.concluded(event));
    }

    /// Goes on after a restart, once all events were applied: asks everybody who may have a copy.
    pub fn resume(&mut self, now: Moment, pace: &Pace) -> Effects {
        let mut effects = Effects::default();
        self.copies.iter_mut().for_each(|copy| copy.since = now);
        self.ask_all(now, pace, &mut effects, |_| true);
        self.fill(now, pace, &mut effects);
        effects
    }

    /// Where copies may be, with their ids.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.copies.iter().map(|copy| &copy.entry)
    }

    /// The sites where a copy waits or runs, as far as they have acknowledged it.
    pub fn queued(&self) -> impl Iterator<Item = &Name> {
        self.copies.iter().filter(|copy| copy.stand == Stand::Queued).map(|copy| &copy.entry.site)
    }

    /// The sites where a copy is still to be dropped.
    pub fn dropping(&self) -> impl Iterator<Item = &Name> {
        self.copies.iter().filter(|copy| copy.stand == Stand::Dropping).map(|copy| &copy.entry.site)
    }

    /// What became of the copies that are gone.
    pub fn gone(&self) -> &[(Name, Gone)] {
        &self.gone
    }

    /// What copies that did not win have run in vain, as far as is known.
    pub fn wasted(&self) -> impl Iterator<Item = (&Name, Seconds)> {
        self.gone.iter().filter_map(|(site, how)| match how {
            Gone::Dropped { ran } if *ran > Seconds(0) => Some((site, *ran)),
            _ => None,
        })
    }

    /// Whether a copy was dropped since it had not started in time.
    pub fn is_late(&self) -> bool {
        self.late
    }

    /// The site whose copy has won, once there is one.
    pub fn winner(&self) -> Option<&Name> {
        self.winner.as_ref()
    }

    /// What became of the job, once that is known.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether the job is done with and no copy is left anywhere.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && self.copies.iter().all(|copy| copy.stand.ask().is_none())
    }

    /// Takes an event, and tells the outcome with the one that decides it.
    fn note(&mut self, event: Event, effects: &mut Effects) {
        let was_open = self.outcome.is_none();
        self.apply(&event);
        effects.events.push(event);
        if was_open {
            effects.outcome = self.outcome.clone();
        }
    }

    fn set(&mut self, site: &Name, stand: Stand) {
        let its = self.copies.iter_mut().filter(|copy| copy.entry.site == *site);
        its.for_each(|copy| copy.stand = stand);
    }

    fn drop_where(&mut self, unwanted: impl Fn(&Copy) -> bool) {
        let unwanted = self.copies.iter_mut().filter(|copy| copy.stand.may_start() && unwanted(copy));
        unwanted.for_each(|copy| copy.stand = Stand::Dropping);
    }

    /// Whether a copy that starts would win.
    fn is_open(&self) -> bool {
        self.winner.is_none() && !self.withdrawn && self.outcome.is_none()
    }

    /// What has become of the job by this event, if that is decided now.
    fn concluded(&self, event: &Event) -> Option<Outcome> {
        match event {
            Event::Ended(how) => Some(Outcome::Ended { site: self.winner.clone()?, how: *how }),
            Event::Withdrawn => self.winner.is_none().then_some(Outcome::Withdrawn),
            Event::Begun { .. } | Event::Gone { .. } | Event::Late(_) => {
                let left = |copy: &Copy| copy.stand == Stand::Unasked || copy.stand.may_start();
                let nowhere = self.is_open() && !self.copies.iter().any(left);
                nowhere.then_some(Outcome::NowhereLeft)
            }
            Event::Sent(_) | Event::Queued(_) | Event::Won(_) | Event::Found(_) => None,
        }
    }

    /// A site tells how a copy is that may start.
    fn told(&mut self, now: Moment, at: usize, asked: Ask, told: Told, pace: &Pace, effects: &mut Effects) {
        let site = self.copies[at].entry.site.clone();
        let won = self.winner.as_ref() == Some(&site);
        match told {
            // It does not take it, and so has none.
            Told::Refused(why) if asked == Ask::Submit && self.copies[at].stand == Stand::Sent => {
                return self.note(Event::Gone { site, how: Gone::Refused(why) }, effects);
            }
            Told::Refused(_) | Told::Unknown => return,
            Told::NeverRan(_) if won => return self.note(Event::Ended(Ending::Failed), effects),
            Told::NeverRan(why) => {
                return self.note(Event::Gone { site, how: Gone::Ended(why) }, effects);
            }
            Told::Ran { how, .. } if won => return self.note(Event::Ended(how), effects),
            Told::Ran { since, how, .. } => {
                self.copies[at].sighted = Some(Sighted { since, over: Some(how) });
            }
            Told::Runs { since } => self.copies[at].sighted = Some(Sighted { since, over: None }),
            Told::Waits => self.copies[at].sighted = None,
        }
        if self.copies[at].stand == Stand::Sent {
            self.note(Event::Queued(site), effects);
            // From now on it is looked at.
            self.copies[at].heard(now, pace);
        }
    }

    /// A site tells how a copy is that is to be dropped.
    fn told_of_a_drop(
        &mut self,
        now: Moment,
        at: usize,
        asked: Ask,
        told: Told,
        pace: &Pace,
        effects: &mut Effects,
    ) {
        let site = self.copies[at].entry.site.clone();
        let won = self.winner.as_ref() == Some(&site);
        match told {
            Told::Ran { how, .. } if won => self.note(Event::Ended(how), effects),
            Told::NeverRan(_) if won => self.note(Event::Ended(Ending::Failed), effects),
            Told::Ran { since, until, .. } => self.dropped(site, since, until, effects),
            Told::NeverRan(_) => self.dropped(site, Time(0), Time(0), effects),
            Told::Refused(why) if asked == Ask::Submit => {
                self.note(Event::Gone { site, how: Gone::Refused(why) }, effects);
            }
            // It was asked something else before; now there is something to drop.
            Told::Waits | Told::Runs { .. } if asked != Ask::Drop => {
                effects.send.extend(self.copies[at].ask(now, pace));
            }
            Told::Waits | Told::Runs { .. } | Told::Refused(_) | Told::Unknown => {}
        }
    }

    /// A site tells of a copy that counted as gone. If there is one, it is dropped.
    fn told_of_the_gone(&mut self, now: Moment, at: usize, told: &Told, pace: &Pace, effects: &mut Effects) {
        if matches!(told, Told::Waits | Told::Runs { .. }) {
            let site = self.copies[at].entry.site.clone();
            // The copy that won and was given up may be back; it is as unwanted as any other.
            self.note(Event::Found(site), effects);
            effects.send.extend(self.copies[at].ask(now, pace));
        }
    }

    fn dropped(&mut self, site: Name, since: Time, until: Time, effects: &mut Effects) {
        let how = Gone::Dropped { ran: length(since, until) };
        self.note(Event::Gone { site, how }, effects);
    }

    /// A site does not know its copy.
    fn unknown(&mut self, now: Moment, at: usize, asked: Ask, pace: &Pace, effects: &mut Effects) {
        let copy = &mut self.copies[at];
        let expected = matches!(copy.stand, Stand::Queued | Stand::Dropping) && asked != Ask::Submit;
        if !expected || !copy.is_unknown(now, pace) {
            return;
        }
        let (site, stand) = (copy.entry.site.clone(), copy.stand);
        if self.winner.as_ref() == Some(&site) && self.outcome.is_none() {
            self.note(Event::Ended(Ending::Lost), effects);
        } else if stand == Stand::Queued {
            self.note(Event::Gone { site, how: Gone::Lost }, effects);
        } else {
            self.dropped(site, Time(0), Time(0), effects);
        }
    }

    /// The copy that has won by what is known: one that has finished, or else the one that started first, of equals the better
    /// ranked.
    fn first(&self) -> Option<(Name, Sighted)> {
        let sighted = self.copies.iter().filter(|copy| copy.stand.may_start());
        let sighted = sighted.filter_map(|copy| Some((copy, copy.sighted?)));
        let place = |(_, seen): &(&Copy, Sighted)| (seen.over != Some(Ending::Finished), seen.since);
        sighted.min_by_key(place).map(|(copy, seen)| (copy.entry.site.clone(), seen))
    }

    /// By when it is decided which copy has won, whoever has not answered.
    fn decide_by(&self, pace: &Pace) -> Option<Moment> {
        self.deciding.map(|since| since + pace.patience.first + pace.patience.first)
    }

    /// Decides which copy has won, once one runs. Those that may have started before it are waited for, for a moment.
    fn decide(&mut self, now: Moment, pace: &Pace, effects: &mut Effects) {
        let Some((first, seen)) = self.first().filter(|_| self.is_open()) else {
            self.deciding = None;
            return;
        };
        let is_new = self.deciding.is_none();
        // Where the clock of its site is ahead, whoever tells something from now on will do.
        let before = self.deciding.get_or_insert(now).to_owned().min(Moment::of(seen.since));
        let unseen = |copy: &Copy| copy.may_run_since(before);
        if self.copies.iter().any(unseen) && self.decide_by(pace).is_some_and(|by| now < by) {
            if is_new {
                self.ask_all(now, pace, effects, unseen);
            }
            return;
        }
        self.deciding = None;
        self.note(Event::Won(first), effects);
        if let Some(how) = seen.over {
            self.note(Event::Ended(how), effects);
        }
        self.ask_all(now, pace, effects, |copy| copy.stand == Stand::Dropping);
    }

    fn drop_the_late(&mut self, now: Moment, pace: &Pace, effects: &mut Effects) {
        let is_late = |copy: &Copy| copy.start_by().is_some_and(|by| by <= now);
        while self.is_open()
            && let Some(at) = self.copies.iter().position(is_late)
        {
            self.note(Event::Late(self.copies[at].entry.site.clone()), effects);
            effects.send.extend(self.copies[at].ask(now, pace));
        }
    }

    /// Sends copies to the next of the ranking until as many wait as should.
    fn fill(&mut self, now: Moment, pace: &Pace, effects: &mut Effects) {
        let present = self.copies.iter().filter(|copy| copy.is_present(now, pace)).count();
        for copy in self.copies.iter_mut().filter(|copy| copy.stand.may_start()) {
            copy.replaced = !copy.is_present(now, pace);
        }
        for _ in present..self.at_once {
            let unasked = self.copies.iter().position(|copy| copy.stand == Stand::Unasked);
            let Some(at) = unasked.filter(|_| self.is_open() && self.deciding.is_none()) else { return };
            self.note(Event::Sent(self.copies[at].entry.site.clone()), effects);
            let copy = &mut self.copies[at];
            (copy.since, copy.heard) = (now, None);
            effects.send.extend(copy.ask(now, pace));
        }
    }

    /// Asks the sites of some copies what is to be asked.
    fn ask_all(&mut self, now: Moment, pace: &Pace, effects: &mut Effects, which: impl Fn(&Copy) -> bool) {
        for copy in self.copies.iter_mut().filter(|copy| which(copy)) {
            effects.send.extend(copy.ask(now, pace));
        }
    }
}
