//! The files of one tree in the order of their paths.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::Scope;

use super::Tree;
use crate::copy::{
    Batch, Content, Entry, Event, FileData, HostSource, HostSourceOptions, ImageSource,
    ImageSourceOptions, Loss, open_regular, spawn,
};
use crate::namei::join;
use crate::text::escape;

/// The files of a tree.
pub(super) struct Stream<'a> {
    tree: Tree<'a>,
    from: Receiver<Batch>,
    return_to: SyncSender<Batch>,
    events: std::vec::IntoIter<Event>,
    /// Paths of files with several names, by [`Entry::identity`]: the first name of each.
    firsts: BTreeMap<u64, Vec<u8>>,
    /// Names, for messages, of files that could not be read, and of snapshots.
    unread: BTreeSet<String>,
}

/// What a stream sends.
pub(super) enum Item {
    File(Box<Entry>),
    /// The file with this name cannot be read.
    Failed(String, String),
    /// An attribute of the file at this path is not compared.
    Lost(Loss, Vec<u8>),
}

impl<'a> Stream<'a> {
    /// Starts to read `tree`.
    pub(super) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        tree: Tree<'a>,
        xattrs: bool,
    ) -> Stream<'a>
    where
        'a: 'scope,
    {
        let (from, return_to) = match &tree {
            Tree::Image { image, top, path } => {
                let options = ImageSourceOptions {
                    xattrs,
                    identities: true,
                    skip_snapshots: true,
                    data: FileData::Nothing,
                    ..ImageSourceOptions::default()
                };
                spawn(scope, ImageSource::new(*image, top.clone(), path, options))
            }
            Tree::Host(top) => {
                let options = HostSourceOptions {
                    xattrs,
                    identities: true,
                    follow: true,
                    ..HostSourceOptions::default()
                };
                spawn(scope, HostSource::new(top, b"", options))
            }
        };
        let (firsts, unread) = (BTreeMap::new(), BTreeSet::new());
        Stream { tree, from, return_to, events: Vec::new().into_iter(), firsts, unread }
    }

    /// The next item; none at the end.
    pub(super) fn next(&mut self) -> Option<Item> {
        loop {
            let Some(event) = self.events.next() else {
                let mut batch = self.from.recv().ok()?;
                self.events = std::mem::take(&mut batch.events).into_iter();
                batch.clear();
                // Fails if the source has ended or has enough batches.
                let _ = self.return_to.try_send(batch);
                continue;
            };
            match event {
                Event::Entry(entry) | Event::SmallFile(entry, _) => {
                    if let Some(id) = entry.identity {
                        self.firsts.entry(id).or_insert_with(|| entry.path.clone());
                    }
                    return Some(Item::File(entry));
                }
                Event::Failed { name, why } => {
                    self.unread.insert(name.clone());
                    return Some(Item::Failed(name, why));
                }
                Event::Lost(loss, path) => {
                    if loss == Loss::Snapshot {
                        // In the volume that a snapshot shows, its name is that of an empty file.
                        self.unread.insert(self.shown(&path));
                    }
                    return Some(Item::Lost(loss, path));
                }
                Event::Data(..)
                | Event::Extent(..)
                | Event::Attributes(_)
                | Event::End
                | Event::Unselected(..)
                | Event::Abort => {}
            }
        }
    }

    /// The path of the first name of a file, if that is another one.
    pub(super) fn first_name(&self, entry: &Entry) -> Option<&[u8]> {
        let first = self.firsts.get(&entry.identity?)?;
        Some(first.as_slice()).filter(|first| *first != entry.path)
    }

    /// Whether the file at `path` is a snapshot, or it or a directory above could not be read.
    pub(super) fn is_unread(&self, path: &[u8]) -> bool {
        if self.unread.is_empty() {
            return false;
        }
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut ends = slashes.map(|(at, _)| at).chain([0, path.len()]);
        ends.any(|end| self.unread.contains(&self.shown(&path[..end])))
    }

    /// The file at `path` in messages.
    pub(super) fn shown(&self, path: &[u8]) -> String {
        let join = |top: &[u8]| if path.is_empty() { top.to_vec() } else { join(top, path) };
        match &self.tree {
            Tree::Image { image, path: top, .. } => {
                format!("{}:{}", image.name, escape(join(top)))
            }
            Tree::Host(top) => escape(join(top.as_os_str().as_bytes())),
        }
    }

    /// Whether the tree is in an image.
    pub(super) fn is_image(&self) -> bool {
        matches!(self.tree, Tree::Image { .. })
    }

    /// Opens a regular file.
    pub(super) fn open(&self, entry: &Entry) -> Result<Content<'a>, String> {
        match &self.tree {
            Tree::Image { image, .. } => {
                let ino = entry.meta.source.ok_or("its inode number is missing")?;
                let file = image.ffs.vget(ino, None).map_err(|error| error.to_string())?;
                Ok(Content::Image(image.ffs, file))
            }
            Tree::Host(top) if entry.path.is_empty() => {
                let fd = std::fs::File::open(top).map_err(|error| error.to_string())?;
                Ok(Content::Host(fd.into()))
            }
            Tree::Host(top) => {
                let path = CString::new(join(top.as_os_str().as_bytes(), &entry.path));
                let path = path.map_err(|error| error.to_string())?;
                let fd = open_regular(&path).map_err(|error| error.to_string())?;
                Ok(Content::Host(fd))
            }
        }
    }
}

/// The order in which sources send paths: a directory before its entries, names in byte order.
pub(super) fn order(a: &[u8], b: &[u8]) -> Ordering {
    a.split(|&byte| byte == b'/').cmp(b.split(|&byte| byte == b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_in_the_order_of_a_walk() {
        let walk = [&b""[..], b"a", b"a/b", b"a/b/c", b"a/b.c", b"a.b", b"a.b/x", b"ab", b"b"];
        for (at, path) in walk.iter().enumerate() {
            for (other_at, other) in walk.iter().enumerate() {
                assert_eq!(order(path, other), at.cmp(&other_at));
            }
        }
    }
}
