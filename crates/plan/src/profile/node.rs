//! Nodes of the tree: leaves with steps, inner nodes with children, and the summary of each for its parent.
//! Nodes are independent; after a change the parent's summary must be updated.

use std::ops::Range;

/// Steps in a leaf, and children of an inner node. Measured with `cargo bench --bench profile`: smaller
/// leaves make taller trees, larger ones make searches visit more steps.
pub(super) const LEAF: usize = 48;
pub(super) const FAN: usize = 16;
/// Index of a node in the list of its kind.
pub(super) type NodeId = u32;

#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) len: usize,
    pub(super) times: [i64; LEAF],
    pub(super) steps: [i64; LEAF],
}

#[derive(Clone)]
pub(super) struct Inner {
    pub(super) len: usize,
    pub(super) children: [Child; FAN],
}

/// Summary of a node for its parent. Values are relative to the value before its first step.
#[derive(Clone, Copy)]
pub(super) struct Child {
    pub(super) node: NodeId,
    /// Time of its first step.
    pub(super) first: i64,
    /// Sum of its steps: the value after the last of them.
    pub(super) sum: i64,
    /// Lowest and highest value after any of its steps.
    pub(super) low: i64,
    pub(super) high: i64,
}

/// Summary of a subtree in absolute values.
pub(super) struct Subtree {
    /// Start of its first value and end of its last one.
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) low: i64,
    pub(super) high: i64,
}

impl Leaf {
    pub(super) const EMPTY: Leaf = Leaf { len: 0, times: [0; LEAF], steps: [0; LEAF] };

    /// Index of the first step at or after `time`.
    #[inline]
    pub(super) fn lower_bound(&self, time: i64) -> usize {
        self.times[..self.len].partition_point(|&t| t < time)
    }

    /// Index of the first step after `time`.
    #[inline]
    pub(super) fn upper_bound(&self, time: i64) -> usize {
        self.times[..self.len].partition_point(|&t| t <= time)
    }

    pub(super) fn insert(&mut self, at: usize, time: i64, step: i64) {
        self.times.copy_within(at..self.len, at + 1);
        self.steps.copy_within(at..self.len, at + 1);
        self.times[at] = time;
        self.steps[at] = step;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, range: Range<usize>) {
        self.times.copy_within(range.end..self.len, range.start);
        self.steps.copy_within(range.end..self.len, range.start);
        self.len -= range.len();
    }

    pub(super) fn split(&mut self) -> Leaf {
        let middle = self.len / 2;
        let mut upper = Leaf { len: self.len - middle, ..Leaf::EMPTY };
        upper.times[..upper.len].copy_from_slice(&self.times[middle..self.len]);
        upper.steps[..upper.len].copy_from_slice(&self.steps[middle..self.len]);
        self.len = middle;
        upper
    }

    pub(super) fn append(&mut self, right: &Leaf) {
        self.times[self.len..self.len + right.len].copy_from_slice(&right.times[..right.len]);
        self.steps[self.len..self.len + right.len].copy_from_slice(&right.steps[..right.len]);
        self.len += right.len;
    }

    pub(super) fn seen(&self, node: NodeId) -> Child {
        let (mut sum, mut low, mut high) = (0, i64::MAX, i64::MIN);
        for &step in &self.steps[..self.len] {
            sum += step;
            low = low.min(sum);
            high = high.max(sum);
        }
        Child { node, first: self.times[0], sum, low, high }
    }
}

impl Child {
    pub(super) const NONE: Child = Child { node: 0, first: 0, sum: 0, low: 0, high: 0 };

    /// The summary in absolute values. `before` is the value before its first step; its last value holds
    /// until `end`.
    #[inline]
    pub(super) fn seen_from(&self, before: i64, end: i64) -> Subtree {
        Subtree { begin: self.first, end, low: before + self.low, high: before + self.high }
    }
}

impl Inner {
    pub(super) const EMPTY: Inner = Inner { len: 0, children: [Child::NONE; FAN] };

    /// Index of the child that `time` belongs to.
    #[inline]
    pub(super) fn child_at(&self, time: i64) -> usize {
        self.children[..self.len].partition_point(|child| child.first <= time).saturating_sub(1)
    }

    #[inline]
    pub(super) fn sum_before(&self, at: usize) -> i64 {
        self.children[..at].iter().map(|child| child.sum).sum()
    }

    pub(super) fn insert(&mut self, at: usize, child: Child) {
        self.children.copy_within(at..self.len, at + 1);
        self.children[at] = child;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.children.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    pub(super) fn split(&mut self) -> Inner {
        let middle = self.len / 2;
        let mut upper = Inner { len: self.len - middle, ..Inner::EMPTY };
        upper.children[..upper.len].copy_from_slice(&self.children[middle..self.len]);
        self.len = middle;
        upper
    }

    pub(super) fn append(&mut self, right: &Inner) {
        self.children[self.len..self.len + right.len].copy_from_slice(&right.children[..right.len]);
        self.len += right.len;
    }

    pub(super) fn seen(&self, node: NodeId) -> Child {
        let (mut sum, mut low, mut high) = (0, i64::MAX, i64::MIN);
        for child in &self.children[..self.len] {
            low = low.min(sum + child.low);
            high = high.max(sum + child.high);
            sum += child.sum;
        }
        Child { node, first: self.children[0].first, sum, low, high }
    }
}
