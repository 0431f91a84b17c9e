//! The common test of every damaged volume.

use crate::disk::{Disk, list};
use crate::walk::{Failure, Walk, walk};
use ffs_admin::fsck::{FsckOptions, exit};
use ffs_core::{Cred, Error, Ffs, MountOptions, NodeKind, RenameMode, SetAttr, WriteMode};

/// `EIO`.
pub(crate) const EIO: i32 = 5;
/// Most transfers that a mount, a walk, some work and an unmount of a test volume may need.
const MOST_TRANSFERS: u64 = 30_000;

/// Reasons to mount read-only that remain after a check.
const LASTING: [&str; 3] = ["gjournal", "snapshots", "NetBSD"];

/// The results of [`ordeal`].
#[derive(Default)]
pub(crate) struct Outcome {
    /// Read failures after mounting.
    pub(crate) walk: Vec<Failure>,
    /// Failures of the operations.
    pub(crate) work: Vec<Failure>,
    /// Why the volume was mounted read-only, if it was.
    pub(crate) read_only: Option<&'static str>,
    /// Whether the volume was marked clean after unmount.
    pub(crate) clean: bool,
    /// Why the volume could not be mounted.
    pub(crate) refused: Option<Error>,
    /// Findings of the check before repairs.
    pub(crate) findings: Vec<ffs_admin::fsck::Id>,
}

/// Everything outside `hurt` must be unchanged; `what` names the damage in messages.
///
/// Mounts, reads everything, runs operations, unmounts; then runs the check, which must repair
/// everything in one run; then mounts again and reads everything. Files whose paths begin with one
/// of `hurt` may be missing or changed.
pub(crate) fn ordeal(disk: &Disk, what: &str, hurt: &[&str]) -> Outcome {
    ordeal_with(disk, what, hurt, &crate::disk::options())
}

/// [`ordeal`] of a volume whose tree cannot be read before the check.
pub(crate) fn ordeal_blind(disk: &Disk, what: &str) -> Outcome {
    pass_through(disk, what, (&["", "/"], &[]), &crate::disk::options())
}

/// [`ordeal`] with given mount options.
pub(crate) fn ordeal_with(disk: &Disk, what: &str, hurt: &[&str], opts: &MountOptions) -> Outcome {
    pass_through(disk, what, (hurt, hurt), opts)
}

fn pass_through(
    disk: &Disk,
    what: &str,
    (hurt, after): (&[&str], &[&str]),
    opts: &MountOptions,
) -> Outcome {
    let before = disk.transfers();
    let mut out = Outcome::default();
    match disk.mount_with(opts) {
        Ok(fs) => use_volume(disk, &fs, what, hurt, &mut out),
        Err(e) => out.refused = Some(e),
    }
    let spent = disk.transfers() - before;
    assert!(spent < MOST_TRANSFERS, "{:?} {what}: {spent} transfers", disk.kind);
    repair(disk, what, after, &mut out);
    out
}

fn use_volume(disk: &Disk, fs: &Ffs, what: &str, hurt: &[&str], out: &mut Outcome) {
    out.read_only = fs.read_only_reason();
    let w = walk(fs);
    compare(disk, &w, what, hurt);
    out.walk = w.errors;
    out.work = work(fs, "work");
    for f in out.walk.iter().chain(&out.work) {
        let expected = [EIO, 28, 30].contains(&f.errno);
        assert!(expected, "{:?} {what}: errno {} of {f:?}", disk.kind, f.errno);
    }
    if let Err(e) = fs.unmount() {
        assert_eq!(e.errno(), EIO, "{:?} {what}: unmount: {e}", disk.kind);
    }
    out.clean = disk.is_clean();
}

/// Checks that every undamaged file exists with its content.
pub(crate) fn compare(disk: &Disk, w: &Walk, what: &str, hurt: &[&str]) {
    for (path, item) in disk.tree.iter() {
        if hurt.iter().any(|h| path.starts_with(h)) {
            continue;
        }
        let Some(found) = w.items.get(path) else {
            panic!("{:?} {what}: {path:?} is lost: {:?}", disk.kind, w.errors);
        };
        // Names in a damaged directory may have changed a link count of an ancestor.
        let mut found = found.clone();
        if item.is_directory() {
            found.forgive_directory(item);
        }
        assert_eq!(&found, item, "{:?} {what}: {path:?} has changed", disk.kind);
    }
}

/// Checks that fsck repairs everything in one run and changes nothing undamaged.
fn repair(disk: &Disk, what: &str, hurt: &[&str], out: &mut Outcome) {
    let kind = disk.kind;
    let report = disk.fsck(FsckOptions::yes());
    let found = list(&report.findings);
    out.findings = report.ids();
    if report.exit_code == exit::SUPERBLOCK {
        // It must have a reason for stopping, and must not have written anything.
        assert!(out.refused.is_some() && !report.modified, "{kind:?} {what}: {:?}", report.stopped);
        return;
    }
    assert!(
        report.exit_code == exit::OK,
        "{kind:?} {what}: fsck -y: {} {:?}{found}\nunrepaired: {:?}",
        report.exit_code,
        report.stopped,
        report.findings.iter().filter(|f| !f.repaired).collect::<Vec<_>>()
    );
    let mut failures = out.walk.iter().chain(&out.work);
    if out.clean && !out.findings.is_empty() {
        let reported = failures.find(|f| f.errno == EIO);
        assert!(
            reported.is_none(),
            "{kind:?} {what}: called clean in spite of {reported:?}{found}"
        );
    }
    disk.silent(&format!("{what}: after {found}"));
    let fs = disk.mount().unwrap();
    let why = fs.read_only_reason();
    // A check cannot verify what the volume itself declares.
    let lasting = why.is_some_and(|why| LASTING.iter().any(|l| why.contains(l)));
    assert!(why.is_none() || lasting, "{kind:?} {what}: {why:?}");
    let mut w = walk(&fs);
    // A check does not read attributes: their right values are unknown.
    w.errors.retain(|f| hurt.is_empty() || !f.text.starts_with("extended attributes"));
    assert!(w.errors.is_empty(), "{kind:?} {what}: after repairs: {:?}", w.errors);
    compare(disk, &w, &format!("{what}, repaired ({found})"), hurt);
    let failed = work(&fs, "more work");
    if lasting {
        return;
    }
    assert!(failed.is_empty(), "{kind:?} {what}: after repairs: {failed:?}");
    fs.unmount().unwrap();
    disk.silent(&format!("{what}: repaired and used"));
}

/// Runs some of every operation in a new directory with this name. Returns the failures.
pub(crate) fn work(fs: &Ffs, name: &str) -> Vec<Failure> {
    let mut failed = Vec::new();
    let mut note = |what: &str, r: Result<(), Error>| {
        if let Err(e) = r {
            let (errno, text) = (e.errno(), e.to_string());
            failed.push(Failure { path: what.to_owned(), errno, text });
        }
    };
    let cred = Cred::root();
    let root = match fs.root() {
        Ok(root) => root,
        Err(e) => {
            note("root", Err(e));
            return failed;
        }
    };
    let dir = match fs.mkdir(&cred, &root, name.as_bytes(), 0o755) {
        Ok(dir) => dir,
        Err(e) => {
            note("mkdir", Err(e));
            return failed;
        }
    };
    let bytes = vec![0x5a; 20_000];
    for name in [b"f0", b"f1", b"f2", b"f3"] {
        note("file", write_file(fs, &dir, name, &bytes));
    }
    note("mkdir", fs.mkdir(&cred, &dir, b"sub", 0o700).map(drop));
    note("symlink", fs.symlink(&cred, &dir, b"link", &[b'y'; 200]).map(drop));
    let (f0, f2): (&[u8], &[u8]) = (b"f0", b"f2");
    note("rename", fs.rename(&cred, (&dir, f0), (&dir, f2), RenameMode::Replace));
    note("truncate", fs.lookup(&cred, &dir, b"f1").and_then(|f| resize(fs, &f, 100)));
    note("sync", fs.sync());
    for name in [&b"f1"[..], b"f2", b"f3", b"link"] {
        note("unlink", fs.unlink(&cred, &dir, name));
    }
    note("rmdir", fs.rmdir(&cred, &dir, b"sub"));
    drop(dir);
    note("rmdir", fs.rmdir(&cred, &root, name.as_bytes()));
    failed
}

fn write_file(fs: &Ffs, dir: &ffs_core::Vnode, name: &[u8], bytes: &[u8]) -> Result<(), Error> {
    let cred = Cred::root();
    let f = fs.create(&cred, dir, name, NodeKind::Regular, 0o600)?;
    fs.write(&cred, &f, 0, bytes, WriteMode::default())?;
    fs.fsync(&f)
}

fn resize(fs: &Ffs, f: &ffs_core::Vnode, size: u64) -> Result<(), Error> {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    fs.setattr(&Cred::root(), f, &set).map(drop)
}

/// Fails unless the error is an EIO with all of `words` in its text.
pub(crate) fn names(what: &str, errno: i32, text: &str, words: &[&str]) {
    assert_eq!(errno, EIO, "{what}: {text}");
    for word in words {
        assert!(text.contains(word), "{what}: {text:?} does not name {word:?}");
    }
}

/// Fails unless one of the failures on `path` has all of `words`.
pub(crate) fn one_names(what: &str, failures: &[Failure], path: &str, words: &[&str]) {
    let on_path: Vec<&Failure> = failures.iter().filter(|f| f.path == path).collect();
    let good = |f: &&&Failure| f.errno == EIO && words.iter().all(|w| f.text.contains(w));
    assert!(on_path.iter().any(|f| good(&f)), "{what}: {path}: {words:?} not in {failures:?}");
}
