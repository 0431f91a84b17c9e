//! How extended attributes of Linux are stored on UFS2.
//!
//! UFS2 has two name spaces, `user` and `system`. A Linux name begins with its name space.
//!
//! | Linux | UFS2 |
//! | --- | --- |
//! | `user.NAME` | `NAME` in `user` |
//! | `trusted.NAME` | `NAME` in `system` |
//! | `security.NAME` | `security.NAME` in `system` |
//!
//! On FreeBSD only root reads and changes the name space `system`. FreeBSD copies, checks and frees
//! names that it does not define like all others: `getextattr system security.capability FILE`
//! prints the capabilities that `setcap` stored. `trusted.security.NAME` is refused, because it
//! would be read back as `security.NAME`.

use crate::types::XattrNamespace;

const USER: &[u8] = b"user.";
const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";

/// The name in `system` of the capabilities that `setcap` gives to a program.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// The name space and name under which the attribute with the Linux name `full` is stored; `None`
/// if UFS2 cannot store it.
#[must_use]
pub fn from_linux(full: &[u8]) -> Option<(XattrNamespace, &[u8])> {
    if let Some(name) = full.strip_prefix(USER) {
        return Some((XattrNamespace::User, name));
    }
    if full.starts_with(SECURITY) {
        return Some((XattrNamespace::System, full));
    }
    let name = full.strip_prefix(TRUSTED).filter(|name| !name.starts_with(SECURITY))?;
    Some((XattrNamespace::System, name))
}

/// The Linux name of the stored attribute `name`.
#[must_use]
pub fn to_linux(namespace: XattrNamespace, name: &[u8]) -> Vec<u8> {
    let prefix = match namespace {
        XattrNamespace::User => USER,
        XattrNamespace::System if name.starts_with(SECURITY) => b"",
        XattrNamespace::System => TRUSTED,
    };
    [prefix, name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were() {
        for full in
            [&b"user.a"[..], b"trusted.overlay.opaque", b"security.capability", b"user.security.x"]
        {
            let (namespace, name) = from_linux(full).unwrap();
            assert_eq!(to_linux(namespace, name), full);
        }
        assert_eq!(from_linux(b"security.x"), Some((XattrNamespace::System, &b"security.x"[..])));
        for refused in [&b"trusted.security.x"[..], b"system.posix_acl_access", b"other"] {
            assert_eq!(from_linux(refused), None);
        }
    }
}
