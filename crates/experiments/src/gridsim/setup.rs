//! The set-up of the paper (Table 1 and Section 5.1) and, in one struct, everything that the paper leaves open.
//! [`CHOICES`] were made before the first run and never changed; [`ALTERNATIVES`] show what others would have given.

use bookahead_plan::Seconds;

/// A resource of Table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Its name in the paper.
    pub name: &'static str,
    /// The SPEC rating of its CPUs, taken as MIPS.
    pub mips: u32,
    /// How many.
    pub cpus: u32,
    /// Hours ahead of Greenwich, with daylight saving time where it applied.
    pub zone: i64,
}

/// Table 1. The text speaks once of four resources; the table and the list of the set-up have five.
pub const SITES: [Site; 5] = [
    Site { name: "R0", mips: 515, cpus: 4, zone: 10 },
    Site { name: "R1", mips: 684, cpus: 13, zone: 10 },
    Site { name: "R2", mips: 410, cpus: 16, zone: 2 },
    Site { name: "R3", mips: 410, cpus: 6, zone: 2 },
    Site { name: "R4", mips: 377, cpus: 8, zone: -5 },
];

/// The smallest and the largest job, in million instructions.
pub const SIZES: (i64, i64) = (500_000, 8_000_000);
/// CPUs of a parallel job (Section 5.2.5).
pub const PARALLEL: u32 = 4;

/// How many ask for what, and what the paper does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    /// Users: 50 in the paper.
    pub users: usize,
    /// Jobs of each: 100 in the paper.
    pub jobs_each: usize,
    /// Jobs an hour of all users together: 300, 5 a minute, in the paper. Each user's submissions are a Poisson process
    /// of its own. The paper also says that the last arrival is at 500 minutes; 5,000 jobs at this rate take 1,000.
    pub per_hour: u32,
    /// An advance reservation is wanted this much after its submission at most, any second of it alike.
    pub look_ahead: Seconds,
    /// A rejected user asks again for a start that is later by the hint, at once and at the same resource, so many
    /// times; then the job joins the queue.
    pub retries: u32,
    /// The unit of the hint's steps of 5 to 45.
    pub hint_unit: Seconds,
    /// The slot of a restartable job, in percent of its run time: underestimated.
    pub under: i64,
    /// The slot of a job that is not, in percent of its run time: overestimated.
    pub over: i64,
    /// Whether the parts of a parallel job have one size, or each its own, like jobs.
    pub equal_parts: bool,
}

impl Choices {
    /// How many times as much work arrives as the five resources can do in the same time.
    pub fn overload(&self) -> f64 {
        let mean_size = (SIZES.0 + SIZES.1) as f64 / 2.0;
        let speed: u32 = SITES.iter().map(|site| site.mips * site.cpus).sum();
        f64::from(self.per_hour) * mean_size / 3600.0 / f64::from(speed)
    }
}

/// What the page's figures are made with.
pub const CHOICES: Choices = Choices {
    users: 50,
    jobs_each: 100,
    per_hour: 300,
    look_ahead: Seconds(2 * 3600),
    retries: 5,
    hint_unit: Seconds(60),
    under: 80,
    over: 125,
    equal_parts: false,
};

/// The most that a user moves a start: every hint the longest.
pub const HINT_LIMIT: Seconds = Seconds(CHOICES.retries as i64 * 45 * CHOICES.hint_unit.0);

/// Other choices, each with one thing changed, to see what depends on them. The lighter load of 15 jobs an hour was
/// added after the first run, to see whether the overload is why we differ; the others were there before.
pub const ALTERNATIVES: [(&str, Choices); 8] = [
    ("wanted up to 12 hours ahead", Choices { look_ahead: Seconds(12 * 3600), ..CHOICES }),
    ("no retry", Choices { retries: 0, ..CHOICES }),
    ("20 retries", Choices { retries: 20, ..CHOICES }),
    ("hints in hours", Choices { hint_unit: Seconds(3600), ..CHOICES }),
    ("slots of 50 and 200% of the run time", Choices { under: 50, over: 200, ..CHOICES }),
    ("10 jobs a minute: last arrival at 500 minutes", Choices { per_hour: 600, ..CHOICES }),
    ("15 jobs an hour: less than the five can do", Choices { per_hour: 15, ..CHOICES }),
    ("parts of a parallel job of one size", Choices { equal_parts: true, ..CHOICES }),
];

/// Numbers that the paper's text gives; nothing was read off its charts.
pub mod published {
    /// Section 5.2.1: by how much waiting grows with 10% reservations, in percent.
    pub const WAITING_10: f64 = 20.0;
    /// The same with 20%.
    pub const WAITING_20: f64 = 71.0;
    /// Section 5.2.2: mean offset with 10% reservations, in minutes.
    pub const OFFSET_10: f64 = 48.0;
    /// The same with 20%.
    pub const OFFSET_20: f64 = 62.0;
    /// Section 5.2.3: utilisation where reservations are supported, in percent.
    pub const UTILISATION: (f64, f64) = (60.0, 80.0);
}
