//! What FreeBSD's recovery depends on, and ours does not.

use crate::records::{View, read, superblock};
use ffs_device::MemDevice;
use ffs_ondisk::journal::{self, Record};
use ffs_ondisk::{Cg, CgNo, Csum, FragNo};

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
