//! Names of content that is no UFS, and what a user can do with it.

pub(crate) const ZFS: &str = "part of a ZFS pool";
pub(crate) const SQUASHFS: &str = "a squashfs file system";
pub(crate) const ISO: &str = "an ISO 9660 file system (a CD or DVD)";
pub(crate) const LUKS: &str = "an encrypted LUKS volume";
pub(crate) const GELI: &str = "an encrypted GELI provider";
pub(crate) const TAR: &str = "a tar archive";
pub(crate) const DUMP: &str = "a dump of a file system";

/// What a user can do with `image`, which is that content.
pub(crate) fn next_step(what: &str, image: &str) -> String {
    match what {
        LUKS => format!("open it first: cryptsetup open {image} NAME; then use /dev/mapper/NAME"),
        GELI => "on FreeBSD attach it first: geli attach DEVICE; then use DEVICE.eli".to_owned(),
        ZFS => "import its pool with zpool import".to_owned(),
        TAR => format!("make an image of it: ffs build NEW.img {image}"),
        DUMP => format!("list it with: ffs restore -tf {image}"),
        ISO | SQUASHFS => format!("mount it with: mount -o loop,ro {image} DIR"),
        _ => "use the tools of its system; ffs reads UFS only".to_owned(),
    }
}
