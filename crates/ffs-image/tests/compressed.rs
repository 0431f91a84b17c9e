//! Compressed images are read in place.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics on failure")]

mod common;

use common::{Dir, compare, content, disk, have, refusal, shell};
use ffs_device::BlockDevice;

const LEN: usize = 3 << 20;

/// Commands that compress `raw` to `packed`.
const COMMANDS: [(&str, &str); 9] = [
    ("gzip", "gzip -c raw > packed"),
    ("bzip2", "bzip2 -c raw > packed"),
    ("xz", "xz -0 -c raw > packed"),
    ("xz", "xz -0 --block-size=500KiB -c raw > packed"),
    ("xz", "xz -0 --check=none --block-size=1MiB -c raw > packed"),
    // Two streams, with padding between them.
    (
        "xz",
        "split -n 2 raw part && xz -0 -c partaa > packed && head -c 8 /dev/zero >> packed \
            && xz -0 --check=sha256 --block-size=1MiB -c partab >> packed",
    ),
    ("zstd", "zstd -q -c raw > packed"),
    ("zstd", "zstd -q -c < raw > packed"),
    ("zstd", "split -n 5 raw part && zstd -q -c partaa partab partac partad partae > packed"),
];

/// A directory with `bytes` compressed in the file `packed`, if `tool` is installed.
fn pack(tool: &str, command: &str, bytes: &[u8]) -> Option<Dir> {
    if !have(&[tool]) {
        return None;
    }
    let dir = Dir::new();
    std::fs::write(dir.path("raw"), bytes).unwrap();
    shell(&format!("cd {} && {command}", dir.0.path().display()));
    Some(dir)
}

#[test]
fn every_format_is_read_in_place() {
    let bytes = content(LEN, 1);
    for (tool, command) in COMMANDS {
        let Some(dir) = pack(tool, command, &bytes) else { continue };
        let opened = disk(&dir.str("packed"), false);
        assert_eq!(opened.device.len_bytes(), LEN as u64, "{command}");
        compare(&*opened.device, &bytes, 2);
        drop(opened);
        let error = refusal(&dir.str("packed"), true);
        assert!(error.contains(&format!("{tool} -dc")), "{error}");
    }
}

#[test]
fn damage_is_an_error_of_the_reads_that_meet_it() {
    let bytes = content(LEN, 3);
    for (tool, command) in COMMANDS {
        let Some(dir) = pack(tool, command, &bytes) else { continue };
        let packed = common::read_file(dir.path("packed"));
        let path = dir.str("damaged");
        for kept in [3, 20, packed.len() / 2, packed.len() - 1] {
            std::fs::write(&path, &packed[..kept]).unwrap();
            read_or_fail(&path, &bytes, true);
        }
        let mut rng = ffs_testkit::rng::SplitMix64::new(4);
        for _ in 0..6 {
            let mut damaged = packed.clone();
            let at = rng.below(packed.len() as u64) as usize;
            damaged[at] ^= 1 << rng.below(8);
            std::fs::write(&path, &damaged).unwrap();
            // Without a checksum wrong bytes are possible.
            read_or_fail(&path, &bytes, !command.contains("check=none"));
        }
    }
}

/// Reads everything. An error is right; wrong bytes are not, if the file has checksums.
fn read_or_fail(path: &str, bytes: &[u8], checked: bool) {
    let how = ffs_image::OpenOptions { whole_disk: true, ..Default::default() };
    let Ok(opened) = ffs_image::open(path, &how) else { return };
    let mut read = vec![0; opened.device.len_bytes().min(2 * LEN as u64) as usize];
    if opened.device.read_at(0, &mut read).is_ok() && opened.format() != ffs_image::Format::Raw {
        // A flipped bit may be one that has no meaning.
        assert!(!checked || read == bytes, "{path}: wrong bytes without an error");
    }
}

#[test]
fn the_sizes_of_an_index_are_not_believed() {
    if !have(&["xz"]) {
        return;
    }
    let dir = Dir::new();
    std::fs::write(dir.path("raw"), vec![5; 100_000]).unwrap();
    shell(&format!("cd {} && xz -0 -c raw > packed", dir.0.path().display()));
    let packed = common::read_file(dir.path("packed"));
    // The index of one block: 00 01, the length in the file, and the length on the disk.
    let footer = packed.len() - 12;
    let words = u32::from_le_bytes(packed[footer + 4..footer + 8].try_into().unwrap()) as usize;
    let index = footer - (words + 1) * 4;
    let mut lying = packed[..index].to_vec();
    lying.extend([0, 1, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0]);
    lying.extend([0; 4]);
    let words = ((lying.len() - index) / 4 - 1) as u32;
    lying.extend([0; 4]);
    lying.extend(words.to_le_bytes());
    lying.extend(&packed[footer + 8..]);
    let path = dir.str("lying");
    std::fs::write(&path, &lying).unwrap();
    let how = ffs_image::OpenOptions { whole_disk: true, ..Default::default() };
    if let Ok(opened) = ffs_image::open(&path, &how) {
        assert!(opened.device.read_at(200_000, &mut [0; 512]).is_err());
    }
}
