//! The credential of a caller, for permission checks.

/// A caller's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Whether this is the super-user. A user of a mount who is mapped to user 0 is not.
    pub is_root: bool,
    /// Whether the core checks permissions, or the caller has (a kernel with
    /// `default_permissions`). Rules of the format (flags, reserve) are checked in both cases.
    pub checks: Checks,
}

/// Whether the core or its caller checks permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// The core checks them.
    Here,
    /// The caller has checked them.
    Done,
}

impl Cred {
    /// The super-user: passes every permission check, may use the reserve.
    #[must_use]
    pub fn root() -> Cred {
        Cred { is_root: true, ..Cred::user(0, 0) }
    }

    /// A user with one group: user 0 is the super-user.
    #[must_use]
    pub fn user(uid: u32, gid: u32) -> Cred {
        Cred { uid, gid, groups: Vec::new(), is_root: uid == 0, checks: Checks::Here }
    }

    /// Whether the caller is in `gid`.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}
