//! Files as a source describes them to a sink.

use ffs_core::{DeviceNumber, FileFlags, Ino, Timespec, XattrNamespace};

use super::acl::Acls;
use crate::flags;

/// A file to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the top of the copy, without leading or double slashes; empty for the top.
    pub path: Vec<u8>,
    /// Kind.
    pub kind: EntryKind,
    /// Attributes.
    pub meta: EntryMeta,
    /// Number of a file that has several names. Each [`EntryKind::Link`] to it repeats the number.
    pub identity: Option<u64>,
}

/// The kind of a file, with the data that only this kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Directory.
    Directory,
    /// Regular file of this many bytes.
    File(u64),
    /// Symbolic link with this target.
    Symlink(Vec<u8>),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    Char(DeviceNumber),
    /// Block device.
    Block(DeviceNumber),
    /// Hard link to the file at this path, which came earlier in the copy.
    Link(Vec<u8>),
}

/// Attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryMeta {
    /// Low 12 bits of the mode.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Access time.
    pub atime: Timespec,
    /// Modification time.
    pub mtime: Timespec,
    /// Creation time.
    pub birthtime: Timespec,
    /// BSD file flags.
    pub flags: FileFlags,
    /// Extended attributes, except ACLs.
    pub xattrs: Vec<Xattr>,
    /// Access control lists. With an access ACL the group bits of the mode are its mask.
    pub acls: Acls,
    /// Number of names of the file, of a source that has it; otherwise 0.
    pub nlink: u64,
    /// Inode number, if the source is in an image. A copy to another image clears it.
    pub source: Option<Ino>,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Name space.
    pub namespace: XattrNamespace,
    /// Name within the name space.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

impl EntryMeta {
    /// Adds an extended attribute. The attribute [`flags::XATTR`] sets the file flags instead.
    pub(crate) fn add_xattr(&mut self, attr: Xattr) {
        if attr.namespace == XattrNamespace::User && attr.name == flags::XATTR {
            let text = std::str::from_utf8(&attr.value).ok();
            if let Some(flags) = text.and_then(flags::from_text) {
                self.flags = flags;
                return;
            }
        }
        self.xattrs.push(attr);
    }

    /// Whether it has extended attributes or ACLs.
    pub(crate) fn has_extended(&self) -> bool {
        !self.xattrs.is_empty() || self.acls != Acls::default() || !self.flags.is_empty()
    }

    /// Sorts the extended attributes, so that every copy sets them in the same order.
    pub(crate) fn sort_xattrs(&mut self) {
        self.xattrs.sort_by(|a, b| (a.namespace, &a.name).cmp(&(b.namespace, &b.name)));
    }
}
