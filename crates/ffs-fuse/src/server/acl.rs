//! POSIX access control lists, which Linux reads and writes as extended attributes.

use super::Server;
use crate::wire::Errno;
use ffs_core::acl::{Acl, Entry, Who, linux};
use ffs_core::{Cred, FileType, Vnode};

/// One of the two lists of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Access,
    Default,
}

impl Kind {
    /// The list behind the attribute `name`.
    pub(super) fn of_name(name: &[u8]) -> Option<Kind> {
        match name {
            b"system.posix_acl_access" => Some(Kind::Access),
            b"system.posix_acl_default" => Some(Kind::Default),
            _ => None,
        }
    }
}

impl Server {
    /// The list in Linux's encoding. `ENODATA` if the file has none of its own.
    pub(super) fn acl_value(&self, file: &Vnode, kind: Kind) -> Result<Vec<u8>, Errno> {
        if !self.acls {
            return Err(Errno::OPNOTSUPP);
        }
        let acl = match kind {
            Kind::Access => self.fs.access_acl(file)?,
            Kind::Default => self.fs.default_acl(file)?,
        };
        let owners = &self.options.owners;
        let shown = |e: &Entry| {
            let who = match e.who {
                Who::User(id) => Who::User(owners.users.shown_in_list(id)),
                Who::Group(id) => Who::Group(owners.groups.shown_in_list(id)),
                Who::UserObj | Who::GroupObj | Who::Mask | Who::Other => e.who,
            };
            Entry { who, ..*e }
        };
        let acl = acl.ok_or(Errno::NODATA)?;
        let entries: Vec<Entry> = acl.entries().iter().map(shown).collect();
        Ok(linux::encode(&entries))
    }

    /// Sets a list, or removes it if `value` is empty or is equivalent to the mode.
    pub(super) fn set_acl(
        &self,
        cred: &Cred,
        file: &Vnode,
        kind: Kind,
        value: &[u8],
        kill_sgid: bool,
    ) -> Result<(), Errno> {
        if !self.acls {
            return Err(Errno::OPNOTSUPP);
        }
        let mut entries = if value.is_empty() { Vec::new() } else { linux::decode(value)? };
        let owners = &self.options.owners;
        for e in &mut entries {
            match &mut e.who {
                Who::User(id) => *id = owners.users.on_volume_in_list(*id).ok_or(Errno::INVAL)?,
                Who::Group(id) => *id = owners.groups.on_volume_in_list(*id).ok_or(Errno::INVAL)?,
                Who::UserObj | Who::GroupObj | Who::Mask | Who::Other => {}
            }
        }
        let acl = if entries.is_empty() { None } else { Some(Acl::new(entries)?) };
        match kind {
            Kind::Access => self.fs.set_access_acl(cred, file, acl.as_ref(), kill_sgid)?,
            Kind::Default if self.fs.getattr(file).kind != FileType::Directory => {
                return if acl.is_none() { Ok(()) } else { Err(Errno(libc::EACCES)) };
            }
            Kind::Default => self.fs.set_default_acl(cred, file, acl.as_ref())?,
        }
        Ok(())
    }
}
