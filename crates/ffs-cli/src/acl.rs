//! Access lists as text: `user:joe:rw-`, as getfacl(1) and setfacl(1) of FreeBSD have them.

use ffs_core::QuotaType;
use ffs_core::acl::{Entry, Who};

use crate::fail::Failure;
use crate::owner::id_of;
use crate::parse::acl::Tag;
pub(crate) use crate::parse::acl::{Word, words};
use crate::session::Session;

/// An entry as text; `name` gives the name of a user or a group.
pub(crate) fn show(entry: &Entry, name: impl Fn(QuotaType, u32) -> String) -> String {
    let bit = |bit: u8, letter: char| if entry.perm & bit != 0 { letter } else { '-' };
    let perm: String = [bit(4, 'r'), bit(2, 'w'), bit(1, 'x')].into_iter().collect();
    match entry.who {
        Who::UserObj => format!("user::{perm}"),
        Who::User(id) => format!("user:{}:{perm}", name(QuotaType::User, id)),
        Who::GroupObj => format!("group::{perm}"),
        Who::Group(id) => format!("group:{}:{perm}", name(QuotaType::Group, id)),
        Who::Mask => format!("mask::{perm}"),
        Who::Other => format!("other::{perm}"),
    }
}

impl Word {
    /// The user or group class of the entry. Names are those of the image.
    ///
    /// # Errors
    /// The name is unknown.
    pub(crate) fn who(&self, session: &Session) -> Result<Who, Failure> {
        Ok(match (self.tag, self.name.as_str()) {
            (Tag::User, "") => Who::UserObj,
            (Tag::User, name) => Who::User(id_of(Some(session), QuotaType::User, name)?),
            (Tag::Group, "") => Who::GroupObj,
            (Tag::Group, name) => Who::Group(id_of(Some(session), QuotaType::Group, name)?),
            (Tag::Mask, _) => Who::Mask,
            (Tag::Other, _) => Who::Other,
        })
    }

    /// The permissions.
    ///
    /// # Errors
    /// They are missing.
    pub(crate) fn perm(&self) -> Result<u8, Failure> {
        self.perm
            .ok_or_else(|| Failure::usage("an entry without permissions can only be removed (-x)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_shown_as_getfacl_shows_them() {
        let name = |_, id: u32| format!("#{id}");
        let show = |who, perm| show(&Entry { who, perm }, name);
        assert_eq!(show(Who::User(7), 5), "user:#7:r-x");
        assert_eq!(show(Who::GroupObj, 0), "group::---");
        assert_eq!(show(Who::Mask, 7), "mask::rwx");
    }
}
