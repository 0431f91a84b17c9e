//! The records that a kernel with a journal writes for the change from one state of a volume to
//! another, and a journal that holds them.

use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::bmap::{self, pointer};
use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::journal::{self, Blk, Move, Record, Ref, SegHeader, Trunc};
use ffs_ondisk::{Cg, CgNo, Csum, Dinode, FragNo, Geometry, Ino, Lbn, Superblock, sbsearch};
use std::collections::BTreeMap;

/// An inode in use and the runs of its blocks by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) mode: u16,
    pub(crate) nlink: u16,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) runs: BTreeMap<i64, (u64, u32)>,
}

/// The metadata of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) nodes: BTreeMap<u32, Node>,
    /// Entries by directory and offset.
    pub(crate) entries: BTreeMap<(u32, u64), (u32, Vec<u8>)>,
    /// The maps of the groups.
    pub(crate) maps: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) total: Csum,
}

pub(crate) fn read(dev: &MemDevice, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    dev.read_at(at, &mut bytes).unwrap();
    bytes
}

pub(crate) fn superblock(dev: &MemDevice) -> (Superblock, Geometry) {
    let get = |at: u64, len: usize| Ok::<_, ffs_device::DeviceError>(read(dev, at, len));
    let found = sbsearch::find(get, Some(dev.len_bytes())).unwrap();
    (found.sb, found.geometry)
}

pub(crate) fn inode_at(g: &Geometry, ino: u32) -> u64 {
    g.frag_to_byte(g.ino_to_fsba(Ino(ino))) + g.ino_to_fsbo(Ino(ino)) as u64
}

pub(crate) fn inode(dev: &MemDevice, g: &Geometry, ino: u32) -> Dinode {
    Dinode::decode(g, &read(dev, inode_at(g, ino), g.format.dinode_size()))
}

impl View {
    pub(crate) fn of(dev: &MemDevice) -> View {
        let (sb, g) = superblock(dev);
        let (mut nodes, mut entries, mut maps) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for c in 0..g.ncg {
            let block = read(dev, g.frag_to_byte(g.cgtod(CgNo(c))), g.cgsize as usize);
            let cg = Cg::new(&g, &block);
            maps.push((cg.inosused().to_vec(), cg.blksfree().to_vec()));
            for index in (0..cg.initediblk()).filter(|&i| cg.inode_used(i)) {
                let ino = c * g.ipg + index;
                let d = inode(dev, &g, ino);
                if ino < 2 || d.mode == 0 {
                    continue;
                }
                let runs = runs(dev, &g, &d);
                if d.is_dir() {
                    list(dev, &g, (ino, &d), &runs, &mut entries);
                }
                let Dinode { mode, nlink, size, blocks, .. } = d;
                nodes.insert(ino, Node { mode, nlink, size, blocks, runs });
            }
        }
        View { nodes, entries, maps, total: sb.cstotal() }
    }
}

/// The runs of an inode: data blocks, indirect blocks, attributes.
fn runs(dev: &MemDevice, g: &Geometry, d: &Dinode) -> BTreeMap<i64, (u64, u32)> {
    let mut out = BTreeMap::new();
    for (i, &at) in d.extb.iter().enumerate().filter(|(_, at)| **at != 0) {
        let bytes = u64::from(d.extsize) - i as u64 * u64::from(g.bsize);
        out.insert(-1 - i as i64, (at as u64, g.numfrags_up(bytes.min(g.bsize.into()))));
    }
    if !d.has_pointers(g) {
        return out;
    }
    for (l, &at) in d.db.iter().enumerate().filter(|(_, at)| **at != 0) {
        out.insert(l as i64, (at as u64, g.blksize(d.size, Lbn(l as u64)) / g.fsize));
    }
    for (i, &at) in d.ib.iter().enumerate().filter(|(_, at)| **at != 0) {
        indirect(dev, g, (at, i + 1, bmap::first_of_root(g, i)), &mut out);
    }
    out
}

fn indirect(
    dev: &MemDevice,
    g: &Geometry,
    (at, level, first): (i64, usize, Lbn),
    out: &mut BTreeMap<i64, (u64, u32)>,
) {
    out.insert(bmap::indirect_name(first, level), (at as u64, g.frag));
    let block = read(dev, g.frag_to_byte(FragNo(at as u64)), g.bsize as usize);
    for slot in 0..g.nindir as usize {
        let child = pointer(g, &block, slot);
        let l = first.plus(bmap::blocks_per_pointer(g, level) * slot as u64);
        if child != 0 && level == 1 {
            out.insert(l.0 as i64, (child as u64, g.frag));
        } else if child != 0 {
            indirect(dev, g, (child, level - 1, l), out);
        }
    }
}

fn list(
    dev: &MemDevice,
    g: &Geometry,
    (ino, d): (u32, &Dinode),
    runs: &BTreeMap<i64, (u64, u32)>,
    entries: &mut BTreeMap<(u32, u64), (u32, Vec<u8>)>,
) {
    for (&l, &(at, frags)) in runs.range(0..) {
        let begin = l as u64 * u64::from(g.bsize);
        let len = d.size.saturating_sub(begin).min(u64::from(frags * g.fsize)) as usize;
        let block = read(dev, g.frag_to_byte(FragNo(at)), len);
        for (i, chunk) in block.chunks_exact(512).enumerate() {
            for r in dir::records(DirFormat::of(g), chunk).map(Result::unwrap) {
                if r.live() && r.ino != 1 {
                    let off = begin + (i * 512 + r.off) as u64;
                    entries.insert((ino, off), (r.ino, r.name.to_vec()));
                }
            }
        }
    }
}

/// The records for the change from `old` to `new`.
pub(crate) fn between(g: &Geometry, old: &View, new: &View) -> Vec<Record> {
    let mut out = Vec::new();
    let mut inos: Vec<u32> = old.nodes.keys().chain(new.nodes.keys()).copied().collect();
    inos.sort_unstable();
    inos.dedup();
    for &ino in &inos {
        links(ino, old, new, &mut out);
    }
    for &ino in &inos {
        match (old.nodes.get(&ino), new.nodes.get(&ino)) {
            (before, Some(after)) => blocks(g, ino, before, after, &mut out),
            (Some(before), None) => freed(g, ino, before, &mut out),
            (None, None) => {}
        }
    }
    out
}

fn links(ino: u32, old: &View, new: &View, out: &mut Vec<Record>) {
    let of = |view: &View| -> BTreeMap<(u32, u64), Vec<u8>> {
        let here = view.entries.iter().filter(|(_, e)| e.0 == ino);
        here.map(|(place, e)| (*place, e.1.clone())).collect()
    };
    let (mut before, mut after) = (of(old), of(new));
    before.retain(|place, name| after.get(place) != Some(name) || after.remove(place).is_none());
    let mode = new.nodes.get(&ino).or(old.nodes.get(&ino)).unwrap().mode;
    let moved: Vec<_> = before
        .iter()
        .filter_map(|(from, name)| {
            let near = |to: &(u32, u64)| to.0 == from.0 && to.1 / 512 == from.1 / 512;
            let to = after.iter().find(|(to, n)| near(to) && *n == name)?.0;
            Some((*from, *to))
        })
        .collect();
    for (from, to) in moved {
        before.remove(&from);
        after.remove(&to);
        let (oldoff, newoff) = (from.1 as i64, to.1 as i64);
        out.push(Record::MoveRef(Move { op: 5, ino, parent: from.0, oldoff, newoff, unused: 0 }));
    }
    let mut nlink = old.nodes.get(&ino).map_or(0, |node| node.nlink);
    let record = |(parent, off): &(u32, u64), op, nlink| Ref {
        op,
        ino,
        parent: *parent,
        nlink,
        mode,
        diroff: *off as i64,
        unused: 0,
    };
    for place in after.keys() {
        out.push(Record::AddRef(record(place, 1, nlink)));
        nlink += 1;
    }
    for place in before.keys() {
        out.push(Record::RemRef(record(place, 2, nlink)));
        nlink -= 1;
    }
    assert_eq!(nlink, new.nodes.get(&ino).map_or(0, |node| node.nlink), "inode {ino}");
}

fn block(ino: u32, lbn: i64, (at, frags): (u64, u32), oldfrags: u32) -> Blk {
    let (frags, oldfrags) = (frags as u16, oldfrags as u16);
    Blk { op: 3, ino, blkno: at as i64, lbn, frags, oldfrags, unused: 0 }
}

fn blocks(g: &Geometry, ino: u32, before: Option<&Node>, after: &Node, out: &mut Vec<Record>) {
    let none = BTreeMap::new();
    let old = before.map_or(&none, |node| &node.runs);
    let shrunk = before.is_some_and(|node| after.size < node.size && after.runs.len() <= old.len());
    if shrunk && after.mode & 0o170_000 == 0o100_000 {
        let size = after.size as i64;
        out.push(Record::Trunc(Trunc { op: 6, ino, size, extsize: 0, pad: [0; 3] }));
    }
    for (&lbn, &run) in &after.runs {
        match old.get(&lbn) {
            Some(&was) if was == run => {}
            Some(&was) if was.0 == run.0 && was.1 > run.1 => {
                let tail = (run.0 + u64::from(run.1), was.1 - run.1);
                out.push(Record::FreeBlk(block(ino, lbn, tail, 0)));
            }
            Some(&was) if was.0 == run.0 => {
                out.push(Record::NewBlk(block(ino, lbn, run, was.1)));
            }
            _ => out.push(Record::NewBlk(block(ino, lbn, run, 0))),
        }
    }
    let kept = |lbn: &i64, at: u64| after.runs.get(lbn).is_some_and(|run| run.0 == at);
    let left = old.iter().filter(|(lbn, run)| !kept(lbn, run.0));
    for (&lbn, &run) in left.filter(|(lbn, _)| !shrunk || has_root(g, **lbn)) {
        out.push(Record::FreeBlk(block(ino, lbn, run, 0)));
    }
}

/// Whether the pointer of the block named `lbn` is in the inode.
fn has_root(g: &Geometry, lbn: i64) -> bool {
    let root = |i: usize| bmap::indirect_name(bmap::first_of_root(g, i), i + 1);
    (-2..12).contains(&lbn) || (0..3).any(|i| root(i) == lbn)
}

/// An inode that is freed: the kernel records the blocks that the inode points to only.
fn freed(g: &Geometry, ino: u32, node: &Node, out: &mut Vec<Record>) {
    for (&lbn, &run) in node.runs.iter().filter(|(lbn, _)| has_root(g, **lbn)) {
        out.push(Record::FreeBlk(block(ino, lbn, run, 0)));
    }
}

/// Makes the journal of the volume on `dev` hold `windows`, one segment or more for each, as if the
/// mount had kept it. The segments begin at sector `start` and wrap.
pub(crate) fn keep_journal(dev: &MemDevice, windows: &[Vec<Record>], start: usize) {
    let (sb, g) = superblock(dev);
    let view = View::of(dev);
    let mut names = view.entries.iter();
    let ino = names.find(|(place, e)| place.0 == 2 && e.1 == journal::NAME).unwrap().1.0;
    let mut d = inode(dev, &g, ino);
    d.modrev = sb.f.mtime as u64;
    let mut raw = read(dev, inode_at(&g, ino), g.format.dinode_size());
    d.encode(&g, &mut raw);
    dev.write_at(inode_at(&g, ino), &raw).unwrap();
    let runs = &view.nodes[&ino].runs;
    let sectors = (d.size / 512) as usize;
    let mut at = start % sectors;
    let oldest = 1 + start as u64;
    let parts = windows.iter().flat_map(|window| window.chunks(40));
    for (seq, part) in (oldest..).zip(parts.filter(|part| !part.is_empty())) {
        let header = SegHeader { seq, oldest, time: sb.f.mtime, ..SegHeader::default() };
        let bytes = journal::segment(g.endian, 512, &header, part).unwrap();
        if at + bytes.len() / 512 > sectors {
            at = 0;
        }
        for sector in bytes.chunks(512) {
            let byte = at as u64 * 512;
            let (l, off) = (byte / u64::from(g.bsize), byte % u64::from(g.bsize));
            let frag = FragNo(runs[&(l as i64)].0);
            dev.write_at(g.frag_to_byte(frag) + off, sector).unwrap();
            at += 1;
        }
    }
}
