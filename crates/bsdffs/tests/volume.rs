//! What opening, closing and sharing a volume promise.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use bsdffs::namei::Last;
use bsdffs::{File, OpenOptions, Permissions, Volume};
use ffs_admin::newfs::NewfsOptions;
use ffs_core::{Cred, Error, SetAttr, SetTime, Timespec};
use ffs_ondisk::Format;
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

#[test]
fn listing_a_directory_needs_the_permission_to_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path());
    let volume = Volume::options().write(true).open(&image).unwrap();
    volume.create_dir_all("/open/private").unwrap();
    volume.write("/open/private/file", "").unwrap();
    volume.set_permissions("/open/private", Permissions::from_mode(0o711)).unwrap();
    volume.close().unwrap();
    let user = Volume::options().cred(Cred::user(1000, 1000)).open(&image).unwrap();
    let refused = user.read_dir("/open/private").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    let walked: Vec<_> = user.walk("/open").unwrap().collect();
    assert_eq!(walked.len(), 1);
    assert_eq!(walked[0].as_ref().unwrap_err().kind(), ErrorKind::PermissionDenied);
    // The permission to search is there.
    assert!(user.metadata("/open/private/file").unwrap().is_file());
    let root = Volume::open(&image).unwrap();
    assert_eq!(root.read_dir("/open/private").unwrap().count(), 1);
}

#[test]
fn a_file_system_has_the_options_that_were_given() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let options = NewfsOptions {
        size: Some(32 << 20),
        format: Some(Format::Ufs1),
        label: Some("home".to_owned()),
        ..NewfsOptions::default()
    };
    let report = bsdffs::format_with(&image, &options).unwrap();
    assert_eq!(report.plan.format, Format::Ufs1);
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 32 << 20);
    assert!(!Volume::open(&image).unwrap().fs().xattrs());
    let again = bsdffs::format_with(&image, &options).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let other = dir.path().join("other");
    for wrong in [
        NewfsOptions { size: None, ..options.clone() },
        NewfsOptions { bsize: Some(7), ..options.clone() },
    ] {
        let refused = bsdffs::format_with(&other, &wrong).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(!other.exists());
    }
    let journal = NewfsOptions {
        size: Some(64 << 20),
        soft_updates: true,
        journal: true,
        ..NewfsOptions::default()
    };
    bsdffs::format_with(&other, &journal).unwrap();
    assert!(Volume::open(&other).unwrap().exists("/.sujournal").unwrap());
}

#[test]
fn attributes_are_set_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::options().write(true).open(image(dir.path())).unwrap();
    volume.write("file", "content").unwrap();
    volume.symlink("file", "link").unwrap();
    let at = Timespec { secs: -1, nsec: 5 };
    let set =
        SetAttr { uid: Some(7), size: Some(3), mtime: Some(SetTime::To(at)), ..SetAttr::default() };
    volume.set_attributes("link", Last::Follow, &set).unwrap();
    volume
        .set_attributes("link", Last::Keep, &SetAttr { uid: Some(8), ..SetAttr::default() })
        .unwrap();
    let (file, link) = (volume.metadata("link").unwrap(), volume.symlink_metadata("link").unwrap());
    assert_eq!((file.uid(), file.len(), file.attr().mtime), (7, 3, at));
    assert_eq!((file.mode(), file.rdev()), (0o100_644, 0));
    assert_eq!((link.uid(), link.mode() & 0o170_000), (8, 0o120_000));
    assert_eq!(volume.lookup("link", Last::Keep).unwrap().ino().0, link.ino() as u32);
    let missing = volume.lookup("none", Last::Keep).unwrap_err();
    assert_eq!((missing.kind(), bsdffs::errno(&missing)), (ErrorKind::NotFound, 2));
}

#[test]
fn a_snapshot_is_opened_as_a_volume() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path());
    let volume = Volume::options().write(true).open(&image).unwrap();
    volume.write("file", "before").unwrap();
    let at = volume.lookup("/.snap", Last::Follow).unwrap();
    volume.fs().snapshot(volume.cred(), &at, b"monday").unwrap();
    // A file of the core keeps the volume, and so the lock of the image.
    drop(at);
    volume.write("file", "after").unwrap();
    volume.close().unwrap();
    let monday = Volume::options().open_snapshot(&image, "/.snap/monday").unwrap();
    assert_eq!(monday.read_to_string("file").unwrap(), "before");
    assert_eq!(Volume::open(&image).unwrap().read_to_string("file").unwrap(), "after");
    for (path, kind) in [("file", ErrorKind::InvalidInput), ("none", ErrorKind::NotFound)] {
        let refused = Volume::options().open_snapshot(&image, path).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    let writing = Volume::options().write(true).open_snapshot(&image, "/.snap/monday");
    assert_eq!(writing.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
}
