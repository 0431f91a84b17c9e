//! The attributes of a file, and how two files differ in them.

use std::collections::{BTreeMap, BTreeSet};

use ffs_core::{DeviceNumber, Timespec, linux_xattr};

use crate::copy::{Acls, Entry, EntryKind, EntryMeta, Nfs4Acl, PosixAcl};
use crate::flags;
use crate::text::escape;

/// An attribute of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// The type of the file.
    Type,
    /// Bytes of a regular file.
    Size,
    /// Content of a regular file.
    Content,
    /// Permission bits.
    Mode,
    /// Owner.
    Uid,
    /// Group.
    Gid,
    /// File flags.
    Flags,
    /// Modification time.
    Mtime,
    /// Access time.
    Atime,
    /// Creation time.
    Birthtime,
    /// Number of names, and which names are of one file.
    Nlink,
    /// Target of a symbolic link.
    Link,
    /// Number of a device.
    Device,
    /// Extended attributes.
    Xattr,
    /// Access lists.
    Acl,
}

impl Attribute {
    /// All attributes.
    pub const ALL: [Attribute; 15] = [
        Attribute::Type,
        Attribute::Size,
        Attribute::Content,
        Attribute::Mode,
        Attribute::Uid,
        Attribute::Gid,
        Attribute::Flags,
        Attribute::Mtime,
        Attribute::Atime,
        Attribute::Birthtime,
        Attribute::Nlink,
        Attribute::Link,
        Attribute::Device,
        Attribute::Xattr,
        Attribute::Acl,
    ];
    /// All but access and creation times, which most copies do not preserve.
    pub const DEFAULT: [Attribute; 13] = [
        Attribute::Type,
        Attribute::Size,
        Attribute::Content,
        Attribute::Mode,
        Attribute::Uid,
        Attribute::Gid,
        Attribute::Flags,
        Attribute::Mtime,
        Attribute::Nlink,
        Attribute::Link,
        Attribute::Device,
        Attribute::Xattr,
        Attribute::Acl,
    ];

    /// The name, as mtree(8) has it where it has one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Attribute::Type => "type",
            Attribute::Size => "size",
            Attribute::Content => "content",
            Attribute::Mode => "mode",
            Attribute::Uid => "uid",
            Attribute::Gid => "gid",
            Attribute::Flags => "flags",
            Attribute::Mtime => "time",
            Attribute::Atime => "atime",
            Attribute::Birthtime => "btime",
            Attribute::Nlink => "nlink",
            Attribute::Link => "link",
            Attribute::Device => "device",
            Attribute::Xattr => "xattr",
            Attribute::Acl => "acl",
        }
    }
}

/// The values of an attribute of two files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The attribute.
    pub attribute: Attribute,
    /// The name of an extended attribute, or the kind of an access list.
    pub part: Option<String>,
    /// The value of the first file.
    pub old: String,
    /// The value of the second file.
    pub new: String,
    /// The first byte that differs, of contents of the same size.
    pub offset: Option<u64>,
}

/// Collects the differences of two files in the selected attributes.
pub(super) struct Differences<'a> {
    selected: &'a BTreeSet<Attribute>,
    pub(super) found: Vec<Difference>,
}

impl<'a> Differences<'a> {
    pub(super) fn new(selected: &'a BTreeSet<Attribute>) -> Differences<'a> {
        Differences { selected, found: Vec::new() }
    }

    pub(super) fn selects(&self, attribute: Attribute) -> bool {
        self.selected.contains(&attribute)
    }

    fn part(&mut self, attribute: Attribute, part: Option<String>, old: String, new: String) {
        if self.selects(attribute) {
            self.found.push(Difference { attribute, part, old, new, offset: None });
        }
    }

    pub(super) fn add(&mut self, attribute: Attribute, old: String, new: String) {
        self.part(attribute, None, old, new);
    }

    /// Adds contents that differ first at `at`.
    pub(super) fn add_content(&mut self, at: u64) {
        let (old, new) = (String::new(), String::new());
        let attribute = Attribute::Content;
        self.found.push(Difference { attribute, part: None, old, new, offset: Some(at) });
    }

    /// Compares two values.
    fn compare<T: PartialEq>(
        &mut self,
        attribute: Attribute,
        (old, new): (T, T),
        text: impl Fn(T) -> String,
    ) {
        if old != new {
            self.add(attribute, text(old), text(new));
        }
    }

    /// Compares the types of two files, and what only one type has except the content. Returns
    /// whether the types are the same.
    pub(super) fn kinds(&mut self, old: &EntryKind, new: &EntryKind) -> bool {
        let device = |number: DeviceNumber| format!("{},{}", number.major, number.minor);
        match (old, new) {
            (EntryKind::File(old), EntryKind::File(new)) => {
                self.compare(Attribute::Size, (*old, *new), |size| size.to_string());
            }
            (EntryKind::Symlink(old), EntryKind::Symlink(new)) => {
                self.compare(Attribute::Link, (old, new), escape);
            }
            (EntryKind::Char(old), EntryKind::Char(new))
            | (EntryKind::Block(old), EntryKind::Block(new)) => {
                self.compare(Attribute::Device, (*old, *new), device);
            }
            _ if std::mem::discriminant(old) != std::mem::discriminant(new) => {
                self.add(Attribute::Type, kind_name(old).to_owned(), kind_name(new).to_owned());
                return false;
            }
            _ => {}
        }
        true
    }

    /// Compares the attributes that every type has. `images`: both files are in images.
    pub(super) fn attributes(&mut self, old: &Entry, new: &Entry, images: bool) {
        let (a, b) = (&old.meta, &new.meta);
        let symlink = matches!(old.kind, EntryKind::Symlink(_));
        // On Linux a symbolic link has no mode of its own.
        if images || !symlink {
            self.compare(Attribute::Mode, (a.perm, b.perm), |perm| format!("{perm:04o}"));
        }
        self.compare(Attribute::Uid, (a.uid, b.uid), |id| id.to_string());
        self.compare(Attribute::Gid, (a.gid, b.gid), |id| id.to_string());
        self.compare(Attribute::Flags, (a.flags, b.flags), flags::to_text);
        self.compare(Attribute::Mtime, (a.mtime, b.mtime), time);
        self.compare(Attribute::Atime, (a.atime, b.atime), time);
        if images {
            self.compare(Attribute::Birthtime, (a.birthtime, b.birthtime), time);
        }
        // The links of a directory follow from the directories in it.
        if old.kind != EntryKind::Directory {
            self.compare(Attribute::Nlink, (a.nlink, b.nlink), |nlink| nlink.to_string());
        }
        self.xattrs(a, b);
        self.acls(&a.acls, &b.acls);
    }

    fn xattrs(&mut self, old: &EntryMeta, new: &EntryMeta) {
        let mut all: BTreeMap<Vec<u8>, [Option<&[u8]>; 2]> = BTreeMap::new();
        for (side, meta) in [old, new].into_iter().enumerate() {
            for attr in &meta.xattrs {
                let name = linux_xattr::to_linux(attr.namespace, &attr.name);
                all.entry(name).or_default()[side] = Some(&attr.value);
            }
        }
        for (name, [old, new]) in all {
            if old != new {
                self.part(Attribute::Xattr, Some(escape(name)), value(old), value(new));
            }
        }
    }

    fn acls(&mut self, old: &Acls, new: &Acls) {
        for (kind, a, b) in
            [("access", &old.access, &new.access), ("default", &old.default, &new.default)]
        {
            if a != b {
                self.part(Attribute::Acl, Some(kind.to_owned()), list(a), list(b));
            }
        }
        if old.nfs4 != new.nfs4 {
            let text = |acl: &Option<Nfs4Acl>| match acl {
                None => "none".to_owned(),
                Some(Nfs4Acl::Bytes(bytes)) => format!("{} bytes", bytes.len()),
                Some(Nfs4Acl::Invalid) => "not valid".to_owned(),
            };
            let (old, new) = (text(&old.nfs4), text(&new.nfs4));
            self.part(Attribute::Acl, Some("nfs4".to_owned()), old, new);
        }
    }
}

fn list(acl: &Option<PosixAcl>) -> String {
    match acl {
        None => "none".to_owned(),
        Some(acl) => acl.to_text().unwrap_or_else(|| "not valid".to_owned()),
    }
}

/// The value of an extended attribute, or its beginning.
fn value(value: Option<&[u8]>) -> String {
    const SHOWN: usize = 32;
    match value {
        None => "none".to_owned(),
        Some(value) if value.len() > SHOWN => {
            format!("\"{}\"... ({} bytes)", escape(&value[..SHOWN]), value.len())
        }
        Some(value) => format!("\"{}\"", escape(value)),
    }
}

/// Seconds since 1970 with nanoseconds, as mtree(8) prints them.
fn time(at: Timespec) -> String {
    format!("{}.{:09}", at.secs, at.nsec)
}

/// The name of a type, as mtree(8) has it.
#[must_use]
pub fn kind_name(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::Directory => "dir",
        EntryKind::File(_) | EntryKind::Link(_) => "file",
        EntryKind::Symlink(_) => "link",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
        EntryKind::Char(_) => "char",
        EntryKind::Block(_) => "block",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_defaults_are_known() {
        let names: BTreeSet<&str> = Attribute::ALL.iter().map(|a| a.name()).collect();
        assert_eq!(names.len(), Attribute::ALL.len());
        assert!(Attribute::DEFAULT.iter().all(|a| Attribute::ALL.contains(a)));
    }

    #[test]
    fn values_are_short() {
        assert_eq!(value(None), "none");
        assert_eq!(value(Some(b"a\n")), "\"a\\x0a\"");
        assert!(value(Some(&[b'x'; 100])).ends_with("\"... (100 bytes)"));
    }
}
