//! The check of a mounted volume in the background. What mounts is skipped where FUSE is not
//! allowed.

use crate::common::{Dir, fails, fsck_clean, ok, run, text};
use crate::fsck::{edit_inode, edit_superblock, with_file};
use crate::mount::fuse;
use ffs_ondisk::superblock::FsFlags;
use std::fs;
use std::path::Path;

/// An image with a link count that is too high, as a crash leaves it.
fn unclean(d: &Dir) -> String {
    unclean_with(d, 3)
}

/// As [`unclean`], with this link count of a file with one name.
fn unclean_with(d: &Dir, nlink: u16) -> String {
    let (image, ino) = with_file(d, "a.img", &["-U"]);
    edit_inode(&image, ino, |i| i.nlink = nlink);
    edit_superblock(&image, |sb| sb.f.clean = 0);
    image
}

fn code(args: &[&str]) -> Option<i32> {
    run(args).status.code()
}

#[test]
fn an_image_is_checked_while_it_is_mounted_for_the_check() {
    let d = Dir::new();
    let image = unclean(&d);
    let output = run(&["fsck", "-B", &image]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let printed = text(&output);
    assert!(printed.contains("LINK-HIGH") && printed.contains("1 correction"), "{printed}");
    fsck_clean(Path::new(&image));
    assert_eq!(code(&["fsck", "-F", &image]), Some(7));
    assert!(text(&run(&["fsck", "-B", &image])).contains("SKIPPING"));
    assert!(text(&run(&["fsck", "-B", "-f", &image])).contains("0 corrections"));
}

#[test]
fn a_file_in_place_of_the_directory_for_snapshots_is_named() {
    let d = Dir::new();
    let (image, ino) = with_file(&d, "a.img", &["-U"]);
    ok(&["rm", "-r", &format!("{image}:/.snap")]);
    ok(&["cp", &d.file("f", b"mine"), &format!("{image}:/.snap")]);
    edit_inode(&image, ino, |i| i.nlink = 3);
    edit_superblock(&image, |sb| sb.f.clean = 0);
    let message = "/.snap in the volume is not a directory: remove or rename it";
    fails(&["fsck", "-B", &image], 8, message);
    assert_eq!(ok(&["cat", &format!("{image}:/.snap")]), "mine");
    ok(&["mv", &format!("{image}:/.snap"), &format!("{image}:/.snap.old")]);
    ok(&["fsck", "-B", &image]);
    fsck_clean(Path::new(&image));
}

#[test]
fn what_cannot_be_checked_in_the_background_has_its_exit_code() {
    let d = Dir::new();
    // A count that is too low is no trace of a crash.
    let image = unclean_with(&d, 0);
    fails(&["fsck", "-B", &image], 8, "full check");
    fails(&["fsck", "-B", &image], 8, "it needs a check");
    assert_eq!(code(&["fsck", "-F", &image]), Some(4));
    assert_eq!(code(&["fsck", "-p", &image]), Some(8));
    let (plain, _) = with_file(&d, "c.img", &[]);
    fails(&["fsck", "-B", "-f", &plain], 5, "without soft updates");
    edit_superblock(&plain, |sb| sb.set_flags(sb.flags() | FsFlags::NEEDSFSCK));
    fails(&["fsck", "-B", &plain], 8, "it needs a check");
    fails(&["fsck", "-B", &d.str("")], 1, "nothing is mounted");
}

/// Mounts an unclean volume. Returns the image, the mount point, and what was printed; `None` where
/// nothing can be mounted.
fn mounted_unclean(d: &Dir, options: &str) -> Option<(String, String, String)> {
    if !fuse() {
        return None;
    }
    let (image, at) = (unclean(d), d.str("mnt"));
    fs::create_dir(&at).unwrap();
    let mounted = run(&["mount", "-o", options, &image, &at]);
    let printed = text(&mounted);
    if !mounted.status.success() {
        println!("skipped: cannot mount: {printed}");
        return None;
    }
    Some((image, at, printed))
}

#[test]
fn a_mount_checks_an_unclean_volume_unless_that_is_forbidden() {
    let d = Dir::new();
    let Some((image, at, printed)) = mounted_unclean(&d, "nobgfsck") else { return };
    assert!(printed.contains("mounted without a check"), "{printed}");
    let gauge = |name: &str| ok(&["sysctl", &at, name]).trim().to_owned();
    let corrections = "vfs.ffs.bgfsck.corrections";
    assert!(gauge(corrections).ends_with('0'), "{}", gauge(corrections));
    ok(&["umount", &at]);
    assert_eq!(code(&["fsck", "-F", &image]), Some(0), "still unclean");

    let mounted = run(&["mount", "-o", "rw", &image, &at]);
    assert!(text(&mounted).contains("checking it in the background"), "{}", text(&mounted));
    // The mount is in use at once, and the check ends.
    fs::write(d.path("mnt").join("new"), [7; 50_000]).unwrap();
    let checked = run(&["fsck", "-B", &at]);
    let seen = (gauge("vfs.ffs.bgfsck.running"), gauge(corrections));
    ok(&["umount", &at]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
    assert!(seen.0.ends_with('0') && seen.1.ends_with('1'), "{seen:?}");
    fsck_clean(Path::new(&image));
    assert_eq!(code(&["fsck", "-F", &image]), Some(7));
    assert_eq!(ok(&["cat", &format!("{image}:/new")]).len(), 50_000);
}

#[test]
fn a_mount_recovers_a_volume_by_its_journal() {
    let d = Dir::new();
    if !fuse() {
        return;
    }
    let image = d.image("a.img", "16m", &["-j"]);
    let at = d.str("mnt");
    fs::create_dir(&at).unwrap();
    // As a crash leaves it, with an empty journal; then with one of another mount.
    for (mtime, want) in [(Some(0), "recovered by the journal"), (None, "cannot be used")] {
        edit_superblock(&image, |sb| {
            sb.f.clean = 0;
            sb.f.mtime = mtime.unwrap_or(sb.f.mtime + 1);
        });
        let mounted = run(&["mount", &image, &at]);
        let printed = text(&mounted);
        if !mounted.status.success() {
            println!("skipped: cannot mount: {printed}");
            return;
        }
        let written = fs::write(d.path("mnt").join("new"), "new");
        ok(&["umount", &at]);
        assert!(printed.contains(want), "{printed}");
        assert_eq!(written.is_ok(), mtime.is_some(), "{printed}");
        match mtime {
            Some(_) => fsck_clean(Path::new(&image)),
            None => assert!(printed.contains("read-only: its soft-updates journal"), "{printed}"),
        }
    }
}

#[test]
fn a_check_ends_before_the_mount_becomes_read_only() {
    let d = Dir::new();
    let Some((image, at, _)) = mounted_unclean(&d, "rw") else { return };
    let read_only = run(&["mount", "-u", "-o", "ro", &at]);
    let refused = run(&["fsck", "-B", "-f", &at]);
    let read_write = run(&["mount", "-u", "-o", "rw", &at]);
    let checked = run(&["fsck", "-B", &at]);
    ok(&["umount", &at]);
    assert!(read_only.status.success(), "{}", text(&read_only));
    assert!(text(&refused).contains("read-only"), "{}", text(&refused));
    assert!(read_write.status.success(), "{}", text(&read_write));
    assert!(checked.status.success(), "{}", text(&checked));
    fsck_clean(Path::new(&image));
}

#[test]
fn checks_requested_together_share_one_and_all_get_its_result() {
    let d = Dir::new();
    let Some((image, at, _)) = mounted_unclean(&d, "rw") else { return };
    let request = || (0..8).map(|_| run(&["fsck", "-B", "-f", &at])).collect::<Vec<_>>();
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(request)).collect();
        threads.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    ok(&["umount", &at]);
    for result in &results {
        assert_eq!(result.status.code(), Some(0), "{}", text(result));
    }
    fsck_clean(Path::new(&image));
}
