//! Random changes of names, attributes and access lists under soft updates: the dependencies never
//! form a cycle, and everything becomes durable.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{World, in_parallel, mount_recorded, soft_updates, soft_volume};
use ffs_core::acl::{Acl, Entry, Who};
use ffs_core::{
    Cred, FileType, MountOptions, NodeKind, RenameMode, SetAttr, Vnode, WriteMode, XattrNamespace,
    XattrSet,
};
use ffs_device::record::Level;
use ffs_device::{Rng, SplitMix64};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::envvar::number;

/// Names in a directory, and the depth of the tree.
const NAMES: u64 = 6;
const DEPTH: u64 = 4;
/// Seeds that find a cycle if a name requires its directory only after it took over dependents.
const FOUND: [u64; 4] = [700, 903, 1238, 1360];

/// Prints the seed if its run fails.
struct Shown(u64);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {} failed: FFS_SEED={} repeats it", self.0, self.0);
        }
    }
}

struct Changes<'w> {
    w: &'w World,
    rng: SplitMix64,
    cred: Cred,
}

impl Changes<'_> {
    fn below(&self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn name(&self) -> Vec<u8> {
        vec![b'a' + self.below(NAMES) as u8]
    }

    /// A random directory, near the root if there is none where the path leads.
    fn dir(&self) -> Vnode {
        let mut dir = self.w.root.clone();
        for _ in 0..self.below(DEPTH) {
            match self.w.fs.lookup(&self.cred, &dir, &self.name()) {
                Ok(next) if self.w.fs.getattr(&next).kind == FileType::Directory => dir = next,
                _ => {}
            }
        }
        dir
    }

    fn file(&self) -> Option<Vnode> {
        self.w.fs.lookup(&self.cred, &self.dir(), &self.name()).ok()
    }

    fn acl(&self) -> Acl {
        let entry = |who, perm| Entry { who, perm };
        let user = self.below(50) as u32;
        Acl::new(vec![
            entry(Who::UserObj, 7),
            entry(Who::User(user), self.below(8) as u8),
            entry(Who::GroupObj, 5),
            entry(Who::Mask, 7),
            entry(Who::Other, 4),
        ])
        .unwrap()
    }

    /// One change, which may fail.
    fn step(&self) {
        let (fs, cred) = (&self.w.fs, &self.cred);
        let (dir, name) = (self.dir(), self.name());
        match self.below(100) {
            0..20 => drop(fs.mkdir(cred, &dir, &name, 0o755)),
            20..40 => {
                if let Ok(file) = fs.create(cred, &dir, &name, NodeKind::Regular, 0o644) {
                    for _ in 0..self.below(4) {
                        let bytes = vec![7; [100, 5000, 30_000][self.below(3) as usize]];
                        let at = self.below(200_000);
                        let _ = fs.write(cred, &file, at, &bytes, WriteMode::default());
                    }
                }
            }
            40..60 => {
                let to = (self.dir(), self.name());
                let mode = match self.below(8) {
                    0 => RenameMode::Exchange,
                    1 => RenameMode::NoReplace,
                    _ => RenameMode::Replace,
                };
                let _ = fs.rename(cred, (&dir, &name), (&to.0, &to.1), mode);
            }
            60..65 => drop(fs.unlink(cred, &dir, &name)),
            65 => drop(fs.rmdir(cred, &dir, &name)),
            66..70 => {
                drop(fs.symlink(cred, &dir, &name, &vec![b't'; 1 + self.below(200) as usize]))
            }
            70..75 => {
                if let Some(file) = self.file() {
                    let _ = fs.link(cred, &file, &dir, &name);
                }
            }
            75..77 => drop(fs.create(cred, &dir, &name, NodeKind::Fifo, 0o600)),
            _ => self.attributes(),
        }
    }

    /// A change of attributes, which may fail.
    fn attributes(&self) {
        let (fs, cred) = (&self.w.fs, &self.cred);
        let set = |file: &Vnode, set: SetAttr| drop(fs.setattr(cred, file, &set));
        let dir = self.dir();
        match self.below(23) {
            0..5 => {
                if let Some(file) = self.file() {
                    let size =
                        Some([0, self.below(100_000), self.below(1 << 34)][self.below(3) as usize]);
                    set(&file, SetAttr { size, ..SetAttr::default() });
                }
            }
            5..10 => {
                if let Some(file) = self.file() {
                    let key = vec![b'k', b'0' + self.below(5) as u8];
                    let value = vec![3; self.below(3000) as usize];
                    let space = XattrNamespace::User;
                    let how = XattrSet::Any;
                    let _ = fs.setxattr(cred, &file, space, &key, &value, how);
                }
            }
            10..16 => {
                if let Some(file) = self.file() {
                    let _ = fs.set_access_acl(cred, &file, Some(&self.acl()), false);
                }
            }
            16..18 => drop(fs.set_default_acl(cred, &dir, Some(&self.acl()))),
            18..20 => {
                if let Some(file) = self.file() {
                    let uid = Some(self.below(1000) as u32);
                    set(&file, SetAttr { uid, ..SetAttr::default() });
                }
            }
            _ => {
                if let Some(file) = self.file() {
                    let perm = Some(self.below(0o7777) as u16);
                    set(&file, SetAttr { perm, ..SetAttr::default() });
                }
            }
        }
    }
}

#[test]
fn changes_with_access_lists_form_no_cycle() {
    let seeds: Vec<u64> = match number("FFS_SEED") {
        Some(first) => (first..first + number("FFS_SEEDS").unwrap_or(1)).collect(),
        None => (0..200).chain(FOUND).collect(),
    };
    in_parallel(&seeds, |&seed| {
        let shape = (Endian::Little, Format::Ufs2, 4096 << (seed % 3), 512 << (seed % 3));
        let acls = seed % 4 > 0;
        let options = MountOptions { acls: Some(acls), ..soft_updates() };
        let w = mount_recorded(soft_volume(shape, 32 << 20), &options, Level::Count);
        let _shown = Shown(seed);
        let changes = Changes { w: &w, rng: SplitMix64::new(seed), cred: Cred::root() };
        for n in 0..1500 {
            changes.step();
            if n % 100 == 99 && seed % 2 > 0 {
                w.pass(1);
            }
        }
        w.end();
    });
}
