//! Prepared volumes of other systems, which ffs only reads: FreeBSD 4, 4.3BSD, 4.2BSD, SunOS,
//! Solaris, in both byte orders. In half of them the metadata of the groups is moved, as systems
//! before 4.4BSD did.
//!
//! References: spec/on-disk-format.md §20.1.

use crate::base::{NOW, grow};
use crate::convert::{Image, System};
use ffs_admin::newfs::{self, NewfsOptions};
use ffs_device::clock::{ManualClock, SplitMix64, Timestamp};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::wire::Field;
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

/// The number of these volumes.
pub(crate) const COUNT: usize = 2 * SYSTEMS.len();

const SYSTEMS: [System; 6] =
    [System::FreeBsd4, System::Bsd43, System::Bsd42, System::SunOs, System::Solaris, System::Mtb];

/// The fields of the superblock that have another meaning on these systems, or are not in the
/// table of 4.4BSD's.
pub(crate) const SUPERBLOCK: &[Field] = &[
    number("state of SunOS", 0),
    number("fs_rolled", 4),
    number("state on x86", 132),
    number("fs_si", 136),
    number("fs_version", 1320),
    number("fs_logbno", 1324),
    number("state on SPARC", 1336),
    number("fs_postblformat", 1356),
    number("fs_nrpos", 1360),
    number("fs_magic", 1372),
];

/// The fields of a group of 4.2BSD beyond those of later groups.
pub(crate) const OLD_GROUP: &[Field] = &[number("cg_magic", 980), number("map", 984)];

/// The size of an old group to its free map.
pub(crate) const OLD_GROUP_LEN: usize = 988;

const fn number(name: &'static str, offset: usize) -> Field {
    Field { name, offset, size: 4, elem: 4, signed: true }
}

/// Volume number `n`.
pub(crate) fn make(n: usize) -> MemDevice {
    let endian = if n.is_multiple_of(2) { Endian::Little } else { Endian::Big };
    let device = Arc::new(MemDevice::new(2 << 20));
    let options = NewfsOptions {
        endian,
        format: Some(Format::Ufs1),
        bsize: Some(4096),
        fsize: Some(512),
        // 4.2BSD has few inodes in a group.
        max_group: Some(128),
        density: Some(8192),
        ..NewfsOptions::default()
    };
    let clock = ManualClock::new(Timestamp::new(NOW - 50, 0));
    newfs::newfs(&*device, &options, &clock, &SplitMix64::new(1), &mut |_, _| {}).unwrap();
    grow(&device, Format::Ufs1, 4096);
    let mut image = Image::new(device.to_vec());
    if n / 2 % 2 == n % 2 {
        image.rotate(16, 0xffff_fffc);
    }
    image.convert(SYSTEMS[n / 2 % SYSTEMS.len()]);
    let device = MemDevice::new(image.bytes.len() as u64);
    device.write_at(0, &image.bytes).unwrap();
    device
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{self, Class, env};
    use crate::walk;
    use ffs_core::{Ffs, MountOptions};
    use ffs_ondisk::Variant;

    #[test]
    fn volumes_of_other_systems_are_read() {
        for n in 0..COUNT {
            let base = base::base((base::COUNT + n) as u8);
            assert!(base.foreign && base.geo.ncg >= 4, "{n}");
            let expected = match SYSTEMS[n / 2] {
                System::FreeBsd4 => Variant::Bsd44,
                System::Bsd43 | System::Bsd42 => Variant::Bsd43,
                System::SunOs | System::Solaris => Variant::Sun,
                System::Mtb => Variant::SunMtb,
            };
            assert_eq!(base.geo.variant, expected, "{n}");
            let options = MountOptions { read_only: true, ..MountOptions::default() };
            let device = Arc::new(base.dev.snapshot());
            let fs = Ffs::mount(device.clone(), &options, env()).unwrap();
            assert_eq!(walk::tree(&fs), Vec::<String>::new(), "{n}");
            assert!(base.spots[Class::Entry as usize].len() > 20, "{n}");
            assert!(base.spots[Class::Pointer as usize].len() > 5, "{n}");
            assert!(ffs_admin::Volume::open(&*device).unwrap().warnings.is_empty(), "{n}");
        }
    }
}
