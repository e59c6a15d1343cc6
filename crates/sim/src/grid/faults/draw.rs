//! Chance for one schedule, and which kinds of things it has.

use bookahead_workload::streams::Stream;

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
            lost_disk,
        }
    }
}
