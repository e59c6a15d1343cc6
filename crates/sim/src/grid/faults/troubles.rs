//! What goes wrong in a random grid, and how it is put right again.

use super::HEALED;
use super::draw::{Draw, Kinds};
use super::parties::job;
use crate::grid::external::Temper;
use crate::grid::trouble::{BatchTrouble, Command};
use crate::grid::{CrashPoint, Grid, Role, Trouble, network};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Millis, Moment, Name};

/// How the network treats messages while things go wrong.
pub(super) fn network(draw: &mut Draw) -> network::Rules {
    let (lost, twice, delayed) = (draw.share(60, 250), draw.share(50, 200), draw.share(50, 150));
    let fastest = draw.whole(1, 20);
    let slowest = fastest + draw.whole(0, 100);
    network::Rules { fastest: Millis(fastest), slowest: Millis(slowest), lost, twice, delayed }
}

/// Arranges all that goes wrong, and that it is put right again.
pub(super) fn draw(draw: &mut Draw, kinds: &Kinds, grid: &mut Grid) {
    let all = grid.parties().len();
    let is = |at: &usize, wanted: fn(&Role) -> bool| wanted(&grid.parties()[*at].role);
    let fallible: Vec<usize> =
        (0..all).filter(|at| is(at, |role| !matches!(role, Role::Client(_)))).collect();
    let asked: Vec<usize> =
        (0..all).filter(|at| is(at, |role| matches!(role, Role::Site(site) if site.asks()))).collect();
    for _ in 0..draw.times(70, 6) {
        crash(draw, grid, &fallible);
    }
    for _ in 0..draw.times(50, 3) {
        partition(draw, grid, all);
    }
    for _ in 0..draw.times(25, 3) {
        failure(draw, grid, &fallible);
    }
    if draw.percent(15) {
        let at = fallible[draw.place(fallible.len())];
        for _ in 0..draw.whole(1, 3) {
            grid.arrange(moment(draw), Trouble::Clock(at, Millis(draw.whole(-3_000, 3_000))));
        }
    }
    if kinds.changes {
        for _ in 0..draw.times(50, 4) {
            command(draw, grid, &fallible);
        }
    }
    if kinds.lost_disk && !asked.is_empty() {
        let (at, when) = (asked[draw.place(asked.len())], moment(draw));
        grid.arrange(when, Trouble::LoseDisk(at));
        grid.arrange((when + Millis(draw.whole(10, 5_000))).min(HEALED), Trouble::Restart(at));
    }
    let mut hung = Vec::new();
    for at in &asked {
        hung.extend(batch_troubles(draw, grid, *at));
    }
    heal(grid, &fallible, &asked, &hung);
}

fn moment(draw: &mut Draw) -> Moment {
    Moment(draw.whole(0, HEALED.0 - 1_000))
}

fn crash(draw: &mut Draw, grid: &mut Grid, fallible: &[usize]) {
    let party = fallible[draw.place(fallible.len())];
    let point = CrashPoint::ALL[draw.place(4)];
    let at = moment(draw);
    let back = at + Millis(draw.whole(10, 15_000));
    grid.arrange(at, Trouble::Crash(party, point));
    grid.arrange(back.min(HEALED), Trouble::Restart(party));
}

fn partition(draw: &mut Draw, grid: &mut Grid, all: usize) {
    let side: Vec<usize> = (0..all).filter(|_| draw.percent(40)).collect();
    let at = moment(draw);
    grid.arrange(at, Trouble::CutOff(side));
    grid.arrange((at + Millis(draw.whole(200, 12_000))).min(HEALED), Trouble::Reunite);
}

/// Nodes are away for seconds, for long, or for good.
fn failure(draw: &mut Draw, grid: &mut Grid, fallible: &[usize]) {
    let party = fallible[draw.place(fallible.len())];
    let lost = Capacity(draw.whole(1, 3) as u32);
    let at = moment(draw);
    let name = Name::from("cluster");
    grid.arrange(at, Trouble::Lose(party, name.clone(), lost));
    let away = match draw.whole(0, 3) {
        0 => draw.whole(1_000, 60_000),
        1 => return,
        _ => draw.whole(200, 6_000),
    };
    grid.arrange((at + Millis(away)).min(HEALED), Trouble::Restore(party, name, lost));
}

/// An owner or an operator does something at a party itself.
fn command(draw: &mut Draw, grid: &mut Grid, fallible: &[usize]) {
    let (at, which) = (fallible[draw.place(fallible.len())], draw.place(16));
    let is_broker = matches!(grid.parties()[at].role, Role::Broker(_));
    let operator = is_broker || draw.percent(50);
    let command = match draw.whole(0, 5) {
        0..=2 => Command::Cancel,
        _ if is_broker => Command::Cancel,
        3 => Command::CancelJob,
        _ => Command::Release(Capacity(draw.whole(0, 2) as u32)),
    };
    grid.arrange(moment(draw), Trouble::Command { at, which, operator, command });
}

/// What happens in a batch system that has to be asked; answers the site whose batch system hangs.
fn batch_troubles(draw: &mut Draw, grid: &mut Grid, at: usize) -> Option<usize> {
    let mut arrange = |when: Moment, what: BatchTrouble| grid.arrange(when, Trouble::Batch(at, what));
    let mut hung = None;
    for _ in 0..draw.times(30, 3) {
        let from = moment(draw);
        let mute = draw.percent(20);
        hung = hung.or(mute.then_some(at));
        let until = (from + Millis(draw.whole(1_000, 20_000))).min(HEALED);
        arrange(from, BatchTrouble::Silence(until, mute));
    }
    for _ in 0..draw.times(20, 2) {
        arrange(moment(draw), BatchTrouble::Forget);
    }
    for _ in 0..draw.times(20, 3) {
        arrange(moment(draw), BatchTrouble::Delete(draw.place(8)));
    }
    for _ in 0..draw.times(20, 3) {
        let (after, length) = (Seconds(draw.whole(0, 100)), Seconds(draw.whole(5, 60)));
        arrange(moment(draw), BatchTrouble::Foreign(after, length, Capacity(draw.whole(1, 3) as u32)));
    }
    for _ in 0..draw.times(20, 6) {
        arrange(moment(draw), BatchTrouble::Job("cluster".into(), job(draw, Time(0), 3)));
    }
    if draw.percent(15) {
        arrange(moment(draw), BatchTrouble::Skew(Seconds(draw.whole(-6, 6))));
    }
    for _ in 0..draw.times(20, 4) {
        grid.arrange(moment(draw), Trouble::WantLook(at));
    }
    hung
}

/// Everything is put right. Who hangs is restarted, as an operator would.
fn heal(grid: &mut Grid, fallible: &[usize], asked: &[usize], hung: &[usize]) {
    let calm = network::Rules { fastest: Millis(5), slowest: Millis(20), lost: 0, twice: 0, delayed: 0 };
    grid.arrange(HEALED, Trouble::Network(calm));
    grid.arrange(HEALED, Trouble::Reunite);
    asked.iter().for_each(|&at| grid.arrange(HEALED, Trouble::Batch(at, BatchTrouble::Temper(Temper::CALM))));
    hung.iter().for_each(|&at| grid.arrange(HEALED, Trouble::Crash(at, CrashPoint::Idle)));
    fallible.iter().for_each(|&at| grid.arrange(HEALED, Trouble::Restart(at)));
}
