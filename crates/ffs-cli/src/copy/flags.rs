//! File flags as BSD's `chflags` and `ls -o` spell them.
//!
//! Where a host has no flags they travel in an extended attribute, [`XATTR`].

use ffs_ondisk::FileFlags;

/// Extended attribute of the host, in its user name space, that holds the flags of a file.
pub(crate) const XATTR: &[u8] = b"bsd.flags";

/// Name and bit of every flag; the first name of a bit is the one printed.
const NAMES: [(&str, FileFlags); 18] = [
    ("arch", FileFlags::SF_ARCHIVED),
    ("schg", FileFlags::SF_IMMUTABLE),
    ("sappnd", FileFlags::SF_APPEND),
    ("sunlnk", FileFlags::SF_NOUNLINK),
    ("uchg", FileFlags::UF_IMMUTABLE),
    ("uappnd", FileFlags::UF_APPEND),
    ("uunlnk", FileFlags::UF_NOUNLINK),
    ("nodump", FileFlags::UF_NODUMP),
    ("opaque", FileFlags::UF_OPAQUE),
    ("usystem", FileFlags::UF_SYSTEM),
    ("usparse", FileFlags::UF_SPARSE),
    ("uoffline", FileFlags::UF_OFFLINE),
    ("ureparse", FileFlags::UF_REPARSE),
    ("uarch", FileFlags::UF_ARCHIVE),
    ("urdonly", FileFlags::UF_READONLY),
    ("uhidden", FileFlags::UF_HIDDEN),
    ("schange", FileFlags::SF_IMMUTABLE),
    ("uchange", FileFlags::UF_IMMUTABLE),
];

/// The names of the flags, comma between them; `-` for none, unknown ones in hexadecimal.
pub(crate) fn to_text(flags: FileFlags) -> String {
    let mut left = flags;
    // Told by the kernel alone, and shown so by BSD.
    let mut names: Vec<String> = Vec::new();
    if left.contains(FileFlags::SF_SNAPSHOT) {
        names.push("snapshot".to_owned());
        left.remove(FileFlags::SF_SNAPSHOT);
    }
    for (name, bit) in NAMES {
        if left.contains(bit) {
            names.push(name.to_owned());
            left.remove(bit);
        }
    }
    if left.bits() != 0 {
        names.push(format!("{:#x}", left.bits()));
    }
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}

/// The flags that `text` names; `None` if one is unknown.
pub(crate) fn from_text(text: &str) -> Option<FileFlags> {
    let mut flags = FileFlags::empty();
    for name in text.split(',').filter(|name| !name.is_empty() && *name != "-") {
        let bit = match NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, bit)) => *bit,
            None => {
                FileFlags::from_bits_retain(u32::from_str_radix(name.strip_prefix("0x")?, 16).ok()?)
            }
        };
        flags |= bit;
    }
    Some(flags)
}

/// Flags that may be copied: the snapshot mark belongs to its volume.
pub(crate) fn portable(flags: FileFlags) -> FileFlags {
    flags.difference(FileFlags::SF_SNAPSHOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_survive_as_text() {
        for bits in [0, 1, 0x2_0002, 0x000f_9fff & !0x20_0000, 0x8000_0000, 0x40] {
            let flags = FileFlags::from_bits_retain(bits);
            let text = to_text(flags);
            assert_eq!(from_text(&text), Some(flags), "{text}");
        }
        assert_eq!(to_text(FileFlags::SF_IMMUTABLE | FileFlags::UF_NODUMP), "schg,nodump");
        assert_eq!(from_text("schange"), Some(FileFlags::SF_IMMUTABLE));
        assert_eq!(from_text("nosuch"), None);
    }
}
