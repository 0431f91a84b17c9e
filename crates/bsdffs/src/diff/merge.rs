//! Comparing: the streams of two trees are merged.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::attribute::{Attribute, Differences};
use super::content::{Buffers, first_difference};
use super::stream::{Item, Stream, order};
use super::{DiffObserver, DiffOptions, DiffReport, Side, Tree};
use crate::copy::{Entry, EntryKind, is_below};
use crate::text::escape;

/// The directory that newfs makes for snapshots.
const SNAP: &[u8] = b".snap";

/// Compares two trees. The differences go to `observer`.
///
/// An empty directory `.snap` at the top of an image is not reported if a tree of the host lacks
/// it. Snapshots are not compared.
pub fn diff(
    old: Tree<'_>,
    new: Tree<'_>,
    options: &DiffOptions,
    observer: &mut dyn DiffObserver,
) -> DiffReport {
    let xattrs = [Attribute::Xattr, Attribute::Acl, Attribute::Flags];
    let xattrs = xattrs.iter().any(|attribute| options.attributes.contains(attribute));
    std::thread::scope(|scope| {
        let old = Stream::start(scope, old, xattrs);
        let new = Stream::start(scope, new, xattrs);
        let mut merge = Merge {
            options,
            observer,
            report: DiffReport::default(),
            old,
            new,
            skipped: [None, None],
            contents: BTreeMap::new(),
            buffers: Buffers::new(),
        };
        merge.run();
        merge.report
    })
}

struct Merge<'a, 'o> {
    options: &'o DiffOptions,
    observer: &'o mut dyn DiffObserver,
    report: DiffReport,
    old: Stream<'a>,
    new: Stream<'a>,
    /// A directory of each side that is reported: those below it are not.
    skipped: [Option<Vec<u8>>; 2],
    /// Results for pairs of files with several names, by their identities.
    contents: BTreeMap<(u64, u64), Option<u64>>,
    buffers: Buffers,
}

impl Merge<'_, '_> {
    fn run(&mut self) {
        let (mut old, mut new) = (self.next(Side::Old), self.next(Side::New));
        while !self.observer.is_cancelled() {
            let which = match (&old, &new) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => order(&old.path, &new.path),
            };
            let ahead = |merge: &mut Self, side, head: &mut Option<Box<Entry>>| {
                let next = merge.next(side);
                let entry = std::mem::replace(head, next);
                if let Some(entry) = entry {
                    merge.only(side, &entry, head.as_deref());
                }
            };
            match which {
                Ordering::Less => ahead(self, Side::Old, &mut old),
                Ordering::Greater => ahead(self, Side::New, &mut new),
                Ordering::Equal => {
                    if let (Some(a), Some(b)) = (old.take(), new.take()) {
                        self.pair(&a, &b);
                    }
                    (old, new) = (self.next(Side::Old), self.next(Side::New));
                }
            }
        }
        self.report.cancelled = true;
    }

    /// The next file of a side that is not excluded.
    fn next(&mut self, side: Side) -> Option<Box<Entry>> {
        loop {
            let stream = match side {
                Side::Old => &mut self.old,
                Side::New => &mut self.new,
            };
            match stream.next()? {
                Item::File(entry) if self.observer.is_excluded(&entry.path, &entry.kind) => {}
                Item::File(entry) => return Some(entry),
                Item::Failed(name, why) => self.failed(&name, &why),
                Item::Lost(loss, path) => {
                    self.report.losses.record_loss(loss);
                    self.report.losses.set_path_of_losses(&path);
                }
            }
        }
    }

    fn failed(&mut self, name: &str, why: &str) {
        self.report.failed += 1;
        self.observer.failed(name, why);
    }

    /// A file that only one side has. `next` is the file after it on that side.
    fn only(&mut self, side: Side, entry: &Entry, next: Option<&Entry>) {
        let path = &entry.path;
        let skipped = &mut self.skipped[side as usize];
        if skipped.as_deref().is_some_and(|dir| is_below(path, dir)) {
            return;
        }
        let (own, other) = match side {
            Side::Old => (&self.old, &self.new),
            Side::New => (&self.new, &self.old),
        };
        if other.is_unread(path) {
            return;
        }
        let empty = next.is_none_or(|next| !is_below(&next.path, path));
        let directory = entry.kind == EntryKind::Directory;
        let of_newfs = path == SNAP && directory && empty;
        if of_newfs && own.is_image() && !other.is_image() {
            return;
        }
        if directory {
            *skipped = Some(path.clone());
        }
        match side {
            Side::Old => self.report.only_old += 1,
            Side::New => self.report.only_new += 1,
        }
        self.observer.only(side, path, &entry.kind);
    }

    /// Two files with the same path.
    fn pair(&mut self, old: &Entry, new: &Entry) {
        self.report.compared += 1;
        let images = self.old.is_image() && self.new.is_image();
        let options = self.options;
        let mut differences = Differences::new(&options.attributes);
        if differences.kinds(&old.kind, &new.kind) {
            differences.attributes(old, new, images);
            self.names(old, new, &mut differences);
            self.content(old, new, &mut differences);
        } else {
            self.skipped = [Some(old.path.clone()), Some(new.path.clone())];
        }
        if !differences.found.is_empty() {
            self.report.different += 1;
            self.observer.differs(&old.path, &differences.found);
        }
    }

    /// Compares which names are of one file.
    fn names(&self, old: &Entry, new: &Entry, differences: &mut Differences<'_>) {
        let (a, b) = (self.old.first_name(old), self.new.first_name(new));
        if a != b {
            let text = |first: Option<&[u8]>| match first {
                Some(first) => format!("a name of {}", escape(first)),
                None => "a file of its own".to_owned(),
            };
            differences.add(Attribute::Nlink, text(a), text(b));
        }
    }

    fn content(&mut self, old: &Entry, new: &Entry, differences: &mut Differences<'_>) {
        let (EntryKind::File(size), EntryKind::File(other)) = (&old.kind, &new.kind) else {
            return;
        };
        let known = self.options.brief && !differences.found.is_empty();
        if !differences.selects(Attribute::Content) || known {
            return;
        }
        let sizes = |size: &u64| format!("{size} bytes");
        if size != other {
            if !differences.selects(Attribute::Size) {
                differences.add(Attribute::Content, sizes(size), sizes(other));
            }
            return;
        }
        let both = old.identity.zip(new.identity);
        let result = match both.and_then(|both| self.contents.get(&both)) {
            Some(result) => *result,
            None => match self.read(old, new, *size) {
                Ok(result) => {
                    self.contents.extend(both.map(|both| (both, result)));
                    result
                }
                Err((side, why)) => {
                    let name = match side {
                        Side::Old => self.old.shown(&old.path),
                        Side::New => self.new.shown(&new.path),
                    };
                    return self.failed(&name, &why);
                }
            },
        };
        if let Some(at) = result {
            differences.add_content(at);
        }
    }

    /// The offset of the first different byte of two files.
    fn read(&mut self, old: &Entry, new: &Entry, size: u64) -> Result<Option<u64>, (Side, String)> {
        let a = self.old.open(old).map_err(|why| (Side::Old, why))?;
        let b = self.new.open(new).map_err(|why| (Side::New, why))?;
        let observer = &mut *self.observer;
        first_difference(&a, &b, size, &mut self.buffers, |bytes| {
            observer.progress(bytes);
            !observer.is_cancelled()
        })
    }
}
