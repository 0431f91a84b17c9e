//! Reads all files, and records what cannot be read.

use ffs_core::{Cred, Error, Ffs, FileType, Vnode};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Most directory entries that one walk reads.
const MOST_ENTRIES: u32 = 20_000;

/// The readable properties of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) ino: u32,
    kind: FileType,
    perm: u16,
    owner: (u32, u32),
    nlink: u32,
    size: u64,
    blocks: u64,
    mtime: (i64, i32),
    /// Hash of the content or link text, and of the attributes.
    content: [u8; 32],
}

impl Item {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Copies the properties of a directory that change with its entries.
    pub(crate) fn forgive_directory(&mut self, was: &Item) {
        self.mtime = was.mtime;
        self.nlink = was.nlink;
        self.size = was.size;
        self.blocks = was.blocks;
    }
}

/// A read failure.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) path: String,
    pub(crate) errno: i32,
    pub(crate) text: String,
}

/// All files by path; directories are entered once.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) items: BTreeMap<String, Item>,
    pub(crate) errors: Vec<Failure>,
}

impl Walk {
    fn fail(&mut self, path: &str, e: &Error) {
        let (path, errno, text) = (path.to_owned(), e.errno(), e.to_string());
        self.errors.push(Failure { path, errno, text });
    }
}

/// Reads the whole tree.
pub(crate) fn walk(fs: &Ffs) -> Walk {
    let mut w = Walk::default();
    let root = match fs.root() {
        Ok(root) => root,
        Err(e) => {
            w.fail("", &e);
            return w;
        }
    };
    let (mut seen, mut entries) = (BTreeSet::new(), 0);
    let mut work = vec![(root, String::new())];
    while let Some((v, path)) = work.pop() {
        look_at(fs, &v, &path, &mut w);
        if fs.getattr(&v).kind != FileType::Directory || !seen.insert(v.ino()) {
            continue;
        }
        let mut names = BTreeSet::new();
        let shown = fs.readdir(&v, 0, &mut |e| {
            entries += 1;
            if e.name != b"." && e.name != b".." {
                names.insert(e.name.to_vec());
            }
            entries < MOST_ENTRIES
        });
        assert!(entries < MOST_ENTRIES, "the walk does not end: {path}");
        if let Err(e) = shown {
            w.fail(&path, &e);
        }
        for name in names {
            let below = format!("{path}/{}", String::from_utf8_lossy(&name));
            match fs.lookup(&Cred::root(), &v, &name) {
                Ok(child) => work.push((child, below)),
                Err(e) => w.fail(&below, &e),
            }
        }
    }
    w
}

fn look_at(fs: &Ffs, v: &Vnode, path: &str, w: &mut Walk) {
    let a = fs.getattr(v);
    let mut hash = Sha256::new();
    let content = match a.kind {
        FileType::Regular => content(fs, v, &mut hash),
        FileType::Symlink => fs.readlink(v).map(|text| hash.update(text)),
        _ => Ok(()),
    };
    if let Err(e) = content.and_then(|()| attributes(fs, v, &mut hash)) {
        w.fail(path, &e);
        return;
    }
    let item = Item {
        ino: a.ino.0,
        kind: a.kind,
        perm: a.perm,
        owner: (a.uid, a.gid),
        nlink: a.nlink,
        size: a.size,
        blocks: a.blocks,
        mtime: (a.mtime.secs, a.mtime.nsec),
        content: hash.finalize().into(),
    };
    w.items.insert(path.to_owned(), item);
}

/// The data of the file outside holes.
fn content(fs: &Ffs, v: &Vnode, hash: &mut Sha256) -> Result<(), Error> {
    let (mut at, mut buf) = (0, vec![0; 64 << 10]);
    loop {
        let from = match fs.seek_data(v, at) {
            Ok(from) => from,
            Err(Error::NoData) => return Ok(()),
            Err(e) => return Err(e),
        };
        let to = fs.seek_hole(v, from)?;
        assert!(from >= at && to > from, "holes of {:?}: {from} {to}", v.ino());
        hash.update(from.to_le_bytes());
        at = from;
        while at < to {
            let want = usize::try_from(to - at).unwrap_or(usize::MAX).min(buf.len());
            let have = fs.read(v, at, &mut buf[..want])?;
            if have == 0 {
                return Ok(());
            }
            hash.update(&buf[..have]);
            at += have as u64;
        }
    }
}

fn attributes(fs: &Ffs, v: &Vnode, hash: &mut Sha256) -> Result<(), Error> {
    let cred = Cred::root();
    let names = match fs.listxattr(&cred, v) {
        Ok(names) => names,
        Err(Error::NotSupported(_)) => return Ok(()),
        Err(e) => return Err(e),
    };
    for (ns, name) in names {
        let value = fs.getxattr(&cred, v, ns, &name)?;
        hash.update(&name);
        hash.update(&value);
    }
    Ok(())
}
