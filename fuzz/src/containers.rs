//! Damaged disk images, and NBD peers that send anything.
//!
//! An input is the number of a prepared image, flags, and damages of eight bytes: a place (two
//! bytes), a length of the kept bytes or nothing (two bytes), and four bytes to write. Checksums of
//! VHD are corrected after the damage unless a flag prevents it.

use std::io::{self, Cursor, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use ffs_device::MemDevice;
use ffs_image::{OpenOptions, Opened, nbd};

/// Most bytes of a disk that are read and written.
const MOST: u64 = 4 << 20;
/// Number of the images, and of the two kinds of peers behind them.
const IMAGES: u8 = 9;
/// The first of the images that are compressed files.
const COMPRESSED: u8 = 5;

/// An xz file of two blocks.
const XZ: &str = "fd377a585a000004e6d6b446020021010c0000008f98419ce0003f001a5d00341949db855c67843d\
    d2d2bba1630fc9d0bb6a889d54c84aa0000000004599fd61a97670f3020021010c0000008f98419ce0003b001c5d00\
    361b0a3d149c822227bb80d17de6761b4d4cb204032f2a221652c1800035d9297b7b4c67b900023640383c000003be\
    8360b1c467fb020000000004595a";

/// Opens, reads and writes the image that `data` describes.
pub fn run(data: &[u8]) {
    let [number, flags, records @ ..] = data else { return };
    match number % (IMAGES + 2) {
        IMAGES => client(records),
        number if number > IMAGES => server(records),
        number => image(number, *flags, records),
    }
}

fn image(number: u8, flags: u8, records: &[u8]) {
    let mut bytes = images()[usize::from(number)].clone();
    for record in records.chunks_exact(8) {
        let at = usize::from(u16::from_le_bytes([record[0], record[1]])) % bytes.len().max(1);
        let end = usize::from(u16::from_le_bytes([record[2], record[3]]));
        for (to, from) in bytes.iter_mut().skip(at).zip(&record[4..]) {
            *to = *from;
        }
        if end >= 0xc000 {
            bytes.truncate(end - 0xc000);
        }
    }
    if flags & 1 == 0 {
        seal_vhd(&mut bytes);
    }
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else { return };
    if std::fs::write(file.path(), &bytes).is_err() {
        return;
    }
    let write = flags & 2 != 0;
    let how = OpenOptions { write, whole_disk: true, no_helper: true, ..OpenOptions::default() };
    if let Ok(opened) = ffs_image::open(file.path(), &how) {
        exercise(&opened, write, flags);
    }
    if write && let Ok(opened) = ffs_image::open(file.path(), &how) {
        exercise(&opened, write, flags);
    }
    if flags & 8 != 0 && number >= COMPRESSED && !write {
        expand(bytes, ffs_image::open(file.path(), &how).ok());
    }
}

/// Expands a compressed image. What is read in place must be the same.
fn expand(bytes: Vec<u8>, opened: Option<Opened>) {
    let Ok(raw) = tempfile::tempfile_in("/dev/shm") else { return };
    let expanded = ffs_image::spool(Cursor::new(bytes), &raw, &mut |written, _| written < MOST);
    let (Ok(()), Some(opened)) = (expanded, opened) else { return };
    let len = raw.metadata().map_or(0, |found| found.len()).min(opened.device.len_bytes());
    let mut all = [vec![0; len as usize], vec![0; len as usize]];
    let read = raw.read_exact_at(&mut all[0], 0).is_ok();
    if read && opened.device.read_at(0, &mut all[1]).is_ok() {
        assert!(all[0] == all[1], "an expanded image and one read in place differ");
    }
}

fn exercise(opened: &Opened, write: bool, flags: u8) {
    let device = &opened.device;
    let len = device.len_bytes();
    let mut buf = vec![0; 70_000];
    for at in [0, 512, len / 2, len.saturating_sub(70_000), MOST] {
        let take = buf.len().min(usize::try_from(len.saturating_sub(at)).unwrap_or(0));
        let _ = device.read_at(at, &mut buf[..take]);
        if write && take > 100 {
            let written = device.write_at(at, &buf[..100]).is_ok();
            let mut back = [0; 100];
            if written && device.read_at(at, &mut back).is_ok() && flags & 4 != 0 {
                // Two blocks of a damaged table may share a place, so the content is not compared.
                let _ = device.discard(at, 100);
            }
        }
    }
    let _ = device.flush();
}

/// A server that sends `script`.
fn client(script: &[u8]) {
    let mut greeting = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    greeting.extend(script);
    if let Ok(export) = nbd::negotiate(&mut Peer(Cursor::new(greeting)), "") {
        assert!(export.min_block.is_power_of_two() && export.max_block >= export.min_block);
    }
}

/// A client that sends `script`.
fn server(script: &[u8]) {
    let device = MemDevice::new(1 << 20);
    let _ = nbd::serve_connection(&mut Cursor::new(script), &mut io::sink(), &device);
}

struct Peer(Cursor<Vec<u8>>);

impl Read for Peer {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Peer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn images() -> &'static [Vec<u8>] {
    static IMAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let text = b"hello, hello, hello, block ".repeat(40);
        let byte = |n: usize| u8::from_str_radix(&XZ[2 * n..2 * n + 2], 16).ok();
        let xz = (0..XZ.len() / 2).filter_map(byte);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        let packed = gzip.write_all(&text).and_then(|()| bzip2.write_all(&text));
        let packed = packed.and_then(|()| Ok((gzip.finish()?, bzip2.finish()?)));
        let (gzip, bzip2) = packed.unwrap_or_default();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(&text[..], level);
        let all = [qcow2(), vhd(), vdi(), vmdk(false), vmdk(true), xz.collect(), zstd, gzip, bzip2];
        all.to_vec()
    })
}

fn put(bytes: &mut [u8], at: usize, content: &[u8]) {
    bytes[at..at + content.len()].copy_from_slice(content);
}

/// 256 KiB in clusters of 512 bytes; the first L2 table and one cluster exist.
fn qcow2() -> Vec<u8> {
    let mut b = vec![0; 512 * 6];
    put(&mut b, 0, b"QFI\xfb\0\0\0\x03");
    put(&mut b, 20, &9u32.to_be_bytes());
    put(&mut b, 24, &(256u64 << 10).to_be_bytes());
    put(&mut b, 36, &8u32.to_be_bytes());
    put(&mut b, 40, &(3u64 * 512).to_be_bytes());
    put(&mut b, 48, &512u64.to_be_bytes());
    put(&mut b, 56, &1u32.to_be_bytes());
    put(&mut b, 96, &4u32.to_be_bytes());
    put(&mut b, 100, &104u32.to_be_bytes());
    put(&mut b, 512, &1024u64.to_be_bytes());
    for cluster in 0..6 {
        put(&mut b, 1024 + 2 * cluster, &1u16.to_be_bytes());
    }
    put(&mut b, 3 * 512, &(1 << 63 | 4u64 * 512).to_be_bytes());
    put(&mut b, 4 * 512, &(1 << 63 | 5u64 * 512).to_be_bytes());
    b
}

/// Eight blocks of 4 KiB, of which one exists.
fn vhd() -> Vec<u8> {
    let mut footer = vec![0; 512];
    put(&mut footer, 0, b"conectix");
    put(&mut footer, 16, &512u64.to_be_bytes());
    put(&mut footer, 28, b"win ");
    put(&mut footer, 48, &(32u64 << 10).to_be_bytes());
    put(&mut footer, 60, &3u32.to_be_bytes());
    let mut b = footer.clone();
    b.resize(2048 + 512 + 4096, 0);
    put(&mut b, 512, b"cxsparse");
    put(&mut b, 512 + 16, &1536u64.to_be_bytes());
    put(&mut b, 512 + 28, &8u32.to_be_bytes());
    put(&mut b, 512 + 32, &4096u32.to_be_bytes());
    put(&mut b, 1536, &[0xff; 32]);
    put(&mut b, 1536 + 8, &4u32.to_be_bytes());
    b.extend(footer);
    seal_vhd(&mut b);
    b
}

fn seal_vhd(b: &mut [u8]) {
    let end = b.len().saturating_sub(512);
    for (at, len, field) in [(0, 512, 64), (512, 1024, 36), (end, 512, 64)] {
        let Some(part) = b.get_mut(at..at + len) else { continue };
        if !part.starts_with(b"conectix") && !part.starts_with(b"cxsparse") {
            continue;
        }
        part[field..field + 4].fill(0);
        let sum = !part.iter().fold(0u32, |sum, &byte| sum.wrapping_add(byte.into()));
        part[field..field + 4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Eight blocks of 4 KiB, of which one exists.
fn vdi() -> Vec<u8> {
    let mut b = vec![0; 1024 + 4096];
    put(&mut b, 0, b"<<< disk >>>\n");
    put(&mut b, 64, &0xbeda_107fu32.to_le_bytes());
    for (at, value) in
        [(68, 0x0001_0001), (76, 1), (340, 512), (344, 1024), (376, 4096), (384, 8), (388, 1)]
    {
        put(&mut b, at, &u32::to_le_bytes(value));
    }
    put(&mut b, 368, &(32u64 << 10).to_le_bytes());
    put(&mut b, 512, &[0xff; 32]);
    put(&mut b, 520, &0u32.to_le_bytes());
    b
}

/// Eight grains of 4 KiB, of which one exists.
fn vmdk(packed: bool) -> Vec<u8> {
    let mut b = vec![0; 512 * 4];
    put(&mut b, 0, b"KDMV\x01\0\0\0");
    put(&mut b, 8, &(if packed { 0x3_0001u32 } else { 1 }).to_le_bytes());
    for (at, value) in [(12, 64u64), (20, 8), (28, 1), (36, 1), (56, 2)] {
        put(&mut b, at, &value.to_le_bytes());
    }
    put(&mut b, 44, &512u32.to_le_bytes());
    put(&mut b, 512, b"createType=\"monolithicSparse\"\nparentCID=ffffffff\n");
    put(&mut b, 1024, &3u32.to_le_bytes());
    put(&mut b, 1536 + 8, &4u32.to_le_bytes());
    if !packed {
        b.resize(512 * 12, 7);
        return b;
    }
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let grain = zlib.write_all(&[7; 4096]).and_then(|()| zlib.finish()).unwrap_or_default();
    b.extend(2u64.to_le_bytes());
    b.extend((grain.len() as u32).to_le_bytes());
    b.extend(grain);
    b.resize(b.len().next_multiple_of(512), 0);
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every prepared image is one that its driver opens.
    #[test]
    fn prepared_images_are_valid() {
        for (number, bytes) in images().iter().enumerate() {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            let how = OpenOptions { whole_disk: true, no_helper: true, ..OpenOptions::default() };
            let opened = ffs_image::open(file.path(), &how);
            let opened = opened.unwrap_or_else(|error| panic!("image {number}: {error}"));
            let mut all = vec![0; opened.device.len_bytes() as usize];
            opened.device.read_at(0, &mut all).unwrap();
            assert!(opened.format() != ffs_image::Format::Raw && !all.is_empty(), "{number}");
        }
    }
}
