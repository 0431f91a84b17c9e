//! Disk images with several partitions: what overwrites them.

use crate::common::{Dir, fails, fsck_clean, ok};
use std::fs;
use std::path::Path;

const SECTOR: usize = 512;

/// A disk image with an MBR and two partitions of 16 MiB, each with an empty file system.
fn disk(d: &Dir) -> String {
    let sectors = (16 << 20) / SECTOR as u32;
    let mut mbr = vec![0; SECTOR];
    for (number, first) in [2048, 2048 + sectors].into_iter().enumerate() {
        let entry = &mut mbr[446 + 16 * number..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&u32::to_le_bytes(first));
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
    }
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    let image = d.file("disk.img", &mbr);
    let file = fs::File::options().write(true).open(&image).unwrap();
    file.set_len((2048 + 2 * u64::from(sectors)) * SECTOR as u64).unwrap();
    for number in [1, 2] {
        ok(&["newfs", &format!("{image}@{number}")]);
    }
    image
}

#[test]
fn newfs_overwrites_a_partition_table_only_if_the_whole_disk_is_named() {
    let d = Dir::new();
    let image = disk(&d);
    let before = fs::read(&image).unwrap();
    for options in [&[][..], &["--yes"], &["--yes", "-E"], &["--yes", "-s", "8m"]] {
        let args = [&["newfs"], options, &[&image]].concat();
        let stderr = fails(&args, 1, "has a partition table");
        assert!(stderr.contains("@1") && stderr.contains("@0"), "{stderr}");
        assert!(fs::read(&image).unwrap() == before, "{options:?} changed the disk");
    }
    let whole = format!("{image}@0");
    ok(&["newfs", "--yes", &whole]);
    fsck_clean(Path::new(&whole));
}
