//! What FreeBSD's recovery depends on, and ours does not.

use crate::common::{Shape, in_parallel, mount_on};
use crate::records::{View, read, superblock};
use crate::{SHAPES, journaled_volume, options};
use ffs_core::{Cred, NodeKind, WriteMode};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::journal::{self, Record};
use ffs_ondisk::{Cg, CgNo, Csum, FragNo, Geometry};
use std::collections::BTreeMap;

/// The word that new files consist of. An indirect block of these names fragments in use.
const WORD: u64 = 0x0000_0230_0000_0230;

/// The place of the journal on the device: byte offsets and lengths, in the order of the file.
pub(crate) struct Journal(Vec<(u64, usize)>);

impl Journal {
    pub(crate) fn of(dev: &MemDevice) -> Journal {
        let (view, (_, g)) = (View::of(dev), superblock(dev));
        let name = view.entries.values().find(|(_, name)| name == journal::NAME).unwrap();
        let runs = view.nodes[&name.0].runs.range(0..);
        let place = |&(at, n): &(u64, u32)| (g.frag_to_byte(FragNo(at)), (n * g.fsize) as usize);
        Journal(runs.map(|(_, run)| place(run)).collect())
    }

    /// The records that the recovery uses.
    fn records(&self, state: &MemDevice) -> Vec<Record> {
        let (sb, g) = superblock(state);
        let parts = self.0.iter().map(|&(at, len)| read(state, at, len));
        let content: Vec<u8> = parts.flatten().collect();
        let segments = journal::scan(g.endian, &content, 512, sb.f.mtime).unwrap();
        let records = segments.iter().flat_map(|s| journal::records(&g, &content, s, 512));
        records.map(Result::unwrap).collect()
    }
}

/// FreeBSD's recovery counts the groups in which it frees something, and corrects the summary area
/// for these. Returns the groups that the area counts wrong and no record names.
pub(crate) fn uncounted_groups(journal: &Journal, state: &MemDevice) -> Vec<u32> {
    let (_, g) = superblock(state);
    let area = read(state, g.frag_to_byte(g.csaddr), g.cssize as usize);
    let records = journal.records(state);
    let named = |at: FragNo| {
        let names =
            |r: &Record| matches!(r, Record::NewBlk(b) if b.frags == 0 && b.blkno == at.pointer());
        records.iter().any(names)
    };
    let wrong = (0..g.ncg).filter(|&c| {
        let at = g.cgtod(CgNo(c));
        let block = read(state, g.frag_to_byte(at), g.cgsize as usize);
        let counted = Csum::decode(&area, c as usize * Csum::SIZE, g.endian);
        Cg::new(&g, &block).cs() != counted && !named(at)
    });
    wrong.collect()
}

/// The blocks that the last record that names them frees as indirect blocks: FreeBSD's recovery
/// follows the pointers in them. It asks the map whether the block is free, but at a wrong place.
fn followed(journal: &Journal, state: &MemDevice, g: &Geometry) -> Vec<FragNo> {
    let mut last: BTreeMap<i64, bool> = BTreeMap::new();
    for record in journal.records(state) {
        let (Record::NewBlk(b) | Record::FreeBlk(b)) = &record else { continue };
        let freed = matches!(record, Record::FreeBlk(_)) && b.lbn <= -12;
        last.insert(b.blkno - b.blkno % i64::from(g.frag), freed);
    }
    let blocks = last.into_iter().filter(|(_, freed)| *freed);
    blocks.map(|(at, _)| FragNo(at as u64)).collect()
}

/// Removes a file with an indirect block, fills the volume, and looks at the device after each
/// write.
fn reuse(shape: Shape) -> usize {
    let w = mount_on(journaled_volume(shape), &options(None));
    let (root, bsize) = (Cred::root(), u64::from(shape.2));
    let removed = w.file(&w.root, "removed");
    let content = vec![9; 60 * bsize as usize];
    w.fs.write(&root, &removed, 0, &content, WriteMode::default()).unwrap();
    w.fs.sync().unwrap();
    w.pass(40);
    w.fs.sync().unwrap();
    let state = w.record();
    w.fs.unlink(&root, &w.root, b"removed").unwrap();
    drop(removed);
    w.fs.fsync(&w.root).unwrap();
    let block = WORD.to_ne_bytes().repeat(bsize as usize / 8);
    'full: for n in 0.. {
        let name = format!("new{n}").into_bytes();
        let new = w.fs.create(&root, &w.root, &name, NodeKind::Regular, 0o644);
        let Ok(new) = new else { break };
        for lbn in 0..12 {
            if w.fs.write(&root, &new, lbn * bsize, &block, WriteMode::default()).is_err() {
                break 'full;
            }
        }
        w.fs.fsync(&new).unwrap();
    }
    let (journal, (_, g)) = (Journal::of(&state), superblock(&state));
    let mut followed_blocks = 0;
    for event in w.dev.take_events() {
        let Event::Write { offset, bytes, .. } = event else { continue };
        state.write_at(offset, &bytes).unwrap();
        for at in followed(&journal, &state, &g) {
            followed_blocks += 1;
            let word = read(&state, g.frag_to_byte(at), 8);
            assert!(word != WORD.to_ne_bytes(), "{shape:?}: file data in {at}");
        }
    }
    followed_blocks
}

#[test]
fn no_recovery_takes_file_data_for_an_indirect_block() {
    in_parallel(&SHAPES[..2], |shape| assert!(reuse(*shape) > 0, "{shape:?}"));
}
