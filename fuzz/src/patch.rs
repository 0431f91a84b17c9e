//! Damage to relevant fields.
//!
//! A damage changes one element of one field of a structure, by the rules of XFS's fuzzers (zeros,
//! ones, a bit, one more or less, an arbitrary value) and some additional ones: the value of the
//! adjacent element, or a number that is significant on the volume.

use crate::RECORD;
use crate::base::{Base, CLASSES, Class, Spot};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{CgNo, Geometry, Superblock, cg, dinode};

/// One damage.
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    place: u8,
    spot: u8,
    field: u8,
    elem: u8,
    change: u8,
    value: u16,
}

impl Patch {
    /// Decodes a damage.
    #[must_use]
    pub fn of(r: &[u8; RECORD]) -> Patch {
        let value = u16::from_le_bytes([r[6], r[7]]);
        Patch { place: r[1], spot: r[2], field: r[3], elem: r[4], change: r[5], value }
    }

    /// The structure to damage, if the volume has one of the class.
    fn spot(self, b: &Base) -> Option<(Class, Spot)> {
        let class = CLASS[usize::from(self.place) % CLASS.len()]?;
        let all = &b.spots[class as usize];
        let n = usize::from(self.spot).checked_rem(all.len())?;
        Some((class, all[n]))
    }

    /// Makes the change.
    pub fn apply(self, dev: &MemDevice, b: &Base) {
        let Some((class, spot)) = self.spot(b) else { return self.flip(dev, b) };
        let g = &b.geo;
        let mut bytes = vec![0; spot.len];
        if dev.read_at(spot.at, &mut bytes).is_err() {
            return;
        }
        let field = spot.fields[usize::from(self.field) % spot.fields.len()];
        let n = usize::from(self.elem) % field.count();
        let bits = 8 * field.elem as u32;
        let old = field.value(&bytes, n, g.endian);
        let small = i128::from(self.value as i16);
        let other =
            b.spots[class as usize][usize::from(self.value) % b.spots[class as usize].len()];
        let new = match self.change % 14 {
            0 => 0,
            1 => -1,
            2 => old ^ (1 << (u32::from(self.value) % bits)),
            3 => old ^ (1 << (bits - 1)),
            4 => old + 1,
            5 => old - 1,
            6 => small,
            7 => small << (bits / 2),
            8 => old + small,
            9 => constant(g, self.value >> 4) + i128::from(self.value & 15) - 8,
            10 => old + i128::from(g.frag) * small,
            11 | 12 => {
                let mut theirs = vec![0; spot.len];
                if other.len != spot.len || dev.read_at(other.at, &mut theirs).is_err() {
                    return;
                }
                if self.change % 14 == 12 {
                    let _ = dev.write_at(spot.at, &theirs);
                    return;
                }
                field.value(&theirs, n, g.endian)
            }
            _ => i128::from(self.value) * 0x0101_0101_0101,
        };
        field.set(&mut bytes, n, g.endian, new);
        let _ = dev.write_at(spot.at, &bytes);
    }

    /// Flips a bit or a byte in the maps of a group, or anywhere.
    fn flip(self, dev: &MemDevice, b: &Base) {
        let g = &b.geo;
        let wide = u64::from(self.value) << 8 | u64::from(self.elem);
        let at = if self.place.is_multiple_of(2) {
            let c = CgNo(u32::from(self.spot) % g.ncg);
            let len = (g.cgsize as usize - cg::CG_HEADER) as u64;
            g.frag_to_byte(g.cgtod(c)) + cg::CG_HEADER as u64 + wide % len
        } else {
            (wide << 8 | u64::from(self.spot)) % dev.len_bytes()
        };
        let mut byte = [0];
        if dev.read_at(at, &mut byte).is_ok() {
            match self.change % 10 {
                bit @ 0..8 => byte[0] ^= 1 << bit,
                8 => byte[0] = 0,
                _ => byte[0] = 0xff,
            }
            let _ = dev.write_at(at, &byte);
        }
    }

    /// Corrects the check hash of the damaged structure.
    pub fn rehash(self, dev: &MemDevice, b: &Base) {
        let g = &b.geo;
        let read = |at, len| {
            let mut bytes = vec![0; len];
            dev.read_at(at, &mut bytes).ok().map(|()| bytes)
        };
        match self.spot(b) {
            Some((Class::Superblock | Class::Backup, s)) => {
                let sb = read(s.at, 8192).and_then(|bytes| Superblock::decode(&bytes, s.at).ok());
                if let Some(sb) = sb {
                    let _ = dev.write_at(s.at, &sb.encode());
                }
            }
            Some((Class::Inode | Class::FreeInode, s)) => {
                if let Some(mut bytes) = read(s.at, g.format.dinode_size()) {
                    dinode::rehash(g, &mut bytes);
                    let _ = dev.write_at(s.at, &bytes);
                }
            }
            Some((Class::Group, s)) => rehash_group(dev, g, s.at),
            Some(_) => {}
            None if self.place.is_multiple_of(2) => {
                let c = CgNo(u32::from(self.spot) % g.ncg);
                rehash_group(dev, g, g.frag_to_byte(g.cgtod(c)));
            }
            None => {}
        }
    }

    /// Writes `bytes` to the structure, or to the start of the volume.
    pub fn write_raw(self, dev: &MemDevice, b: &Base, bytes: &[u8]) {
        let at = self.spot(b).map_or(0, |(_, s)| s.at);
        let available = dev.len_bytes().saturating_sub(at) as usize;
        let _ = dev.write_at(at, &bytes[..bytes.len().min(available)]);
    }
}

fn rehash_group(dev: &MemDevice, g: &Geometry, at: u64) {
    let mut bytes = vec![0; g.cgsize as usize];
    if dev.read_at(at, &mut bytes).is_ok() {
        cg::rehash(g, &mut bytes);
        let _ = dev.write_at(at, &bytes);
    }
}

/// A number that is significant on the volume.
fn constant(g: &Geometry, n: u16) -> i128 {
    let all: [i128; 20] = [
        g.size.into(),
        g.dsize.into(),
        g.fpg.into(),
        g.ipg.into(),
        g.ncg.into(),
        g.inodes().into(),
        g.bsize.into(),
        g.fsize.into(),
        g.frag.into(),
        g.nindir.into(),
        g.maxfilesize.into(),
        g.csaddr.0.into(),
        g.cgsize.into(),
        g.cgdmin(CgNo(0)).0.into(),
        i32::MAX.into(),
        u32::MAX.into(),
        i64::MAX.into(),
        i16::MAX.into(),
        u16::MAX.into(),
        512,
    ];
    all[usize::from(n) % all.len()]
}

/// The classes by the location byte, inodes and directories more often; `None` is maps and
/// arbitrary bytes.
const CLASS: [Option<Class>; CLASSES + 8] = [
    Some(Class::Superblock),
    Some(Class::Backup),
    Some(Class::Group),
    Some(Class::Inode),
    Some(Class::FreeInode),
    Some(Class::Entry),
    Some(Class::Pointer),
    Some(Class::Summary),
    Some(Class::Attribute),
    Some(Class::Journal),
    Some(Class::Inode),
    Some(Class::Entry),
    None,
    None,
    Some(Class::Inode),
    Some(Class::Pointer),
    Some(Class::Group),
    None,
];
