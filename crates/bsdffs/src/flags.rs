//! The names of file flags, as in BSD's `chflags` and `ls -o`.
//!
//! On a host without file flags the extended attribute [`XATTR`] stores them.

use ffs_ondisk::FileFlags;

/// The extended attribute in the name space `user` of the host that stores file flags as text.
pub const XATTR: &[u8] = b"bsd.flags";

/// Names and bits of the flags. [`to_text`] prints the first name of a bit.
const NAMES: [(&str, FileFlags); 33] = [
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
    ("archived", FileFlags::SF_ARCHIVED),
    ("schange", FileFlags::SF_IMMUTABLE),
    ("simmutable", FileFlags::SF_IMMUTABLE),
    ("sappend", FileFlags::SF_APPEND),
    ("sunlink", FileFlags::SF_NOUNLINK),
    ("uchange", FileFlags::UF_IMMUTABLE),
    ("uimmutable", FileFlags::UF_IMMUTABLE),
    ("uappend", FileFlags::UF_APPEND),
    ("uunlink", FileFlags::UF_NOUNLINK),
    ("system", FileFlags::UF_SYSTEM),
    ("sparse", FileFlags::UF_SPARSE),
    ("offline", FileFlags::UF_OFFLINE),
    ("reparse", FileFlags::UF_REPARSE),
    ("uarchive", FileFlags::UF_ARCHIVE),
    ("rdonly", FileFlags::UF_READONLY),
    ("readonly", FileFlags::UF_READONLY),
    ("hidden", FileFlags::UF_HIDDEN),
];

/// The names of the flags, separated by commas; `-` if there are none; unknown flags in
/// hexadecimal.
#[must_use]
pub fn to_text(flags: FileFlags) -> String {
    let mut left = flags;
    // No name in NAMES: chflags cannot set it.
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

/// The flags that `text` names; `None` if a name is unknown.
#[must_use]
pub fn from_text(text: &str) -> Option<FileFlags> {
    let mut flags = FileFlags::empty();
    for name in text.split(',').filter(|name| !name.is_empty() && *name != "-") {
        let bit = match flag(name) {
            Some(bit) => bit,
            None => {
                FileFlags::from_bits_retain(u32::from_str_radix(name.strip_prefix("0x")?, 16).ok()?)
            }
        };
        flags |= bit;
    }
    Some(flags)
}

/// The flag with this name.
fn flag(name: &str) -> Option<FileFlags> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, bit)| *bit)
}

/// A change of file flags, as an argument of `chflags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagsChange {
    clear: FileFlags,
    set: FileFlags,
}

impl FlagsChange {
    /// Parses a list of names, or an octal number.
    ///
    /// # Errors
    /// A message that quotes the wrong name or number.
    pub fn parse(text: &str) -> Result<FlagsChange, String> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let bits = u32::from_str_radix(text, 8).ok().map(FileFlags::from_bits_retain);
            let known = NAMES.iter().fold(FileFlags::empty(), |all, (_, bit)| all | *bit);
            let set = bits.filter(|set| known.contains(*set));
            let set =
                set.ok_or_else(|| format!("{text:?} is not an octal number of known flags"))?;
            return Ok(FlagsChange { clear: FileFlags::from_bits_retain(u32::MAX), set });
        }
        let mut change = FlagsChange { clear: FileFlags::empty(), set: FileFlags::empty() };
        for name in text.split(',') {
            let cleared = || match name {
                "dump" => Some(FileFlags::UF_NODUMP),
                other => flag(other.strip_prefix("no")?),
            };
            if let Some(bit) = flag(name) {
                change.set |= bit;
                change.clear.remove(bit);
            } else if let Some(bit) = cleared() {
                change.clear |= bit;
                change.set.remove(bit);
            } else {
                return Err(format!("{name:?} is not a flag such as uchg or nouchg"));
            }
        }
        Ok(change)
    }

    /// The flags of a file after the change.
    #[must_use]
    pub fn apply(self, old: FileFlags) -> FileFlags {
        old.difference(self.clear) | self.set
    }
}

/// The flags that a copy preserves: all except that of snapshots, which belongs to their volume.
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

    #[test]
    fn changes_of_flags() {
        let old = FileFlags::UF_NODUMP | FileFlags::SF_APPEND;
        for (text, new) in [
            ("uchg", "sappnd,uchg,nodump"),
            ("dump", "sappnd"),
            ("nosappnd,uimmutable", "uchg,nodump"),
            ("uchg,nouchg", "sappnd,nodump"),
            ("nouchg,uchg", "sappnd,uchg,nodump"),
            ("0", "-"),
            ("0400002", "schg,uchg"),
        ] {
            assert_eq!(to_text(FlagsChange::parse(text).unwrap().apply(old)), new, "{text}");
        }
        for bad in ["", "uchg,", "no", "uchgx", "9", "0x2", "snapshot", "10000000000"] {
            assert!(FlagsChange::parse(bad).is_err(), "{bad}");
        }
    }
}
