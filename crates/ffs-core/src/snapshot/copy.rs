//! Copy-on-write (FreeBSD: `ffs_copyonwrite`).
//!
//! # Invariants
//! 1. The old content comes from the device, never from a buffer: the buffer has the new content.
//! 2. The copies are durable before the pointers to them are written, and the pointers before the
//!    call returns. A crash in between leaves a copy without a pointer, or a pointer to the copy of
//!    a block that has not changed.
//! 3. If a block cannot be read or no block is free for the copy, the call fails, and the caller
//!    does not overwrite the block.
//!
//! Reference: `spec/snapshots.md` §5, §12.

use super::{LOG, Snapshots, State};
use crate::buf::CopyOnWrite;
use crate::counters::add;
use crate::error::Result;
use crate::ordering::rules::Rule;
use ffs_ondisk::{FragNo, Lbn};
use std::ops::Range;
use tracing::debug;

/// Most copies that are made with the same two flushes.
const BATCH: usize = 4096;
/// Bytes that are copied at a time, if neither the blocks nor their places have gaps.
const COPY_BYTES: usize = 1 << 20;

/// A block that one snapshot needs a copy of.
struct Need {
    lbn: Lbn,
    /// The snapshot's index in the list.
    snapshot: usize,
}

impl CopyOnWrite for Snapshots {
    fn before_write(&self, runs: &mut dyn Iterator<Item = Range<u64>>) -> Result<()> {
        if !self.is_active() {
            return Ok(());
        }
        self.copy(&mut self.lock(), runs)
    }
}

impl Snapshots {
    /// Copies every block of the `runs` (of fragments) that a snapshot reads in place.
    fn copy(&self, st: &mut State, runs: &mut dyn Iterator<Item = Range<u64>>) -> Result<()> {
        if st.unfinished {
            self.finish(st)?;
        }
        let frag = u64::from(self.g().frag);
        let mut needs = Vec::new();
        let mut last = None;
        for run in runs {
            for lbn in run.start / frag..run.end.div_ceil(frag) {
                if last.replace(lbn) == Some(lbn) {
                    continue;
                }
                for (snapshot, s) in st.list.iter_mut().enumerate() {
                    if s.needs(self.dev(), Lbn(lbn))? {
                        needs.push(Need { lbn: Lbn(lbn), snapshot });
                    }
                }
            }
            if needs.len() >= BATCH {
                self.copy_blocks(st, &needs)?;
                needs.clear();
            }
        }
        self.copy_blocks(st, &needs)
    }

    fn copy_blocks(&self, st: &mut State, needs: &[Need]) -> Result<()> {
        if needs.is_empty() {
            return Ok(());
        }
        let places = self.take_places(st, needs.len())?;
        debug!(target: LOG, copies = needs.len(), "copy on write");
        if let Err(e) =
            self.write_copies(needs, &places).and_then(|()| self.flush_if(Rule::CopyBeforePointer))
        {
            st.spare.extend(places);
            return Err(e);
        }
        st.unfinished = true;
        let mut result = Ok(());
        for (need, at) in needs.iter().zip(places) {
            result = result.and(self.give(st, need, at));
        }
        add(&self.cache.counters.snapshot_copies, needs.len() as u64);
        result.and(self.finish(st))
    }

    /// The block at `at` becomes the snapshot's copy.
    fn give(&self, st: &mut State, need: &Need, at: FragNo) -> Result<()> {
        let Some(s) = st.list.get_mut(need.snapshot) else { return Ok(()) };
        if let Err(e) = s.map.set(self.dev(), need.lbn, at.pointer()) {
            st.spare.push(at);
            return Err(e);
        }
        s.growth += self.block_sectors();
        st.log_block(need.snapshot, at);
        Ok(())
    }

    /// Makes changed pointers durable.
    fn finish(&self, st: &mut State) -> Result<()> {
        self.write_pointers(st)?;
        self.flush_if(Rule::PointerBeforeOverwrite)?;
        st.unfinished = false;
        Ok(())
    }

    /// Writes the present content of each block to its place.
    fn write_copies(&self, needs: &[Need], places: &[FragNo]) -> Result<()> {
        let bsize = self.g().bsize as usize;
        let most = (COPY_BYTES / bsize).max(1);
        let mut bytes = vec![0; most.min(needs.len()) * bsize];
        let mut done = 0;
        while let (Some(need), Some(at)) = (needs.get(done), places.get(done)) {
            let n = self.run_length(&needs[done..], &places[done..]).min(most);
            let run = &mut bytes[..n * bsize];
            run[(n - 1) * bsize..].fill(0);
            self.read_volume(self.g().blkstofrags(need.lbn), run)?;
            self.dev().write_at(self.g().frag_to_byte(*at), run)?;
            done += n;
        }
        Ok(())
    }

    /// The number of blocks, from the first on, that follow each other on the volume and have
    /// places that do: at least 1.
    fn run_length(&self, needs: &[Need], places: &[FragNo]) -> usize {
        let frag = u64::from(self.g().frag);
        let blocks = needs.windows(2).map(|pair| pair[0].lbn.0 + 1 == pair[1].lbn.0);
        let places = places.windows(2).map(|pair| pair[0].plus(frag) == pair[1]);
        1 + blocks.zip(places).take_while(|&(block, place)| block && place).count()
    }
}
