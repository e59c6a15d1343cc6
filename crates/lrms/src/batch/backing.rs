//! Makes the reservations in the batch system equal to the backing that was ordered. It compares the present state
//! with the wanted one ([`Plan`]) and applies the difference, if possible without ever reserving less than before.
//!
//! If a step is refused, all earlier steps are undone. If a step is not answered, nothing more is done: the next
//! attempt begins with a look. Reservations whose nodes are lost ([`super::view`]) are created again on other nodes.
//! A reservation with jobs is changed or left as it is. It is never deleted in favour of a replacement, unless the
//! batch system can move its jobs there.

use super::accounts::Accounts;
use super::adapter::{Batch, State};
use super::looks::Own;
use super::pieces::Piece;
use super::plan;
use super::plan::{Plan, Steps, shared};
use super::system::{FactState, Handle, JobFact, Place, Reserved, Wanted};
use super::tag::{MOST_PIECES, Tag};
use crate::error::{Kept, LrmsError};
use bookahead_party::{Backing, Sharing};
use bookahead_plan::{Seconds, Span, Time};
use bookahead_protocol::ledger::taken;
use bookahead_protocol::{Moment, ReservationId, Tres};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Most jobs that a refusal names: enough to find them in a list.
const MOST_NAMED: usize = 5;

/// Data shared by all steps for one backing.
pub(super) struct Order {
    pub(super) backing: Backing,
    pub(super) place: Place,
    account: String,
    /// Other accounts that may use it.
    others: Vec<String>,
    /// The spans that are not over, as the batch system can reserve them.
    pub(super) wanted: Vec<Span>,
    now: Moment,
    /// Whether nodes were chosen from the last look, which may have been too old.
    chose: Cell<bool>,
}

enum Done {
    Changed { before: Piece, after: Handle },
    Created(Handle),
    Deleted(Piece),
    MovedJobs { from: Handle, to: Handle },
}

impl Batch {
    /// Reserves exactly these spans; no spans means no reservation. Idempotent.
    pub fn keep(&self, now: Moment, backing: &Backing) -> Result<(), LrmsError> {
        // `looked`: whether this call already had a fresh look. An unknown state, or nodes that must be replaced,
        // require one; any look is enough for the rest.
        let (mut looked, mut order, sees) = {
            let mut state = self.state();
            let order = state.order(now, backing)?;
            let unsure = state.pieces.is_unsure(backing.id);
            (unsure || backing.replaces, order, state.looks.is_there())
        };
        if looked {
            self.look_anew(order.now)?;
        } else if !sees {
            self.look_again(order.now)?;
        }
        let mut plan = self.state().plan(&order);
        if !plan.only_deletes() {
            self.find_accounts(&mut order)?;
            // A change or deletion is based on jobs and nodes of existing pieces, which must be seen first. For a new
            // piece, a look that is not too old will do.
            if !looked && !plan.only_creates() {
                looked = true;
                self.look_anew(order.now)?;
                plan = self.state().plan(&order);
            } else if !looked && !self.state().can_choose() {
                self.look_again(order.now)?;
                plan = self.state().plan(&order);
            }
        }
        self.state().check_jobs_fit(&order)?;
        let result = self.realise(&order, plan).and_then(|()| self.share(&mut order));
        // A refusal may come from a choice of nodes by an old look: then look and try once more.
        if looked || !order.chose.get() || !result.as_ref().is_err_and(LrmsError::is_refusal) {
            return result;
        }
        self.look_anew(order.now)?;
        let plan = self.state().plan(&order);
        self.realise(&order, plan).and_then(|()| self.share(&mut order))
    }

    fn find_accounts(&self, order: &mut Order) -> Result<(), LrmsError> {
        order.account = self.settings.accounts.of(&order.backing.owner)?;
        let users = order.backing.terms.let_in();
        let others = users.iter().map(|user| self.settings.accounts.of(user));
        let others = others.collect::<Result<BTreeSet<_>, _>>()?;
        order.others = others.into_iter().filter(|account| *account != order.account).collect();
        Ok(())
    }

    /// Lets the accounts of the other users into pieces that exist already, and no others.
    fn share(&self, order: &mut Order) -> Result<(), LrmsError> {
        let changes = self.state().traits.sharing == Sharing::Always;
        if order.wanted.is_empty() || !changes || matches!(self.settings.accounts, Accounts::Service(_)) {
            return Ok(());
        }
        self.find_accounts(order)?;
        let wanted: BTreeSet<&String> = order.others.iter().chain([&order.account]).collect();
        let unlike: Vec<Handle> = {
            let state = self.state();
            let pieces = state.pieces.of(order.backing.id, &order.place.resource, state.terms_now());
            let is_unlike = |handle: &Handle| {
                let known = state.looks.picture.reservations.iter().find(|one| one.handle == *handle);
                known.is_some_and(|one| one.accounts.iter().collect::<BTreeSet<_>>() != wanted)
            };
            pieces.into_iter().map(|piece| piece.handle).filter(is_unlike).collect()
        };
        let accounts: Vec<String> = std::iter::once(&order.account).chain(&order.others).cloned().collect();
        for handle in unlike {
            self.system.share(&handle, &accounts)?;
            self.state().looks.note(&Own::Shared { handle, accounts: accounts.clone() });
        }
        Ok(())
    }

    fn realise(&self, order: &Order, plan: Plan) -> Result<(), LrmsError> {
        {
            let mut state = self.state();
            for (handle, span) in &plan.same {
                state.pieces.adopt(order.backing.id, handle, *span);
            }
            let is_stuck = |(handle, _): &(Handle, Span)| state.is_stuck(order, handle);
            // Nothing else can be done for a piece that lost its nodes and must stay. Reporting success would hide
            // that.
            if plan.only_deletes() && plan.deletes.is_empty() && plan.same.iter().any(is_stuck) {
                return Err(not_backed(order.backing.id, nodes_failed(order.backing.id), Kept::AsBefore));
            }
        }
        if plan.only_deletes() { self.give_up(order, plan) } else { self.carry_out(order, plan) }
    }

    /// Deletes the pieces that are not wanted. A refusal does not stop it; the first one is returned.
    fn give_up(&self, order: &Order, plan: Plan) -> Result<(), LrmsError> {
        let mut failure = None;
        for piece in plan.deletes {
            match self.replace(order, &piece, &plan.same, &mut Vec::new()) {
                Ok(()) => {}
                Err(why) if why.is_refusal() => {
                    failure.get_or_insert_with(|| not_backed(order.backing.id, why, Kept::More));
                }
                Err(why) => return Err(not_backed(order.backing.id, why, self.doubted(order.backing.id))),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Applies a plan without a gap in the reservation. If that is refused because the old pieces are in the way,
    /// deletes them first.
    fn carry_out(&self, order: &Order, mut plan: Plan) -> Result<(), LrmsError> {
        if self.state().has_room_beside(order, &plan) {
            let mut done = Vec::new();
            let Err(why) = self.gently(order, plan.creates_first(), &mut done) else { return Ok(()) };
            let failure = self.undone(order, why, done);
            if !failure.is_refusal() {
                return Err(failure);
            }
            plan = self.state().plan(order);
        }
        let mut done = Vec::new();
        let Err(why) = self.gently(order, plan.steps(), &mut done) else { return Ok(()) };
        let failure = self.undone(order, why, done);
        if !failure.is_refusal() || !self.may_make_room(order) {
            return Err(failure);
        }
        let mut done = Vec::new();
        match self.make_room(order, &mut done) {
            Ok(()) => Ok(()),
            Err(why) => Err(self.undone(order, why, done)),
        }
    }

    /// Creates the new pieces in the order of the steps, then deletes the old ones.
    fn gently(&self, order: &Order, steps: Steps, done: &mut Vec<Done>) -> Result<(), LrmsError> {
        let mut replaced = Vec::new();
        let mut there = steps.same;
        for (piece, span) in steps.new {
            if let Some(piece) = piece {
                if self.change(order, &piece, (span, &order.backing.tres), done)? {
                    continue;
                }
                replaced.push(piece);
            }
            there.push((self.create(order, span, done)?, span));
        }
        for piece in replaced.iter().chain(&steps.deletes) {
            self.replace(order, piece, &there, done)?;
        }
        Ok(())
    }

    /// Deletes a piece. If possible, its jobs first move to the piece that overlaps it longest.
    fn replace(
        &self,
        order: &Order,
        piece: &Piece,
        there: &[(Handle, Span)],
        done: &mut Vec<Done>,
    ) -> Result<(), LrmsError> {
        let beside = |span: &Span| shared(span.interval, piece.span.interval);
        let successor =
            there.iter().filter(|(_, span)| beside(span) > 0).max_by_key(|(_, span)| beside(span));
        if let Some((to, _)) = successor.filter(|_| self.state().traits.moves_jobs) {
            let from = piece.handle.clone();
            // Noted before the attempt: some jobs may have moved before one is refused.
            done.push(Done::MovedJobs { from: from.clone(), to: to.clone() });
            self.move_jobs(&from, to)?;
        }
        self.delete(order.backing.id, &piece.handle)?;
        done.push(Done::Deleted(piece.clone()));
        Ok(())
    }

    /// Deletes the old pieces first, then creates the new ones. Between the two, the room is not reserved.
    fn make_room(&self, order: &Order, done: &mut Vec<Done>) -> Result<(), LrmsError> {
        let plan = self.state().plan(order);
        for piece in plan.old() {
            self.delete(order.backing.id, &piece.handle)?;
            done.push(Done::Deleted(piece));
        }
        for span in plan.missing() {
            self.create(order, span, done)?;
        }
        Ok(())
    }

    /// Whether deleting the old pieces first is both safe and useful: no jobs use them, and the new ones fit only
    /// without them.
    fn may_make_room(&self, order: &Order) -> bool {
        let plan = self.state().plan(order);
        if !plan.is_in_its_own_way() || self.look_anew(order.now).is_err() {
            return false;
        }
        let state = self.state();
        let plan = state.plan(order);
        let old: BTreeSet<Handle> = plan.old().into_iter().map(|piece| piece.handle).collect();
        let (now, missing) = (state.now.second(), plan.missing());
        let has_room = |without: &BTreeSet<Handle>| {
            plan::is_there(&state.looks.picture, &order.place, now, without, &missing)
        };
        plan.is_in_its_own_way()
            && !old.iter().any(|handle| state.has_jobs(handle) || state.is_away(order, handle))
            && has_room(&old)
            && !has_room(&BTreeSet::new())
    }

    /// Undoes completed steps and returns the error to report.
    fn undone(&self, order: &Order, why: LrmsError, done: Vec<Done>) -> LrmsError {
        let mut kept = if why.is_refusal() { Kept::AsBefore } else { self.doubted(order.backing.id) };
        for step in done.into_iter().rev() {
            // After a step without an answer, further steps could do damage.
            if kept == Kept::Unknown {
                break;
            }
            kept = match self.undo(order, step) {
                Ok(()) => kept,
                Err(why) if why.is_refusal() => Kept::Less,
                Err(_) => self.doubted(order.backing.id),
            };
        }
        not_backed(order.backing.id, why, kept)
    }

    fn undo(&self, order: &Order, step: Done) -> Result<(), LrmsError> {
        let undoing = &mut Vec::new();
        match step {
            Done::Changed { before, after } => {
                let changed = Piece { handle: after, ..before.clone() };
                if self.change(order, &changed, (before.span, &before.tres), undoing)? {
                    return Ok(());
                }
                Err(refused(order.backing.id, "a changed reservation cannot be changed back".into()))
            }
            Done::Created(handle) => self.delete(order.backing.id, &handle),
            Done::Deleted(piece) => {
                self.create_as(order, piece.number, (piece.span, &piece.tres), undoing).map(drop)
            }
            Done::MovedJobs { from, to } => self.move_jobs(&to, &from),
        }
    }

    fn doubted(&self, id: ReservationId) -> Kept {
        self.state().doubt(id);
        Kept::Unknown
    }

    /// Changes a piece to `span`. Returns false if the batch system cannot do that and the piece is unused, so it can
    /// be replaced.
    fn change(
        &self,
        order: &Order,
        piece: &Piece,
        (span, tres): (Span, &Tres),
        done: &mut Vec<Done>,
    ) -> Result<bool, LrmsError> {
        let (wanted, picture) = {
            let state = self.state();
            (state.wanted(order, piece.number, span, tres)?, state.looks.picture_at(state.now))
        };
        let changed = self.system.change(&piece.handle, &wanted, &picture)?;
        let mut state = self.state();
        let Some(reserved) = changed else {
            return if state.has_jobs(&piece.handle) { Err(in_use(order.backing.id)) } else { Ok(false) };
        };
        let after = reserved.handle.clone();
        if after != piece.handle {
            state.is_gone(order.backing.id, &piece.handle);
        }
        let changed = Piece { handle: after.clone(), span, tres: tres.clone(), ..piece.clone() };
        state.is_made(order.backing.id, changed, reserved);
        done.push(Done::Changed { before: piece.clone(), after });
        Ok(true)
    }

    fn create(&self, order: &Order, span: Span, done: &mut Vec<Done>) -> Result<Handle, LrmsError> {
        let none_left = || refused(order.backing.id, "it has too many pieces".into());
        let number = self.state().pieces.free_number(order.backing.id).ok_or_else(none_left)?;
        self.create_as(order, number, (span, &order.backing.tres), done)
    }

    fn create_as(
        &self,
        order: &Order,
        number: u32,
        (span, tres): (Span, &Tres),
        done: &mut Vec<Done>,
    ) -> Result<Handle, LrmsError> {
        let (wanted, picture, looks) = {
            let mut state = self.state();
            let mut wanted = state.wanted(order, number, span, tres)?;
            let chosen = state.looks.choose(|picture| self.system.choose(&wanted, picture));
            order.chose.set(order.chose.get() || !chosen.as_ref().is_ok_and(Vec::is_empty));
            wanted.nodes = chosen?;
            state.looks.chosen.push(to_be(&wanted));
            (wanted, state.looks.picture_at(state.now), state.looks.numbers())
        };
        let created = self.system.create(&wanted, &picture);
        let mut state = self.state();
        state.looks.chosen.retain(|chosen| chosen.name != wanted.name);
        if created.is_err() && state.looks.numbers() != looks {
            // A look during the attempt may have shown it before it was undone.
            state.doubt(order.backing.id);
        }
        let reserved = created?;
        let (owner, resource) = (Some(order.backing.owner.clone()), order.place.resource.clone());
        let handle = reserved.handle.clone();
        let tres = tres.clone();
        let piece = Piece { handle: handle.clone(), number, owner, resource, span, tres };
        state.is_made(order.backing.id, piece, reserved);
        done.push(Done::Created(handle.clone()));
        Ok(handle)
    }

    fn delete(&self, id: ReservationId, handle: &Handle) -> Result<(), LrmsError> {
        self.system.delete(handle)?;
        self.state().is_gone(id, handle);
        Ok(())
    }

    fn move_jobs(&self, from: &Handle, to: &Handle) -> Result<(), LrmsError> {
        self.system.move_jobs(from, to)?;
        self.state().looks.note(&Own::Moved { from: from.clone(), to: to.clone() });
        Ok(())
    }
}

impl State {
    /// Validates a backing.
    fn order(&mut self, now: Moment, backing: &Backing) -> Result<Order, LrmsError> {
        let now = self.reach(now);
        let place = self.place(&backing.resource)?.0.clone();
        if !self.traits.tres && !backing.tres.is_empty() && !backing.spans.is_empty() {
            let why = format!("this batch system cannot reserve {}; reserve without it", backing.tres);
            return Err(refused(backing.id, why));
        }
        let mut wanted = plan::of(&backing.spans, self.terms_now());
        if !self.traits.moves_jobs {
            // Jobs cannot follow from one piece to the next, so avoid a piece that ends in a moment.
            wanted = plan::lasting(wanted, self.now.second());
        }
        if wanted.len() >= MOST_PIECES as usize {
            // One number stays free for a piece that replaces another.
            let why = format!("{} spans; at most {} are possible", wanted.len(), MOST_PIECES - 1);
            return Err(refused(backing.id, why));
        }
        Ok(Order {
            backing: backing.clone(),
            place,
            account: String::new(),
            others: Vec::new(),
            wanted,
            now,
            chose: Cell::new(false),
        })
    }

    fn plan(&self, order: &Order) -> Plan {
        let now = self.terms_now();
        let pieces = self.pieces.of(order.backing.id, &order.place.resource, now);
        let (degraded, sound) = pieces.into_iter().partition(|piece| self.is_to_be_replaced(order, piece));
        let mut plan = Plan::of(sound, order.wanted.clone(), &order.backing.tres, now);
        plan.deletes.extend::<Vec<Piece>>(degraded);
        plan
    }

    /// Refuses to reserve less than the jobs inside use or wait for: they would keep what they have, or wait forever.
    fn check_jobs_fit(&self, order: &Order) -> Result<(), LrmsError> {
        if order.wanted.is_empty() || order.backing.replaces {
            return Ok(());
        }
        let pieces = self.pieces.of(order.backing.id, &order.place.resource, self.terms_now());
        let handles: BTreeSet<&Handle> = pieces.iter().map(|piece| &piece.handle).collect();
        let before: Vec<Span> = pieces.iter().map(|piece| piece.span).collect();
        let amount = |job: &&JobFact| u64::from(order.place.unit.amount(job));
        let is_inside = |job: &&JobFact| {
            !job.state.is_over() && job.reservations.iter().any(|handle| handles.contains(handle))
        };
        let inside: Vec<&JobFact> = self.looks.picture.jobs.iter().filter(is_inside).collect();
        let now = self.now.second();
        let begins = order.wanted.iter().map(|span| span.interval.begin.max(now));
        let low = |at: &Time| taken(&order.wanted, *at) < taken(&before, *at);
        for at in begins.filter(low) {
            let left = u64::from(taken(&order.wanted, at).0);
            let running = inside.iter().filter(|job| job.state == FactState::Running && job.runs_at(at, now));
            let waits = |job: &&&JobFact| job.state != FactState::Running && amount(job) > left;
            let too_much = running.clone().map(amount).sum::<u64>() > left;
            let in_the_way: Vec<&str> = running
                .filter(|_| too_much)
                .chain(inside.iter().filter(waits))
                .map(|job| job.native.as_str())
                .take(MOST_NAMED)
                .collect();
            if !in_the_way.is_empty() {
                return Err(needed_inside(order.backing.id, &in_the_way));
            }
        }
        Ok(())
    }

    /// Whether new pieces can be created before an existing piece shrinks. They then go first, so that at no moment
    /// less is reserved than will be in the end.
    fn has_room_beside(&self, order: &Order, plan: &Plan) -> bool {
        let (now, none) = (self.now.second(), BTreeSet::new());
        plan.gives_up()
            && !plan.creates.is_empty()
            && plan::is_there(&self.looks.picture, &order.place, now, &none, &plan.creates)
    }

    fn wanted(&self, order: &Order, number: u32, span: Span, tres: &Tres) -> Result<Wanted, LrmsError> {
        let tag = Tag { id: order.backing.id, piece: number, owner: Some(order.backing.owner.clone()) };
        let too_long = || {
            refused(
                order.backing.id,
                "the limit of the batch system on names of reservations is too low".into(),
            )
        };
        Ok(Wanted {
            name: tag.name(&self.settings.site, self.traits.longest_name).ok_or_else(too_long)?,
            place: order.place.clone(),
            interval: span.interval,
            amount: span.capacity.0,
            account: order.account.clone(),
            others: order.others.clone(),
            terms: order.backing.terms.clone(),
            project: self.settings.projects.of(&order.backing.owner),
            nodes: Vec::new(),
            tres: tres.clone(),
        })
    }

    fn is_made(&mut self, id: ReservationId, piece: Piece, reserved: Reserved) {
        self.pieces.add(id, piece);
        self.looks.note(&Own::Made(reserved));
    }

    fn is_gone(&mut self, id: ReservationId, handle: &Handle) {
        self.pieces.remove(id, handle);
        let (handle, freed_within) = (handle.clone(), self.traits.freed_within);
        // Some batch systems free the cores of a deleted reservation only after its jobs have ended.
        if freed_within > Seconds::ZERO && self.looks.runs_in(&handle) {
            self.looks.note(&Own::Leaving { handle, free_at: self.now.second() + freed_within });
        } else {
            self.looks.note(&Own::Gone(handle));
        }
    }

    fn doubt(&mut self, id: ReservationId) {
        self.pieces.doubt(id, self.looks.begun);
    }
}

/// The reservation that will exist if it is created on the chosen nodes. Parallel orders must not choose them, too.
fn to_be(wanted: &Wanted) -> Reserved {
    Reserved {
        handle: Handle(wanted.name.clone()),
        name: wanted.name.clone(),
        interval: wanted.interval,
        cores: wanted.nodes.iter().cloned().collect(),
        spread: true,
        accounts: Vec::new(),
        maintenance: false,
    }
}

fn refused(id: ReservationId, said: String) -> LrmsError {
    LrmsError::Refused { what: format!("to reserve room for {id}"), said }
}

fn needed_inside(id: ReservationId, jobs: &[&str]) -> LrmsError {
    let jobs = jobs.join(", ");
    let said =
        format!("jobs run or wait in it that need more than would be left (such as {jobs}); end them first");
    LrmsError::Refused { what: format!("to change the room of {id}"), said }
}

fn in_use(id: ReservationId) -> LrmsError {
    let said =
        "jobs wait or run in it, and this batch system can only replace a reservation; end the jobs first";
    LrmsError::Refused { what: format!("to change the room of {id}"), said: said.into() }
}

fn nodes_failed(id: ReservationId) -> LrmsError {
    let said =
        "its nodes failed or were taken, and this batch system cannot move the jobs that wait or run in it";
    LrmsError::Refused { what: format!("to reserve room for {id}"), said: said.into() }
}

fn not_backed(id: ReservationId, why: LrmsError, kept: Kept) -> LrmsError {
    LrmsError::NotBacked { id, why: Box::new(why), kept }
}
