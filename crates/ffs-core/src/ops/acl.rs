//! POSIX.1e access lists: reading, setting, inheriting.
//!
//! # Invariants
//! 1. The mode is authoritative for owner, others, and mask (or the group where there is no mask):
//!    its bits override those of the stored list on reading and are updated on setting. So a change
//!    of the mode changes the list.
//! 2. An access list that a mode can express is not stored.
//! 3. Access lists are in force only if the volume (`tunefs -a`) or a mount option enables them;
//!    FreeBSD ignores them on other volumes.
//!
//! References: `spec/on-disk-format.md` §10.3; POSIX.1e draft 17, 23.1.

pub mod linux;

use crate::alloc::Reserve;
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::inode::{InodeView, LockedInode};
use crate::mount::{Ffs, Mount};
use crate::ops::Vnode;
use crate::ops::perm;
use crate::types::{SetAttr, XattrNamespace, XattrSet};
use ffs_ondisk::acl;
pub use ffs_ondisk::acl::{Entry, Who};
use ffs_ondisk::{FileFlags, FileType, Place, Structure};

const SET_GROUP: u16 = 0o2000;

/// An access list that satisfies the rules of POSIX.1e.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

/// The mode and lists of a new file, inherited from its directory's default list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Low 12 bits of the mode.
    pub perm: u16,
    /// Its access list, if a mode cannot express it.
    pub access: Option<Acl>,
}

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they violate a rule, [`Error::NoSpace`] if they are too many to be
    /// stored.
    pub fn new(mut entries: Vec<Entry>) -> Result<Acl> {
        if let Some(why) = acl::problem(&entries) {
            return Err(Error::Invalid(why));
        }
        if entries.len() > acl::MAX_ENTRIES {
            return Err(Error::NoSpace);
        }
        entries.sort_by_key(|e| e.who);
        Ok(Acl(entries))
    }

    /// The entries in the order owner, users, group, groups, mask, others; users and groups by
    /// number.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Whether a mode can express the list.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The entry that the group bits of the mode stand for.
    fn group_class(&self) -> Who {
        if self.0.iter().any(|e| e.who == Who::Mask) { Who::Mask } else { Who::GroupObj }
    }

    /// Calls `change` with the permissions of each entry that the mode includes, and the shift of
    /// its bits there.
    fn each_of_mode(&mut self, mut change: impl FnMut(&mut u8, u32)) {
        let group = self.group_class();
        for e in &mut self.0 {
            match e.who {
                Who::UserObj => change(&mut e.perm, 6),
                w if w == group => change(&mut e.perm, 3),
                Who::Other => change(&mut e.perm, 0),
                _ => {}
            }
        }
    }

    /// Replaces the permissions that the mode includes by those of `perm`. The mode of a file is in
    /// force, and its list on disk may be older.
    pub fn set_mode(&mut self, perm: u16) {
        self.each_of_mode(|p, shift| *p = (perm >> shift & 7) as u8);
    }

    /// The nine mode bits of the list.
    fn mode(&self) -> u16 {
        let mut mode = 0;
        self.clone().each_of_mode(|p, shift| mode |= u16::from(*p) << shift);
        mode
    }

    /// The mode and access list of a file created with mode `perm` under this default list.
    #[must_use]
    pub fn inherit(&self, perm: u16) -> Inherited {
        let mut access = self.clone();
        access.each_of_mode(|p, shift| *p &= (perm >> shift & 7) as u8);
        let perm = perm & !0o777 | access.mode();
        Inherited { perm, access: (!access.is_minimal()).then_some(access) }
    }
}

impl Ffs {
    /// Whether access lists are in force.
    #[must_use]
    pub fn acls(&self) -> bool {
        self.0.acls
    }

    /// Whether the volume has NFSv4 access lists, which this file system preserves and does not
    /// enforce.
    #[must_use]
    pub fn nfs4_acls(&self) -> bool {
        self.0.nfs4_acls
    }

    /// The access list of `file`, if it has one that a mode cannot express.
    ///
    /// # Errors
    /// The device's; [`Error::Format`] if the stored attribute is not a valid list.
    pub fn access_acl(&self, file: &Vnode) -> Result<Option<Acl>> {
        let Some(mut acl) = self.read_acl(file, acl::ACCESS_NAME)? else { return Ok(None) };
        acl.set_mode(self.getattr(file).perm);
        Ok(Some(acl))
    }

    /// The default list of directory `dir`, if it has one.
    ///
    /// # Errors
    /// As [`Ffs::access_acl`].
    pub fn default_acl(&self, dir: &Vnode) -> Result<Option<Acl>> {
        self.read_acl(dir, acl::DEFAULT_NAME)
    }

    /// Sets the access list of `file`, and its mode from the list; `None` removes the list and
    /// keeps the mode. With `clear_setgid` the set-group-id bit is cleared.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if `cred` is not the owner or file flags forbid it; those of setting
    /// attributes and extended attributes. On an error nothing has changed.
    pub fn set_access_acl(
        &self,
        cred: &Cred,
        file: &Vnode,
        acl: Option<&Acl>,
        clear_setgid: bool,
    ) -> Result<()> {
        self.may_set_list(cred, file)?;
        let old = self.getattr(file).perm;
        let mut perm = acl.map_or(old, |acl| old & !0o777 | acl.mode());
        if clear_setgid {
            perm &= !SET_GROUP;
        }
        // The list is set first: between the two steps the old mode's mask bounds what it grants.
        self.write_acl(cred, file, acl::ACCESS_NAME, acl.filter(|a| !a.is_minimal()))?;
        if perm != old {
            self.setattr(cred, file, &SetAttr { perm: Some(perm), ..SetAttr::default() })?;
        }
        Ok(())
    }

    /// Sets the default list of directory `dir`; `None` removes it.
    ///
    /// # Errors
    /// As [`Ffs::set_access_acl`]; [`Error::NotDirectory`].
    pub fn set_default_acl(&self, cred: &Cred, dir: &Vnode, acl: Option<&Acl>) -> Result<()> {
        self.may_set_list(cred, dir)?;
        if self.getattr(dir).kind != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        self.write_acl(cred, dir, acl::DEFAULT_NAME, acl)
    }

    /// Checks that `cred` may change the lists of `file`; the rule is that for its mode.
    fn may_set_list(&self, cred: &Cred, file: &Vnode) -> Result<()> {
        if !self.acls() {
            let why = "the volume has no access lists (tunefs -a enables them)";
            return Err(Error::NotSupported(why));
        }
        let data = file.ip.read();
        if data.d.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND) {
            return Err(Error::NotPermitted);
        }
        perm::must_own(&data.d, cred)
    }

    fn read_acl(&self, file: &Vnode, name: &'static [u8]) -> Result<Option<Acl>> {
        self.0.acl_of(self.0.view(&file.ip, &file.ip.read()), name)
    }

    fn write_acl(&self, cred: &Cred, file: &Vnode, name: &[u8], acl: Option<&Acl>) -> Result<()> {
        let ns = XattrNamespace::System;
        // The owner may set the lists, although only root may write the name space.
        let root = Cred { is_root: true, ..cred.clone() };
        let Some(acl) = acl else {
            return match self.removexattr(&root, file, ns, name) {
                Err(Error::NoAttr) => Ok(()),
                other => other,
            };
        };
        let bytes = acl::encode(self.geometry().endian, acl.entries()).ok_or(Error::NoSpace)?;
        self.setxattr(&root, file, ns, name, &bytes, XattrSet::Any)
    }
}

/// The mode and lists of a new file, inherited from its directory's default list.
pub(super) struct NewAcls {
    /// Low 12 bits of the mode.
    pub(super) perm: u16,
    access: Option<Acl>,
    default: Option<Acl>,
}

impl NewAcls {
    pub(super) fn none(perm: u16) -> NewAcls {
        NewAcls { perm, access: None, default: None }
    }
}

impl Mount {
    /// A list of `file`, if access lists are in force and it has one.
    fn acl_of(&self, file: InodeView<'_>, name: &'static [u8]) -> Result<Option<Acl>> {
        if !self.acls || file.d.extsize == 0 {
            return Ok(None);
        }
        let bytes = match file.xattr_get(XattrNamespace::System, name) {
            Ok(bytes) => bytes,
            Err(Error::NoAttr | Error::NotSupported(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let place = Place::Inode(file.ip.ino);
        let corrupt = |field, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
            Error::corrupt(Structure::ExtAttr, place, field, found, expected)
        };
        let entries = acl::decode(self.ump.g().endian, &bytes)
            .map_err(|bad| corrupt(bad.field, &bad.found, &bad.expected))?;
        match acl::problem(&entries) {
            None => Ok(Some(Acl(entries))),
            Some(why) => Err(corrupt("access list", &"a list that", &why)),
        }
    }

    /// The mode and lists that a file created in `dir` with mode `perm` inherits.
    pub(super) fn inherited_acls(
        &self,
        dir: InodeView<'_>,
        is_dir: bool,
        perm: u16,
    ) -> Result<NewAcls> {
        let Some(default) = self.acl_of(dir, acl::DEFAULT_NAME)? else {
            return Ok(NewAcls::none(perm));
        };
        let Inherited { perm, access } = default.inherit(perm);
        Ok(NewAcls { perm, access, default: is_dir.then_some(default) })
    }
}

impl NewAcls {
    /// Stores the lists of a new file. The caller enters the name later, so that the file never has
    /// a name without its lists, even after a crash.
    pub(super) fn give_to(&self, file: &mut LockedInode<'_>, reserve: Reserve) -> Result<()> {
        let each = [(acl::ACCESS_NAME, &self.access), (acl::DEFAULT_NAME, &self.default)];
        for (name, acl) in each {
            let Some(acl) = acl else { continue };
            let bytes = acl::encode(file.g().endian, acl.entries()).ok_or(Error::NoSpace)?;
            file.xattr_set((XattrNamespace::System, name), &bytes, XattrSet::Any, reserve)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(Who, u8)]) -> Acl {
        Acl::new(entries.iter().map(|&(who, perm)| Entry { who, perm }).collect()).unwrap()
    }

    const FULL: [(Who, u8); 6] = [
        (Who::Other, 5),
        (Who::Mask, 7),
        (Who::Group(7), 6),
        (Who::GroupObj, 5),
        (Who::User(9), 7),
        (Who::UserObj, 7),
    ];

    #[test]
    fn entries_are_sorted_and_judged() {
        let a = acl(&FULL);
        let order: Vec<Who> = a.entries().iter().map(|e| e.who).collect();
        assert_eq!(
            order,
            [Who::UserObj, Who::User(9), Who::GroupObj, Who::Group(7), Who::Mask, Who::Other]
        );
        let no_mask = FULL.iter().filter(|e| e.0 != Who::Mask);
        let no_mask = no_mask.map(|&(who, perm)| Entry { who, perm }).collect();
        assert!(matches!(Acl::new(no_mask), Err(Error::Invalid(_))));
    }

    #[test]
    fn the_mode_rules_owner_mask_and_others() {
        let mut a = acl(&FULL);
        assert_eq!(a.mode(), 0o775);
        a.set_mode(0o640);
        assert_eq!(a.mode(), 0o640);
        let perm = |who| a.entries().iter().find(|e| e.who == who).unwrap().perm;
        assert_eq!(perm(Who::GroupObj), 5, "the mask bounds it, it stays");
        assert_eq!((perm(Who::Mask), perm(Who::User(9))), (4, 7));
    }

    #[test]
    fn inheriting_intersects_with_the_requested_mode() {
        let full = acl(&FULL).inherit(0o4644);
        assert_eq!(full.perm, 0o4644);
        assert_eq!(full.access.unwrap().mode(), 0o644);
        let plain = acl(&[(Who::UserObj, 7), (Who::GroupObj, 4), (Who::Other, 0)]).inherit(0o666);
        assert_eq!(plain, Inherited { perm: 0o640, access: None });
    }
}
