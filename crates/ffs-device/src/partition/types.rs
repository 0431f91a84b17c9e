//! The types of partitions in a GPT, by gpart(8)'s names and by GUIDs.
//!
//! The one table of them: `gpt` gets the kind of a partition from it, and those who make a table
//! get GUIDs by name.

use std::fmt;
use std::str::FromStr;

use super::PartitionKind::{self, BsdSlice, Foreign, Named, Ufs};

/// The type of a partition: a GUID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PartitionType(u128);

/// The types with names. FreeBSD's gpart(8) has these names, too.
const TYPES: [(&str, PartitionType); 32] = [
    ("freebsd-boot", PartitionType::BOOT),
    ("efi", PartitionType::EFI),
    ("freebsd-swap", PartitionType::SWAP),
    ("freebsd-ufs", PartitionType::UFS),
    ("freebsd", PartitionType(0x516e_7cb4_6ecf_11d6_8ff8_0002_2d09_712b)),
    ("freebsd-zfs", PartitionType(0x516e_7cba_6ecf_11d6_8ff8_0002_2d09_712b)),
    ("freebsd-vinum", PartitionType(0x516e_7cb8_6ecf_11d6_8ff8_0002_2d09_712b)),
    ("bios-boot", PartitionType(0x2168_6148_6449_6e6f_744e_6565_6445_4649)),
    ("linux-data", PartitionType(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4)),
    ("linux-swap", PartitionType(0x0657_fd6d_a4ab_43c4_84e5_0933_c84b_4f4f)),
    ("linux-lvm", PartitionType(0xe6d6_d379_f507_44c2_a23c_238f_2a3d_f928)),
    ("linux-raid", PartitionType(0xa19d_880f_05fc_4d3b_a006_743f_0f84_911e)),
    ("ms-basic-data", PartitionType(0xebd0_a0a2_b9e5_4433_87c0_68b6_b726_99c7)),
    ("ms-reserved", PartitionType(0xe3c9_e316_0b5c_4db8_817d_f92d_f002_15ae)),
    ("netbsd-ffs", PartitionType(0x49f4_8d5a_b10e_11dc_b99b_0019_d187_9648)),
    ("netbsd-lfs", PartitionType(0x49f4_8d82_b10e_11dc_b99b_0019_d187_9648)),
    ("netbsd-swap", PartitionType(0x49f4_8d32_b10e_11dc_b99b_0019_d187_9648)),
    ("openbsd-data", PartitionType(0x824c_c7a0_36a8_11e3_890a_9525_19ad_3f61)),
    ("dragonfly-ufs", PartitionType(0x9d94_ce7c_1ca5_11dc_8817_0130_1bb8_a9f5)),
    ("dragonfly-hammer", PartitionType(0x61dc_63ac_6e38_11dc_8513_0130_1bb8_a9f5)),
    ("dragonfly-hammer2", PartitionType(0x5cbb_9ad1_862d_11dc_a94d_0130_1bb8_a9f5)),
    ("ms-recovery", PartitionType(0xde94_bba4_06d1_4d40_a16a_bfd5_0179_d6ac)),
    ("ms-ldm-data", PartitionType(0xaf9b_60a0_1431_4f62_bc68_3311_714a_69ad)),
    ("ms-ldm-metadata", PartitionType(0x5808_c8aa_7e8f_42e0_85d2_e1e9_0434_cfb3)),
    ("netbsd-raid", PartitionType(0x49f4_8daa_b10e_11dc_b99b_0019_d187_9648)),
    ("solaris-boot", PartitionType(0x6a82_cb45_1dd2_11b2_99a6_0800_2073_6631)),
    ("solaris-root", PartitionType(0x6a85_cf4d_1dd2_11b2_99a6_0800_2073_6631)),
    ("solaris-usr", PartitionType(0x6a89_8cc3_1dd2_11b2_99a6_0800_2073_6631)),
    ("apple-boot", PartitionType(0x426f_6f74_0000_11aa_aa11_0030_6543_ecac)),
    ("apple-ufs", PartitionType(0x5546_5300_0000_11aa_aa11_0030_6543_ecac)),
    ("apple-hfs", PartitionType(0x4846_5300_0000_11aa_aa11_0030_6543_ecac)),
    ("apple-apfs", PartitionType(0x7c34_57ef_0000_11aa_aa11_0030_6543_ecac)),
];

impl PartitionType {
    /// `freebsd-boot`.
    pub const BOOT: PartitionType = PartitionType(0x83bd_6b9d_7f41_11dc_be0b_0015_60b8_4f0f);
    /// `efi`.
    pub const EFI: PartitionType = PartitionType(0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b);
    /// `freebsd-swap`.
    pub const SWAP: PartitionType = PartitionType(0x516e_7cb5_6ecf_11d6_8ff8_0002_2d09_712b);
    /// `freebsd-ufs`.
    pub const UFS: PartitionType = PartitionType(0x516e_7cb6_6ecf_11d6_8ff8_0002_2d09_712b);

    /// The name of gpart(8), if the type has one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        TYPES.iter().find(|(_, kind)| *kind == self).map(|(name, _)| *name)
    }

    /// What a partition of this type contains.
    pub(super) fn partition_kind(self) -> PartitionKind {
        match self.name() {
            Some("freebsd-ufs" | "netbsd-ffs" | "apple-ufs") => Ufs,
            // These contain a disklabel.
            Some("freebsd" | "openbsd-data") => BsdSlice,
            Some("freebsd-boot") => Foreign("FreeBSD boot"),
            Some("freebsd-swap") => Foreign("FreeBSD swap"),
            Some("freebsd-zfs") => Foreign("FreeBSD ZFS"),
            Some("freebsd-vinum") => Foreign("FreeBSD vinum"),
            Some("netbsd-swap") => Foreign("NetBSD swap"),
            Some("efi") => Foreign("EFI system"),
            Some(name) => Named(name),
            None => PartitionKind::Unknown(dashed(self.0).to_uppercase()),
        }
    }

    /// The type with the GUID `bytes`, which are as on the disk.
    pub(super) fn of_disk(bytes: [u8; 16]) -> PartitionType {
        PartitionType(u128::from_be_bytes(swapped(bytes)))
    }

    /// The GUID as it is on the disk: its first three parts are little-endian.
    #[must_use]
    pub fn on_disk(self) -> [u8; 16] {
        guid_on_disk(self.0)
    }
}

/// A GUID as it is on the disk: its first three parts are little-endian.
#[must_use]
pub fn guid_on_disk(guid: u128) -> [u8; 16] {
    swapped(guid.to_be_bytes())
}

/// A GUID with the bytes of its first three parts in the other order.
fn swapped(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// The usual form of a GUID, in lower case.
fn dashed(guid: u128) -> String {
    let text = format!("{guid:032x}");
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(start, end)| text.get(start..end).unwrap_or_default()).join("-")
}

/// The name of gpart(8), or `!` and the GUID.
impl fmt::Display for PartitionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.pad(name);
        }
        f.pad(&format!("!{}", dashed(self.0)))
    }
}

impl fmt::Debug for PartitionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A word that is neither the name of a type nor a GUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownType(String);

impl fmt::Display for UnknownType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        write!(f, "{:?} is no type; expected a GUID, or one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownType {}

/// Reads a name of gpart(8), or a GUID, also with `!` in front of it.
impl FromStr for PartitionType {
    type Err = UnknownType;

    fn from_str(text: &str) -> Result<PartitionType, UnknownType> {
        if let Some((_, kind)) = TYPES.iter().find(|(name, _)| *name == text) {
            return Ok(*kind);
        }
        let parts: Vec<&str> = text.strip_prefix('!').unwrap_or(text).split('-').collect();
        let formed = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
            && parts.concat().chars().all(|digit| digit.is_ascii_hexdigit());
        let guid = u128::from_str_radix(&parts.concat(), 16).ok().filter(|guid| *guid != 0);
        guid.filter(|_| formed).map(PartitionType).ok_or_else(|| UnknownType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_names_or_guids() {
        let kind = |text: &str| text.parse::<PartitionType>().map_err(|error| error.0);
        assert_eq!(kind("freebsd-ufs"), Ok(PartitionType::UFS));
        assert_eq!(kind("516E7CB6-6ECF-11D6-8FF8-00022D09712B"), Ok(PartitionType::UFS));
        let other = "!01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(kind(other).unwrap().to_string(), other);
        assert_eq!(kind(&other[1..]).unwrap().on_disk()[..6], [0x67, 0x45, 0x23, 0x01, 0xab, 0x89]);
        for wrong in [
            "",
            "ufs",
            "00000000-0000-0000-0000-000000000000",
            "516E7CB66ECF11D68FF800022D09712B",
            "+16E7CB6-6ECF-11D6-8FF8-00022D09712B",
            "516E7CB6-6ECF-11D6-8FF8-00022D09712B-",
        ] {
            assert_eq!(kind(wrong), Err(wrong.to_owned()));
        }
        for (name, kind) in TYPES {
            assert_eq!((kind.to_string(), name.parse()), (name.to_owned(), Ok(kind)));
            assert_eq!(kind.name(), Some(name));
        }
    }
}
