//! Disks with partition tables of arbitrary content and valid checksums.

use ffs_device::{BlockDevice, MemDevice};

/// Size of such a disk, bytes.
pub const DISK: u64 = 1 << 20;
const SECTOR: usize = 512;
const LABEL_MAGIC: u32 = 0x8256_4557;
const VTOC_SANITY: u32 = 0x600d_deee;

/// A disk with the tables that the bits of `how` select, with content from `raw`.
#[must_use]
pub fn disk(how: u8, raw: &[u8]) -> MemDevice {
    let dev = MemDevice::new(DISK);
    let part = |n: usize| raw.get(64 * n..).unwrap_or(&[]);
    let (sun, usual) = (how & 32 != 0, how & 64 != 0);
    let kind = match (how & 2 != 0, sun) {
        (true, _) => 0xee,
        (false, true) => 0xbf,
        (false, false) => 0xa5,
    };
    if how & 1 != 0 {
        let raw = if usual { &[] } else { part(0) };
        put(&dev, 0, &mbr(raw, kind));
    }
    if sun && how & 3 == 0 {
        put(&dev, 0, &sparc(part(0)));
    }
    if how & 2 != 0 {
        let own = if how & 16 != 0 { DISK / 512 - 1 } else { 1 };
        let (header, entries) = gpt(part(1), own, usual);
        let at = if how & 16 != 0 { DISK - SECTOR as u64 } else { SECTOR as u64 };
        put(&dev, at, &header);
        put(&dev, 2 * SECTOR as u64, &entries);
    }
    if how & 4 != 0 {
        put(&dev, SECTOR as u64, &label(part(2)));
    }
    if how & 8 != 0 {
        // In a slice that the master boot record has if the fuzzer finds it.
        let label = if sun { vtoc(part(3)) } else { label(part(3)) };
        put(&dev, 9 * SECTOR as u64, &label);
    }
    dev
}

fn put(dev: &MemDevice, at: u64, bytes: &[u8]) {
    let available = DISK.saturating_sub(at) as usize;
    let _ = dev.write_at(at, &bytes[..bytes.len().min(available)]);
}

fn byte(raw: &[u8], n: usize) -> u8 {
    raw.get(n).copied().unwrap_or(0)
}

/// Copies `raw` into `to`, as far as it fits.
fn fill(to: &mut [u8], raw: &[u8]) {
    to.iter_mut().zip(raw).for_each(|(b, r)| *b = *r);
}

fn mbr(raw: &[u8], kind: u8) -> [u8; SECTOR] {
    let mut b = [0; SECTOR];
    fill(&mut b[446..510], raw);
    for n in 0..4 {
        b[446 + 16 * n] &= 0x80;
    }
    // The first slice begins at the second label.
    b[450] = kind;
    b[454..458].copy_from_slice(&8u32.to_le_bytes());
    b[510..].copy_from_slice(&[0x55, 0xaa]);
    b
}

fn label(raw: &[u8]) -> [u8; SECTOR] {
    let mut b = [0; SECTOR];
    fill(&mut b[148..], raw.get(2..).unwrap_or(&[]));
    let size = [512u32, 512, 1024, 2048, 4096, 513][usize::from(byte(raw, 0)) % 6];
    b[40..44].copy_from_slice(&size.to_le_bytes());
    b[..4].copy_from_slice(&LABEL_MAGIC.to_le_bytes());
    b[132..136].copy_from_slice(&LABEL_MAGIC.to_le_bytes());
    let count = u16::from(byte(raw, 1)) % 24;
    b[138..140].copy_from_slice(&count.to_le_bytes());
    let end = (148 + 16 * usize::from(count)).min(SECTOR);
    let sum = b[..end].chunks_exact(2).fold(0, |sum, p| sum ^ u16::from_le_bytes([p[0], p[1]]));
    b[136..138].copy_from_slice(&sum.to_le_bytes());
    b
}

/// The label of a SPARC disk.
fn sparc(raw: &[u8]) -> [u8; SECTOR] {
    let mut b = [0; SECTOR];
    fill(&mut b[142..174], raw);
    // Heads and sectors of a track, then the partitions.
    fill(&mut b[436..508], raw.get(32..).unwrap_or(&[]));
    if byte(raw, 0) & 1 == 0 {
        b[188..192].copy_from_slice(&VTOC_SANITY.to_be_bytes());
    }
    b[508..510].copy_from_slice(&0xdabe_u16.to_be_bytes());
    let sum = b[..510].chunks_exact(2).fold(0, |sum, p| sum ^ u16::from_be_bytes([p[0], p[1]]));
    b[510..].copy_from_slice(&sum.to_be_bytes());
    b
}

/// The VTOC of an x86 slice.
fn vtoc(raw: &[u8]) -> [u8; SECTOR] {
    let mut b = [0; SECTOR];
    b[12..16].copy_from_slice(&VTOC_SANITY.to_le_bytes());
    b[16] = 1;
    fill(&mut b[28..32], raw);
    fill(&mut b[72..264], raw.get(4..).unwrap_or(&[]));
    b
}

/// A header and its entries: few, or the `usual` 128.
fn gpt(raw: &[u8], own: u64, usual: bool) -> ([u8; SECTOR], Vec<u8>) {
    let mut h = [0; SECTOR];
    let count = if usual { 128 } else { usize::from(byte(raw, 0) % 9) };
    let mut entries = vec![0; 128 * count];
    for (n, e) in entries.chunks_exact_mut(128).enumerate() {
        // Type, first and last sector, some bytes of the name.
        let r = raw.get(8 + 24 * n..).unwrap_or(&[]);
        if usual && r.len() < 24 {
            break;
        }
        e[0] = 1;
        fill(&mut e[..4], r);
        fill(&mut e[32..36], r.get(4..).unwrap_or(&[]));
        fill(&mut e[40..44], r.get(8..).unwrap_or(&[]));
        fill(&mut e[56..64], r.get(16..).unwrap_or(&[]));
    }
    h[..8].copy_from_slice(b"EFI PART");
    h[8..12].copy_from_slice(&0x10000u32.to_le_bytes());
    h[12] = 92;
    h[24..32].copy_from_slice(&own.to_le_bytes());
    h[32] = byte(raw, 1);
    h[72] = 2;
    h[80..84].copy_from_slice(&((entries.len() / 128) as u32).to_le_bytes());
    h[84..88].copy_from_slice(&128u32.to_le_bytes());
    h[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
    // The raw bytes last: any field may be wrong although the checksums are valid.
    let place = usize::from(byte(raw, 2)) % 92;
    if place >= 8 {
        h[place] ^= byte(raw, 3);
    }
    h[16..20].fill(0);
    let crc = crc32(&h[..usize::from(h[12]).min(SECTOR)]);
    h[16..20].copy_from_slice(&crc.to_le_bytes());
    (h, entries)
}

/// The checksum of GPT.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
    !bytes.iter().fold(!0, |crc, &b| (0..8).fold(crc ^ u32::from(b), step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::partition::{Scheme, scan};

    /// The usual table is one that `ffs disk grow` takes.
    #[test]
    fn a_usual_table_grows() {
        use bsdffs::disk::Growth;
        let mut raw = vec![0; 64 + 8 + 24];
        raw[64 + 8] = 1;
        raw[64 + 8 + 4] = 40;
        raw[64 + 8 + 8] = 99;
        let dev: std::sync::Arc<dyn BlockDevice> = std::sync::Arc::new(disk(1 | 2 | 64, &raw));
        let growth = Growth::plan(&dev, 2 * DISK).unwrap();
        assert_eq!((growth.grown.start, growth.grown.before), (40 * 512, 60 * 512));
    }

    #[test]
    fn tables_are_believed() {
        let raw: Vec<u8> = (0..255).map(|n| n % 7 + 1).collect();
        let schemes = [1, 2, 4, 32].map(|how| scan(&disk(how, &raw)).unwrap());
        assert_eq!(
            schemes.each_ref().map(|t| t.scheme),
            [Scheme::Mbr, Scheme::Gpt, Scheme::BsdLabel, Scheme::Sun]
        );
        // A slice of Solaris with a table of its own.
        let mut raw = vec![0; 64 * 4];
        raw[12..16].copy_from_slice(&1000u32.to_le_bytes());
        // Sectors of 512 bytes, one partition, of 256 sectors.
        raw[192 + 1] = 2;
        raw[192 + 2] = 1;
        raw[192 + 4 + 9] = 1;
        let table = scan(&disk(1 | 8 | 32, &raw)).unwrap();
        assert!(table.partitions.iter().any(|p| p.name == "s1a"), "{table:?}");
    }
}
