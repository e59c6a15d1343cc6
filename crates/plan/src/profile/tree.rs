//! A step function over time as an ordered set of steps ("at this instant the value changes by this much"),
//! in a B+ tree whose nodes know the sum of their steps and the extremes of the value inside.
//!
//! Because a node stores *changes*, a span that covers a million breakpoints is two point updates. Because it
//! stores extremes, a search enters only subtrees that can contain its result. Steps of zero are never
//! stored, so the tree depends only on the step function, not on its history.
//!
//! The tree does not know the meaning of the values.

use super::node::{Child, FAN, Inner, LEAF, Leaf, NodeId};
use super::search::{Guide, Way};

/// A node below 1/SPARSE of its size is merged with a neighbour, unless both together would be nearly full:
/// then it would soon be split again.
const SPARSE: usize = 4;

/// State of a node after a step was added or removed below it.
enum Outcome {
    /// Nothing for its parent to do but to update the summary.
    Kept,
    /// It was full: its upper half is now in a new node.
    Split(NodeId),
    /// Its parent may merge it with a neighbour, or drop it if it is empty.
    Sparse,
}

#[derive(Clone)]
pub(super) struct Tree {
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    free_leaves: Vec<NodeId>,
    free_inners: Vec<NodeId>,
    root: NodeId,
    /// Levels of inner nodes above the leaves.
    height: usize,
    len: usize,
}

impl Tree {
    pub(super) fn new() -> Tree {
        let mut tree = Tree {
            leaves: Vec::new(),
            inners: Vec::new(),
            free_leaves: Vec::new(),
            free_inners: Vec::new(),
            root: 0,
            height: 0,
            len: 0,
        };
        tree.root = tree.place_leaf(Leaf::EMPTY);
        tree
    }

    /// Removes all steps, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.leaves.clear();
        self.inners.clear();
        self.free_leaves.clear();
        self.free_inners.clear();
        self.height = 0;
        self.len = 0;
        self.root = self.place_leaf(Leaf::EMPTY);
    }

    /// Becomes equal to `other`, but keeps the memory.
    pub(super) fn copy_from(&mut self, other: &Tree) {
        self.leaves.clone_from(&other.leaves);
        self.inners.clone_from(&other.inners);
        self.free_leaves.clone_from(&other.free_leaves);
        self.free_inners.clone_from(&other.free_inners);
        self.root = other.root;
        self.height = other.height;
        self.len = other.len;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Time of the first step.
    #[inline]
    pub(super) fn first(&self) -> Option<i64> {
        let mut node = self.root;
        for _ in 0..self.height {
            node = self.inners[node as usize].children[0].node;
        }
        let leaf = &self.leaves[node as usize];
        (leaf.len > 0).then_some(leaf.times[0])
    }

    /// Time of the first step after `time`.
    pub(super) fn next_after(&self, time: i64) -> Option<i64> {
        let (leaf, bound) = self.leaf_at(time);
        let leaf = &self.leaves[leaf as usize];
        let at = leaf.upper_bound(time);
        if at < leaf.len { Some(leaf.times[at]) } else { bound }
    }

    /// Sum of all steps up to and including `time`.
    pub(super) fn value_at(&self, time: i64) -> i64 {
        let mut node = self.root;
        let mut value = 0;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            let at = inner.child_at(time);
            value += inner.sum_before(at);
            node = inner.children[at].node;
        }
        let leaf = &self.leaves[node as usize];
        value + leaf.steps[..leaf.upper_bound(time)].iter().sum::<i64>()
    }

    /// The leaf that a step at `time` would belong to, and the first time of the next leaf.
    pub(super) fn leaf_at(&self, time: i64) -> (NodeId, Option<i64>) {
        let mut node = self.root;
        let mut bound = None;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            let at = inner.child_at(time);
            if at + 1 < inner.len {
                bound = Some(inner.children[at + 1].first);
            }
            node = inner.children[at].node;
        }
        (node, bound)
    }

    /// Times and sizes of a leaf's steps, in order.
    pub(super) fn leaf_steps(&self, leaf: NodeId) -> (&[i64], &[i64]) {
        let leaf = &self.leaves[leaf as usize];
        (&leaf.times[..leaf.len], &leaf.steps[..leaf.len])
    }

    /// Leads `guide` over the values, from the one that holds at `from` on. `before` is the value before the
    /// first step; it is not shown.
    #[inline]
    pub(super) fn walk(&self, from: i64, before: i64, guide: &mut impl Guide) {
        self.walk_from(self.root, self.height, from, before, i64::MAX, guide);
    }

    /// As [`Tree::walk`], in the subtree of `node` whose last value holds until `end`. Returns whether the
    /// guide ended the walk.
    fn walk_from(
        &self,
        node: NodeId,
        level: usize,
        from: i64,
        before: i64,
        end: i64,
        guide: &mut impl Guide,
    ) -> bool {
        if level == 0 {
            let leaf = &self.leaves[node as usize];
            let start = leaf.upper_bound(from).saturating_sub(1);
            let value = before + leaf.steps[..start].iter().sum::<i64>();
            return guide.leaf(&leaf.times[start..leaf.len], &leaf.steps[start..leaf.len], value);
        }
        let inner = &self.inners[node as usize];
        let at = inner.child_at(from);
        let value = before + inner.sum_before(at);
        let child = &inner.children[at];
        let until = if at + 1 < inner.len { inner.children[at + 1].first } else { end };
        let over = match guide.subtree(&child.seen_from(value, until)) {
            Way::Past => false,
            Way::Done => true,
            Way::Into => self.walk_from(child.node, level - 1, from, value, until, guide),
        };
        // Only the first child can begin before `from`; all later ones are walked whole.
        over || self.walk_children(inner, level, at + 1, value + child.sum, end, guide)
    }

    /// Leads `guide` over the children of an inner node from index `start` on, all of them whole.
    fn walk_children(
        &self,
        inner: &Inner,
        level: usize,
        start: usize,
        before: i64,
        end: i64,
        guide: &mut impl Guide,
    ) -> bool {
        let mut value = before;
        for at in start..inner.len {
            let child = &inner.children[at];
            let until = if at + 1 < inner.len { inner.children[at + 1].first } else { end };
            let over = match guide.subtree(&child.seen_from(value, until)) {
                Way::Past => false,
                Way::Done => true,
                Way::Into if level == 1 => {
                    let leaf = &self.leaves[child.node as usize];
                    guide.leaf(&leaf.times[..leaf.len], &leaf.steps[..leaf.len], value)
                }
                Way::Into => {
                    self.walk_children(&self.inners[child.node as usize], level - 1, 0, value, until, guide)
                }
            };
            if over {
                return true;
            }
            value += child.sum;
        }
        false
    }

    /// Changes the value by `step` from `time` on.
    pub(super) fn add(&mut self, time: i64, step: i64) {
        if step == 0 {
            return;
        }
        match self.add_below(self.root, self.height, time, step) {
            Outcome::Kept => {}
            Outcome::Split(right) => self.grow(right),
            Outcome::Sparse => self.shrink(),
        }
    }

    /// Removes all steps up to and including `time`, and returns their sum. None if there are none.
    pub(super) fn pop_until(&mut self, time: i64) -> Option<i64> {
        let mut popped = None;
        while self.first().is_some_and(|first| first <= time) {
            // Each round takes steps from the first leaf only. If it gets empty, the next leaf becomes the
            // first.
            let (sum, outcome) = self.pop_below(self.root, self.height, time);
            popped = Some(popped.unwrap_or(0) + sum);
            if let Outcome::Sparse = outcome {
                self.shrink();
            }
        }
        popped
    }

    /// Removes the steps up to and including `time` from the first leaf below `node`.
    fn pop_below(&mut self, node: NodeId, level: usize, time: i64) -> (i64, Outcome) {
        if level == 0 {
            let leaf = &mut self.leaves[node as usize];
            let end = leaf.upper_bound(time);
            let sum = leaf.steps[..end].iter().sum();
            leaf.remove(0..end);
            self.len -= end;
            return (sum, if leaf.len < LEAF / SPARSE { Outcome::Sparse } else { Outcome::Kept });
        }
        let child = self.inners[node as usize].children[0].node;
        let (sum, outcome) = self.pop_below(child, level - 1, time);
        let outcome = match outcome {
            Outcome::Sparse => self.merge_child(node, level, 0),
            outcome => {
                self.refresh(node, level, 0);
                outcome
            }
        };
        (sum, outcome)
    }

    fn add_below(&mut self, node: NodeId, level: usize, time: i64, step: i64) -> Outcome {
        if level == 0 {
            return self.add_to_leaf(node, time, step);
        }
        let inner = &self.inners[node as usize];
        let at = inner.child_at(time);
        let child = inner.children[at].node;
        match self.add_below(child, level - 1, time, step) {
            Outcome::Kept => {
                self.refresh(node, level, at);
                Outcome::Kept
            }
            Outcome::Split(right) => {
                self.refresh(node, level, at);
                self.insert_child(node, level, at + 1, right)
            }
            Outcome::Sparse => self.merge_child(node, level, at),
        }
    }

    fn add_to_leaf(&mut self, node: NodeId, time: i64, step: i64) -> Outcome {
        let leaf = &mut self.leaves[node as usize];
        let at = leaf.lower_bound(time);
        if at < leaf.len && leaf.times[at] == time {
            leaf.steps[at] += step;
            if leaf.steps[at] != 0 {
                return Outcome::Kept;
            }
            // A step of zero is removed: equal functions must have equal trees.
            leaf.remove(at..at + 1);
            self.len -= 1;
            return if leaf.len < LEAF / SPARSE { Outcome::Sparse } else { Outcome::Kept };
        }
        self.len += 1;
        if leaf.len < LEAF {
            leaf.insert(at, time, step);
            return Outcome::Kept;
        }
        let mut upper = leaf.split();
        let middle = leaf.len;
        if at <= middle {
            leaf.insert(at, time, step);
        } else {
            upper.insert(at - middle, time, step);
        }
        Outcome::Split(self.place_leaf(upper))
    }

    /// Inserts `child` at index `at` of an inner node; splits the node if it is full.
    fn insert_child(&mut self, node: NodeId, level: usize, at: usize, child: NodeId) -> Outcome {
        let seen = self.seen(child, level - 1);
        let inner = &mut self.inners[node as usize];
        if inner.len < FAN {
            inner.insert(at, seen);
            return Outcome::Kept;
        }
        let mut upper = inner.split();
        let middle = inner.len;
        if at <= middle {
            inner.insert(at, seen);
        } else {
            upper.insert(at - middle, seen);
        }
        Outcome::Split(self.place_inner(upper))
    }

    /// Merges the sparse child at index `at` with a neighbour, or drops it if it is empty.
    fn merge_child(&mut self, node: NodeId, level: usize, at: usize) -> Outcome {
        let child = self.inners[node as usize].children[at].node;
        if self.node_len(child, level - 1) == 0 {
            self.discard(child, level - 1);
            self.inners[node as usize].remove(at);
        } else {
            self.refresh(node, level, at);
            let inner = &self.inners[node as usize];
            // The right neighbour if there is one, otherwise the left one.
            let left = if at + 1 < inner.len { at } else { at.saturating_sub(1) };
            if left + 1 < inner.len {
                let (a, b) = (inner.children[left].node, inner.children[left + 1].node);
                if self.merge(a, b, level - 1) {
                    self.inners[node as usize].remove(left + 1);
                    self.refresh(node, level, left);
                }
            }
        }
        if self.inners[node as usize].len < FAN / SPARSE { Outcome::Sparse } else { Outcome::Kept }
    }

    /// Moves all of `right` into its left neighbour, if that leaves room for growth. Returns whether it did.
    fn merge(&mut self, left: NodeId, right: NodeId, level: usize) -> bool {
        let room = if level == 0 { LEAF } else { FAN };
        // A quarter stays free. A fuller node would soon be split again.
        if self.node_len(left, level) + self.node_len(right, level) > room * 3 / 4 {
            return false;
        }
        if level == 0 {
            let (left, right) = two(&mut self.leaves, left, right);
            left.append(right);
        } else {
            let (left, right) = two(&mut self.inners, left, right);
            left.append(right);
        }
        self.discard(right, level);
        true
    }

    /// Adds a root above the old one and its upper half.
    fn grow(&mut self, right: NodeId) {
        let mut root = Inner::EMPTY;
        root.insert(0, self.seen(self.root, self.height));
        root.insert(1, self.seen(right, self.height));
        self.root = self.place_inner(root);
        self.height += 1;
    }

    /// Removes roots with a single child.
    fn shrink(&mut self) {
        while self.height > 0 && self.inners[self.root as usize].len <= 1 {
            let old = self.root;
            // A root without any child means that the tree is empty; it becomes a leaf again.
            let only = self.inners[old as usize].len == 1;
            self.root =
                if only { self.inners[old as usize].children[0].node } else { self.place_leaf(Leaf::EMPTY) };
            self.discard(old, self.height);
            self.height = if only { self.height - 1 } else { 0 };
        }
    }

    /// Updates the summary of the child at index `at`.
    #[inline]
    fn refresh(&mut self, node: NodeId, level: usize, at: usize) {
        let child = self.inners[node as usize].children[at].node;
        self.inners[node as usize].children[at] = self.seen(child, level - 1);
    }

    #[inline]
    fn seen(&self, node: NodeId, level: usize) -> Child {
        if level == 0 { self.leaves[node as usize].seen(node) } else { self.inners[node as usize].seen(node) }
    }

    fn node_len(&self, node: NodeId, level: usize) -> usize {
        if level == 0 { self.leaves[node as usize].len } else { self.inners[node as usize].len }
    }

    fn place_leaf(&mut self, leaf: Leaf) -> NodeId {
        place(&mut self.leaves, &mut self.free_leaves, leaf)
    }

    fn place_inner(&mut self, inner: Inner) -> NodeId {
        place(&mut self.inners, &mut self.free_inners, inner)
    }

    fn discard(&mut self, node: NodeId, level: usize) {
        if level == 0 { &mut self.free_leaves } else { &mut self.free_inners }.push(node);
    }
}

fn place<T>(nodes: &mut Vec<T>, free: &mut Vec<NodeId>, node: T) -> NodeId {
    // Discarded nodes are reused, so memory follows the size of the tree and not the number of operations.
    if let Some(id) = free.pop() {
        nodes[id as usize] = node;
        return id;
    }
    let id = NodeId::try_from(nodes.len()).expect("fewer than 2^32 nodes fit in memory");
    nodes.push(node);
    id
}

/// Two different elements, the first of them mutable.
fn two<T>(nodes: &mut [T], changed: NodeId, read: NodeId) -> (&mut T, &T) {
    let (changed, read) = (changed as usize, read as usize);
    if changed < read {
        let (head, tail) = nodes.split_at_mut(read);
        (&mut head[changed], &tail[0])
    } else {
        let (head, tail) = nodes.split_at_mut(changed);
        (&mut tail[0], &head[read])
    }
}
