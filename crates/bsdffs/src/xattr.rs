//! Names of extended attributes: `user.NAME` and `system.NAME`, for the two name spaces of UFS2.

use ffs_core::XattrNamespace;

/// The name space and the name in it; `None` if `text` names neither of the two.
///
/// ```
/// use bsdffs::xattr;
/// use ffs_core::XattrNamespace;
///
/// assert_eq!(xattr::parse(b"user.note"), Some((XattrNamespace::User, &b"note"[..])));
/// assert_eq!(xattr::full_name(XattrNamespace::System, b"posix1e"), b"system.posix1e");
/// assert_eq!(xattr::parse(b"note"), None);
/// ```
#[must_use]
pub fn parse(text: &[u8]) -> Option<(XattrNamespace, &[u8])> {
    let in_space = |prefix: &[u8], space| text.strip_prefix(prefix).map(|name| (space, name));
    in_space(b"user.", XattrNamespace::User)
        .or_else(|| in_space(b"system.", XattrNamespace::System))
        .filter(|(_, name)| !name.is_empty())
}

/// The name with its name space in front.
#[must_use]
pub fn full_name(space: XattrNamespace, name: &[u8]) -> Vec<u8> {
    let prefix: &[u8] = match space {
        XattrNamespace::User => b"user.",
        XattrNamespace::System => b"system.",
    };
    [prefix, name].concat()
}
