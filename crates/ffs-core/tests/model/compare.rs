//! Comparing the trees of a file system and of a model.

use crate::step::space_of;
use ffs_core::{Attr, Cred, Ffs, Vnode};
use ffs_ondisk::FileType;
use ffs_testkit::model::{Body, Model, Node, NodeId};
use std::collections::BTreeMap;

/// Compares the whole trees; the error names the first difference.
pub(crate) fn trees(fs: &Ffs, model: &Model) -> Result<(), String> {
    let root = fs.root().map_err(|e| format!("root: {e}"))?;
    let mut inodes = BTreeMap::new();
    node(fs, model, &root, Model::ROOT, "/", &mut inodes)
}

fn node(
    fs: &Ffs,
    model: &Model,
    file: &Vnode,
    id: NodeId,
    path: &str,
    inodes: &mut BTreeMap<NodeId, u32>,
) -> Result<(), String> {
    let attr = fs.getattr(file);
    if let Some(before) = inodes.insert(id, attr.ino.0) {
        return if before == attr.ino.0 {
            Ok(())
        } else {
            Err(format!("{path}: not the same file"))
        };
    }
    let want = model.node(id).ok_or_else(|| format!("{path}: not in the model"))?;
    attributes(&attr, want, path)?;
    xattrs(fs, file, want, path)?;
    match &want.body {
        Body::Dir(names) => directory(fs, model, file, names, path, inodes),
        Body::File(content) => contents(fs, file, content, path),
        Body::Symlink(target) => {
            let found = fs.readlink(file).map_err(|e| format!("{path}: readlink: {e}"))?;
            same(&found, target, path, "link target")
        }
        Body::Fifo => Ok(()),
        Body::Whiteout => same(&attr.rdev, &0, path, "device number"),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    found: &T,
    want: &T,
    path: &str,
    what: &str,
) -> Result<(), String> {
    if found == want { Ok(()) } else { Err(format!("{path}: {what} is {found:?}, not {want:?}")) }
}

fn attributes(attr: &Attr, want: &Node, path: &str) -> Result<(), String> {
    let kind = match want.body {
        Body::Dir(_) => FileType::Directory,
        Body::File(_) => FileType::Regular,
        Body::Symlink(_) => FileType::Symlink,
        Body::Fifo => FileType::Fifo,
        Body::Whiteout => FileType::Char,
    };
    same(&attr.kind, &kind, path, "type")?;
    same(&attr.nlink, &want.nlink, path, "link count")?;
    same(&attr.perm, &want.perm, path, "mode")?;
    same(&(attr.uid, attr.gid), &(want.uid, want.gid), path, "owner")?;
    if let Body::File(c) = &want.body {
        same(&attr.size, &(c.len() as u64), path, "size")?;
    }
    Ok(())
}

fn xattrs(fs: &Ffs, file: &Vnode, want: &Node, path: &str) -> Result<(), String> {
    let cred = Cred::root();
    let names = match fs.listxattr(&cred, file) {
        Ok(names) => names,
        Err(_) if want.xattrs.is_empty() => return Ok(()),
        Err(e) => return Err(format!("{path}: listing attributes: {e}")),
    };
    same(&names.len(), &want.xattrs.len(), path, "number of attributes")?;
    for (name, value) in &want.xattrs {
        let found = fs
            .getxattr(&cred, file, space_of(name), name)
            .map_err(|e| format!("{path}: attribute: {e}"))?;
        same(&found, value, path, "attribute")?;
    }
    Ok(())
}

fn directory(
    fs: &Ffs,
    model: &Model,
    dir: &Vnode,
    names: &BTreeMap<Vec<u8>, NodeId>,
    path: &str,
    inodes: &mut BTreeMap<NodeId, u32>,
) -> Result<(), String> {
    let mut found = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        found.push((e.name.to_vec(), e.ino, e.kind));
        true
    })
    .map_err(|e| format!("{path}: readdir: {e}"))?;
    let mut listed: Vec<&[u8]> =
        found.iter().map(|(n, ..)| n.as_slice()).filter(|n| *n != b"." && *n != b"..").collect();
    listed.sort_unstable();
    let expected: Vec<&[u8]> = names.keys().map(Vec::as_slice).collect();
    same(&listed, &expected, path, "listing")?;
    for (name, ino, kind) in &found {
        if name == b"." || name == b".." {
            continue;
        }
        let child_path = format!("{path}{}/", String::from_utf8_lossy(name));
        let child = fs
            .lookup(&Cred::root(), dir, name)
            .map_err(|e| format!("{child_path}: lookup: {e}"))?;
        let attr = fs.getattr(&child);
        same(&attr.ino, ino, &child_path, "inode of the entry")?;
        same(&Some(attr.kind), kind, &child_path, "type of the entry")?;
        let id = names.get(name).copied().ok_or_else(|| format!("{child_path}: unexpected"))?;
        node(fs, model, &child, id, &child_path, inodes)?;
    }
    Ok(())
}

fn contents(fs: &Ffs, file: &Vnode, want: &[u8], path: &str) -> Result<(), String> {
    let mut found = vec![0xaa; want.len() + 10];
    let n = fs.read(file, 0, &mut found).map_err(|e| format!("{path}: read: {e}"))?;
    same(&n, &want.len(), path, "bytes read")?;
    match found.iter().zip(want).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!("{path}: byte {at} is {:#x}, not {:#x}", found[at], want[at])),
    }
}

/// After an operation failed half way, compares everything that it does not change with the model.
///
/// Nodes in `touched` may have changed. In a touched directory at most two names may have appeared
/// or disappeared, and their files may have another link count.
pub(crate) fn untouched(fs: &Ffs, model: &Model, touched: &[NodeId]) -> Result<(), String> {
    let root = fs.root().map_err(|e| format!("root: {e}"))?;
    below(fs, model, &root, Model::ROOT, "/", touched)
}

fn below(
    fs: &Ffs,
    model: &Model,
    dir: &Vnode,
    id: NodeId,
    path: &str,
    touched: &[NodeId],
) -> Result<(), String> {
    let Some(Node { body: Body::Dir(names), .. }) = model.node(id) else {
        return Err(format!("{path}: not in the model"));
    };
    let mut missing = 0;
    for (name, child) in names {
        let child_path = format!("{path}{}/", String::from_utf8_lossy(name));
        let file = match fs.lookup(&Cred::root(), dir, name) {
            Ok(file) => file,
            Err(_) if touched.contains(&id) => {
                missing += 1;
                continue;
            }
            Err(e) => return Err(format!("{child_path}: lookup: {e}")),
        };
        let want = model.node(*child).ok_or("no such node")?;
        if touched.contains(child) || touched.contains(&id) && !matches!(want.body, Body::Dir(_)) {
            continue;
        }
        match &want.body {
            Body::Dir(_) => below(fs, model, &file, *child, &child_path, touched)?,
            Body::File(content) => contents(fs, &file, content, &child_path)?,
            Body::Symlink(_) | Body::Fifo | Body::Whiteout => {
                attributes(&fs.getattr(&file), want, &child_path)?;
            }
        }
    }
    if missing > 2 { Err(format!("{path}: {missing} names are missing")) } else { Ok(()) }
}
