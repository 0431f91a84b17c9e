//! Search, insertion and removal of keys.

use std::collections::BTreeSet;

use super::Btree;
use super::node::Node;
use crate::index::error::{IndexError, Result};
use crate::index::store::{read_block, write_changes};

/// A place in the leaves.
pub(super) struct Cursor {
    block: u32,
    node: Node,
    pub(super) at: usize,
    /// Leaves visited.
    steps: u32,
}

/// A step on the way from the root to a leaf.
struct Step {
    block: u32,
    node: Node,
    /// The child that was followed; in a leaf the place of the key.
    at: usize,
}

impl Btree {
    fn read_node(&mut self, block: u32, level: u32) -> Result<Node> {
        let mut bytes = Vec::new();
        read_block(&mut *self.store, block, &mut bytes)?;
        Node::read(bytes, level, (block, self.store.blocks()))
    }

    /// The way from the root to the leaf for `key`.
    fn way(&mut self, key: u64) -> Result<Vec<Step>> {
        let mut way = Vec::new();
        let mut block = self.header.root();
        for level in (0..=self.header.height()).rev() {
            let node = self.read_node(block, level)?;
            let at = if level > 0 {
                node.search(key, true, &mut self.work) - 1
            } else {
                node.search(key, false, &mut self.work)
            };
            let child = node.child(at);
            way.push(Step { block, node, at });
            block = child;
        }
        Ok(way)
    }

    /// The first key that is not below `key`.
    pub(super) fn seek(&mut self, key: u64) -> Result<Cursor> {
        let Some(Step { block, node, at }) = self.way(key)?.pop() else {
            return Err(IndexError::damaged("index", 0, "no leaf", "a leaf"));
        };
        Ok(Cursor { block, node, at, steps: 0 })
    }

    /// The key at the cursor, which moves to the next leaf if this one has no more.
    pub(super) fn key_at(&mut self, cursor: &mut Cursor) -> Result<Option<u64>> {
        while cursor.at >= cursor.node.count() {
            let right = cursor.node.right();
            if right == 0 {
                return Ok(None);
            }
            cursor.steps += 1;
            if cursor.steps > self.store.blocks() {
                let expected = "leaves in a row that ends";
                return Err(IndexError::damaged("index", cursor.block, right, expected));
            }
            cursor.node = self.read_node(right, 0)?;
            (cursor.block, cursor.at) = (right, 0);
        }
        Ok(Some(cursor.node.key(cursor.at)))
    }

    /// Adds a key. Of a split, the new nodes are written first, then the node above them, then the
    /// old nodes from the top down.
    pub(super) fn add_key(&mut self, key: u64) -> Result<()> {
        let mut way = self.way(key)?;
        let (mut entry, mut level, mut split) = ((key, 0), 0, Vec::new());
        loop {
            let Some(step) = way.pop() else {
                self.grow(entry)?;
                break;
            };
            let at = if level == 0 { step.at } else { step.at + 1 };
            if step.node.count() < step.node.limit() {
                let mut node = step.node.clone();
                node.insert(at, entry, &mut self.work);
                write_changes(&mut *self.store, step.block, &step.node.bytes, &node.bytes)?;
                break;
            }
            let (lower, above) = self.split(&step.node, level, (at, entry))?;
            split.push((step, lower));
            (entry, level) = (above, level + 1);
        }
        for (step, lower) in split.iter().rev() {
            write_changes(&mut *self.store, step.block, &step.node.bytes, &lower.bytes)?;
        }
        Ok(())
    }

    /// Splits a full node and adds `entry` at `at`. Writes the upper half to a new block. Returns
    /// the lower half, and the entry of the upper one for the node above.
    fn split(
        &mut self,
        node: &Node,
        level: u16,
        (at, entry): (usize, (u64, u32)),
    ) -> Result<(Node, (u64, u32))> {
        let size = self.store.block_size();
        let half = node.count() / 2;
        let mut upper = Node::new(size, level, &node.entries(half));
        upper.set_right(node.right());
        let mut lower = node.clone();
        lower.truncate(half);
        self.work.moved += size as u64 / 2;
        if at > half {
            upper.insert(at - half, entry, &mut self.work);
        } else {
            lower.insert(at, entry, &mut self.work);
        }
        let first = upper.key(0);
        let block = self.store.append(&upper.bytes)?;
        if level == 0 {
            lower.set_right(block);
        }
        Ok((lower, (first, block)))
    }

    /// Adds a root above the old one and `entry`.
    fn grow(&mut self, entry: (u64, u32)) -> Result<()> {
        let (old, height) = (self.header.root(), self.header.height() + 1);
        let root = Node::new(self.store.block_size(), height as u16, &[(0, old), entry]);
        let block = self.store.append(&root.bytes)?;
        self.set_root(block, height)
    }

    pub(super) fn remove_key(&mut self, key: u64) -> Result<()> {
        let mut way = self.way(key)?;
        let step = way.pop().filter(|step| step.at < step.node.count());
        let Some(step) = step.filter(|step| step.node.key(step.at) == key) else {
            return Err(IndexError::damaged("index", 0, key, "the key in its leaf"));
        };
        let mut node = step.node.clone();
        node.remove(step.at, &mut self.work);
        write_changes(&mut *self.store, step.block, &step.node.bytes, &node.bytes)
    }

    /// All keys in order. Checks the ranges of the nodes and the row of the leaves.
    pub(super) fn check_tree(&mut self) -> Result<Vec<u64>> {
        let (mut keys, mut leaves, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut open = vec![(self.header.root(), self.header.height(), 0, u64::MAX)];
        while let Some((block, level, low, high)) = open.pop() {
            let wrong = |found: u64, expected| {
                Err(IndexError::damaged("index node", block, found, expected))
            };
            if !seen.insert(block) {
                return wrong(block.into(), "one parent");
            }
            let node = self.read_node(block, level)?;
            let own = (0..node.count()).map(|at| node.key(at));
            let own: Vec<u64> = own.skip(usize::from(level > 0)).collect();
            if let Some(key) = own.iter().find(|key| !(low..high).contains(*key)) {
                return wrong(*key, "keys within the range of the node");
            }
            if let Some(pair) = own.windows(2).find(|pair| pair[0] >= pair[1]) {
                return wrong(pair[1], "keys in ascending order");
            }
            if level == 0 {
                leaves.push((block, node.right()));
                keys.extend(own);
                continue;
            }
            for at in (0..node.count()).rev() {
                let from = if at == 0 { low } else { node.key(at) };
                let to = if at + 1 == node.count() { high } else { node.key(at + 1) };
                open.push((node.child(at), level - 1, from, to));
            }
        }
        let rights = leaves.iter().skip(1).map(|leaf| leaf.0).chain([0]);
        match leaves.iter().zip(rights).find(|((_, right), next)| right != next) {
            Some(((block, right), _)) => {
                let expected = "the next leaf of the tree";
                Err(IndexError::damaged("right neighbour", *block, right, expected))
            }
            None => Ok(keys),
        }
    }
}
