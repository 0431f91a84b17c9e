#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics on failure")]

use super::*;
use ffs_device::LockWait;
use ffs_testkit::fixtures;
use std::fs;
use std::time::Duration;

fn write_image(bytes: &[u8]) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    fs::write(&path, bytes).unwrap();
    let path = path.into_os_string().into_string().unwrap();
    (dir, path)
}

fn magic_at_8192(device: &dyn BlockDevice) -> bool {
    let mut magic = [0; 4];
    device.read_at(8192 + 1372, &mut magic).is_ok() && u32::from_le_bytes(magic) == 0x0001_1954
}

fn message(result: Result<Opened, OpenError>) -> String {
    match result {
        Ok(opened) => panic!("opened {:?}", opened.partition),
        Err(error) => error.to_string(),
    }
}

#[test]
fn opens_the_partition_and_keeps_the_lock() {
    let Some(image) = fixtures::load("part-mbr-bsd-ufs1-abs") else { return };
    let (_dir, path) = write_image(&image);
    let read = OpenOptions { probe: Some(magic_at_8192), ..OpenOptions::default() };
    let write = OpenOptions { write: true, ..read };
    let first = open(&path, &write).unwrap();
    assert_eq!(first.partition.as_ref().unwrap().name, "s1a");
    assert_eq!(first.device.len_bytes(), 8192 * 512);
    assert!(message(open(&path, &read)).contains("is in use by"));
    let waiting = OpenOptions { lock_wait: LockWait::UpTo(Duration::from_millis(20)), ..write };
    assert!(message(open(&path, &waiting)).contains("is in use by"));
    drop(first);
    // The child of another test may have a copy of the descriptor until its exec.
    let read = OpenOptions { lock_wait: LockWait::UpTo(Duration::from_secs(60)), ..read };
    let second = open(format!("{path}@s1a"), &read).unwrap();
    assert!(second.device.is_read_only());
    assert_eq!(open_image(format!("{path}@0"), &read).unwrap().len_bytes(), image.len() as u64);
    let whole = OpenOptions { whole_disk: true, ..read };
    assert_eq!(open_image(&path, &whole).unwrap().len_bytes(), image.len() as u64);
    assert_eq!(open_image(format!("{path}@3"), &whole).unwrap().len_bytes(), 1000 * 512);
    let error = message(open(format!("{path}@9"), &read));
    assert!(error.contains("disk.img: there is no partition @9; there are"), "{error}");
}

#[test]
fn refusals_say_what_to_do() {
    let read = OpenOptions::default();
    let dir = tempfile::tempdir().unwrap();
    let missing = open(dir.path().join("none"), &read);
    assert!(message(missing).ends_with("; check the path"));
    let directory = message(open(dir.path(), &OpenOptions { write: true, ..read }));
    assert!(directory.ends_with("; an image is a file or a block device"), "{directory}");
    let (_dir, path) = write_image(b"QFI\xfb\0\0\0\x03");
    assert!(message(open(&path, &read)).ends_with("qcow2 image: the header is truncated"));
    let (_dir, path) = write_image(b"\x28\xb5\x2f\xfd and so on");
    let error = message(open(&path, &OpenOptions { write: true, ..read }));
    assert!(error.ends_with(&format!("zstd -dc {path} > RAW")), "{error}");
    let (_dir, empty) = write_image(b"");
    assert_eq!(
        open_image(&empty, &read).unwrap().len_bytes(),
        0,
        "newfs will report how much it needs"
    );
}
