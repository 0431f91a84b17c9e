//! What a crash between the writes of one operation leaves.
//!
//! An operation changes some blocks of the directory, and the size in its inode if it grew. Every
//! subset of these is a state that a crash may leave, if nothing orders the writes. Each state is
//! opened again: the names that existed before must be found and listed.
//!
//! | verdict | meaning |
//! | --- | --- |
//! | lost | an older name is not found or not listed, or the directory cannot be read |
//! | untidy | all older names are found; a check finds something to repair |
//! | clean | neither |
//!
//! The inode of the new file and its bitmap are the same for every index, and not examined.
//!
//! # Invariants
//! 1. The result follows from the size of the directory alone.
//!
//! Reference: `docs/spec/directories-and-caches.md` §8.4; `docs/lab/indexes.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::error::{IndexError, Result};
use super::store::{Image, MemoryStore};
use super::{Index, IndexKind};

/// Bytes of a block: small, so that small directories have every kind of split.
const BLOCK: usize = 1024;
/// The most writes of an operation that are examined.
const MOST: usize = 8;

/// The states of one kind of operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrashRow {
    /// The index.
    pub index: &'static str,
    /// `create` or `delete`.
    pub operation: &'static str,
    /// Blocks of the directory that the operation changes.
    pub blocks: usize,
    /// Those of them that are new.
    pub new_blocks: usize,
    /// Operations of this shape among all of the run.
    pub operations: u32,
    /// States that a crash may leave without an order of writes.
    pub states: usize,
    /// States in which older names are lost.
    pub lost: usize,
    /// States that a check has to repair.
    pub untidy: usize,
    /// Whether this order passes no state with lost names: new blocks, the inode with the size,
    /// then the others in the order in which the index writes them.
    pub own_order_safe: bool,
    /// Whether any order does.
    pub safe_order: bool,
    /// Whether an order passes clean states only.
    pub clean_order: bool,
    /// What the check finds in untidy states.
    pub findings: Vec<String>,
}

/// The shape of an operation: its name, blocks changed, blocks new.
type Shape = (&'static str, usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Lost,
    Untidy,
    Clean,
}

/// Fills and empties a directory of `names` names and examines the first operation of each shape.
///
/// # Errors
/// Those of the index.
pub(crate) fn examine(kind: IndexKind, names: u32) -> Result<Vec<CrashRow>> {
    let store = MemoryStore::new(BLOCK);
    let mut index = kind.open(Box::new(store.clone()))?;
    let mut rows: BTreeMap<Shape, CrashRow> = BTreeMap::new();
    let mut present: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut step = |index: &mut dyn Index, name: &[u8], ino: Option<u32>| -> Result<()> {
        let before = store.image().blocks.clone();
        store.image().changed.clear();
        present.remove(name);
        let operation = match ino {
            Some(ino) => index.insert(name, ino).map(|()| "create")?,
            None => index.remove(name).map(|_| "delete")?,
        };
        let after = store.image().clone();
        let new = after.blocks.len() - before.len();
        let shape = (operation, after.changed.len(), new);
        match rows.get_mut(&shape) {
            Some(row) => row.operations += 1,
            None if after.changed.len() <= MOST => {
                rows.insert(shape, states(kind, shape, (&before, &after), &present)?);
            }
            None => {}
        }
        if let Some(ino) = ino {
            present.insert(name.to_vec(), ino);
        }
        Ok(())
    };
    let name = |n: u32| format!("{n}").into_bytes();
    for n in 1..=names {
        step(&mut *index, &name(n), Some(n))?;
    }
    for n in 1..=names {
        step(&mut *index, &name(n), None)?;
    }
    Ok(rows.into_values().collect())
}

/// Examines all states of an operation.
fn states(
    kind: IndexKind,
    (operation, blocks, new_blocks): Shape,
    (before, after): (&[Vec<u8>], &Image),
    names: &BTreeMap<Vec<u8>, u32>,
) -> Result<CrashRow> {
    // The size counts as one more write, with number `blocks`.
    let writes = blocks + usize::from(new_blocks > 0);
    let mut verdicts = Vec::new();
    let mut findings = BTreeSet::new();
    for written in 0..1_usize << writes {
        let image = state(written, before, after, blocks);
        verdicts.push(judge(kind, image, names, &mut findings));
    }
    let count = |wanted: Verdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    // New blocks, then the size in the inode, then the others, each in the order of the index.
    let is_new = |at: &usize| after.changed[*at] as usize >= before.len();
    let (new, old): (Vec<usize>, Vec<usize>) = (0..blocks).partition(is_new);
    let size = (new_blocks > 0).then_some(blocks);
    let mut done = 0;
    let own: Vec<usize> = std::iter::once(0)
        .chain(new.into_iter().chain(size).chain(old).map(|write| {
            done |= 1 << write;
            done
        }))
        .collect();
    Ok(CrashRow {
        index: kind.name(),
        operation,
        blocks,
        new_blocks,
        operations: 1,
        states: verdicts.len(),
        lost: count(Verdict::Lost),
        untidy: count(Verdict::Untidy),
        own_order_safe: own.iter().all(|written| verdicts[*written] != Verdict::Lost),
        safe_order: has_order(&verdicts, writes, |verdict| verdict != Verdict::Lost),
        clean_order: has_order(&verdicts, writes, |verdict| verdict == Verdict::Clean),
        findings: findings.into_iter().collect(),
    })
}

/// The blocks after some of the writes: bit *i* is the *i*th changed block, the bit behind them the
/// size.
fn state(written: usize, before: &[Vec<u8>], after: &Image, blocks: usize) -> Image {
    let grown = written >> blocks & 1 == 1;
    let len = if grown { after.blocks.len() } else { before.len() };
    let has = |block: usize| {
        let at = after.changed.iter().position(|changed| *changed as usize == block);
        at.is_none_or(|at| written >> at & 1 == 1)
    };
    let content = |block: usize| match before.get(block) {
        _ if has(block) => after.blocks.get(block).cloned().unwrap_or_default(),
        Some(old) => old.clone(),
        // A new block that was not written.
        None => vec![0; BLOCK],
    };
    Image { blocks: (0..len).map(content).collect(), changed: Vec::new() }
}

fn judge(
    kind: IndexKind,
    image: Image,
    names: &BTreeMap<Vec<u8>, u32>,
    findings: &mut BTreeSet<String>,
) -> Verdict {
    let Ok(mut index) = kind.open(Box::new(MemoryStore::of(BLOCK, image))) else {
        return Verdict::Lost;
    };
    let found = |index: &mut dyn Index| {
        names.iter().all(|(name, ino)| matches!(index.lookup(name), Ok(Some(at)) if at == *ino))
    };
    let (mut listed, mut total) = (BTreeSet::new(), 0);
    let mut note = |name: &[u8], _: u32| {
        total += 1;
        listed.insert(name.to_vec());
    };
    if index.list(&mut note).is_err()
        || names.keys().any(|name| !listed.contains(name))
        || !found(&mut *index)
    {
        return Verdict::Lost;
    }
    if total != listed.len() {
        findings.insert("a name is listed twice".to_owned());
    }
    match index.check() {
        Ok(()) if total == listed.len() => Verdict::Clean,
        Ok(()) => Verdict::Untidy,
        Err(IndexError::Damaged { structure, expected, .. }) => {
            findings.insert(format!("{structure}: expected {expected}"));
            Verdict::Untidy
        }
        Err(_) => Verdict::Untidy,
    }
}

/// Whether the writes have an order that passes only states that are `good`.
fn has_order(verdicts: &[Verdict], writes: usize, good: impl Fn(Verdict) -> bool) -> bool {
    let mut reached = vec![false; verdicts.len()];
    reached[0] = good(verdicts[0]);
    for state in 0..verdicts.len() {
        if !reached[state] {
            continue;
        }
        for write in 0..writes {
            let next = state | 1 << write;
            reached[next] |= good(verdicts[next]);
        }
    }
    reached.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(kind: IndexKind) -> Vec<CrashRow> {
        let rows = examine(kind, 3000).unwrap();
        rows.iter().for_each(|row| println!("{row:?}"));
        rows
    }

    #[test]
    fn one_block_is_safe_in_every_state() {
        for kind in [IndexKind::Control, IndexKind::Chunk] {
            for row in rows(kind) {
                // A new block must be written before the size, as in every file.
                let lost = usize::from(row.new_blocks > 0);
                assert_eq!((row.blocks, row.lost, row.untidy), (1, lost, 0), "{row:?}");
                assert!(row.own_order_safe && row.clean_order, "{row:?}");
            }
        }
    }

    /// The paper doubts that a split can be ordered if the old block is one of the halves. It can,
    /// in the order new block, node above, old block; the old block then has names twice.
    #[test]
    fn splits_have_a_safe_order_that_a_check_has_to_tidy() {
        for kind in [IndexKind::Htree, IndexKind::Btree] {
            let rows = rows(kind);
            let splits = || rows.iter().filter(|row| row.blocks > 2 && row.new_blocks > 0);
            assert!(splits().count() > 0);
            assert!(splits().any(|row| row.lost > 0), "an order is needed");
            for row in &rows {
                assert!(row.own_order_safe && row.safe_order, "{row:?}");
            }
        }
    }

    #[test]
    fn a_btree_writes_three_blocks_where_an_htree_writes_one() {
        let most = |kind: IndexKind, operation: &str| {
            let rows = rows(kind);
            let rows = rows.into_iter().filter(|row| row.operation == operation);
            rows.max_by_key(|row| row.operations).map(|row| row.blocks)
        };
        assert_eq!(most(IndexKind::Htree, "create"), Some(1));
        assert_eq!(most(IndexKind::Htree, "delete"), Some(1));
        assert_eq!(most(IndexKind::Btree, "create"), Some(3));
    }
}
