//! Operations on a mounted volume, whatever they answer.

use arbitrary::Arbitrary;
use ffs_core::{Cred, Fallocate, Ffs, NodeKind, RenameMode, SetAttr, Vnode, WriteMode, XattrNamespace, XattrSet};

/// One operation on one of the files seen so far.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub enum Step {
    /// Looks a name up and keeps the file.
    Lookup(u8, u8),
    /// Lists.
    List(u8),
    /// Makes a file.
    Create(u8, u8),
    /// Makes a directory.
    Mkdir(u8, u8),
    /// Makes a link text.
    Symlink(u8, u8, u8),
    /// Another name.
    Link(u8, u8, u8),
    /// Removes.
    Unlink(u8, u8),
    /// Removes a directory.
    Rmdir(u8, u8),
    /// Renames.
    Rename(u8, u8, u8, u8, bool),
    /// Reads.
    Read(u8, u32, u16),
    /// Writes.
    Write(u8, u32, u16),
    /// Sets the size.
    Truncate(u8, u32),
    /// Makes a hole.
    Punch(u8, u32, u32),
    /// Looks for data.
    Seek(u8, u32),
    /// Sets an attribute.
    Xattr(u8, u8, u16),
    /// Reads a link.
    Readlink(u8),
    /// Syncs.
    Sync,
}

const NAMES: [&[u8]; 12] = [
    b"dir",
    b"sub",
    b"big",
    b"sparse",
    b"link",
    b"short",
    b"long",
    b"fifo",
    b"new",
    b"file with a longer name 7",
    b"..",
    b".snap",
];

fn name(n: u8) -> &'static [u8] {
    NAMES[usize::from(n) % NAMES.len()]
}

/// Does the steps; errors are fine, panics and hangs are not.
pub fn run(fs: &Ffs, steps: &[Step]) {
    let Ok(root) = fs.root() else { return };
    let mut seen = vec![root.clone()];
    // Whatever a path leads to can be asked for from the start.
    for path in [&b"dir"[..], b"dir/sub", b"dir/sub/big", b"dir/sub/sparse", b"short", b"long"] {
        let walk = path.split(|&b| b == b'/').try_fold(root.clone(), |at, n| fs.lookup(&Cred::root(), &at, n));
        seen.extend(walk.ok());
    }
    for step in steps.iter().take(64) {
        if let Some(file) = one(fs, &seen, *step) {
            seen.push(file);
        }
    }
    for file in &seen {
        let _ = fs.getattr(file);
    }
}

fn one(fs: &Ffs, seen: &[Vnode], step: Step) -> Option<Vnode> {
    let root = Cred::root();
    let at = |n: u8| &seen[usize::from(n) % seen.len()];
    let user = XattrNamespace::User;
    match step {
        Step::Lookup(d, n) => return fs.lookup(&root, at(d), name(n)).ok(),
        Step::List(d) => {
            let _ = fs.readdir(at(d), 0, &mut |_| true);
        }
        Step::Create(d, n) => return fs.create(&root, at(d), name(n), NodeKind::Regular, 0o644).ok(),
        Step::Mkdir(d, n) => return fs.mkdir(&root, at(d), name(n), 0o755).ok(),
        Step::Symlink(d, n, len) => {
            return fs.symlink(&root, at(d), name(n), &vec![b'y'; usize::from(len) + 1]).ok();
        }
        Step::Link(f, d, n) => drop(fs.link(&root, at(f), at(d), name(n))),
        Step::Unlink(d, n) => drop(fs.unlink(&root, at(d), name(n))),
        Step::Rmdir(d, n) => drop(fs.rmdir(&root, at(d), name(n))),
        Step::Rename(a, n, b, m, swap) => {
            let mode = if swap { RenameMode::Exchange } else { RenameMode::Replace };
            drop(fs.rename(&root, (at(a), name(n)), (at(b), name(m)), mode));
        }
        Step::Read(f, off, len) => {
            let mut buf = vec![0; usize::from(len)];
            drop(fs.read(at(f), off.into(), &mut buf));
        }
        Step::Write(f, off, len) => {
            let data = vec![9; usize::from(len)];
            drop(fs.write(&root, at(f), off.into(), &data, WriteMode::default()));
        }
        Step::Truncate(f, size) => {
            let set = SetAttr { size: Some(size.into()), ..SetAttr::default() };
            drop(fs.setattr(&root, at(f), &set));
        }
        Step::Punch(f, off, len) => {
            drop(fs.fallocate(&root, at(f), off.into(), u64::from(len) + 1, Fallocate::PunchHole));
        }
        Step::Seek(f, off) => {
            drop(fs.seek_data(at(f), off.into()));
            drop(fs.seek_hole(at(f), off.into()));
        }
        Step::Xattr(f, n, len) => {
            let value = vec![3; usize::from(len) % 5000];
            drop(fs.setxattr(&root, at(f), user, name(n), &value, XattrSet::Any));
            drop(fs.listxattr(&root, at(f)));
            drop(fs.getxattr(&root, at(f), user, name(n)));
        }
        Step::Readlink(f) => drop(fs.readlink(at(f))),
        Step::Sync => drop(fs.sync()),
    }
    None
}
