//! Checks of the volume that a killed process left. (`ffs-fuse` uses them too.)

use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport};
use ffs_core::{Cred, Env, Ffs, MountOptions, Vnode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::FileType;
use ffs_testkit::killtest::{
    ALLOWED_REPAIRS, COMMON, FoundNode, FoundTree, SyncCalls, Verified, check_found, directory_of,
};
use std::sync::Arc;

/// The time of the repair, seconds.
const REPAIR: i64 = 1_800_000_000;

fn fsck(dev: &MemDevice, options: FsckOptions) -> FsckReport {
    Fsck::new(Arc::new(dev.snapshot()), options.at(REPAIR)).run()
}

/// Repairs `dev` and checks the files of the writers of `seed`, with or without calls of `sync`.
/// Returns the numbers of repairs and of names checked.
pub(crate) fn examine(
    dev: &Arc<MemDevice>,
    (seed, sync): (u64, SyncCalls),
    done: Option<&[usize]>,
) -> Result<(u64, Verified), String> {
    let repairs = repair(dev)?;
    let mut promises = Verified::default();
    if let Some(done) = done {
        let found = tree(&(Arc::clone(dev) as Arc<dyn BlockDevice>))?;
        for (writer, done) in (0..).zip(done) {
            promises += check_found(seed, writer, *done, sync, &found)?;
        }
    }
    Ok((repairs, promises))
}

/// Repairs with `fsck -p`, which must suffice.
pub(crate) fn repair(dev: &Arc<MemDevice>) -> Result<u64, String> {
    let shared = Arc::clone(dev) as Arc<dyn BlockDevice>;
    let report = Fsck::new(shared, FsckOptions::preen().at(REPAIR)).run();
    let foreign = report.findings.iter().find(|f| !ALLOWED_REPAIRS.contains(&f.id.as_str()));
    if let Some(finding) = foreign {
        return Err(format!("fsck -p: {finding}"));
    }
    if report.exit_code != 0 {
        return Err(format!("fsck -p exits {}: {:?}", report.exit_code, report.stopped));
    }
    let again = fsck(dev, FsckOptions::no());
    if !again.findings.is_empty() || !again.clean {
        return Err(format!("after fsck -p: {:?}", again.findings));
    }
    Ok(report.findings.len() as u64)
}

/// The content of the common directories.
pub(crate) fn tree(dev: &Arc<dyn BlockDevice>) -> Result<FoundTree, String> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let clock = Arc::new(ManualClock::new(Timestamp::new(REPAIR, 0)));
    let fs = Ffs::mount(dev.clone(), &options, Env::seeded(clock, 1)).map_err(|e| e.to_string())?;
    let mut found = FoundTree::new();
    let root = fs.root().map_err(|e| e.to_string())?;
    let top = fs.lookup(&Cred::root(), &root, COMMON[0].as_bytes());
    let top = top.map_err(|e| format!("{}: {e}", COMMON[0]))?;
    walk(&fs, &top, COMMON[0], &mut found).map_err(|e| e.to_string())?;
    Ok(found)
}

fn walk(fs: &Ffs, dir: &Vnode, name: &str, found: &mut FoundTree) -> ffs_core::Result<()> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        names.push(e.name.to_vec());
        true
    })?;
    for leaf in names.iter().filter(|n| *n != b"." && *n != b"..") {
        let v = fs.lookup(&Cred::root(), dir, leaf)?;
        let leaf = String::from_utf8_lossy(leaf).into_owned();
        let attr = fs.getattr(&v);
        let thing = if attr.kind == FileType::Directory {
            walk(fs, &v, &leaf, found)?;
            FoundNode::Directory
        } else {
            let mut bytes = vec![0; attr.size as usize];
            let n = fs.read(&v, 0, &mut bytes)?;
            bytes.truncate(n);
            FoundNode::File(bytes)
        };
        found.insert((directory_of(name).to_owned(), leaf), thing);
    }
    Ok(())
}
