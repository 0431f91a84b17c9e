//! What a dump must keep of a tree.

use std::collections::BTreeMap;

use bsdffs::dump::SymTable;
use ffs_core::{Cred, Error, Ffs, FileType, Timespec, Vnode, XattrNamespace};
use ffs_ondisk::{Endian, acl};

/// Everything that a dump keeps of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    mode: (FileType, u16),
    owner: (u32, u32),
    nlink: u32,
    size: u64,
    atime: Timespec,
    mtime: Timespec,
    birthtime: Timespec,
    flags: u32,
    rdev: u64,
    content: Vec<u8>,
    /// Ranges with data, in blocks.
    holes: Vec<bool>,
    xattrs: BTreeMap<(XattrNamespace, Vec<u8>), Vec<u8>>,
    /// The first path of the same inode.
    first: Vec<u8>,
}

/// All files of a volume except `restoresymtable`. The times of the root are left out: restoring
/// that file changes them.
pub(crate) fn see(ffs: &Ffs) -> BTreeMap<Vec<u8>, Seen> {
    let (mut all, mut firsts) = (BTreeMap::new(), BTreeMap::new());
    let mut open = vec![(Vec::new(), ffs.root().unwrap())];
    let mut files = BTreeMap::new();
    while let Some((path, dir)) = open.pop() {
        let mut names = Vec::new();
        ffs.readdir(&dir, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.ino));
            true
        })
        .unwrap();
        for (name, ino) in names {
            if name == b"." || name == b".." || (path.is_empty() && name == SymTable::NAME) {
                continue;
            }
            let file = ffs.vget(ino, None).unwrap();
            let path = bsdffs::namei::join(&path, &name);
            if ffs.getattr(&file).kind == FileType::Directory {
                open.push((path.clone(), file.clone()));
            }
            files.insert(path, file);
        }
        if path.is_empty() {
            files.insert(path, dir);
        }
    }
    for (path, file) in files {
        let first = firsts.entry(ffs.getattr(&file).ino).or_insert_with(|| path.clone()).clone();
        let mut seen = one(ffs, &file, first);
        if path.is_empty() {
            (seen.atime, seen.mtime) = Default::default();
        }
        all.insert(path, seen);
    }
    all
}

fn one(ffs: &Ffs, file: &Vnode, first: Vec<u8>) -> Seen {
    let attr = ffs.getattr(file);
    let (mut content, mut holes) = (Vec::new(), Vec::new());
    match attr.kind {
        FileType::Regular => {
            content = vec![0; attr.size as usize];
            assert_eq!(ffs.read(file, 0, &mut content).unwrap(), content.len());
            let block = u64::from(attr.blksize);
            holes = (0..attr.size.div_ceil(block))
                .map(|n| ffs.seek_data(file, n * block).is_ok_and(|at| at == n * block))
                .collect();
        }
        FileType::Symlink => content = ffs.readlink(file).unwrap(),
        _ => {}
    }
    let directory = attr.kind == FileType::Directory;
    let ufs1 = ffs.geometry().format == ffs_ondisk::Format::Ufs1;
    Seen {
        mode: (attr.kind, attr.perm),
        owner: (attr.uid, attr.gid),
        nlink: attr.nlink,
        size: if directory { 0 } else { attr.size },
        atime: attr.atime,
        mtime: attr.mtime,
        birthtime: if ufs1 { Timespec::default() } else { attr.birthtime },
        flags: attr.flags.bits(),
        rdev: attr.rdev,
        content,
        holes,
        xattrs: xattrs(ffs, file),
        first,
    }
}

fn xattrs(ffs: &Ffs, file: &Vnode) -> BTreeMap<(XattrNamespace, Vec<u8>), Vec<u8>> {
    let cred = Cred::root();
    let names = match ffs.listxattr(&cred, file) {
        Err(Error::NotSupported(_)) => return BTreeMap::new(),
        names => names.unwrap(),
    };
    let value = |(namespace, name): (XattrNamespace, Vec<u8>)| {
        let mut value = ffs.getxattr(&cred, file, namespace, &name).unwrap();
        // ACLs have the byte order of their volume.
        if name == acl::ACCESS_NAME || name == acl::DEFAULT_NAME {
            let entries = acl::decode(ffs.geometry().endian, &value).unwrap();
            value = acl::encode(Endian::Little, &entries).unwrap();
        }
        ((namespace, name), value)
    };
    names.into_iter().map(value).collect()
}

/// Two trees must be the same.
pub(crate) fn assert_same(a: &BTreeMap<Vec<u8>, Seen>, b: &BTreeMap<Vec<u8>, Seen>, what: &str) {
    let shown = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
    for (path, left) in a {
        let Some(right) = b.get(path) else { panic!("{what}: {} is missing", shown(path)) };
        let mut short = [left.clone(), right.clone()];
        if left != right {
            let same = left.content == right.content;
            short.iter_mut().for_each(|seen| seen.content.truncate(20));
            panic!("{what}: {}: content same: {same}\n{short:?}", shown(path));
        }
    }
    let more: Vec<String> = b.keys().filter(|path| !a.contains_key(*path)).map(shown).collect();
    assert_eq!(more, [""; 0], "{what}");
}
