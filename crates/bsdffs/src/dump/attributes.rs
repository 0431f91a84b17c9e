//! Attributes of files in a stream: those of the header, the extended attributes of UFS2, and those
//! of ext2 that Linux's dump writes (`spec/on-disk-format.md` §24.7, §24.8).

use ffs_core::acl::{Entry, Who};
use ffs_core::{FileFlags, Ino, XattrNamespace, linux_xattr};
use ffs_ondisk::extattr::{self, Namespace};
use ffs_ondisk::wire::get;
use ffs_ondisk::{Endian, acl};

use super::spcl::Header;
use crate::copy::{Acls, EntryMeta, Nfs4Acl, PosixAcl, Xattr};
use crate::flags::portable;

/// Flags of ext2 that BSD has too.
const EXT2_FLAGS: [(u32, FileFlags); 3] =
    [(0x10, FileFlags::SF_IMMUTABLE), (0x20, FileFlags::SF_APPEND), (0x40, FileFlags::UF_NODUMP)];

/// The attributes in the header of an inode.
pub(super) fn meta(header: &Header, linux: bool) -> EntryMeta {
    let flags = if linux {
        let known = EXT2_FLAGS.into_iter().filter(|(ext2, _)| header.file_flags & ext2 != 0);
        known.fold(FileFlags::empty(), |all, (_, bsd)| all | bsd)
    } else {
        portable(FileFlags::from_bits_retain(header.file_flags))
    };
    let created = header.birthtime.secs != 0 || header.birthtime.nsec != 0;
    EntryMeta {
        perm: header.mode & 0o7777,
        uid: header.uid,
        gid: header.gid,
        atime: header.atime,
        mtime: header.mtime,
        birthtime: if created { header.birthtime } else { header.mtime },
        flags,
        xattrs: Vec::new(),
        acls: Acls::default(),
        nlink: 0,
        source: None::<Ino>,
    }
}

/// Adds the extended attributes of the area of a UFS2 inode.
///
/// # Errors
/// A malformed attribute; those before it are added.
pub(super) fn add_area(endian: Endian, area: &[u8], meta: &mut EntryMeta) -> Result<(), String> {
    let mut result = Ok(());
    for attr in extattr::records(endian, area) {
        let attr = match attr {
            Ok(attr) => attr,
            Err(error) => {
                result = Err(format!("extended attributes: {error}"));
                break;
            }
        };
        let namespace = match attr.namespace {
            Namespace::User => XattrNamespace::User,
            Namespace::System => XattrNamespace::System,
            Namespace::Other(_) => continue,
        };
        let posix = || PosixAcl::from_entries(acl::decode(endian, attr.value).ok());
        match (namespace, attr.name) {
            (XattrNamespace::System, acl::ACCESS_NAME) => {
                let acl = posix().with_mode(meta.perm);
                meta.acls.access = Some(acl).filter(PosixAcl::exceeds_mode);
            }
            (XattrNamespace::System, acl::DEFAULT_NAME) => meta.acls.default = Some(posix()),
            (XattrNamespace::System, acl::NFS4_NAME) => {
                meta.acls.nfs4 = Some(Nfs4Acl::from_disk(endian, attr.value));
            }
            (_, name) => {
                let (name, value) = (name.to_vec(), attr.value.to_vec());
                meta.xattrs.push(Xattr { namespace, name, value });
            }
        }
    }
    meta.sort_xattrs();
    result
}

/// Size of the header of a block with extended attributes of ext2, and of the short one that
/// Linux's dump gives to attributes of the inode; each with its magic number.
const EXT2_BLOCK: (u32, usize) = (0xea02_0000, 32);
const EXT2_INODE: (u32, usize) = (0xea02_0001, 4);
/// Size of an entry without its name.
const EXT2_ENTRY: usize = 16;

/// Adds the extended attributes of ext2 in `bytes`.
///
/// # Errors
/// A malformed attribute; those before it are added.
pub(super) fn add_ext2(endian: Endian, bytes: &[u8], meta: &mut EntryMeta) -> Result<(), String> {
    let magic: u32 = get(bytes, 0, endian);
    // The offsets of values in an inode count from the end of the header.
    let (mut at, base) = match magic {
        magic if magic == EXT2_BLOCK.0 => (EXT2_BLOCK.1, 0),
        magic if magic == EXT2_INODE.0 => (EXT2_INODE.1, EXT2_INODE.1),
        _ => return Err("extended attributes of an unknown format".to_owned()),
    };
    while bytes.get(at..at + 4).is_some_and(|start| start != [0; 4]) {
        let malformed = || "a malformed extended attribute".to_owned();
        let entry = bytes.get(at..at + EXT2_ENTRY).ok_or_else(malformed)?;
        let (len, index) = (usize::from(entry[0]), entry[1]);
        let offset = base + usize::from(get::<u16>(entry, 2, endian));
        let size = get::<u32>(entry, 8, endian) as usize;
        let name = bytes.get(at + EXT2_ENTRY..at + EXT2_ENTRY + len).ok_or_else(malformed)?;
        let end = offset.checked_add(size).ok_or_else(malformed)?;
        let value = bytes.get(offset..end).ok_or_else(malformed)?;
        add_ext2_attribute(endian, index, name, value, meta)?;
        at = (at + EXT2_ENTRY + len).next_multiple_of(4);
    }
    meta.sort_xattrs();
    Ok(())
}

fn add_ext2_attribute(
    endian: Endian,
    index: u8,
    name: &[u8],
    value: &[u8],
    meta: &mut EntryMeta,
) -> Result<(), String> {
    let prefix: &[u8] = match index {
        1 => b"user.",
        2 => {
            let acl = PosixAcl::from_entries(ext2_acl(endian, value)).with_mode(meta.perm);
            meta.acls.access = Some(acl).filter(PosixAcl::exceeds_mode);
            return Ok(());
        }
        3 => {
            meta.acls.default = Some(PosixAcl::from_entries(ext2_acl(endian, value)));
            return Ok(());
        }
        4 => b"trusted.",
        6 => b"security.",
        _ => return Err(format!("an extended attribute of the unknown name space {index}")),
    };
    let full = [prefix, name].concat();
    match linux_xattr::from_linux(&full) {
        Some((namespace, name)) => {
            meta.add_xattr(Xattr { namespace, name: name.to_vec(), value: value.to_vec() });
            Ok(())
        }
        None => Err(format!("UFS does not support the attribute {}", crate::text::escape(&full))),
    }
}

/// The entries of an ACL in the form of ext2: short for classes, long for users and groups.
fn ext2_acl(endian: Endian, value: &[u8]) -> Option<Vec<Entry>> {
    const VERSION: u32 = 1;
    if value.len() < 4 || get::<u32>(value, 0, endian) != VERSION {
        return None;
    }
    let (mut at, mut entries) = (4, Vec::new());
    while at < value.len() {
        let tag: u16 = get(value.get(at..at + 4)?, 0, endian);
        let perm: u16 = get(value, at + 2, endian);
        at += 4;
        let mut id = || {
            let id: u32 = get(value.get(at..at + 4)?, 0, endian);
            at += 4;
            Some(id)
        };
        let who = match tag {
            1 => Who::UserObj,
            2 => Who::User(id()?),
            4 => Who::GroupObj,
            8 => Who::Group(id()?),
            0x10 => Who::Mask,
            0x20 => Who::Other,
            _ => return None,
        };
        entries.push(Entry { who, perm: u8::try_from(perm).ok().filter(|perm| *perm <= 7)? });
    }
    Some(entries)
}
