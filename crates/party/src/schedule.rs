//! Schedules for drawing: what occupies a resource, reduced to what a picture of some pixels can show. A picture of
//! a year with a million jobs costs as much to send as one of an hour.

use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::{Name, ReservationId, State};
use std::collections::BTreeMap;

/// Most blocks of one resource in a schedule: no diagram shows more, and the size of an answer must be bounded.
pub const MOST_BLOCKS: usize = 10_000;

/// Blocks of one resource that a picture shows however narrow they are: a short reservation must be found.
const SHOWN_ALWAYS: usize = 1_000;

/// Most blocks of all resources in a picture: more cannot be told apart, and take a browser longer to read than to draw.
const MOST_DRAWN: usize = 8_000;

/// The part of a schedule to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleWindow {
    /// The time.
    pub interval: Interval,
    /// Width of the picture. With it, narrow blocks are combined into [`Levels`], and the free capacity is included.
    pub pixels: Option<u32>,
}

impl ScheduleWindow {
    /// Most blocks of a resource, by the number of resources in the picture.
    fn most_blocks(&self, resources: usize) -> usize {
        match self.pixels {
            None => MOST_BLOCKS,
            Some(_) => (MOST_DRAWN / resources.max(1)).clamp(SHOWN_ALWAYS, MOST_DRAWN),
        }
    }
}

/// The schedule of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSchedule {
    /// The resource.
    pub resource: Name,
    /// Its total capacity.
    pub capacity: Capacity,
    /// Current time.
    pub now: Time,
    /// Failed capacity.
    pub lost: Capacity,
    /// Everything that takes capacity, by start, except for those in `levels`.
    pub blocks: Vec<Block>,
    /// Blocks that are too narrow or too many to draw each.
    pub levels: Option<Levels>,
    /// Free capacity from each time on. Empty unless a width was given.
    pub free: Vec<(Time, Capacity)>,
}

/// A job or reservation in a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Job, hold or reservation.
    pub kind: BlockKind,
    /// Time and capacity.
    pub span: Span,
    /// Id, owner and state of the reservation, if the viewer may see them.
    pub reservation: Option<(ReservationId, Name, State)>,
    /// Its name, if it has one and the viewer may see it.
    pub name: Option<String>,
    /// Capacity that it was promised and does not have.
    pub missing: Capacity,
}

/// Kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockKind {
    /// A running job.
    RunningJob,
    /// A waiting job, at its planned time.
    WaitingJob,
    /// A hold, or a request that waits for the batch system.
    Hold,
    /// A committed reservation.
    Reservation,
    /// A reservation not made by Bookahead.
    Foreign,
    /// A maintenance window.
    Maintenance,
}

/// Mean occupied capacity in steps of equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Begin of the first step.
    pub begin: Time,
    /// Length of a step.
    pub step: Seconds,
    /// One number for each step, by kind.
    pub used: BTreeMap<BlockKind, Vec<u32>>,
}

/// The waiting jobs of a resource by the current plan, without and with one more reservation. Both in the order of
/// the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatIf {
    /// Without it.
    pub before: Vec<Span>,
    /// With it.
    pub after: Vec<Span>,
}

impl ResourceSchedule {
    /// Without blocks yet.
    pub fn new(resource: Name, capacity: Capacity, now: Time, lost: Capacity) -> ResourceSchedule {
        ResourceSchedule { resource, capacity, now, lost, blocks: Vec::new(), levels: None, free: Vec::new() }
    }

    /// Adds the blocks, combining those that the picture cannot show one by one. `resources` are in it.
    pub fn with_blocks(
        mut self,
        mut blocks: Vec<Block>,
        window: &ScheduleWindow,
        resources: usize,
    ) -> ResourceSchedule {
        let most = window.most_blocks(resources);
        let by_begin = |block: &Block| (block.span.interval.begin, block.span.interval.end);
        if let Some(pixels) = window.pixels {
            let steps = Steps::new(window.interval, pixels);
            self.free = self.free_in(&blocks, steps);
            (blocks, self.levels) = steps.reduced(blocks, most);
        }
        blocks.sort_by_key(by_begin);
        blocks.truncate(most);
        self.blocks = blocks;
        self
    }

    /// Free capacity within the window: exactly if it changes less often than there are steps, otherwise the least of
    /// each step. Zero where jobs and reservations together take more than there is.
    fn free_in(&self, blocks: &[Block], steps: Steps) -> Vec<(Time, Capacity)> {
        let mut changes: BTreeMap<Time, i64> = BTreeMap::from([(steps.window.begin, 0)]);
        for block in blocks {
            let Some(within) = steps.within(block) else { continue };
            *changes.entry(within.begin).or_default() -= i64::from(block.span.capacity.0);
            if within.end < steps.window.end {
                *changes.entry(within.end).or_default() += i64::from(block.span.capacity.0);
            }
        }
        let mut left = i64::from(self.capacity.0) - i64::from(self.lost.0);
        let pieces = changes.into_iter().map(|(at, change)| {
            left += change;
            (at, Capacity(u32::try_from(left).unwrap_or(0)))
        });
        let mut pieces: Vec<(Time, Capacity)> = pieces.collect();
        pieces.dedup_by_key(|(_, free)| *free);
        if pieces.len() <= steps.count { pieces } else { steps.least(&pieces) }
    }
}

/// A window in steps of whole seconds, about as many as the picture has pixels.
#[derive(Debug, Clone, Copy)]
struct Steps {
    window: Interval,
    length: i64,
    count: usize,
}

impl Steps {
    fn new(window: Interval, pixels: u32) -> Steps {
        let seconds = window.length().0.max(1);
        let rounded_up = |seconds: i64, parts: i64| (seconds - 1) / parts + 1;
        let length = rounded_up(seconds, i64::from(pixels.max(1)));
        let count = usize::try_from(rounded_up(seconds, length)).unwrap_or(1);
        Steps { window, length, count }
    }

    /// The part of a block within the window.
    fn within(self, block: &Block) -> Option<Interval> {
        let Interval { begin, end } = block.span.interval;
        let within = Interval::new(begin.max(self.window.begin), end.min(self.window.end));
        (!within.is_empty()).then_some(within)
    }

    fn of(self, at: Time) -> usize {
        usize::try_from((at.0 - self.window.begin.0) / self.length).unwrap_or(0).min(self.count - 1)
    }

    fn begin(self, step: usize) -> Time {
        Time(self.window.begin.0 + i64::try_from(step).unwrap_or(i64::MAX) * self.length)
    }

    /// Blocks to draw one by one, and the others as levels.
    fn reduced(self, mut blocks: Vec<Block>, most: usize) -> (Vec<Block>, Option<Levels>) {
        if blocks.len() <= SHOWN_ALWAYS {
            return (blocks, None);
        }
        // Of several that are wide enough, the largest are shown.
        let area = |block: &Block| {
            let seconds = self.within(block).map_or(0, |within| within.length().0);
            std::cmp::Reverse(i128::from(seconds) * i128::from(block.span.capacity.0))
        };
        // A user searches for reservations. For jobs the density is enough.
        let is_narrow = |block: &Block| {
            matches!(block.kind, BlockKind::RunningJob | BlockKind::WaitingJob)
                && self.within(block).is_none_or(|part| part.length().0 < 2 * self.length)
        };
        // Those that the viewer may see first: most viewers see only their own.
        blocks.sort_by_cached_key(|block| (is_narrow(block), block.reservation.is_none(), area(block)));
        let wide = blocks.iter().take_while(|block| !is_narrow(block)).count();
        let combined = blocks.split_off(wide.clamp(SHOWN_ALWAYS, most).min(blocks.len()));
        let levels = (!combined.is_empty()).then(|| self.levels(&combined));
        (blocks, levels)
    }

    fn levels(self, blocks: &[Block]) -> Levels {
        let mut sums: BTreeMap<BlockKind, Sums> = BTreeMap::new();
        for block in blocks {
            let Some(within) = self.within(block) else { continue };
            let of_kind = sums.entry(block.kind).or_insert_with(|| Sums::new(self.count));
            of_kind.add(self, within, i64::from(block.span.capacity.0));
        }
        let used = sums.into_iter().map(|(kind, sums)| (kind, sums.means(self))).collect();
        Levels { begin: self.window.begin, step: Seconds(self.length), used }
    }

    /// The least of each step, for pieces of a step function that covers the window.
    fn least(self, pieces: &[(Time, Capacity)]) -> Vec<(Time, Capacity)> {
        let mut least = vec![Capacity(u32::MAX); self.count];
        for (number, (begin, free)) in pieces.iter().enumerate() {
            let end = pieces.get(number + 1).map_or(self.window.end, |(next, _)| *next);
            // Each step belongs to few pieces, so this is linear in their number and that of the steps.
            for step in &mut least[self.of(*begin)..=self.of(Time(end.0 - 1))] {
                *step = (*step).min(*free);
            }
        }
        let mut steps: Vec<(Time, Capacity)> =
            least.into_iter().enumerate().map(|(step, free)| (self.begin(step), free)).collect();
        steps.dedup_by_key(|(_, free)| *free);
        steps
    }
}

/// Capacity multiplied by seconds, for each step.
struct Sums {
    /// Of blocks that begin or end within the step.
    partial: Vec<i64>,
    /// Change of the capacity that takes the whole step.
    whole: Vec<i64>,
}

impl Sums {
    fn new(count: usize) -> Sums {
        Sums { partial: vec![0; count], whole: vec![0; count + 1] }
    }

    fn add(&mut self, steps: Steps, within: Interval, capacity: i64) {
        let (first, last) = (steps.of(within.begin), steps.of(Time(within.end.0 - 1)));
        if first == last {
            self.partial[first] += capacity * within.length().0;
            return;
        }
        self.partial[first] += capacity * (steps.begin(first + 1).0 - within.begin.0);
        self.partial[last] += capacity * (within.end.0 - steps.begin(last).0);
        self.whole[first + 1] += capacity;
        self.whole[last] -= capacity;
    }

    fn means(self, steps: Steps) -> Vec<u32> {
        let mut whole = 0;
        let pairs = self.partial.iter().zip(&self.whole).enumerate();
        let means = pairs.map(|(step, (partial, change))| {
            whole += change;
            // The last step may be shorter.
            let length = steps.begin(step + 1).min(steps.window.end).0 - steps.begin(step).0;
            let sum = partial + whole * length;
            u32::try_from((sum + length / 2) / length.max(1)).unwrap_or(u32::MAX)
        });
        means.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Interval = Interval { begin: Time(100), end: Time(1_100) };

    fn block(kind: BlockKind, begin: i64, length: i64, capacity: u32) -> Block {
        let interval = Interval::new(Time(begin), Time(begin + length));
        Block {
            kind,
            span: Span { interval, capacity: Capacity(capacity) },
            reservation: None,
            name: None,
            missing: Capacity::ZERO,
        }
    }

    fn schedule(capacity: u32, blocks: Vec<Block>, pixels: Option<u32>) -> ResourceSchedule {
        let empty = ResourceSchedule::new("cluster".into(), Capacity(capacity), Time(0), Capacity::ZERO);
        empty.with_blocks(blocks, &ScheduleWindow { interval: WINDOW, pixels }, 1)
    }

    /// Capacity in use at a second.
    fn used<'a>(blocks: impl IntoIterator<Item = &'a Block>, at: i64) -> i64 {
        let there = blocks.into_iter().filter(|block| block.span.interval.contains(Time(at)));
        there.map(|block| i64::from(block.span.capacity.0)).sum()
    }

    #[test]
    fn few_blocks_are_all_drawn_however_narrow() {
        let seen = schedule(
            8,
            vec![block(BlockKind::Hold, 500, 1, 2), block(BlockKind::RunningJob, 90, 20, 4)],
            Some(10),
        );
        assert_eq!((seen.blocks.len(), seen.levels), (2, None));
        let free = [(100, 4), (110, 8), (500, 6), (501, 8)].map(|(at, free)| (Time(at), Capacity(free)));
        assert_eq!(seen.free, free);
    }

    #[test]
    fn without_a_width_nothing_is_combined() {
        let many: Vec<Block> = (0..12_000).map(|at| block(BlockKind::WaitingJob, at, 5, 1)).collect();
        let seen = schedule(8, many, None);
        assert_eq!((seen.blocks.len(), seen.levels, seen.free), (MOST_BLOCKS, None, Vec::new()));
    }

    #[test]
    fn of_many_blocks_the_wide_ones_are_drawn_and_the_others_are_levels() {
        let mut many: Vec<Block> =
            (0..3_000).map(|at| block(BlockKind::WaitingJob, 100 + at % 1_000, 1, 1)).collect();
        many.push(block(BlockKind::Reservation, 300, 500, 2));
        let seen = schedule(8, many, Some(100));
        assert!(seen.blocks.iter().any(|block| block.kind == BlockKind::Reservation));
        assert_eq!(seen.blocks.len(), SHOWN_ALWAYS);
        let levels = seen.levels.unwrap();
        assert_eq!((levels.begin, levels.step), (Time(100), Seconds(10)));
        assert_eq!(levels.used[&BlockKind::WaitingJob].len(), 100);
    }

    #[test]
    fn a_picture_of_many_resources_has_no_more_blocks_than_one_of_few() {
        let seen = |resources: usize| {
            let many = (0..12_000).map(|at| block(BlockKind::Reservation, 100 + at % 900, 100, 1)).collect();
            let empty = ResourceSchedule::new("cluster".into(), Capacity(9), Time(0), Capacity::ZERO);
            let window = ScheduleWindow { interval: WINDOW, pixels: Some(1_000) };
            let seen = empty.with_blocks(many, &window, resources);
            assert_eq!(seen.levels.is_some(), seen.blocks.len() < 12_000);
            seen.blocks.len()
        };
        assert_eq!((seen(1), seen(4), seen(100)), (8_000, 2_000, 1_000));
    }

    #[test]
    fn what_the_viewer_may_see_is_drawn_before_what_is_larger() {
        let mut many: Vec<Block> =
            (0..9_000).map(|at| block(BlockKind::Reservation, 100 + at % 900, 100, 5)).collect();
        let own = Some((ReservationId(7), Name::from("ada"), State::Committed));
        many.push(Block { reservation: own, ..block(BlockKind::Reservation, 500, 1, 1) });
        let seen = schedule(9, many, Some(1_000));
        assert!(seen.blocks.iter().any(|block| block.reservation.is_some()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_or_counted_twice(
            drawn in proptest::collection::vec((0..2_u8, 0..1_300_i64, 1..60_i64, 1..9_u32), 1_100..1_400),
            pixels in 1..300_u32,
        ) {
            let kind = |kind: u8| if kind == 0 { BlockKind::RunningJob } else { BlockKind::WaitingJob };
            let blocks: Vec<Block> =
                drawn.iter().map(|(of, begin, length, capacity)| block(kind(*of), *begin, *length, *capacity)).collect();
            let seen = schedule(4_000, blocks.clone(), Some(pixels));
            let levels = seen.levels.as_ref().unwrap();
            for step in 0..levels.used.values().next().map_or(0, Vec::len) {
                let begin = levels.begin.0 + i64::try_from(step).unwrap() * levels.step.0;
                let end = (begin + levels.step.0).min(WINDOW.end.0);
                for (kind, means) in &levels.used {
                    let of_kind = |blocks: &[Block], at| used(blocks.iter().filter(|block| block.kind == *kind), at);
                    let sum: i64 = (begin..end).map(|at| of_kind(&blocks, at) - of_kind(&seen.blocks, at)).sum();
                    prop_assert_eq!(i64::from(means[step]), (sum + (end - begin) / 2) / (end - begin));
                }
            }
            // The free capacity is never promised too high, and is exact where a step begins with its least.
            for at in WINDOW.begin.0..WINDOW.end.0 {
                let told = seen.free.iter().rfind(|(from, _)| from.0 <= at).unwrap().1;
                prop_assert!(i64::from(told.0) <= 4_000 - used(&blocks, at));
            }
            prop_assert!(seen.free.len() <= usize::try_from(pixels).unwrap().max(1));
        }
    }
}
