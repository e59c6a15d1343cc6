//! A Grid Engine with two hosts: reservations that span both, and one host that is away for a while under a
//! reservation, while jobs of another user wait for its slots.

use super::own_cell::{HOSTS, OwnCell, SLOTS, place};
use super::{find, job, sleeping, until_state};
use bookahead_lrms::batch::{
    Accounts, BatchSystem, FactState, Handle, JobSystem, Picture, Reserved, Settings,
};
use bookahead_lrms::grid_engine::GridEngine;
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::Backing;
use bookahead_plan::{Capacity, Interval, Seconds, Span};
use bookahead_protocol::{Moment, Name, ReservationId};
use std::collections::BTreeMap;

const ID: ReservationId = ReservationId(1);
const ALL: u32 = 2 * SLOTS;

/// A site that drives a Grid Engine with two hosts, which is also checked by hand.
struct Driven {
    cell: OwnCell,
    engine: GridEngine,
    batch: Batch,
    span: Span,
}

fn driven(amount: u32, from: i64) -> Driven {
    let cell = OwnCell::of_two_hosts();
    let engine = cell.engine();
    let accounts = Accounts::Service("root".into());
    let settings = Settings::new("uni".into(), vec![(place("all.q"), Capacity(ALL))], accounts);
    let batch = Batch::new(Box::new(cell.engine()), settings).unwrap();
    let begin = engine.look().unwrap().clock.unwrap() + Seconds(from);
    let span = Span { interval: Interval::starting(begin, Seconds(600)), capacity: Capacity(amount) };
    let driven = Driven { cell, engine, batch, span };
    driven.back(amount, false).unwrap();
    driven
}

fn instance(host: usize) -> String {
    format!("all.q@{}", HOSTS[host])
}

impl Driven {
    fn look(&self) -> Picture {
        self.engine.look().unwrap()
    }

    fn now(&self) -> Moment {
        Moment::of(self.look().clock.unwrap())
    }

    fn back(&self, amount: u32, replaces: bool) -> Result<(), LrmsError> {
        let spans = vec![Span { capacity: Capacity(amount), ..self.span }];
        let spans = if amount > 0 { spans } else { Vec::new() };
        let (resource, owner) = (Name::from("cpu"), "ann".into());
        self.batch.keep(
            self.now(),
            &Backing {
                resource,
                id: ID,
                owner,
                terms: Default::default(),
                tres: Default::default(),
                spans,
                replaces,
            },
        )
    }

    /// The reserved slots, and those of them on unavailable hosts.
    fn kept(&self) -> (u32, u32) {
        let seen = self.batch.look(self.now()).unwrap().resources.remove(&Name::from("cpu")).unwrap();
        let kept = seen.backings.get(&ID).into_iter().flatten().map(|span| span.capacity.0).min();
        (kept.unwrap_or(0), seen.away.get(&ID).map_or(0, |away| away.0))
    }

    /// The only reservation.
    #[track_caller]
    fn one(&self) -> Reserved {
        let all = self.look().reservations;
        let [one] = &all[..] else { panic!("one should be there: {all:?}") };
        one.clone()
    }

    fn loses(&self, host: usize) {
        self.cell.stop_execd_on(HOSTS[host]);
        self.until_usable(host, false);
    }

    fn has_back(&self, host: usize) {
        self.cell.start_execd_on(HOSTS[host]);
        self.until_usable(host, true);
    }

    fn until_usable(&self, host: usize, usable: bool) {
        self.cell.until("the host is missed, or back", || {
            let picture = self.look();
            picture.nodes.iter().any(|node| node.name == instance(host) && node.usable == usable)
        });
    }

    /// Jobs of another user, outside of all reservations.
    fn submit_as_somebody_else(&self, slots: &[u32]) -> Vec<String> {
        let submit = |slots: &u32| {
            let slots = slots.to_string();
            self.cell.submit_as("games", &["-pe", "smp", &slots, "-l", "h_rt=0:5:0"], 300)
        };
        slots.iter().map(submit).collect()
    }

    #[track_caller]
    fn all_wait(&self, jobs: &[String]) {
        let picture = self.look();
        for native in jobs {
            let found = find(&picture, native);
            assert!(found.is_some_and(|job| job.state == FactState::Waiting), "{native}: {found:?}");
        }
    }

    fn submit(&self, slots: u32, handle: &Handle) -> String {
        self.engine.submit(&job(slots, 300, Some(handle), sleeping(300))).unwrap()
    }

    /// The hosts of a job inside the reservation.
    fn runs_inside(&mut self, slots: u32, handle: &Handle) -> BTreeMap<String, u32> {
        let native = self.submit(slots, handle);
        until_state(&self.cell, &mut self.engine, &native, |state| *state == FactState::Running).placed
    }
}

#[test]
fn a_reservation_spans_both_hosts_and_a_host_that_is_away_for_a_while_costs_none_of_its_slots() {
    let mut driven = driven(ALL, 2);
    let both = BTreeMap::from([(instance(0), SLOTS), (instance(1), SLOTS)]);
    let before = driven.one();
    assert_eq!((&before.cores, driven.kept()), (&both, (ALL, 0)));
    let others = driven.submit_as_somebody_else(&[ALL, SLOTS, 1]);

    driven.loses(1);
    assert_eq!(driven.kept(), (ALL, SLOTS));
    // Whether ordered to stay or, without room, to move: it stays.
    driven.back(ALL, false).unwrap();
    let refused = driven.back(ALL, true);
    assert!(refused.as_ref().is_err_and(LrmsError::is_refusal), "{refused:?}");
    assert_eq!(driven.one(), before);
    driven.all_wait(&others);

    driven.has_back(1);
    assert_eq!((driven.kept(), driven.one()), ((ALL, 0), before.clone()));
    assert_eq!(driven.runs_inside(ALL, &before.handle), both);
    driven.all_wait(&others);

    // They waited for nothing else.
    driven.back(0, false).unwrap();
    let first = others[0].clone();
    until_state(&driven.cell, &mut driven.engine, &first, |state| *state == FactState::Running);
}

#[test]
fn a_master_that_starts_without_its_hosts_keeps_what_is_promised_on_them() {
    // It begins while they are away.
    let mut driven = driven(ALL, 6);
    let before = driven.one();
    let others = driven.submit_as_somebody_else(&[ALL, SLOTS, 1]);
    driven.cell.stop_master();
    driven.cell.stop_execd();
    driven.cell.start_master();
    driven.cell.until("the site hears of it again", || {
        driven.engine.look().is_ok() && driven.batch.look(driven.now()).is_ok()
    });
    for host in 0..2 {
        driven.until_usable(host, false);
    }
    driven.cell.until("it has begun", || driven.now().second() > before.interval.begin);
    assert_eq!((driven.kept(), driven.one()), ((ALL, ALL), before.clone()));
    driven.back(ALL, false).unwrap();
    assert!(driven.back(ALL, true).is_err());
    assert_eq!(driven.one(), before);
    for host in 0..2 {
        driven.has_back(host);
    }
    assert_eq!((driven.kept(), driven.one()), ((ALL, 0), before.clone()));
    assert_eq!(driven.runs_inside(ALL, &before.handle).len(), 2);
    driven.all_wait(&others);
}

#[test]
fn a_reservation_leaves_a_host_that_is_away_where_there_is_room_and_nobody_waits_in_it() {
    let driven = driven(SLOTS, 1000);
    let before = driven.one();
    let away = HOSTS.iter().position(|host| before.cores.contains_key(&format!("all.q@{host}"))).unwrap();
    driven.loses(away);
    driven.back(SLOTS, true).unwrap();
    let after = driven.one();
    assert_eq!(after.cores, BTreeMap::from([(instance(1 - away), SLOTS)]));
    assert_eq!((after.interval, driven.kept()), (before.interval, (SLOTS, 0)));

    // With a job in it, it stays: Grid Engine cannot move jobs to another reservation.
    let waits = driven.submit(1, &after.handle);
    driven.has_back(away);
    driven.loses(1 - away);
    let refused = driven.back(SLOTS, true);
    assert!(refused.as_ref().is_err_and(LrmsError::is_refusal), "{refused:?}");
    assert_eq!((driven.one(), driven.kept()), (after, (SLOTS, SLOTS)));
    assert_eq!(find(&driven.look(), &waits).unwrap().state, FactState::Waiting);
}
