//! Random trees and random changes of them.

use ffs_core::{
    Cred, Error, Ffs, FileFlags, FileType, NodeKind, RenameMode, SetAttr, SetTime, Timespec, Vnode,
    WriteMode, XattrNamespace, XattrSet,
};
use ffs_testkit::rng::SplitMix64;

/// A directory, a name in it, and the file.
type Named = (Vnode, Vec<u8>, Vnode);

/// Changes a volume at random.
pub(crate) struct Changes<'a> {
    pub(crate) ffs: &'a Ffs,
    pub(crate) rng: SplitMix64,
    cred: Cred,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(ffs: &'a Ffs, seed: u64) -> Changes<'a> {
        Changes { ffs, rng: SplitMix64::new(seed), cred: Cred::root() }
    }

    /// All directories, and all other names with their directory.
    fn tree(&self) -> (Vec<Vnode>, Vec<Named>) {
        let (mut dirs, mut names) = (vec![self.ffs.root().unwrap()], Vec::new());
        let mut at = 0;
        while at < dirs.len() {
            let dir = dirs[at].clone();
            at += 1;
            let mut entries = Vec::new();
            self.ffs
                .readdir(&dir, 0, &mut |entry| {
                    entries.push((entry.name.to_vec(), entry.ino));
                    true
                })
                .unwrap();
            for (name, ino) in entries.into_iter().filter(|(name, _)| name[0] != b'.') {
                let file = self.ffs.vget(ino, None).unwrap();
                if self.ffs.getattr(&file).kind == FileType::Directory {
                    dirs.push(file.clone());
                }
                names.push((dir.clone(), name, file));
            }
        }
        (dirs, names)
    }

    fn name(&mut self) -> Vec<u8> {
        let len = if self.rng.one_in(10) { 255 } else { self.rng.between(1, 12) as usize };
        let mut name: Vec<u8> = self.rng.bytes(len);
        for byte in &mut name {
            *byte = match *byte {
                b'/' | 0 | b'.' => b'x',
                other if len == 255 => other | 0x80,
                other => b'a' + other % 16,
            };
        }
        name
    }

    /// Makes `count` changes.
    pub(crate) fn make(&mut self, count: usize) {
        for _ in 0..count {
            let (dirs, names) = self.tree();
            let dir = self.rng.pick(&dirs).unwrap().clone();
            let name = self.name();
            let existing = self.rng.pick(&names).cloned();
            let done = match (self.rng.below(14), existing) {
                (0..=2, _) => self.ffs.mkdir(&self.cred, &dir, &name, 0o755).map(drop),
                (3..=5, _) | (_, None) => self.create(&dir, &name),
                (6, Some((_, _, file))) => self.ffs.link(&self.cred, &file, &dir, &name),
                (7..=8, Some((from, old, _))) => {
                    self.ffs.rename(&self.cred, (&from, &old), (&dir, &name), RenameMode::Replace)
                }
                (9, Some((from, old, _))) => {
                    let (to, other, _) = self.rng.pick(&names).unwrap().clone();
                    let exchange = RenameMode::Exchange;
                    self.ffs.rename(&self.cred, (&from, &old), (&to, &other), exchange)
                }
                (10..=11, Some((from, old, file))) => match self.ffs.getattr(&file).kind {
                    FileType::Directory => self.ffs.rmdir(&self.cred, &from, &old),
                    _ => self.ffs.unlink(&self.cred, &from, &old),
                },
                (12, Some((_, _, file))) => self.overwrite(&file),
                (_, Some((_, _, file))) => {
                    self.attributes(&file);
                    Ok(())
                }
            };
            match done {
                Ok(())
                | Err(
                    Error::Exists
                    | Error::NotFound
                    | Error::NotEmpty
                    | Error::IsDirectory
                    | Error::NotDirectory
                    | Error::Invalid(_)
                    | Error::NotPermitted
                    | Error::Stale,
                ) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn create(&mut self, dir: &Vnode, name: &[u8]) -> Result<(), Error> {
        let (ffs, cred) = (self.ffs, self.cred.clone());
        let node = match self.rng.below(12) {
            0 => NodeKind::Fifo,
            1 => NodeKind::Socket,
            2 => NodeKind::Char(0x1234),
            3 => NodeKind::Block(0xffff_00ff),
            4 | 5 => {
                let len = self.rng.between(1, 1000) as usize;
                let text = vec![b't'; len];
                let link = ffs.symlink(&cred, dir, name, &text)?;
                self.attributes(&link);
                return Ok(());
            }
            _ => NodeKind::Regular,
        };
        let file = ffs.create(&cred, dir, name, node, 0o600)?;
        if node == NodeKind::Regular {
            self.content(&file)?;
        }
        self.attributes(&file);
        Ok(())
    }

    /// Writes a few ranges, which leaves holes.
    fn content(&mut self, file: &Vnode) -> Result<(), Error> {
        let sparse = self.rng.one_in(3);
        let pieces = if sparse { self.rng.between(0, 5) } else { 1 };
        for _ in 0..pieces {
            let at = if sparse { self.rng.below(3 << 20) } else { 0 };
            let lengths = [0, 1, 1023, 1024, 1025, 4096, 30_000, 49_152, 200_000];
            let len = *self.rng.pick(&lengths).unwrap();
            let bytes = self.rng.bytes(len);
            self.ffs.write(&self.cred, file, at, &bytes, WriteMode::default())?;
        }
        if sparse {
            let size = Some(self.rng.below(4 << 20));
            self.ffs.setattr(&self.cred, file, &SetAttr { size, ..SetAttr::default() })?;
        }
        Ok(())
    }

    fn overwrite(&mut self, file: &Vnode) -> Result<(), Error> {
        if self.ffs.getattr(file).kind == FileType::Regular {
            self.content(file)?;
        }
        Ok(())
    }

    fn attributes(&mut self, file: &Vnode) {
        let mut time = || Timespec {
            secs: self.rng.below(1 << 31) as i64 - (1 << 29),
            nsec: self.rng.below(1_000_000_000) as i32,
        };
        let (atime, mtime, birthtime) = (time(), time(), time());
        let directory = self.ffs.getattr(file).kind == FileType::Directory;
        let set = SetAttr {
            perm: Some(self.rng.below(0o10000) as u16),
            uid: Some(self.rng.next_u64() as u32 >> 1),
            gid: Some(self.rng.next_u64() as u32 >> 1),
            atime: Some(SetTime::To(atime)),
            mtime: Some(SetTime::To(mtime)),
            birthtime: (self.ffs.geometry().format == ffs_ondisk::Format::Ufs2)
                .then_some(birthtime),
            ..SetAttr::default()
        };
        self.ffs.setattr(&self.cred, file, &set).unwrap();
        self.xattrs(file);
        if self.rng.one_in(5) && !directory {
            let flags = *self
                .rng
                .pick(&[
                    FileFlags::UF_NODUMP,
                    FileFlags::UF_HIDDEN | FileFlags::SF_ARCHIVED,
                    FileFlags::UF_SYSTEM,
                ])
                .unwrap();
            // A file without nodump: incremental dumps would leave it out.
            let flags = Some(flags.difference(FileFlags::UF_NODUMP));
            self.ffs.setattr(&self.cred, file, &SetAttr { flags, ..SetAttr::default() }).unwrap();
        }
        // Attributes change the times.
        let set = SetAttr { mtime: set.mtime, atime: set.atime, ..SetAttr::default() };
        self.ffs.setattr(&self.cred, file, &set).unwrap();
    }

    fn xattrs(&mut self, file: &Vnode) {
        for n in 0..self.rng.below(4) {
            let namespace = match self.rng.one_in(2) {
                true => XattrNamespace::User,
                false => XattrNamespace::System,
            };
            let len = *self.rng.pick(&[0, 1, 5, 1000, 1500, 3000]).unwrap();
            let value = self.rng.bytes(len);
            let name = format!("name-{n}");
            let set = self.ffs.setxattr(
                &self.cred,
                file,
                namespace,
                name.as_bytes(),
                &value,
                XattrSet::Any,
            );
            match set {
                Ok(())
                | Err(Error::NotSupported(_) | Error::NoSpace | Error::AttributesFull(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
