//! Mounting: find the superblock, decide whether the volume may be written, and build the modules.

use super::bgfsck::CheckState;
use super::policy::{Verdict, judge, may_be_torn};
use super::superblock::Summaries;
use super::{Env, Ffs, LOG, Mount, State};
use crate::alloc::{Alloc, AllocParams, Torn, check_in};
use crate::buf::{BufCache, CacheLimits, CacheParts, WriteHooks};
use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::inode::InodeTable;
use crate::options::{MountOptions, OrderingPolicy};
use crate::ordering::{Journaled, Ordering, SoftUpdates, SyncOrdered, Unordered};
use crate::snapshot::CopyOrder;
use crate::sync::{Mutex, RwLock};
use crate::syncer::Syncer;
use crate::tunables::Tunables;
use crate::ufsmount::UfsMount;
use ffs_device::clock::SplitMix64;
use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::sbsearch::{Found, SearchError, UNROLLED_LOG};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Cg, CgNo, Csum, FileType, Format, Geometry, Ino, Place, Structure, cg};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use tracing::info;

/// Number of groups whose counts are compared with the summary area.
const COMPARED: usize = 4;

/// The ordering mode that `policy` selects on a volume with these flags.
fn resolve(policy: OrderingPolicy, flags: FsFlags) -> OrderingPolicy {
    let softdep = flags.contains(FsFlags::DOSOFTDEP);
    let journaled = softdep && flags.contains(FsFlags::SUJ);
    match policy {
        OrderingPolicy::Superblock | OrderingPolicy::Async if journaled => {
            OrderingPolicy::Journaled
        }
        OrderingPolicy::Superblock | OrderingPolicy::Async if softdep => {
            OrderingPolicy::SoftUpdates
        }
        OrderingPolicy::Journaled if !journaled => OrderingPolicy::SoftUpdates,
        OrderingPolicy::Superblock => OrderingPolicy::Sync,
        OrderingPolicy::Async => OrderingPolicy::None,
        given => given,
    }
}

/// The flags that select the ordering mode. After a crash they include the temporary flags of the
/// last mount, because the check that is still to come judges the volume by them.
fn flags_in_force(found: &Found, verdict: Verdict) -> FsFlags {
    let flags = found.sb.flags();
    if verdict == Verdict::Writable { flags.permanent() } else { flags }
}

/// Whether copies for snapshots have an order in this mode.
fn copy_order(policy: OrderingPolicy) -> CopyOrder {
    match policy {
        OrderingPolicy::None | OrderingPolicy::Async => CopyOrder::None,
        OrderingPolicy::Superblock
        | OrderingPolicy::Sync
        | OrderingPolicy::SoftUpdates
        | OrderingPolicy::Journaled => CopyOrder::BeforeOverwrite,
    }
}

/// The two interfaces of an ordering mode: for operations, and for the buffer cache.
pub(super) type OrderingMode = (Arc<dyn Ordering>, Arc<dyn WriteHooks>);

fn ordering_mode(
    policy: OrderingPolicy,
    g: &Geometry,
    secret: u64,
    dev: &Arc<dyn BlockDevice>,
) -> OrderingMode {
    match policy {
        OrderingPolicy::Journaled => {
            let mode = Arc::new(Journaled::new(*g, secret, Arc::clone(dev)));
            (mode.clone(), mode)
        }
        OrderingPolicy::SoftUpdates => {
            let mode = Arc::new(SoftUpdates::new(*g, secret));
            (mode.clone(), mode)
        }
        OrderingPolicy::Superblock | OrderingPolicy::Sync => {
            let mode = Arc::new(SyncOrdered);
            (mode.clone(), mode)
        }
        OrderingPolicy::Async | OrderingPolicy::None => {
            let mode = Arc::new(Unordered);
            (mode.clone(), mode)
        }
    }
}

/// Whether POSIX.1e access lists are in force (by the mount options, else by the superblock), and
/// whether the volume has NFSv4 access lists.
fn lists_in_force(g: &Geometry, flags: FsFlags, opts: &MountOptions) -> (bool, bool) {
    let ufs2 = g.format == Format::Ufs2;
    let posix = ufs2 && opts.acls.unwrap_or(flags.contains(FsFlags::ACLS));
    (posix, ufs2 && flags.contains(FsFlags::NFS4ACLS))
}

/// Repairs that the caller must make before the new mount is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Nothing.
    None,
    /// A crash may have interrupted exchanges of names: complete them.
    Exchanges,
}

/// Mounts the volume on `dev`, read-write if the options and the volume allow it. The ordering mode
/// is `given`, or else the one of the options.
///
/// # Errors
/// The device's; [`Error::Format`] if no valid superblock is found or the root is no directory.
pub(crate) fn attach(
    given: Option<OrderingMode>,
    dev: Arc<dyn BlockDevice>,
    opts: &MountOptions,
    env: Env,
) -> Result<(Ffs, Recovery)> {
    let found = find_superblock(&*dev)?;
    let g = found.geometry;
    let summaries = read_summaries(&g, &*dev)?;
    let verdict = verdict_of(&found, &*dev, &summaries)?;
    let (writable, refused) = match verdict {
        Verdict::Writable | Verdict::Unchecked(_) => (true, None),
        Verdict::Doubtful(_) if opts.force => (true, None),
        Verdict::Doubtful(why) | Verdict::ReadOnly(why) => (false, Some(why)),
    };
    let unchecked = verdict.unchecked();
    let torn = if may_be_torn(&found) { Torn::Possible } else { Torn::Never };
    let (groups, stale_groups) = if writable && verdict != Verdict::Writable {
        // After a crash the summary area may be older than the groups.
        count_groups(&g, &*dev, torn)?
    } else {
        (summaries, Vec::new())
    };
    let policy = resolve(opts.ordering, flags_in_force(&found, verdict));
    let mode = given.unwrap_or_else(|| ordering_mode(policy, &g, env.secret, &dev));
    let alloc = build_alloc(&found, groups, &dev, (opts, mode), &env).with_torn_groups(torn);
    let order = copy_order(policy);
    let ump = Arc::new(UfsMount::new(alloc, opts.atime, order, env.secret));
    let table = Arc::new(InodeTable::new(Arc::clone(&ump), env.secret));
    let (acls, nfs4_acls) = lists_in_force(&g, found.sb.flags(), opts);
    let state = State {
        stale: found.sb.has_unrolled_log().then_some(UNROLLED_LOG),
        summaries: Summaries::new(found.sb, verdict == Verdict::Writable, policy.is_softdep()),
        unchecked,
        read_only_reason: if opts.read_only { None } else { refused },
        may_write: writable && !dev.is_read_only(),
        last_sync: env.clock.now().secs,
        mounted_on: opts.mounted_on.clone(),
    };
    let ffs = Ffs(Arc::new(Mount {
        ump,
        syncer: Syncer::new(Arc::clone(&table)),
        table,
        rename_lock: Mutex::new(()),
        bsdgroups: opts.bsdgroups,
        stable: opts.stable,
        journal_limit: opts.journal_limit,
        journal_paused: AtomicBool::new(false),
        journal_ino: AtomicU32::new(0),
        replace_order: opts.replace_order,
        acls,
        nfs4_acls,
        unchecked: AtomicBool::new(verdict != Verdict::Writable),
        check: CheckState::new(stale_groups),
        snapshot_lock: Mutex::new(()),
        mount_lock: RwLock::new(()),
        quota_files: Mutex::default(),
        state: Mutex::new(state),
    }));
    ffs.0.ump.cache.set_time(env.clock.now().secs);
    check_root(&ffs)?;
    log_mount(&ffs);
    if !writable || opts.read_only {
        return Ok((ffs, Recovery::None));
    }
    let recovery = begin_writing(&ffs, verdict)?;
    Ok((ffs, recovery))
}

impl Ffs {
    /// Why files may have older contents than they should: the log of Solaris was not replayed.
    #[must_use]
    pub fn stale(&self) -> Option<&'static str> {
        self.0.state().stale
    }
}

/// Makes the new mount read-write.
fn begin_writing(ffs: &Ffs, verdict: Verdict) -> Result<Recovery> {
    match ffs.remount(false) {
        Ok(()) if verdict == Verdict::Writable => Ok(Recovery::None),
        Ok(()) => Ok(Recovery::Exchanges),
        // A snapshot is damaged: the volume can still be read.
        Err(Error::ReadOnly(_)) => Ok(Recovery::None),
        Err(e) => Err(e),
    }
}

/// Decides whether the volume may be written: by the device, the superblock and the summary area.
fn verdict_of(found: &Found, dev: &dyn BlockDevice, summaries: &[Csum]) -> Result<Verdict> {
    if dev.is_read_only() {
        return Ok(Verdict::ReadOnly("the device cannot be written"));
    }
    let verdict = judge(found);
    if verdict == Verdict::Writable && !summaries_agree(&found.geometry, dev, summaries)? {
        return Ok(Verdict::Doubtful("its summary area and its groups disagree: run ffs fsck"));
    }
    Ok(verdict)
}

/// Logs the properties of the new mount.
fn log_mount(ffs: &Ffs) {
    let g = ffs.geometry();
    info!(
        target: LOG,
        format = ?g.format,
        byte_order = ?g.endian,
        block = g.bsize,
        fragment = g.fsize,
        fragments = g.size,
        ordering = ffs.ordering(),
        superblock = ffs.superblock_location(),
        read_only_reason = ffs.read_only_reason(),
        unchecked = ffs.unchecked(),
        "mounting"
    );
}

/// Checks that the root is a directory. Linux would hide the mount point of any other root
/// (`spec/known-failures.md` §2.11).
fn check_root(ffs: &Ffs) -> Result<()> {
    let mode = match ffs.0.table.get(Ino::ROOT) {
        Ok(root) => root.read().d.mode,
        Err(Error::Stale) => 0,
        Err(e) => return Err(e),
    };
    if FileType::of_mode(mode) != Some(FileType::Directory) {
        let (place, found) = (Place::Inode(Ino::ROOT), format!("{mode:#o}"));
        return Err(Error::corrupt(Structure::Inode, place, "mode", found, "a directory"));
    }
    Ok(())
}

fn find_superblock(dev: &dyn BlockDevice) -> Result<Found> {
    let len = dev.len_bytes();
    let read = |offset: u64, want: usize| -> std::result::Result<Vec<u8>, DeviceError> {
        let have = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX).min(want);
        let mut bytes = vec![0; have];
        dev.read_at(offset, &mut bytes)?;
        Ok(bytes)
    };
    ffs_ondisk::sbsearch::find(read, Some(len)).map_err(|e| match e {
        SearchError::Format(e) => Error::Format(e),
        SearchError::Read { error, .. } => Error::Io(error),
    })
}

/// The summaries of all groups, each limited to the size of a group. They only guide searches.
fn read_summaries(g: &Geometry, dev: &dyn BlockDevice) -> Result<Vec<Csum>> {
    let mut area = vec![0u8; g.cssize as usize];
    dev.read_at(g.frag_to_byte(g.csaddr), &mut area)?;
    let records = area.chunks_exact(Csum::SIZE).take(g.ncg as usize);
    Ok(records.map(|r| clamp(g, Csum::decode(r, 0, g.endian))).collect())
}

/// Whether the summary area has the counts of the first groups, as on every clean volume. If not,
/// `csaddr` may be the address of a file's blocks, which the next sync would overwrite.
fn summaries_agree(g: &Geometry, dev: &dyn BlockDevice, summaries: &[Csum]) -> Result<bool> {
    for (c, summary) in (0..g.ncg).zip(summaries).take(COMPARED) {
        let block = read_group(g, dev, CgNo(c))?;
        let sound = cg::validate(g, CgNo(c), &block).is_ok();
        if sound && clamp(g, Cg::new(g, &block).cs()) != *summary {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The counts of all groups, computed from their maps, and the groups whose blocks on the device
/// have other counts or a wrong check hash. The counts of a damaged group are zero, so that nothing
/// is allocated in it.
fn count_groups(g: &Geometry, dev: &dyn BlockDevice, torn: Torn) -> Result<(Vec<Csum>, Vec<CgNo>)> {
    let (mut counts, mut stale) = (Vec::with_capacity(g.ncg as usize), Vec::new());
    for c in (0..g.ncg).map(CgNo) {
        let found = read_group(g, dev, c)?;
        let mut block = found.clone();
        let checked = check_in(g, c, &mut block, torn);
        if checked.is_ok() && (block != found || !cg::hash_ok(g, &found)) {
            stale.push(c);
        }
        counts.push(checked.unwrap_or_default());
    }
    Ok((counts, stale))
}

/// The block of group `c`.
fn read_group(g: &Geometry, dev: &dyn BlockDevice, c: CgNo) -> Result<Vec<u8>> {
    let mut block = vec![0u8; g.cgsize as usize];
    dev.read_at(g.frag_to_byte(g.cgtod(c)), &mut block)?;
    Ok(block)
}

fn clamp(g: &Geometry, cs: Csum) -> Csum {
    let most = |v: i64, limit: u32| v.clamp(0, limit.into());
    Csum {
        ndir: most(cs.ndir, g.ipg),
        nbfree: most(cs.nbfree, g.blocks_per_group()),
        nifree: most(cs.nifree, g.ipg),
        nffree: most(cs.nffree, g.fpg),
    }
}

fn build_alloc(
    found: &Found,
    groups: Vec<Csum>,
    dev: &Arc<dyn BlockDevice>,
    (opts, (ordering, hooks)): (&MountOptions, OrderingMode),
    env: &Env,
) -> Alloc {
    let tunables = Arc::new(Tunables::new(&opts.tunables));
    let cache = BufCache::new(CacheParts {
        g: found.geometry,
        dev: Arc::clone(dev),
        clock: Arc::clone(&env.clock),
        counters: Arc::new(Counters::default()),
        hooks,
        limits: CacheLimits::of(&tunables),
    });
    let params = AllocParams::of(&found.sb, &found.geometry);
    let rng = SplitMix64::new(env.seed);
    Alloc::new(Arc::new(cache), ordering, tunables, rng, params, groups)
}
