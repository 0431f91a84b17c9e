//! Renames with a whiteout, and what they are for: a volume of ours as the upper layer of Linux's
//! overlayfs.

use crate::bench::{BOB, Bench, Expect, as_user, cases};
use crate::ground::Served;
use crate::sys::{self, Errno, Kind};
use rustix::fs::{OFlags, RenameFlags, getxattr};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;
use tempfile::TempDir;

cases! {
    "whiteout" {
        stays_at_the_old_name [Root];
        of_directories [Root];
        refused [Root];
    }
    "overlay" { upper_layer [Root, Ours, Xattr]; }
}

fn is_whiteout(p: impl rustix::path::Arg) -> bool {
    let s = sys::lstat(p).must();
    (s.kind, s.rdev, s.mode) == (Kind::Char, (0, 0), 0)
}

fn stays_at_the_old_name(_: &Bench) {
    for (from, to) in [("a", "b"), ("a", "d/b"), ("a", "taken"), ("d/a", "d/taken")] {
        sys::mkdir("d", 0o755).must();
        sys::put(from, b"content").must();
        if to.ends_with("taken") {
            sys::put(to, b"old").must();
        }
        let before = sys::stat(from).must();
        sys::rename_with(from, to, RenameFlags::WHITEOUT).must();
        assert!(is_whiteout(from), "{from}");
        assert_eq!(sys::lstat(from).must().nlink, 1);
        let after = sys::stat(to).must();
        assert_eq!((after.ino, after.nlink), (before.ino, 1));
        assert_eq!(sys::content(to).must(), b"content");
        sys::unlink(to).must();
        sys::unlink(from).must();
        sys::rmdir("d").must();
    }
}

fn of_directories(_: &Bench) {
    sys::mkdir("p", 0o755).must();
    sys::mkdir("p/d", 0o755).must();
    sys::put("p/d/f", b"inside").must();
    sys::rename_with("p/d", "e", RenameFlags::WHITEOUT | RenameFlags::NOREPLACE).must();
    assert!(is_whiteout("p/d"));
    assert_eq!(sys::stat("p").must().nlink, 2, "no directory is in it");
    assert_eq!(sys::content("e/f").must(), b"inside");
    assert_eq!(sys::stat("e/..").must().ino, sys::stat(".").must().ino);
    sys::rename_with("e", "g", RenameFlags::WHITEOUT).must();
    assert!(is_whiteout("e"));
    assert_eq!(sys::content("g/f").must(), b"inside");
}

fn refused(_: &Bench) {
    sys::put("a", b"1").must();
    sys::put("b", b"2").must();
    let both = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
    sys::rename_with("a", "b", both).fails(Errno::EXIST);
    sys::rename_with("none", "b", RenameFlags::WHITEOUT).fails(Errno::NOENT);
    let wrong = RenameFlags::WHITEOUT | RenameFlags::EXCHANGE;
    sys::rename_with("a", "b", wrong).fails(Errno::INVAL);
    as_user(BOB, || sys::rename_with("a", "c", RenameFlags::WHITEOUT).fails(Errno::ACCESS));
    assert_eq!((sys::content("a").must(), sys::content("b").must()), (b"1".into(), b"2".into()));
    assert_eq!(sys::list(".").must().len(), 2);
}

/// An overlay over a directory of the host, with a volume of ours above.
struct Overlay {
    home: TempDir,
    upper: std::path::PathBuf,
}

impl Overlay {
    fn mount(&self, volume: &Path) -> Result<(), Errno> {
        let lower = self.home.path().join("lower");
        let work = volume.join("work");
        let data = format!(
            "lowerdir={},upperdir={},workdir={},redirect_dir=on",
            lower.display(),
            self.upper.display(),
            work.display()
        );
        let data = CString::new(data).unwrap();
        mount("overlay", self.merged(), "overlay", MountFlags::empty(), data.as_c_str())
    }

    fn merged(&self) -> std::path::PathBuf {
        self.home.path().join("merged")
    }

    fn unmount(&self) {
        unmount(self.merged(), UnmountFlags::empty()).must();
    }

    /// Everything in the overlay: types and contents.
    fn tree(&self) -> BTreeMap<String, (Kind, Vec<u8>)> {
        let mut all = BTreeMap::new();
        let mut left = vec![self.merged()];
        while let Some(dir) = left.pop() {
            for name in sys::list(&dir).must() {
                let path = dir.join(String::from_utf8(name).unwrap());
                let kind = sys::lstat(&path).must().kind;
                let content = match kind {
                    Kind::Regular => sys::content(&path).must(),
                    Kind::Symlink => sys::readlink(&path).must(),
                    _ => Vec::new(),
                };
                let shown = path.strip_prefix(self.merged()).unwrap().display().to_string();
                all.insert(shown, (kind, content));
                if kind == Kind::Directory {
                    left.push(path);
                }
            }
        }
        all
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // A failed case may leave it mounted.
        let _ = unmount(self.merged(), UnmountFlags::DETACH);
    }
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buf = [0; 256];
    let n = getxattr(path, name, &mut buf[..]).ok()?;
    Some(buf[..n].to_vec())
}

fn upper_layer(b: &Bench) {
    let image = b.ground.another(32 << 20);
    let served = Served::start(&image, "softdep");
    let o = Overlay { home: TempDir::new().unwrap(), upper: served.dir().join("upper") };
    for dir in [&o.upper, &served.dir().join("work"), &o.merged()] {
        sys::mkdir(dir, 0o755).must();
    }
    let lower = o.home.path().join("lower");
    for dir in ["", "dir", "dir/sub", "removed", "again", "moved", "moved/deep"] {
        sys::mkdir(lower.join(dir), 0o755).must();
    }
    for file in ["change", "rename", "remove", "dir/f", "removed/f", "again/old", "moved/deep/f"] {
        sys::put(lower.join(file), format!("lower {file}").as_bytes()).must();
    }
    match o.mount(served.dir()) {
        Ok(()) => {}
        Err(Errno::NODEV | Errno::PERM) => b.skip("this kernel has no overlayfs"),
        Err(e) => panic!("overlayfs refuses the volume: {e}"),
    }
    let m = o.merged();
    // Copied up: by a write, by a change of attributes, for another name.
    sys::write(sys::open(m.join("change"), OFlags::WRONLY | OFlags::APPEND, 0).must(), b"!").must();
    sys::chmod(m.join("dir/f"), 0o600).must();
    sys::link(m.join("dir/f"), m.join("linked")).must();
    // Whiteouts: a renamed file, a removed one, a removed directory, one that comes again.
    sys::rename(m.join("rename"), m.join("renamed")).must();
    sys::unlink(m.join("remove")).must();
    sys::unlink(m.join("removed/f")).must();
    sys::rmdir(m.join("removed")).must();
    sys::unlink(m.join("again/old")).must();
    sys::rmdir(m.join("again")).must();
    sys::mkdir(m.join("again"), 0o755).must();
    sys::put(m.join("again/new"), b"new").must();
    // A directory of the lower layer moves: what is in it is found by a redirection.
    sys::rename(m.join("moved"), m.join("dir/here")).must();
    sys::symlink("renamed", m.join("link")).must();
    let t = sys::open(&m, OFlags::TMPFILE | OFlags::RDWR, 0o600).must();
    sys::write(&t, b"without a name").must();
    drop(t);

    let upper = |name: &str| o.upper.join(name);
    for removed in ["rename", "remove", "removed", "moved"] {
        assert!(is_whiteout(upper(removed)), "{removed}");
    }
    assert_eq!(attribute(&upper("again"), "trusted.overlay.opaque").as_deref(), Some(&b"y"[..]));
    let redirect = attribute(&upper("dir/here"), "trusted.overlay.redirect");
    assert_eq!(redirect.as_deref(), Some(&b"/moved"[..]));
    let before = o.tree();
    assert_eq!(before["change"].1, b"lower change!");
    assert_eq!(before["renamed"].1, b"lower rename");
    assert_eq!(before["dir/here/deep/f"].1, b"lower moved/deep/f");
    assert_eq!(before.keys().filter(|k| k.starts_with("again/")).count(), 1);
    for removed in ["rename", "remove", "removed", "moved"] {
        assert!(!before.contains_key(removed), "{removed}");
    }
    o.unmount();
    // Everything is kept by the volume.
    served.end();
    let served = Served::start(&image, "softdep");
    o.mount(served.dir()).must();
    assert_eq!(o.tree(), before);
    o.unmount();
    served.end();
}
