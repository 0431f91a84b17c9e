//! Device numbers: FreeBSD's encodings on disk, Linux's outside (`spec/on-disk-format.md` §7.5).
//!
//! # Invariants
//! 1. `from_disk(to_disk(n)) == n` for every number that the format can store;
//!    [`DeviceNumber::to_disk`] returns `None` for the others.
//!
//! ```
//! use ffs_ondisk::rdev::DeviceNumber;
//! use ffs_ondisk::Format;
//!
//! let n = DeviceNumber::from_disk(0x1234);
//! assert_eq!((n.major, n.minor), (0x12, 0x34));
//! assert_eq!(n.to_disk(Format::Ufs1), Some(0x1234));
//! assert_eq!(DeviceNumber::from_linux(n.to_linux()), n);
//! ```

use crate::geometry::Format;

/// A device number, decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From FreeBSD's encoding, as [`crate::Dinode::rdev`] returns it.
    ///
    /// The 64-bit encoding (FreeBSD 12 and later) extends the 32-bit one.
    #[must_use]
    pub fn from_disk(x: u64) -> DeviceNumber {
        let major = ((x >> 32) & 0xffff_ff00) | ((x >> 8) & 0xff);
        let minor = ((x >> 24) & 0xff00) | (x & 0xffff_00ff);
        DeviceNumber { major: major as u32, minor: minor as u32 }
    }

    /// To FreeBSD's encoding; `None` if the 32 bits of UFS1 cannot store the number.
    #[must_use]
    pub fn to_disk(self, format: Format) -> Option<u64> {
        let (major, minor) = (u64::from(self.major), u64::from(self.minor));
        let high = ((major & 0xffff_ff00) << 32) | ((minor & 0xff00) << 24);
        let low = ((major & 0xff) << 8) | (minor & 0xffff_00ff);
        let fits = format == Format::Ufs2 || high == 0;
        fits.then_some(high | low)
    }

    /// From Linux's encoding: the 64-bit one of `stat`, which includes FUSE's 32-bit one.
    #[must_use]
    pub fn from_linux(x: u64) -> DeviceNumber {
        let major = ((x >> 32) & 0xffff_f000) | ((x >> 8) & 0xfff);
        let minor = ((x >> 12) & 0xffff_ff00) | (x & 0xff);
        DeviceNumber { major: major as u32, minor: minor as u32 }
    }

    /// To Linux's encoding; fits 32 bits if the major is below 2^12 and the minor below 2^20.
    #[must_use]
    pub fn to_linux(self) -> u64 {
        let (major, minor) = (u64::from(self.major), u64::from(self.minor));
        ((major & 0xffff_f000) << 32)
            | ((major & 0xfff) << 8)
            | ((minor & 0xffff_ff00) << 12)
            | (minor & 0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_numbers() {
        // FreeBSD's macros: makedev(0x123456, 0xabcdef).
        let n = DeviceNumber { major: 0x12_3456, minor: 0xab_cdef };
        assert_eq!(n.to_disk(Format::Ufs2), Some(0x0012_34cd_00ab_56ef));
        assert_eq!(n.to_disk(Format::Ufs1), None);
        // Linux: makedev(8, 1), makedev(259, 300).
        assert_eq!(DeviceNumber { major: 8, minor: 1 }.to_linux(), 0x801);
        assert_eq!(DeviceNumber { major: 259, minor: 300 }.to_linux(), 0x0011_032c);
    }

    proptest! {
        #[test]
        fn encodings_are_bijections(major: u32, minor: u32) {
            let n = DeviceNumber { major, minor };
            prop_assert_eq!(DeviceNumber::from_disk(n.to_disk(Format::Ufs2).unwrap()), n);
            prop_assert_eq!(DeviceNumber::from_linux(n.to_linux()), n);
            if let Some(small) = n.to_disk(Format::Ufs1) {
                prop_assert!(u32::try_from(small).is_ok());
                prop_assert_eq!(DeviceNumber::from_disk(small), n);
            }
        }

        #[test]
        fn disk_numbers_survive(x: u64) {
            prop_assert_eq!(DeviceNumber::from_disk(x).to_disk(Format::Ufs2), Some(x));
        }
    }
}
