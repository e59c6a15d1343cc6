//! Random grids in which random things go wrong: sites with little room and brokers of brokers, clients that commit,
//! change, cancel and forget, a network that loses and doubles, parties that crash in the middle of what they do, batch systems
//! that stall, refuse and forget. Then all is put right, everybody comes to an end, and the witness speaks. One seed gives
//! one schedule, to the bit.
//!
//! Which kinds of faults a schedule has is drawn too ([`Kinds`]), so that some schedules have few kinds of which much happens.

mod parties;

use super::external::Temper;
use super::log::Tally;
use super::trouble::{BatchTrouble, Command};
use super::witness::Violation;
use super::{CrashPoint, Flaw, Grid, Role, Trouble, network};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Millis, Moment, Name};
use bookahead_workload::streams::Stream;

/// Things go wrong until then; after it everything is put right.
const HEALED: Moment = Moment(40_000);
/// Replacements for what was lost are looked for at least once in this time: brokers wait for at most 16 times 8 s.
const LOOKED_FOR: Millis = Millis(200_000);
/// Everybody must have come to an end by then.
const SETTLED: Moment = Moment(3_600_000);
/// When nobody has anything under way, books and batch systems agree after this time: some looks, of which one may come just
/// before something is due.
const AGREED_AFTER: Millis = Millis(25_000);

/// No resource has more.
const ALL_NODES: Capacity = Capacity(u32::MAX);

/// What came of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The schedule.
    pub seed: u64,
    /// What went wrong.
    pub injected: Tally,
    /// What was reached in spite of it.
    pub reached: Tally,
    /// What must not be.
    pub violations: Vec<Violation>,
}

/// Runs the schedule of a seed.
pub fn run(seed: u64, flaw: Option<Flaw>) -> Outcome {
    let (mut grid, kinds) = grid(seed, flaw);
    finish(seed, &mut grid, &kinds)
}

/// Runs it again and keeps all that happens.
pub fn replay(seed: u64, flaw: Option<Flaw>) -> (Outcome, Grid) {
    let (mut grid, kinds) = grid(seed, flaw);
    grid.log.keep();
    (finish(seed, &mut grid, &kinds), grid)
}

fn finish(seed: u64, grid: &mut Grid, kinds: &Kinds) -> Outcome {
    grid.run(HEALED);
    if kinds.losses {
        grid.run(HEALED + LOOKED_FOR);
    }
    let settled = grid.settle(SETTLED);
    grid.run(grid.now() + AGREED_AFTER);
    // What has come due meanwhile is under way.
    let settled = settled && grid.settle(SETTLED);
    let violations = grid.verdict(settled);
    // A broker cannot tell what a site that lies would really grant.
    if kinds.losses && !kinds.lies {
        grid.count_healing();
    }
    let (injected, reached) = (grid.injected(), grid.witness.reached.clone());
    Outcome { seed, injected, reached, violations }
}

/// The grid of a seed, with all that will go wrong.
fn grid(seed: u64, flaw: Option<Flaw>) -> (Grid, Kinds) {
    let mut draw = Draw::new(seed);
    let kinds = Kinds::draw(&mut draw);
    let parties = parties::draw(&mut draw, &kinds, seed);
    let rules = network(&mut draw);
    let mut grid = Grid::new(parties, rules, seed);
    if let Some(flaw) = flaw {
        grid.break_by(flaw);
    }
    grid.begin_beating();
    arrange_troubles(&mut draw, &kinds, &mut grid);
    (grid, kinds)
}

/// Draws all of one schedule.
pub(super) struct Draw {
    chance: Stream,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw { chance: Stream::new(seed, "fault schedule") }
    }

    pub(super) fn whole(&mut self, low: i64, high: i64) -> i64 {
        self.chance.whole(low, high)
    }

    /// Happens this often in a hundred.
    pub(super) fn percent(&mut self, percent: i64) -> bool {
        self.whole(1, 100) <= percent
    }

    /// A share per thousand, of this many schedules in a hundred; else zero.
    pub(super) fn share(&mut self, percent: i64, most: i64) -> u32 {
        if self.percent(percent) { self.whole(1, most) as u32 } else { 0 }
    }

    /// How often something happens, in this many schedules in a hundred; else never.
    pub(super) fn times(&mut self, percent: i64, most: i64) -> i64 {
        if self.percent(percent) { self.whole(1, most) } else { 0 }
    }

    /// A place in something of this length, which is not empty.
    pub(super) fn place(&mut self, length: usize) -> usize {
        self.whole(0, length as i64 - 1) as usize
    }
}

/// Which kinds of things a schedule has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds {
    /// Sites accept commits that come late.
    pub(super) late_commits: bool,
    /// Of a hundred sites so many have a batch system that has to be asked.
    pub(super) external: i64,
    /// Decisions are made on top of what is not durable yet.
    pub(super) group_commit: bool,
    /// Parties take snapshots.
    pub(super) snapshots: bool,
    /// Clients submit jobs.
    pub(super) jobs: bool,
    /// Owners change terms, and give back parts.
    pub(super) changes: bool,
    /// Clients ask sites themselves, also for what begins soon.
    pub(super) local_users: bool,
    /// Sites lie.
    pub(super) lies: bool,
    /// Much is lost that is booked, long before it begins.
    pub(super) losses: bool,
    /// A site loses its disk, and adopts what its batch system keeps.
    pub(super) lost_disk: bool,
}

impl Kinds {
    pub(super) fn draw(draw: &mut Draw) -> Kinds {
        let lost_disk = draw.percent(8);
        Kinds {
            late_commits: draw.percent(30),
            external: if lost_disk { 100 } else { [0, 50, 50, 100][draw.place(4)] },
            group_commit: draw.percent(40),
            snapshots: draw.percent(50),
            jobs: draw.percent(40),
            changes: draw.percent(40),
            local_users: lost_disk || draw.percent(40),
            lies: draw.percent(10),
            losses: draw.percent(20),
            lost_disk,
        }
    }
}

/// How the network treats messages while things go wrong.
pub(super) fn network(draw: &mut Draw) -> network::Rules {
    let (lost, twice, delayed) = (draw.share(60, 250), draw.share(50, 200), draw.share(50, 150));
    let fastest = draw.whole(1, 20);
    let slowest = fastest + draw.whole(0, 100);
    network::Rules { fastest: Millis(fastest), slowest: Millis(slowest), lost, twice, delayed }
}

/// Arranges all that goes wrong, and that it is put right again.
fn arrange_troubles(draw: &mut Draw, kinds: &Kinds, grid: &mut Grid) {
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
    if kinds.losses {
        for _ in 0..draw.whole(1, 4) {
            loss(draw, grid, &fallible);
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
    if draw.percent(20) {
        let at = fallible[draw.place(fallible.len())];
        flapping(draw, grid, at);
    }
    if draw.percent(15) && !asked.is_empty() {
        let at = asked[draw.place(asked.len())];
        restart_without_nodes(draw, grid, at);
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

/// Something that is booked is lost for good: an operator cancels it, or its nodes fail.
fn loss(draw: &mut Draw, grid: &mut Grid, fallible: &[usize]) {
    let sites: Vec<usize> =
        fallible.iter().copied().filter(|at| matches!(grid.parties()[*at].role, Role::Site(_))).collect();
    let (at, when) = (sites[draw.place(sites.len())], moment(draw));
    let trouble = if draw.percent(60) {
        Trouble::Command { at, which: draw.place(16), operator: true, command: Command::Cancel }
    } else {
        Trouble::Lose(at, "cluster".into(), Capacity(draw.whole(1, 4) as u32))
    };
    grid.arrange(when, trouble);
}

/// Nodes go away and come back every few seconds, some of them or all.
fn flapping(draw: &mut Draw, grid: &mut Grid, at: usize) {
    if !matches!(grid.parties()[at].role, Role::Site(_)) {
        return;
    }
    let all = draw.percent(50);
    let lost = if all { ALL_NODES } else { Capacity(draw.whole(1, 3) as u32) };
    let (times, mut when) = (draw.whole(2, 6), moment(draw));
    grid.troubles.count(if all { "all_nodes_flapping" } else { "nodes_flapping" });
    for _ in 0..times {
        let back = (when + Millis(draw.whole(500, 5_000))).min(HEALED);
        grid.arrange(when, Trouble::Lose(at, "cluster".into(), lost));
        grid.arrange(back, Trouble::Restore(at, "cluster".into(), lost));
        when = (back + Millis(draw.whole(500, 5_000))).min(HEALED);
    }
}

/// The server of a batch system restarts: it is silent for some seconds, and then does not know of any node for some more.
fn restart_without_nodes(draw: &mut Draw, grid: &mut Grid, at: usize) {
    let from = moment(draw);
    let until = (from + Millis(draw.whole(200, 8_000))).min(HEALED);
    let known = (until + Millis(draw.whole(500, 20_000))).min(HEALED);
    grid.troubles.count("batch_restarted_without_nodes");
    grid.arrange(from, Trouble::Batch(at, BatchTrouble::Silence(until, false)));
    grid.arrange(from, Trouble::Lose(at, "cluster".into(), ALL_NODES));
    grid.arrange(known, Trouble::Restore(at, "cluster".into(), ALL_NODES));
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
        arrange(moment(draw), BatchTrouble::Job("cluster".into(), parties::job(draw, Time(0), 3)));
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
