//! Random fault schedules: sites with little room, brokers of brokers, clients that commit, change, cancel and forget,
//! a network that loses and doubles messages, parties that crash in the middle of an input, and batch systems that
//! stall, refuse and forget. Then all faults are repaired, all operations finish, and the witness checks the
//! invariants. One seed gives one schedule, to the bit.
//!
//! The kinds of faults of a schedule are drawn too ([`Kinds`]), so that some schedules have many faults of a few kinds.

mod parties;

use super::external::Temper;
use super::log::Tally;
use super::trouble::{BatchTrouble, Command};
use super::witness::Violation;
use super::{CrashPoint, Flaw, Grid, Role, Trouble, network};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Millis, Moment, Name};
use bookahead_workload::streams::Stream;

/// End of all faults; then everything is repaired.
const HEALED: Moment = Moment(40_000);
/// Time in which a broker tries at least once to replace a lost part: the pause between attempts is at most 16 times 8
/// s, the longest drawn `heal_after`.
const LOOKED_FOR: Millis = Millis(200_000);
/// A grid that has not settled by then hangs, which counts as a violation.
const SETTLED: Moment = Moment(3_600_000);
/// Time after which ledgers and batch systems of a settled grid agree: some polls, one of which may come just before
/// something is due.
const AGREED_AFTER: Millis = Millis(25_000);

/// Clocks that are wrong by minutes or by days, as after a boot without a battery.
const WRONG_BY: [Millis; 4] =
    [Millis::seconds(360), Millis::seconds(259_200), Millis::seconds(-60), Millis::seconds(-259_200)];

/// More than any resource has.
const ALL_NODES: Capacity = Capacity(u32::MAX);

/// The result of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Replays the schedule exactly.
    pub seed: u64,
    /// Counts of injected faults.
    pub injected: Tally,
    /// Counts of situations that were reached despite the faults.
    pub reached: Tally,
    /// Violated invariants; empty if all is well.
    pub violations: Vec<Violation>,
}

/// Runs the schedule of a seed, optionally with a deliberate defect.
pub fn run(seed: u64, flaw: Option<Flaw>) -> Outcome {
    let (mut grid, kinds) = grid(seed, flaw);
    finish(seed, &mut grid, &kinds)
}

/// Like [`run`], with a log of all events.
pub fn replay(seed: u64, flaw: Option<Flaw>) -> (Outcome, Grid) {
    let (mut grid, kinds) = grid(seed, flaw);
    grid.log.keep();
    (finish(seed, &mut grid, &kinds), grid)
}

fn finish(seed: u64, grid: &mut Grid, kinds: &Kinds) -> Outcome {
    grid.run(HEALED);
    // Gives brokers time to replace lost parts.
    if kinds.losses {
        grid.run(HEALED + LOOKED_FOR);
    }
    let settled = grid.settle(SETTLED);
    grid.run(grid.now() + AGREED_AFTER);
    // During that time new timers may have come due.
    let settled = settled && grid.settle(SETTLED);
    let violations = grid.verdict(settled);
    // The exhaustive search for replacements asks the sites, and a lying site would falsify its result.
    if kinds.losses && !kinds.lies {
        grid.count_healing();
    }
    let (injected, reached) = (grid.injected(), grid.witness.reached.clone());
    Outcome { seed, injected, reached, violations }
}

/// The grid of a seed, with all its faults scheduled.
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
    arrange_wrong_clocks(seed, &mut grid);
    arrange_troubles(&mut draw, &kinds, &mut grid);
    (grid, kinds)
}

/// Random numbers of one schedule, in one stream.
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

    /// True with this probability in per cent.
    pub(super) fn percent(&mut self, percent: i64) -> bool {
        self.whole(1, 100) <= percent
    }

    /// A share per thousand of up to `most`, with this probability in per cent; else zero.
    pub(super) fn share(&mut self, percent: i64, most: i64) -> u32 {
        if self.percent(percent) { self.whole(1, most) as u32 } else { 0 }
    }

    /// A number of repetitions of up to `most`, with this probability in per cent; else zero.
    pub(super) fn times(&mut self, percent: i64, most: i64) -> i64 {
        if self.percent(percent) { self.whole(1, most) } else { 0 }
    }

    /// An index into something of this length, which must not be zero.
    pub(super) fn place(&mut self, length: usize) -> usize {
        self.whole(0, length as i64 - 1) as usize
    }
}

/// The features of a schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds {
    /// Sites accept late commits.
    pub(super) late_commits: bool,
    /// Percentage of sites with an external batch system.
    pub(super) external: i64,
    /// Disks take time, so that decisions build on events that are not durable yet.
    pub(super) group_commit: bool,
    pub(super) snapshots: bool,
    pub(super) jobs: bool,
    /// Owners change terms and release capacity.
    pub(super) changes: bool,
    /// Clients call sites directly, and request reservations that begin soon.
    pub(super) local_users: bool,
    /// Sites falsify answers.
    pub(super) lies: bool,
    /// Many bookings lose parts long before they begin.
    pub(super) losses: bool,
    /// A site loses its disk and adopts the backings in its batch system.
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

/// Network rules until the faults end.
pub(super) fn network(draw: &mut Draw) -> network::Rules {
    let (lost, twice, delayed) = (draw.share(60, 250), draw.share(50, 200), draw.share(50, 150));
    let fastest = draw.whole(1, 20);
    let slowest = fastest + draw.whole(0, 100);
    network::Rules { fastest: Millis(fastest), slowest: Millis(slowest), lost, twice, delayed }
}

/// Schedules all faults and their repair.
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

/// Some parties start with a clock that is wrong by minutes or days, which is set right later. From an own stream:
/// everything else in the schedule of a seed is the same.
fn arrange_wrong_clocks(seed: u64, grid: &mut Grid) {
    let mut draw = Draw { chance: Stream::new(seed, "clocks at starts") };
    if !draw.percent(15) {
        return;
    }
    let is_client = |at: &usize| matches!(grid.parties()[*at].role, Role::Client(_));
    let fallible: Vec<usize> = (0..grid.parties().len()).filter(|at| !is_client(at)).collect();
    let at = fallible[draw.place(fallible.len())];
    let by = WRONG_BY[draw.place(WRONG_BY.len())];
    let when = moment(&mut draw);
    let back = (when + Millis(draw.whole(10, 5_000))).min(HEALED);
    let right = (back + Millis(draw.whole(10, 20_000))).min(HEALED);
    grid.arrange(when, Trouble::WrongClock(at, by));
    grid.arrange(back, Trouble::Restart(at));
    grid.arrange(right, Trouble::ClockRight(at));
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

/// Nodes fail for seconds, for up to a minute, or permanently.
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

/// A booked part is lost permanently: an operator cancels it, or its nodes fail.
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

/// Some or all nodes fail and come back every few seconds.
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

/// The server of a batch system restarts: it is silent for some seconds, and then knows no nodes for some more.
fn restart_without_nodes(draw: &mut Draw, grid: &mut Grid, at: usize) {
    let from = moment(draw);
    let until = (from + Millis(draw.whole(200, 8_000))).min(HEALED);
    let known = (until + Millis(draw.whole(500, 20_000))).min(HEALED);
    grid.troubles.count("batch_restarted_without_nodes");
    grid.arrange(from, Trouble::Batch(at, BatchTrouble::Silence(until, false)));
    grid.arrange(from, Trouble::Lose(at, "cluster".into(), ALL_NODES));
    grid.arrange(known, Trouble::Restore(at, "cluster".into(), ALL_NODES));
}

/// A command of an owner or an operator, sent directly to a party.
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

/// Faults of an external batch system; returns the site if its adapter hangs.
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

/// Ends all faults. A site whose adapter hangs is restarted, as an operator would do.
fn heal(grid: &mut Grid, fallible: &[usize], asked: &[usize], hung: &[usize]) {
    let calm = network::Rules { fastest: Millis(5), slowest: Millis(20), lost: 0, twice: 0, delayed: 0 };
    grid.arrange(HEALED, Trouble::Network(calm));
    grid.arrange(HEALED, Trouble::Reunite);
    asked.iter().for_each(|&at| grid.arrange(HEALED, Trouble::Batch(at, BatchTrouble::Temper(Temper::CALM))));
    // Events of one instant happen in the order of scheduling: these sites crash before they are restarted.
    hung.iter().for_each(|&at| grid.arrange(HEALED, Trouble::Crash(at, CrashPoint::Idle)));
    fallible.iter().for_each(|&at| grid.arrange(HEALED, Trouble::Restart(at)));
}
