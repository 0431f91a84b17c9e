//! A device that fails once, at every transfer in turn.
//!
//! The same work is repeated; in each run the next read, write or flush fails. In every run the
//! mount ends, files outside the work are unchanged, files made durable by fsync exist, a volume
//! marked clean is undamaged, and one check repairs all damage.

use crate::disk::{Disk, Kind, list, options};
use crate::ordeal::{EIO, compare};
use crate::walk::walk;
use ffs_admin::fsck::{FsckOptions, exit, quick_check};
use ffs_core::{
    Cred, Error, Ffs, MountOptions, NodeKind, OrderingPolicy, RenameMode, SetAttr, Vnode,
    WriteMode, XattrNamespace, XattrSet,
};
use ffs_device::fault::{Fault, Rule};
use ffs_device::{Durability, Operation};
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

const KINDS: [Kind; 2] = [(Format::Ufs1, Endian::Little), (Format::Ufs2, Endian::Big)];
/// Paths that the work changes.
const WORKED_ON: [&str; 3] = ["/w", "/many/file number 3", "/many/file number 4"];

/// The results of all runs.
#[derive(Default, Debug)]
struct Tally {
    runs: u32,
    /// Runs in which a call failed with EIO, or the mount became read-only.
    reported: u32,
    clean: u32,
    /// Runs without a visible effect: the failed transfer was not needed, or was repeated.
    quiet: u32,
}

/// Does the work. Returns the errors of its steps, and whether the file `kept` was made durable.
fn work(fs: &Ffs) -> (Vec<(&'static str, Error)>, bool) {
    let (cred, mut errors, mut kept) = (Cred::root(), Vec::new(), false);
    let mut step = |what: &'static str, r: Result<(), Error>| {
        let ok = r.is_ok();
        errors.extend(r.err().map(|e| (what, e)));
        ok
    };
    let (root, w, many) = match start(fs) {
        Ok(dirs) => dirs,
        Err(e) => return (vec![("start", e)], false),
    };
    if step("kept", write_file(fs, &w, b"kept", 3000)) {
        let r = fs.lookup(&cred, &w, b"kept").and_then(|f| fs.fsync(&f));
        kept = step("fsync", r);
    }
    step("big", write_file(fs, &w, b"big", 120_000));
    let rename = |from: (&Vnode, &[u8]), to: (&Vnode, &[u8])| {
        fs.rename(&cred, from, to, RenameMode::Replace)
    };
    step("move", rename((&many, b"file number 3"), (&w, b"moved")));
    step("replace", rename((&w, b"big"), (&w, b"moved")));
    step("unlink", fs.unlink(&cred, &many, b"file number 4"));
    step("sync", fs.sync());
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    for len in [5000, 40_000] {
        let r = fs.lookup(&cred, &w, b"moved");
        step("resize", r.and_then(|f| fs.setattr(&cred, &f, &size(len)).map(drop)));
    }
    step("symlink", fs.symlink(&cred, &w, b"link", &[b't'; 300]).map(drop));
    step("mkdir", fs.mkdir(&cred, &w, b"sub", 0o755).map(drop));
    step("move directory", rename((&w, b"sub"), (&root, b"w2")));
    step("rmdir", fs.rmdir(&cred, &root, b"w2"));
    if fs.geometry().format == Format::Ufs2 {
        let ns = XattrNamespace::User;
        let r = fs.setxattr(&cred, &w, ns, b"a", &[1; 3000], XattrSet::Any);
        step("setxattr", r);
    }
    let r = fs.lookup(&cred, &w, b"moved").and_then(|f| fs.link(&cred, &f, &w, b"linked"));
    step("link", r);
    step("unlink", fs.unlink(&cred, &w, b"moved"));
    (errors, kept)
}

fn start(fs: &Ffs) -> Result<(Vnode, Vnode, Vnode), Error> {
    let (cred, root) = (Cred::root(), fs.root()?);
    let w = fs.mkdir(&cred, &root, b"w", 0o755)?;
    let many = fs.lookup(&cred, &root, b"many")?;
    Ok((root, w, many))
}

fn write_file(fs: &Ffs, dir: &Vnode, name: &[u8], len: usize) -> Result<(), Error> {
    let cred = Cred::root();
    let f = fs.create(&cred, dir, name, NodeKind::Regular, 0o644)?;
    let (data, mut at) = (vec![0x77; len], 0);
    // A write that an error interrupted returns the error when it is continued.
    while at < len {
        at += fs.write(&cred, &f, at as u64, &data[at..], WriteMode::default())?;
    }
    Ok(())
}

/// One run in which the `n`th `operation` fails by `fault`, once or permanently; `None` if there is
/// no `n`th.
fn run(
    good: &Disk,
    ordering: OrderingPolicy,
    (operation, fault, once): (Operation, Fault, bool),
    n: u64,
    tally: &mut Tally,
) -> Option<()> {
    let disk = good.copy();
    let what =
        format!("{:?} {ordering:?}: {operation:?} {n} fails: {fault:?}, once: {once}", disk.kind);
    let rule = Rule::new(operation, fault).nth(n);
    disk.dev.add(if once { rule.times(1) } else { rule });
    let (mut reported, mut kept) = (false, false);
    match disk.mount_with(&MountOptions { ordering, ..options() }) {
        Err(e) => {
            assert_eq!(e.errno(), EIO, "{what}: mount: {e}");
            reported = true;
        }
        Ok(fs) => {
            reported |= fs.is_read_only();
            let (errors, durable) = work(&fs);
            kept = durable;
            for (step, e) in &errors {
                let consequence = [2, 17, 39].contains(&e.errno()) || fs.is_read_only();
                assert!(e.errno() == EIO || consequence, "{what}: {step}: {e}");
            }
            reported |= errors.iter().any(|(_, e)| e.errno() == EIO);
            if let Err(e) = fs.unmount() {
                assert_eq!(e.errno(), EIO, "{what}: unmount: {e}");
                reported = true;
            }
        }
    }
    if disk.dev.counts().injected == 0 {
        return None;
    }
    disk.dev.heal();
    tally.runs += 1;
    tally.reported += u32::from(reported);
    let clean = settle(&disk, &what, kept && once);
    tally.clean += u32::from(clean);
    tally.quiet += u32::from(clean && !reported);
    Some(())
}

/// Checks the volume after the device works again. Returns whether it was marked clean.
fn settle(disk: &Disk, what: &str, kept: bool) -> bool {
    let findings = quick_check(&disk.device());
    let clean = disk.is_clean();
    assert!(!clean || findings.is_empty(), "{what}: called clean, but{}", list(&findings));
    let report = disk.fsck(FsckOptions::yes());
    assert_eq!(report.exit_code, exit::OK, "{what}: {}", list(&report.findings));
    disk.silent(what);
    let fs = disk.mount().unwrap();
    assert!(!fs.is_read_only(), "{what}");
    let mut w = walk(&fs);
    // Attributes are not checked: without ordering they may never have been written.
    let unordered = what.contains("None");
    w.errors
        .retain(|f| !(unordered && f.path == "/w" && f.text.starts_with("extended attributes")));
    assert!(w.errors.is_empty(), "{what}: {:?}", w.errors);
    compare(disk, &w, what, &WORKED_ON);
    let there = w.items.contains_key("/w/kept");
    assert!(there || !kept, "{what}: fsync reported it as durable:{}", list(&report.findings));
    clean
}

fn every(operation: Operation, fault: impl Fn(u64) -> Fault, once: bool) {
    for kind in KINDS {
        let base = Disk::new(kind);
        let mem = base.dev.inner().snapshot().with_durability(Durability::OnFlush);
        let good = Disk { dev: Arc::new(ffs_device::FaultInjector::new(mem, Vec::new())), ..base };
        for ordering in [OrderingPolicy::Sync, OrderingPolicy::None, OrderingPolicy::SoftUpdates] {
            let mut tally = Tally::default();
            let mut n = 1;
            while run(&good, ordering, (operation, fault(n), once), n, &mut tally).is_some() {
                n += 1;
            }
            println!("{kind:?} {ordering:?} {operation:?}: {tally:?}");
            assert!(tally.runs > 2, "{tally:?}");
            assert!(tally.quiet * 5 <= tally.runs, "{kind:?} {ordering:?}: {tally:?}");
        }
    }
}

#[test]
fn bad_eio_at_every_read() {
    every(Operation::Read, |_| Fault::Errno(EIO), true);
}

#[test]
fn bad_eio_at_every_write() {
    every(Operation::Write, |_| Fault::Errno(EIO), true);
}

#[test]
fn bad_eio_at_every_write_that_arrives_in_part() {
    every(Operation::Write, |seed| Fault::Torn { seed }, true);
}

#[test]
fn bad_eio_at_every_flush() {
    every(Operation::Flush, |_| Fault::Errno(EIO), true);
}

#[test]
fn bad_eio_from_every_write_on() {
    every(Operation::Write, |_| Fault::Errno(EIO), false);
}

#[test]
fn bad_eio_from_every_flush_on() {
    every(Operation::Flush, |_| Fault::Errno(EIO), false);
}
