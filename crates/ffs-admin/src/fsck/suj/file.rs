//! The journal's file: finding it in the root directory, and reading its segments.
//!
//! **Invariants.**
//! 1. Memory for the content is limited by the size of the file, which is limited here.

use ffs_ondisk::dir;
use ffs_ondisk::exchange::PREFIX;
use ffs_ondisk::{Ino, dinode, journal};

use super::super::checker::Checker;
use super::super::directory::Flow;
use super::super::inode::Inode;
use super::super::resolve::Res;
use super::super::walk::{Action, BlockPointer, Visitor};
use super::table::Tables;
use super::{Recovery, Step, unusable};

/// Largest journal that is read, bytes. FreeBSD's tunefs makes larger ones only on request.
const MOST_BYTES: u64 = 256 << 20;

impl Recovery<'_> {
    /// Reads the journal into the tables.
    pub(super) fn read_journal(&mut self) -> Step<()> {
        let ino = self.find_journal()?;
        let mut node = self.inode(ino)?;
        let g = self.ck.g;
        if let Some(why) = journal::inode_problem(&g, &node.d) {
            return unusable(format!("inode {ino} is no journal: {why}"));
        }
        if !journal::journal_usable(&self.ck.sb, &g, &node.d) {
            return unusable("the volume was mounted or checked since the journal was written");
        }
        let limit = self.ck.disk.limit();
        if node.d.size > MOST_BYTES.min(limit) {
            return unusable(format!("a journal of {} bytes needs too much memory", node.d.size));
        }
        let content = self.content(&mut node)?;
        let (endian, mtime) = (g.endian, self.ck.sb.f.mtime);
        let sector = self.ck.disk.sector_size();
        let segments = match journal::scan(endian, &content, sector, mtime) {
            Ok(segments) => segments,
            Err(why) => return unusable(why.to_string()),
        };
        let mut tables = Tables::default();
        for segment in &segments {
            if tables.memory() > limit {
                return unusable("its records need too much memory");
            }
            for record in journal::records(&g, &content, segment, sector) {
                match record {
                    Ok(record) => tables.add(&g, record)?,
                    Err(bad) => {
                        let (field, found, want) = (bad.field, bad.found, bad.expected);
                        let (seq, at) = (segment.header.seq, segment.offset + bad.off);
                        let place = format!("segment {seq}, record at byte {at}");
                        return unusable(format!("{place}: {field} is {found}, expected {want}"));
                    }
                }
            }
        }
        self.report.segments = segments.len() as u64;
        self.report.records = tables.records;
        self.tables = tables;
        self.journal = ino;
        Ok(())
    }

    /// The inode that the root directory names as the journal.
    fn find_journal(&mut self) -> Step<Ino> {
        let fmt = self.ck.dir_format();
        let (mut hit, mut problem) = (None, None);
        if !self.inode(Ino::ROOT)?.is_dir() {
            return unusable("the root is not a directory");
        }
        self.ck.for_each_dirblk(Ino::ROOT, |dirblk| {
            for rec in dir::records(fmt, dirblk) {
                match rec {
                    Ok(rec) if rec.live() && rec.name == journal::NAME => hit = Some(rec.ino),
                    Ok(rec) if rec.live() && rec.name.starts_with(PREFIX) => {
                        problem = Some("an exchange of two names is incomplete");
                    }
                    Ok(_) => {}
                    Err(_) => problem = Some("the root directory is damaged"),
                }
            }
            Flow { changed: false, done: problem.is_some() }
        })?;
        match (hit, problem) {
            (_, Some(why)) => unusable(why),
            (None, None) => unusable("there is no .sujournal: tunefs -j enable makes one"),
            (Some(ino), None) if ino > Ino::ROOT.0 && ino < self.ck.g.inodes() => Ok(Ino(ino)),
            (Some(ino), None) => unusable(format!(".sujournal names inode {ino}, out of range")),
        }
    }

    /// The content of the journal, which has no hole.
    fn content(&mut self, node: &mut Inode) -> Step<Vec<u8>> {
        // The caller has checked the size.
        let bytes = Vec::with_capacity(usize::try_from(node.d.size).unwrap_or(0));
        let mut read = Content { bytes, next: 0 };
        let whole = self.ck.walk(node, &mut read)?;
        if !whole || read.bytes.len() as u64 != node.d.size {
            return unusable("the journal has a hole or a bad block pointer");
        }
        Ok(read.bytes)
    }

    /// The inodes of the list of unlinked inodes that have no link, in its order. The others leave
    /// the list.
    pub(super) fn unlinked_inodes(&mut self) -> Step<Vec<Ino>> {
        let mut next = self.ck.sb.f.sujfree as u32;
        let mut seen = std::collections::BTreeSet::new();
        let mut out = Vec::new();
        while next != 0 {
            if next <= Ino::ROOT.0 || next >= self.ck.g.inodes() {
                return unusable(format!("the list of unlinked inodes names inode {next}"));
            }
            if !seen.insert(next) {
                return unusable(format!("the list of unlinked inodes has inode {next} twice"));
            }
            let mut node = self.inode(Ino(next))?;
            if node.d.mode == 0 {
                return unusable(format!("the list of unlinked inodes has {next}, which is free"));
            }
            let following = node.d.freelink;
            if node.d.nlink == 0 {
                out.push(Ino(next));
            } else {
                node.d.freelink = 0;
                self.ck.write_inode(&mut node)?;
                self.examined.insert(next);
            }
            next = following;
        }
        Ok(out)
    }

    /// Inode `ino`, checked. A free one, or one in a block that is not initialised, has mode 0.
    pub(super) fn inode(&mut self, ino: Ino) -> Step<Inode> {
        let g = self.ck.g;
        if !self.is_initialised(ino)? {
            return Ok(Inode::decode(&g, ino, &vec![0; g.format.dinode_size()]));
        }
        let node = self.ck.read_inode(ino)?;
        if node.d.mode != 0
            && let Err(why) = dinode::check(&g, ino, node.raw())
        {
            return unusable(why.to_string());
        }
        Ok(node)
    }
}

/// Reads the data blocks in order.
struct Content {
    bytes: Vec<u8>,
    next: u64,
}

impl Visitor for Content {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        if run.ext || ck.g.run_problem(run.frag(), run.frags).is_some() {
            return Ok(Action::Stop);
        }
        if run.level == 0 {
            if run.lbn != self.next {
                return Ok(Action::Stop);
            }
            self.next += 1;
            let len = (run.frags * ck.g.fsize) as usize;
            let before = self.bytes.len();
            self.bytes.resize(before + len, 0);
            ck.disk.read_into(run.frag(), self.bytes.get_mut(before..).unwrap_or_default())?;
        }
        Ok(Action::Keep)
    }
}
