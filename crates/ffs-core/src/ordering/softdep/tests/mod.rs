//! The engine against hand-made blocks: each test sends the events of an operation, writes blocks
//! in an order of its choice, and reads what the writes show. The audit runs after every step.

mod entries;
mod holes;
mod inodes;
mod pointers;
mod removals;
mod sparse;

use super::SoftUpdates;
use crate::buf::{BufKey, BufKind, WriteHooks, WriteResult, WriteStart};
use crate::ordering::{
    DirPos, EntryKind, EntryTarget, Event, FragRun, InodeChange, Ordering, RemovedName, Response,
    WorkItem,
};
use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_device::{ManualClock, MemDevice, SplitMix64};
use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{Dinode, DirOff, FileType, FragNo, Geometry, Ino};
use std::collections::BTreeMap;

/// An inode that the tests allocate.
const FILE: Ino = Ino(20);
/// Another one in the same inode block.
const OTHER: Ino = Ino(21);

/// A third one.
const THIRD: Ino = Ino(22);

/// An engine, and the buffers of a small volume.
struct Rig {
    mode: SoftUpdates,
    g: Geometry,
    fmt: DirFormat,
    /// The first two blocks of the root directory.
    dir: Vec<u8>,
    inodes: BTreeMap<BufKey, Vec<u8>>,
    /// The inode that is a directory, besides the root.
    subdirectory: Option<Ino>,
}

/// A write as the device gets it.
struct Write {
    rolled_back: bool,
    bytes: Vec<u8>,
}

impl Rig {
    fn new() -> Rig {
        let dev = MemDevice::new(16 << 20);
        let clock = ManualClock::default();
        let options = NewfsOptions::default();
        let made = newfs(&dev, &options, &clock, &SplitMix64::new(7), &mut |_, _| {}).unwrap();
        let g = made.geometry;
        let fmt = DirFormat::of(&g);
        let mut dir = vec![0; 2 * g.bsize as usize];
        for chunk in dir.chunks_exact_mut(DIRBLKSIZ) {
            dir::clear_chunk(fmt, chunk);
        }
        Rig {
            mode: SoftUpdates::new(g, 1),
            g,
            fmt,
            dir,
            inodes: BTreeMap::new(),
            subdirectory: None,
        }
    }

    fn audit(&self) {
        self.mode.lock().audit().unwrap();
    }

    fn send(&self, event: Event<'_>) -> Response {
        let response = self.mode.notify(event);
        self.audit();
        response
    }

    fn group(&self) -> BufKey {
        self.mode.lock().group_of_ino(FILE)
    }

    fn inode_block(&self, ino: Ino) -> BufKey {
        self.mode.lock().inode_block(ino)
    }

    fn at(off: u32) -> DirPos {
        DirPos { dir: Ino::ROOT, off: DirOff(off) }
    }

    fn target(&self, ino: Ino) -> EntryTarget {
        let is_dir = self.subdirectory == Some(ino);
        let kind = if is_dir { FileType::Directory } else { FileType::Regular };
        EntryTarget { ino, dtype: kind.dirent() }
    }

    /// A free run of one block in the first group.
    fn run(&self, number: u64) -> FragRun {
        let first = self.g.ino_to_fsba(FILE).0 + 512;
        FragRun { at: FragNo(first + number * u64::from(self.g.frag)), frags: self.g.frag }
    }

    fn dinode(&self, ino: Ino) -> Dinode {
        let (key, at, size) = self.dinode_place(ino);
        match self.inodes.get(&key) {
            Some(bytes) => Dinode::decode(&self.g, &bytes[at..at + size]),
            None => Dinode::default(),
        }
    }

    fn dinode_place(&self, ino: Ino) -> (BufKey, usize, usize) {
        let size = self.g.format.dinode_size();
        (self.inode_block(ino), (ino.0 % self.g.inopb) as usize * size, size)
    }

    /// Stores the inode in its buffer.
    fn store(&mut self, ino: Ino, why: InodeChange, d: &Dinode) {
        let response = self.send(Event::InodeUpdated { ino, why, dinode: d });
        let (key, at, size) = self.dinode_place(ino);
        let stored = Dinode { nlink: d.nlink + response.nlink_delta, ..d.clone() };
        let bytes = self.inodes.entry(key).or_insert_with(|| vec![0; self.g.bsize as usize]);
        stored.encode(&self.g, &mut bytes[at..at + size]);
    }

    /// Allocates and stores the inode of a regular file.
    fn init(&mut self, ino: Ino) {
        self.send(Event::InodeAllocated { ino, is_dir: false });
        let d = Dinode { mode: 0o100_644, nlink: 1, ..Dinode::default() };
        self.store(ino, InodeChange::Init, &d);
    }

    /// Puts an inode number into the entry at `off` of the buffer.
    fn set_entry(&mut self, off: u32, ino: Ino) {
        let start = off as usize / DIRBLKSIZ * DIRBLKSIZ;
        let chunk = &mut self.dir[start..start + DIRBLKSIZ];
        dir::set_ino(self.fmt, chunk, off as usize - start, ino.0);
    }

    fn add(&mut self, off: u32, ino: Ino, kind: EntryKind, name: &[u8]) {
        let (at, target) = (Rig::at(off), self.target(ino));
        self.send(Event::EntryAdded { at, target, kind, name });
        self.set_entry(off, ino);
    }

    /// Adds a name to a file that has one.
    fn link(&mut self, off: u32, ino: Ino, name: &[u8]) {
        let mut d = self.dinode(ino);
        d.nlink += 1;
        self.store(ino, InodeChange::NlinkInc, &d);
        self.add(off, ino, EntryKind::Existing, name);
    }

    /// Gives the name at `off` to another file that has a name.
    fn replace(&mut self, off: u32, old: Ino, new: Ino, removed: RemovedName) {
        let mut d = self.dinode(new);
        d.nlink += 1;
        self.store(new, InodeChange::NlinkInc, &d);
        let (at, old, target) = (Rig::at(off), self.target(old), self.target(new));
        let kind = EntryKind::Existing;
        self.send(Event::EntryReplaced { at, old, new: target, kind, removed });
        self.set_entry(off, new);
    }

    /// Renames a file: its name moves from one entry to a new one.
    fn rename(&mut self, from: (u32, &[u8]), to: (u32, &[u8]), ino: Ino) {
        self.link(to.0, ino, to.1);
        let removed = RemovedName { renamed: true, ..RemovedName::file(1) };
        assert!(self.remove(from.0, ino, from.1, removed), "it waits for the new name");
    }

    /// Removes a name; returns whether its entry is reserved.
    fn remove(&mut self, off: u32, ino: Ino, name: &[u8], removed: RemovedName) -> bool {
        let (at, old) = (Rig::at(off), self.target(ino));
        let response = self.send(Event::EntryRemoved { at, old, name, removed });
        self.set_entry(off, Ino(0));
        response.reserve
    }

    /// Makes the file durable with a name at `off`.
    fn create_durable(&mut self, off: u32, ino: Ino, name: &[u8]) {
        self.init(ino);
        self.add(off, ino, EntryKind::New, name);
        self.write_group();
        self.write_inodes(ino);
        self.write_dir();
        assert_eq!(self.mode.pending().deps, 0);
    }

    /// An engine with durable files, each with its offset and name.
    fn with_files(files: &[(u32, Ino, &[u8])]) -> Rig {
        let mut rig = Rig::new();
        files.iter().for_each(|&(off, ino, name)| rig.create_durable(off, ino, name));
        rig
    }

    fn start_write(&self, key: BufKey, kind: BufKind, mut bytes: Vec<u8>) -> Write {
        let start = self.mode.start_write(key, kind, Some(&mut bytes));
        assert_ne!(start, WriteStart::Held);
        self.audit();
        Write { rolled_back: start == WriteStart::RolledBack, bytes }
    }

    fn write(&self, key: BufKey, kind: BufKind, bytes: Vec<u8>) -> Write {
        let write = self.start_write(key, kind, bytes);
        self.mode.write_completed(key, WriteResult::Durable);
        self.audit();
        write
    }

    fn write_group(&self) {
        self.write(self.group(), BufKind::CylinderGroup, Vec::new());
    }

    fn write_data(&self, ino: Ino, lbn: i64) {
        self.write(BufKey::File(ino, lbn), BufKind::Data, Vec::new());
    }

    /// Writes the inode block; returns whether it was rolled back, and the inode as written.
    fn write_inodes(&self, ino: Ino) -> (bool, Dinode) {
        let (key, at, size) = self.dinode_place(ino);
        let write = self.write(key, BufKind::Inodes, self.inodes[&key].clone());
        (write.rolled_back, Dinode::decode(&self.g, &write.bytes[at..at + size]))
    }

    /// Begins to write the inode block; returns the inode as written.
    fn start_inodes(&self, ino: Ino) -> Dinode {
        let (key, at, size) = self.dinode_place(ino);
        let write = self.start_write(key, BufKind::Inodes, self.inodes[&key].clone());
        Dinode::decode(&self.g, &write.bytes[at..at + size])
    }

    /// The device has accepted the write of a block.
    fn accept(&self, key: BufKey) {
        self.mode.write_completed(key, WriteResult::Unflushed);
        self.audit();
    }

    fn flush(&self) {
        self.mode.flush_completed(self.mode.flush_started());
        self.audit();
    }

    /// Writes the first directory block.
    fn write_dir(&self) -> Write {
        let write = self.start_dir(0);
        self.complete_dir(0);
        write
    }

    /// Begins to write a directory block.
    fn start_dir(&self, lbn: i64) -> Write {
        let blocks: Vec<&[u8]> = self.dir.chunks_exact(self.g.bsize as usize).collect();
        let bytes = blocks[lbn as usize].to_vec();
        self.start_write(BufKey::File(Ino::ROOT, lbn), BufKind::Directory, bytes)
    }

    /// The write of a directory block is durable.
    fn complete_dir(&self, lbn: i64) {
        self.mode.write_completed(BufKey::File(Ino::ROOT, lbn), WriteResult::Durable);
        self.audit();
    }

    /// The inode number in the entry at `off` of a written directory block.
    fn entry_in(&self, write: &Write, off: u32) -> Ino {
        let start = (off % self.g.bsize) as usize;
        let bytes: [u8; 4] = write.bytes[start..start + 4].try_into().unwrap();
        Ino(match self.g.endian {
            ffs_ondisk::Endian::Little => u32::from_le_bytes(bytes),
            ffs_ondisk::Endian::Big => u32::from_be_bytes(bytes),
        })
    }

    fn take_work(&self) -> Vec<WorkItem> {
        let work = self.mode.take_work(100);
        self.audit();
        work
    }
}
