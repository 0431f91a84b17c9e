//! Disk images with several partitions: what overwrites them, copies between them.

use crate::common::{Dir, fails, fsck_clean, make_tree, ok, pattern};
use std::fs;
use std::path::Path;
use std::process::Command;

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

/// A loop device over a file, until dropped.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    /// `None`, with a line about the reason, if no loop device can be made.
    fn new(image: &str) -> Option<Loop> {
        Loop::made(&["-f", "--show", image])
    }

    /// As [`Loop::new`], write-protected.
    pub(crate) fn write_protected(image: &str) -> Option<Loop> {
        Loop::made(&["-r", "-f", "--show", image])
    }

    fn made(arguments: &[&str]) -> Option<Loop> {
        let made = Command::new("losetup").args(arguments).output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Loop(String::from_utf8(made.stdout).unwrap().trim().to_owned()))
            }
            other => {
                println!("skipped: no loop device: {other:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
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

#[test]
fn build_reports_what_a_partition_lacks_and_keeps_it() {
    let d = Dir::new();
    let image = disk(&d);
    fs::create_dir(d.path("tree")).unwrap();
    d.file("tree/big", &pattern(64 << 20, 1));
    let before = fs::read(&image).unwrap();
    let partition = format!("{image}@1");
    let stderr =
        fails(&["build", "--force", &partition, &d.str("tree")], 1, "but the file system needs");
    assert!(stderr.contains("partition") && !stderr.contains("truncate"), "{stderr}");
    assert!(fs::read(&image).unwrap() == before, "changed the disk");
}

#[test]
fn build_fills_a_partition_on_request() {
    let d = Dir::new();
    let image = disk(&d);
    make_tree(&d.path("tree"));
    let (tree, partition) = (d.str("tree"), format!("{image}@2"));
    let size = |json: &str| {
        serde_json::from_str::<serde_json::Value>(json).unwrap()["size"].as_u64().unwrap()
    };
    let fitted = size(&ok(&["build", "--into", "--json", &partition, &tree]));
    let filled = size(&ok(&["build", "--into", "--fill", "--json", &partition, &tree]));
    assert!(fitted < filled && filled == 16 << 20, "{fitted} {filled}");
    fsck_clean(Path::new(&partition));
    fails(&["growfs", &partition], 1, "already fills its");
    fails(&["build", &partition, &tree], 1, "--into");
    fails(&["build", "--fill", &d.str("new.img"), &tree], 1, "neither a partition nor a device");
    fails(&["build", "--into", "--fill", "--size", "8m", &partition, &tree], 64, "--size");
    assert!(!d.path("new.img").exists());
}

#[test]
fn build_overwrites_a_partition_table_only_if_the_whole_disk_is_named() {
    let d = Dir::new();
    let image = disk(&d);
    let Some(device) = Loop::new(&image) else { return };
    fs::create_dir(d.path("tree")).unwrap();
    fails(&["build", "--force", &device.0, &d.str("tree")], 1, "has a partition table");
    ok(&["build", "--force", &format!("{}@0", device.0), &d.str("tree")]);
}

#[test]
fn partitions_of_one_disk_are_copied_to_each_other() {
    let d = Dir::new();
    let image = disk(&d);
    let [first, second] = [1, 2].map(|number| format!("{image}@{number}"));
    let tree = d.path("tree");
    make_tree(&tree);
    ok(&["cp", "-a", tree.to_str().unwrap(), &format!("{first}:/tree")]);
    fails(&["mv", &format!("{first}:/tree"), &format!("{second}:/")], 64, "use `ffs cp -a`");
    ok(&["cp", "-a", &format!("{first}:/tree"), &format!("{second}:/")]);
    // The same file under another name of its image.
    let link = d.str("link.img");
    std::os::unix::fs::symlink(&image, &link).unwrap();
    let more = d.file("more", &pattern(100_000, 3));
    ok(&["cp", &format!("{link}@1:/tree/small"), &more, &format!("{second}:/tree/dir")]);
    for partition in [&first, &second] {
        fsck_clean(Path::new(partition));
        let out = d.path("out");
        ok(&["cp", "-a", &format!("{partition}:/tree"), out.to_str().unwrap()]);
        if *partition == second {
            for (name, bytes) in [("small", b"small\n".to_vec()), ("more", pattern(100_000, 3))] {
                let copy = out.join("dir").join(name);
                assert!(fs::read(&copy).unwrap() == bytes, "{name}");
                fs::remove_file(&copy).unwrap();
            }
            crate::common::set_mtime(&out.join("dir"), 0, 0);
            crate::common::set_mtime(&tree.join("dir"), 0, 0);
        }
        crate::common::assert_same(&tree, &out, &[]);
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn one_partition_under_two_names_is_one_file_system() {
    let d = Dir::new();
    let image = disk(&d);
    let [first, again] = [format!("{image}@1"), format!("{image}@01")];
    ok(&["mkdir", "-p", &format!("{first}:/dir/below")]);
    let into = format!("{again}:/dir/below");
    fails(&["cp", "-a", &format!("{first}:/dir"), &into], 1, "cannot be copied into itself");
    ok(&["cp", "-a", &format!("{first}:/dir/below"), &format!("{again}:/copy")]);
    fsck_clean(Path::new(&first));
    let whole = format!("{image}@0:/dir");
    fails(&["cp", "-a", &whole, &format!("{first}:/")], 1, "overlap");
    fails(&["cp", "-a", &format!("{image}@7:/dir"), &format!("{first}:/")], 1, "no partition @7");
    fsck_clean(Path::new(&first));
}
