//! Reading everything on a volume that the check accepted.

use ffs_core::{Cred, Error, Ffs, FileType, Ino, Vnode};
use std::collections::BTreeSet;

/// Most files read.
const MAX_FILES: usize = 300;
/// Bytes read of each data extent of a file.
const PIECE: usize = 2048;

/// The read failures of the tree.
#[must_use]
pub fn tree(fs: &Ffs) -> Vec<String> {
    let mut bad = Vec::new();
    let Ok(root) = fs.root() else { return vec!["no root".into()] };
    let mut seen = BTreeSet::from([root.ino()]);
    let mut todo = vec![root];
    while let Some(dir) = todo.pop() {
        let mut names: Vec<(Vec<u8>, Ino)> = Vec::new();
        let listed = fs.readdir(&dir, 0, &mut |e| {
            names.push((e.name.to_vec(), e.ino));
            true
        });
        note(&mut bad, dir.ino(), "list", listed);
        for (name, ino) in names {
            let found = fs.lookup(&Cred::root(), &dir, &name);
            let Some(file) = note(&mut bad, ino, "lookup", found) else { continue };
            if name != b".." && file.ino() != ino {
                bad.push(format!("{:?} in {} is {}, listed as {ino}", name, dir.ino(), file.ino()));
            }
            if seen.len() < MAX_FILES && seen.insert(file.ino()) {
                one(fs, &file, &mut bad);
                if fs.getattr(&file).kind == FileType::Directory {
                    todo.push(file);
                }
            }
        }
    }
    bad
}

fn note<T>(bad: &mut Vec<String>, ino: Ino, what: &str, r: Result<T, Error>) -> Option<T> {
    r.map_err(|e| bad.push(format!("{what} inode {ino}: {e}"))).ok()
}

fn one(fs: &Ffs, file: &Vnode, bad: &mut Vec<String>) {
    match fs.getattr(file).kind {
        FileType::Regular => content(fs, file, bad),
        FileType::Symlink => drop(note(bad, file.ino(), "readlink", fs.readlink(file))),
        _ => {}
    }
    let root = Cred::root();
    let listed = match fs.listxattr(&root, file) {
        Err(Error::NotSupported(_)) => None,
        other => note(bad, file.ino(), "list the attributes of", other),
    };
    for (ns, name) in listed.unwrap_or_default() {
        note(bad, file.ino(), "read an attribute of", fs.getxattr(&root, file, ns, &name));
    }
}

fn content(fs: &Ffs, file: &Vnode, bad: &mut Vec<String>) {
    let mut buf = vec![0; PIECE];
    let (mut at, size) = (0, fs.getattr(file).size);
    for _ in 0..24 {
        match fs.seek_data(file, at) {
            Ok(start) if start >= at && start < size => at = start,
            Err(Error::NoData) => return,
            Ok(start) => {
                return bad.push(format!("inode {}: data at {start} from {at}", file.ino()));
            }
            Err(e) => return bad.push(format!("seek in inode {}: {e}", file.ino())),
        }
        note(bad, file.ino(), "read", fs.read(file, at, &mut buf));
        match fs.seek_hole(file, at) {
            Ok(end) if end > at && end <= size => at = end,
            r => return bad.push(format!("inode {}: hole from {at}: {r:?}", file.ino())),
        }
        note(bad, file.ino(), "read", fs.read(file, at.saturating_sub(1), &mut buf));
        if at == size {
            return;
        }
    }
}
