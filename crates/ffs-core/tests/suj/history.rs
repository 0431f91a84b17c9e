//! Random operations on a mounted volume.

use crate::common::World;
use ffs_core::{
    Cred, Fallocate, NodeKind, RenameMode, Result, SetAttr, Vnode, WriteMode, XattrNamespace,
    XattrSet,
};
use ffs_device::{Rng, SplitMix64};
use ffs_ondisk::FileType;

/// Operations, chosen by a seed.
pub(crate) struct History<'w> {
    w: &'w World,
    rng: SplitMix64,
    /// Files that stay in use, some of them removed.
    held: Vec<Vnode>,
    log: Vec<String>,
}

impl<'w> History<'w> {
    pub(crate) fn new(w: &'w World, seed: u64) -> History<'w> {
        History { w, rng: SplitMix64::new(seed), held: Vec::new(), log: Vec::new() }
    }

    pub(crate) fn log(&self) -> &[String] {
        &self.log
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    pub(crate) fn run(&mut self, operations: u32) {
        for _ in 0..operations {
            self.step();
        }
    }

    /// A directory, at most three levels down.
    fn dir(&mut self) -> Vnode {
        let mut at = self.w.root.clone();
        for _ in 0..self.below(3) {
            let name = self.name();
            match self.w.fs.lookup(&Cred::root(), &at, &name) {
                Ok(v) if self.w.fs.getattr(&v).kind == FileType::Directory => at = v,
                _ => break,
            }
        }
        at
    }

    fn name(&mut self) -> Vec<u8> {
        let n = self.below(14);
        let mut name = format!("f{n}").into_bytes();
        // Long names, so that directories get several blocks.
        if n.is_multiple_of(3) {
            name.resize(150, b'x');
        }
        name
    }

    fn file(&mut self) -> Option<Vnode> {
        for _ in 0..4 {
            let (dir, name) = (self.dir(), self.name());
            match self.w.fs.lookup(&Cred::root(), &dir, &name) {
                Ok(v) if self.w.fs.getattr(&v).kind == FileType::Regular => return Some(v),
                _ => {}
            }
        }
        None
    }

    /// A place in a file: in its direct blocks, or behind.
    fn place(&mut self) -> u64 {
        let bsize = u64::from(self.w.fs.geometry().bsize);
        let most = if self.below(3) == 0 { 40 } else { 4 };
        self.below(most * bsize)
    }

    fn step(&mut self) {
        let which = self.below(100);
        let (dir, name) = (self.dir(), self.name());
        let shown = String::from_utf8_lossy(&name[..name.len().min(4)]).into_owned();
        let done = match which {
            0..=52 => self.change_names(which, &dir, &name),
            53..=81 => match self.file() {
                Some(file) => self.change_content(which, &file),
                None => Ok(()),
            },
            82..=87 => self.change_uses(which, dir, &name),
            _ => self.make_durable(which),
        };
        let result = done.map_or_else(|e| e.to_string(), |()| "ok".into());
        let line = format!("{which} {shown}: {result}");
        self.w.dev.mark(line.clone());
        self.log.push(line);
    }

    fn change_names(&mut self, which: u64, dir: &Vnode, name: &[u8]) -> Result<()> {
        let (root, fs) = (Cred::root(), &self.w.fs);
        match which {
            0..=13 => fs.create(&root, dir, name, NodeKind::Regular, 0o644).map(drop),
            14..=19 => fs.mkdir(&root, dir, name, 0o755).map(drop),
            20..=22 => fs.symlink(&root, dir, name, &[b't'; 300]).map(drop),
            23..=33 => fs.unlink(&root, dir, name),
            34..=38 => fs.rmdir(&root, dir, name),
            39..=49 => {
                let (to, second) = (self.dir(), self.name());
                let fs = &self.w.fs;
                fs.rename(&root, (dir, name), (&to, &second), RenameMode::Replace)
            }
            _ => match self.file() {
                Some(file) => self.w.fs.link(&root, &file, dir, name),
                None => Ok(()),
            },
        }
    }

    fn change_content(&mut self, which: u64, file: &Vnode) -> Result<()> {
        let (root, at) = (Cred::root(), self.place());
        match which {
            53..=70 => {
                let bytes = vec![7; 1 + self.below(30_000) as usize];
                self.w.fs.write(&root, file, at, &bytes, WriteMode::default()).map(drop)
            }
            71..=76 => {
                let set = SetAttr { size: Some(at), ..SetAttr::default() };
                self.w.fs.setattr(&root, file, &set).map(drop)
            }
            77..=79 => {
                let value = vec![1; self.below(3000) as usize];
                let (space, how) = (XattrNamespace::User, XattrSet::Any);
                self.w.fs.setxattr(&root, file, space, b"a", &value, how)
            }
            _ => {
                let len = self.below(60_000) + 1;
                self.w.fs.fallocate(&root, file, at, len, Fallocate::PunchHole).map(drop)
            }
        }
    }

    /// Keeps files in use, and gives removed ones names.
    fn change_uses(&mut self, which: u64, dir: Vnode, name: &[u8]) -> Result<()> {
        let (root, w) = (Cred::root(), self.w);
        let fs = &w.fs;
        match which {
            82..=83 => {
                let file = self.file();
                self.held.extend(file);
                self.held.push(dir);
                Ok(())
            }
            84 => {
                self.held.clear();
                Ok(())
            }
            85 => fs.create_unnamed(&root, &dir, 0o600, true).map(|v| self.held.push(v)),
            _ => match self.held.pop() {
                Some(file) => fs.link(&root, &file, &dir, name),
                None => Ok(()),
            },
        }
    }

    fn make_durable(&mut self, which: u64) -> Result<()> {
        match which {
            88..=90 => match self.file() {
                Some(file) => self.w.fs.fsync(&file),
                None => Ok(()),
            },
            91 => self.w.fs.sync(),
            _ => {
                let seconds = 1 + self.below(25) as u32;
                self.w.pass(seconds);
                Ok(())
            }
        }
    }
}
