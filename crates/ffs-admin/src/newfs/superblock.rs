//! The fields of a new superblock (`spec/on-disk-format.md` §3, §17.1 steps 6 and 7).

use ffs_ondisk::superblock::{CkHash, FS_UFS1_MAGIC, FS_UFS2_MAGIC, FsFlags, SbFields};
use ffs_ondisk::{Csum, Error, Format, Superblock, sbcheck};

use super::options::{NewfsOptions, Release};
use super::plan::Plan;
use crate::AdminError;

/// Flag in `fs_old_flags`: the flags are in `fs_flags`.
const FS_FLAGS_UPDATED: u8 = 0x80;

/// The superblock of `plan` without its totals, with the time `now` (seconds); `id` is the second
/// half of the file system's id.
///
/// # Errors
/// If the plan describes a volume that cannot exist.
pub(super) fn superblock(
    plan: &Plan,
    opts: &NewfsOptions,
    now: i64,
    id: u32,
) -> Result<Superblock, AdminError> {
    let mut f = common(plan, opts).ok_or_else(|| too_large(plan))?;
    f.time = now;
    // The first half of the id is the low half of the time, as in BSD.
    f.id = [now as i32, id as i32];
    if opts.release == Release::Current {
        f.sblockactualloc = f.sblockloc;
    }
    match plan.format {
        Format::Ufs1 => ufs1(&mut f, plan).ok_or_else(|| too_large(plan))?,
        Format::Ufs2 => ufs2(&mut f, opts),
    }
    let mut sb = Superblock::from_fields(f, plan.format, opts.endian, plan.sblockloc);
    if let Some(label) = &opts.label {
        sb.set_volname(label.as_bytes());
    }
    Ok(sb)
}

/// The newfs error for a superblock that [`sbcheck`] refuses.
pub(super) fn refused(e: Error) -> AdminError {
    match e {
        Error::Corrupt(c) => AdminError::Size(format!(
            "no volume can be made with these sizes: {} would be {}, but must be {}",
            c.field, c.found, c.expected
        )),
        other => other.into(),
    }
}

fn too_large(plan: &Plan) -> AdminError {
    AdminError::Size(format!(
        "{} fragments of {} bytes are more than {} can address",
        plan.size, plan.fsize, plan.format
    ))
}

/// The fields of both formats. `None` if a number does not fit.
fn common(plan: &Plan, opts: &NewfsOptions) -> Option<SbFields> {
    let log2 = |v: u32| v.trailing_zeros() as i32;
    let (bsize, fsize) = (plan.bsize as i32, plan.fsize as i32);
    let nindir = plan.bsize / plan.format.pointer_size() as u32;
    Some(SbFields {
        sblkno: narrow(plan.sblkno)?,
        cblkno: narrow(plan.cblkno)?,
        iblkno: narrow(plan.iblkno)?,
        dblkno: narrow(plan.dblkno)?,
        ncg: u32::try_from(plan.ncg).ok()?,
        bsize,
        fsize,
        frag: plan.frag as i32,
        minfree: plan.minfree as i32,
        bmask: !(bsize - 1),
        fmask: !(fsize - 1),
        bshift: log2(plan.bsize),
        fshift: log2(plan.fsize),
        maxcontig: narrow(plan.maxcontig.into())?,
        maxbpg: narrow(plan.maxbpg.into())?,
        fragshift: log2(plan.frag),
        fsbtodb: log2(plan.fsize) - 9,
        sbsize: plan.sbsize as i32,
        nindir: nindir as i32,
        inopb: plan.bsize / plan.format.dinode_size() as u32,
        optim: plan.optim.code(),
        cssize: narrow(plan.cssize)?,
        cgsize: narrow(plan.cgsize)?,
        ipg: u32::try_from(plan.ipg).ok()?,
        fpg: narrow(plan.fpg)?,
        clean: 1,
        old_flags: FS_FLAGS_UPDATED,
        maxbsize: plan.maxbsize as i32,
        providersize: i64::try_from(plan.provider_size).ok()?,
        metaspace: i64::try_from(plan.metaspace).ok()?,
        sblockloc: i64::try_from(plan.sblockloc).ok()?,
        size: i64::try_from(plan.size).ok()?,
        dsize: i64::try_from(plan.dsize).ok()?,
        csaddr: i64::try_from(plan.dblkno).ok()?,
        avgfilesize: opts.avgfilesize,
        avgfpdir: opts.avgfpdir,
        flags: flags(opts).bits(),
        contigsumsize: plan.contigsumsize as i32,
        maxsymlinklen: plan.format.short_symlink_capacity() as i32,
        maxfilesize: sbcheck::max_file_size(plan.bsize.into(), nindir.into()),
        qbmask: i64::from(bsize) - 1,
        qfmask: i64::from(fsize) - 1,
        ..SbFields::default()
    })
}

fn flags(opts: &NewfsOptions) -> FsFlags {
    let pairs = [
        (opts.soft_updates, FsFlags::DOSOFTDEP),
        (opts.gjournal, FsFlags::GJOURNAL),
        (opts.multilabel, FsFlags::MULTILABEL),
        (opts.trim, FsFlags::TRIM),
    ];
    let wanted = pairs.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag);
    wanted.fold(FsFlags::empty(), FsFlags::union)
}

/// The fields of UFS1 alone, with one "cylinder" per group. `None` if a number does not fit in 32
/// bits.
fn ufs1(f: &mut SbFields, plan: &Plan) -> Option<()> {
    f.magic = FS_UFS1_MAGIC;
    f.old_cgmask = -1;
    f.old_time = f.time as i32;
    f.old_size = narrow(plan.size)?;
    f.old_dsize = narrow(plan.dsize)?;
    f.old_csaddr = narrow(plan.dblkno)?;
    f.old_rps = 60;
    f.old_nspf = (plan.fsize / 512) as i32;
    f.old_interleave = 1;
    f.old_spc = narrow(plan.fpg * u64::from(plan.fsize / 512))?;
    f.old_nsect = f.old_spc;
    f.old_npsect = f.old_spc;
    f.old_ncyl = narrow(plan.ncg)?;
    f.old_cpg = 1;
    f.old_inodefmt = 2;
    f.old_postblformat = 1;
    f.old_nrpos = 1;
    Some(())
}

fn ufs2(f: &mut SbFields, opts: &NewfsOptions) {
    f.magic = FS_UFS2_MAGIC;
    if opts.release == Release::Current {
        f.flags |= FsFlags::METACKHASH.bits();
        f.metackhash = CkHash::all().bits();
    }
}

/// The totals in the backup superblocks: those before the root directory is made.
pub(super) fn initial_totals(plan: &Plan) -> Csum {
    let wide = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
    let frag = u64::from(plan.frag);
    let csfrags = plan.cssize / u64::from(plan.fsize);
    let data = plan.size.saturating_sub(plan.sblkno + plan.ncg * (plan.dblkno - plan.sblkno));
    let beside_csum = csfrags.next_multiple_of(frag) - csfrags;
    Csum {
        ndir: 0,
        nbfree: wide(data / frag) - wide(csfrags.div_ceil(frag)),
        nifree: wide(plan.ncg * plan.ipg) - 2,
        nffree: wide(plan.size % frag + beside_csum),
    }
}

fn narrow(v: u64) -> Option<i32> {
    i32::try_from(v).ok()
}
