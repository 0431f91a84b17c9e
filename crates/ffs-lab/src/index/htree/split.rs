//! Growth: the first index, splits of leaves and of inner nodes.

use super::node::Node;
use super::{DOTS, Form, Htree, LEVELS, RECORDS, Step, bad};
use crate::index::error::{IndexError, Result};
use crate::index::store::write_changes;

impl Htree {
    /// Moves the entries of the only block to a leaf, and makes the block the root.
    pub(super) fn make_root(&mut self) -> Result<()> {
        let size = self.store.block_size();
        self.read_leaf(0)?;
        let entries = RECORDS.entries(self.leaf.get(DOTS..).unwrap_or(&[]));
        let entries = entries.map_err(|why| bad(0, why))?;
        let mut leaf = vec![0; size];
        RECORDS.pack(&mut leaf, &entries);
        self.work.moved += size as u64;
        let block = self.store.append(&leaf)?;
        let root = Node::new(size, Some((self.hash, 0)), &[(0, block)]);
        self.form = Form::Indexed;
        self.store.write(0, 0, &root.bytes)
    }

    /// Makes space for one more entry in the last node of the way. Returns whether the way changed.
    pub(super) fn make_space_above(&mut self, way: &[Step]) -> Result<bool> {
        let Some(last) = way.last() else { return Ok(false) };
        if last.node.count() < last.node.limit() {
            return Ok(false);
        }
        let size = self.store.block_size();
        let [root, inner] = way else {
            // The root is full, and has leaves below it: its entries move to an inner node.
            let node = Node::new(size, None, &last.node.entries(0));
            self.work.moved += size as u64;
            let block = self.store.append(&node.bytes)?;
            let above = Node::new(size, Some((self.hash, LEVELS as u8 - 1)), &[(0, block)]);
            self.store.write(0, 0, &above.bytes)?;
            return Ok(true);
        };
        if root.node.count() == root.node.limit() {
            return Err(IndexError::Full("the tree has its greatest depth and every node is full"));
        }
        let half = inner.node.count() / 2;
        let upper = inner.node.entries(half);
        let first = upper.first().map_or(0, |(hash, _)| *hash);
        let block = self.store.append(&Node::new(size, None, &upper).bytes)?;
        self.work.moved += size as u64 / 2;
        self.add_entry(root, (first, block))?;
        let mut lower = inner.node.clone();
        lower.truncate(half);
        write_changes(&mut *self.store, inner.block, &inner.node.bytes, &lower.bytes)?;
        Ok(true)
    }

    fn add_entry(&mut self, above: &Step, entry: (u32, u32)) -> Result<()> {
        let mut node = above.node.clone();
        node.insert_after(above.at, entry, &mut self.work);
        write_changes(&mut *self.store, above.block, &above.node.bytes, &node.bytes)
    }

    /// Splits the leaf at the end of the way, whose last node has space, and enters a name.
    pub(super) fn split_leaf(
        &mut self,
        way: &[Step],
        (name, hash, ino): (&[u8], u32, u32),
    ) -> Result<()> {
        let Some(above) = way.last() else { return Ok(()) };
        let (leaf, size) = (above.child(), self.store.block_size());
        let mut all = self.sorted(leaf)?;
        if all.len() < 2 {
            return Err(IndexError::damaged("directory leaf", leaf, all.len(), "two entries"));
        }
        // The upper entries with about half of the bytes move.
        let mut bytes = 0;
        let upper = all.iter().rev().take_while(|(_, name, _)| {
            let need = RECORDS.need(name.len());
            bytes += need;
            bytes - need / 2 <= size / 2
        });
        let moved = upper.count().clamp(1, all.len() - 1);
        let split = all.len() - moved;
        let first = all[split].0.0;
        let continues = u32::from(all[split - 1].0.0 == first);
        let upper = all.split_off(split);
        let mut halves = [all, upper].map(|half| {
            let entries: Vec<(Vec<u8>, u32)> =
                half.into_iter().map(|(_, name, ino)| (name, ino)).collect();
            let mut block = vec![0; size];
            RECORDS.pack(&mut block, &entries);
            block
        });
        self.work.moved += size as u64;
        let to = usize::from(hash >= first);
        let entered = RECORDS.insert(&mut halves[to], name, ino).map_err(|why| bad(leaf, why))?;
        if entered.is_none() {
            return Err(IndexError::damaged("directory leaf", leaf, "no space", "space in a half"));
        }
        let [lower, upper] = halves;
        let block = self.store.append(&upper)?;
        self.add_entry(above, (first | continues, block))?;
        self.old.clone_from(&self.leaf);
        write_changes(&mut *self.store, leaf, &self.old, &lower)
    }
}
