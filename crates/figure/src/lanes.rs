//! Assigns rows of processors to the bars of a Gantt chart. A sweep in order of begin gives each bar the lowest
//! contiguous free rows, or the widest gaps if no single one is wide enough. Bars never share a row at the same time.
//! If the machine has too few free rows, the bar gets the rest above the machine, which makes overbooking visible.

use bookahead_plan::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Contiguous rows: `first` and the `count - 1` above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Block {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Block {
    /// The first row above the block.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// The rows of each span, in the order of the spans, on a machine of `rows` rows. The blocks of a span add up to its
/// capacity; rows from `rows` on are beyond the machine. Empty spans have no rows.
pub(crate) fn assign(spans: &[Span], rows: u32) -> Vec<Vec<Block>> {
    let mut order: Vec<usize> = (0..spans.len()).filter(|&index| !spans[index].interval.is_empty()).collect();
    order.sort_by_key(|&index| spans[index].interval.begin);
    let mut lanes: Vec<Vec<Block>> = vec![Vec::new(); spans.len()];
    let mut machine = FreeRows::new(Block { first: 0, count: u64::from(rows) });
    let mut beyond = FreeRows::new(Block { first: u64::from(rows), count: u64::MAX - u64::from(rows) });
    let mut running: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
    for index in order {
        let span = spans[index];
        // Bars that have ended free their rows before this one takes any.
        while let Some(&Reverse((end, ended))) = running.peek()
            && end <= span.interval.begin
        {
            running.pop();
            for &block in &lanes[ended] {
                if block.first < u64::from(rows) { machine.give(block) } else { beyond.give(block) }
            }
        }
        let wanted = u64::from(span.capacity.0);
        let mut blocks = machine.take(wanted);
        let found: u64 = blocks.iter().map(|block| block.count).sum();
        blocks.extend(beyond.take(wanted - found));
        lanes[index] = blocks;
        running.push(Reverse((span.interval.end, index)));
    }
    lanes
}

/// Free rows as blocks in ascending order; adjacent blocks are merged.
#[derive(Debug)]
struct FreeRows {
    blocks: Vec<Block>,
}

impl FreeRows {
    fn new(all: Block) -> FreeRows {
        let blocks = if all.count == 0 { Vec::new() } else { vec![all] };
        FreeRows { blocks }
    }

    /// Takes `count` rows, in one block if possible; fewer only if fewer are free.
    fn take(&mut self, count: u64) -> Vec<Block> {
        if count == 0 {
            return Vec::new();
        }
        if let Some(index) = self.blocks.iter().position(|block| block.count >= count) {
            return vec![self.cut(index, count)];
        }
        self.take_pieces(count)
    }

    /// Takes `count` rows, or all that are free, from the widest blocks, to get as few pieces as possible.
    fn take_pieces(&mut self, count: u64) -> Vec<Block> {
        let mut widest = self.blocks.clone();
        widest.sort_by_key(|block| (Reverse(block.count), block.first));
        let mut taken = Vec::new();
        let mut missing = count;
        for block in widest {
            if missing == 0 {
                break;
            }
            let index = self.blocks.partition_point(|free| free.first < block.first);
            let piece = self.cut(index, missing);
            missing -= piece.count;
            taken.push(piece);
        }
        taken.sort_unstable();
        taken
    }

    /// Takes the lowest rows of one block, at most `count`.
    fn cut(&mut self, index: usize, count: u64) -> Block {
        let block = self.blocks[index];
        let piece = Block { first: block.first, count: block.count.min(count) };
        if piece.count == block.count {
            self.blocks.remove(index);
        } else {
            self.blocks[index] = Block { first: piece.end(), count: block.count - piece.count };
        }
        piece
    }

    fn give(&mut self, block: Block) {
        let index = self.blocks.partition_point(|free| free.first < block.first);
        let joins_below = index > 0 && self.blocks[index - 1].end() == block.first;
        let joins_above = self.blocks.get(index).is_some_and(|above| block.end() == above.first);
        match (joins_below, joins_above) {
            (false, false) => self.blocks.insert(index, block),
            (true, false) => self.blocks[index - 1].count += block.count,
            (false, true) => {
                let count = self.blocks[index].count + block.count;
                self.blocks[index] = Block { first: block.first, count };
            }
            (true, true) => {
                let above = self.blocks.remove(index);
                self.blocks[index - 1].count += block.count + above.count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Capacity, Seconds};
    use proptest::prelude::*;

    fn span(begin: i64, length: i64, capacity: u32) -> Span {
        Span::starting(Time(begin), Seconds(length), Capacity(capacity))
    }

    fn block(first: u64, count: u64) -> Block {
        Block { first, count }
    }

    #[test]
    fn a_bar_is_split_only_where_no_gap_is_wide_enough() {
        let spans = [span(0, 5, 2), span(0, 20, 2), span(0, 5, 2), span(0, 20, 2), span(5, 5, 3)];
        let lanes = assign(&spans, 8);
        assert_eq!(lanes[4], [block(0, 2), block(4, 1)]);
        assert_eq!(
            assign(&[span(0, 9, 3), span(0, 9, 2), span(2, 0, 4)], 8)[1..],
            [vec![block(3, 2)], vec![]]
        );
    }

    #[test]
    fn what_the_machine_lacks_stands_above_it() {
        let lanes = assign(&[span(0, 10, 3), span(0, 10, 3), span(10, 5, 4)], 4);
        assert_eq!(lanes, [vec![block(0, 3)], vec![block(3, 1), block(4, 2)], vec![block(0, 4)]]);
        assert_eq!(assign(&[span(0, 1, u32::MAX)], 0), [[block(0, u64::from(u32::MAX))]]);
    }

    fn overlap(a: (&Span, Block), b: (&Span, Block)) -> bool {
        let in_time = a.0.interval.begin < b.0.interval.end && b.0.interval.begin < a.0.interval.end;
        in_time && a.1.first < b.1.end() && b.1.first < a.1.end()
    }

    fn in_use(spans: &[Span], at: Time) -> u32 {
        spans.iter().filter(|span| span.interval.contains(at)).map(|span| span.capacity.0).sum()
    }

    /// Drops each span that a machine of `rows` cannot hold in addition to the spans before it.
    fn feasible(spans: Vec<Span>, rows: u32) -> Vec<Span> {
        let mut held: Vec<Span> = Vec::new();
        for span in spans {
            let Span { interval, capacity } = span;
            let fits =
                (interval.begin.0..interval.end.0).all(|at| in_use(&held, Time(at)) + capacity.0 <= rows);
            if fits {
                held.push(span);
            }
        }
        held
    }

    fn any_spans() -> impl Strategy<Value = Vec<Span>> {
        let any_span = (0..60_i64, 0..20_i64, 0..9_u32).prop_map(|(begin, length, n)| span(begin, length, n));
        proptest::collection::vec(any_span, 0..60)
    }

    fn check(spans: &[Span], lanes: &[Vec<Block>]) -> Result<(), TestCaseError> {
        let mut placed = Vec::new();
        for (span, blocks) in spans.iter().zip(lanes) {
            let height: u64 = blocks.iter().map(|block| block.count).sum();
            let expected = if span.interval.is_empty() { 0 } else { u64::from(span.capacity.0) };
            prop_assert_eq!(height, expected);
            placed.extend(blocks.iter().map(|&block| (span, block)));
        }
        for (index, &one) in placed.iter().enumerate() {
            prop_assert!(placed[..index].iter().all(|&other| !overlap(one, other)));
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn a_feasible_schedule_fits_the_machine(spans in any_spans(), rows in 1..16_u32) {
            let spans = feasible(spans, rows);
            let lanes = assign(&spans, rows);
            check(&spans, &lanes)?;
            prop_assert!(lanes.iter().flatten().all(|block| block.end() <= u64::from(rows)));
        }

        #[test]
        fn an_overbooked_schedule_overlaps_nowhere(spans in any_spans(), rows in 0..16_u32) {
            let lanes = assign(&spans, rows);
            check(&spans, &lanes)?;
            for (span, blocks) in spans.iter().zip(&lanes) {
                let beyond = blocks.iter().any(|block| block.end() > u64::from(rows));
                prop_assert!(!beyond || in_use(&spans, span.interval.begin) > rows);
            }
        }
    }
}
