//! What opening, closing and sharing a volume promise.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use bsdffs::{File, OpenOptions, Volume};
use ffs_core::Error;
use std::error::Error as _;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

fn image(dir: &Path) -> PathBuf {
    let image = dir.join("image");
    bsdffs::format(&image, 8 << 20).unwrap();
    image
}

#[test]
fn what_is_closed_is_there_when_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path());
    let volume = Volume::options().write(true).open(&image).unwrap();
    volume.write("file", "content").unwrap();
    volume.close().unwrap();
    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.read_to_string("/file").unwrap(), "content");
    assert_eq!(volume.write("file", "other").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
}

/// Dropping the last handle unmounts as close does.
#[test]
fn what_is_dropped_is_there_when_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path());
    let file: File;
    {
        let volume = Volume::options().write(true).open(&image).unwrap();
        file = volume.create_file("file").unwrap();
    }
    { file }.write_all(b"content").unwrap();
    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.read("file").unwrap(), b"content");
}

#[test]
fn a_volume_that_is_written_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path());
    let volume = Volume::options().write(true).open(&image).unwrap();
    let error = Volume::open(&image).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    volume.close().unwrap();
    let (one, two) = (Volume::open(&image).unwrap(), Volume::open(&image).unwrap());
    assert!(one.exists("/").unwrap() && two.exists("/").unwrap());
}

#[test]
fn errors_name_their_cause() {
    let dir = tempfile::tempdir().unwrap();
    let none = Volume::open(dir.path().join("none")).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    std::fs::write(dir.path().join("text"), vec![b'x'; 1 << 20]).unwrap();
    let text = Volume::open(dir.path().join("text")).unwrap_err();
    assert!(text.to_string().contains("superblock"), "{text}");
    let image = image(dir.path());
    assert_eq!(bsdffs::format(&image, 8 << 20).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let small = dir.path().join("small");
    assert_eq!(bsdffs::format(&small, 4096).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(!small.exists());
    let volume = Volume::open(&image).unwrap();
    let missing = volume.read("a/b").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(
        matches!(missing.get_ref().unwrap().downcast_ref(), Some(Error::NotFound)),
        "{missing:?}"
    );
    assert!(missing.source().is_none());
}

#[test]
fn what_excludes_each_other_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::options().write(true).open(image(dir.path())).unwrap();
    for options in [
        OpenOptions::new(),
        OpenOptions::new().read(true).create(true).clone(),
        OpenOptions::new().read(true).truncate(true).clone(),
        OpenOptions::new().append(true).truncate(true).clone(),
    ] {
        let error = options.open(&volume, "file").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{options:?}");
    }
    let mut written = volume.create_file("file").unwrap();
    assert_eq!(written.read(&mut [0]).unwrap_err().kind(), ErrorKind::PermissionDenied);
    let mut read = volume.open_file("file").unwrap();
    assert_eq!(read.write(b"x").unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert!(!volume.read_dir("/").unwrap().any(|entry| entry.unwrap().file_name() == "none"));
}

/// More entries than a batch, removed while they are listed.
#[test]
fn a_directory_may_change_while_it_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::options().write(true).open(image(dir.path())).unwrap();
    volume.create_dir("many").unwrap();
    for number in 0..1000 {
        volume.write(format!("many/{number}"), "").unwrap();
    }
    let mut seen = 0;
    for entry in volume.read_dir("many").unwrap() {
        volume.remove_file(entry.unwrap().path()).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 1000);
    assert_eq!(volume.read_dir("many").unwrap().count(), 0);
    volume.remove_dir("many").unwrap();
}

#[test]
fn paths_of_bytes_and_long_trees() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::options().write(true).open(image(dir.path())).unwrap();
    let odd = Path::new(OsStr::from_bytes(b"\xff\x01 name"));
    volume.write(odd, "odd").unwrap();
    assert_eq!(volume.read(odd).unwrap(), b"odd");
    let deep = "d/".repeat(500);
    volume.create_dir_all(&deep).unwrap();
    assert_eq!(volume.walk("d").unwrap().count(), 499);
    assert_eq!(volume.walk("d").unwrap().last().unwrap().unwrap().depth(), 498);
    volume.remove_dir_all("d").unwrap();
    assert!(!volume.exists("d").unwrap());
}
