//! Sizes of the cylinder groups in FreeBSD 4: cylinders of 2 MiB, and inodes by the space left for
//! data (`spec/on-disk-format.md` §17.2).

use super::basesizes::BaseSizes;
use super::groupsize::GroupSize;
use super::options::NewfsOptions;
use crate::AdminError;

/// Sectors of a "cylinder": one track of 4096 sectors.
const SECTORS_PER_CYLINDER: u64 = 4096;
/// Header bytes of a group in FreeBSD 4: the constant of `CGSIZE` less the 4 that every release
/// adds.
const HEADER: u64 = 172;
/// Limit on the inodes of a group: the count is 16 bits wide.
const MAXIPG: u64 = 0x7fff;

/// Makes groups of as many cylinders as fit, or of the number in the options.
pub(super) fn size_groups(f: &BaseSizes, opts: &NewfsOptions) -> Result<GroupSize, AdminError> {
    let frags_per_cylinder = SECTORS_PER_CYLINDER * 512 / f.fsize;
    let density = opts.density.map_or(u64::from(opts.frags_per_inode()) * f.fsize, u64::from);
    let cylinders = f.size.div_ceil(frags_per_cylinder).max(1);
    let max_ipg = (f.bsize * 8 / 3).next_multiple_of(f.inopb).min(MAXIPG);
    let mut cpg = u64::from(opts.max_group.unwrap_or(u32::MAX)).min(65536);
    let ipg = loop {
        let ipg = inodes_per_group(f, density, cylinders, cpg);
        let fpg = cpg * frags_per_cylinder;
        if ipg <= max_ipg && f.cg_bytes(HEADER, cpg, fpg, ipg) <= f.bsize {
            break ipg;
        }
        cpg = cpg.checked_sub(1).filter(|&c| c > 0).ok_or_else(|| {
            AdminError::Size(format!("no cylinder group fits into blocks of {}", f.bsize))
        })?;
    };
    let fpg = cpg * frags_per_cylinder;
    let mut size = f.size;
    let need = f.metadata_frags(ipg);
    if (1..need).contains(&(size % fpg)) {
        // A last group without space for its metadata is dropped.
        size -= size % fpg;
    }
    if size < need || fpg < need {
        let bytes = f.size * f.fsize;
        return Err(AdminError::Size(format!("{bytes} bytes are too few for one cylinder group")));
    }
    Ok(GroupSize { size, density, fpg, ipg })
}

/// Inodes of a group of `cpg` cylinders: one for every `density` bytes that are not inodes.
fn inodes_per_group(f: &BaseSizes, density: u64, cylinders: u64, cpg: u64) -> u64 {
    let ncg = cylinders.div_ceil(cpg);
    let sectors = f.size * (f.fsize / 512);
    let group_bytes = cpg * SECTORS_PER_CYLINDER * 512;
    let mut ipg = 0;
    // More inodes leave less data, which requires fewer inodes: ten steps converge or come close
    // enough.
    for _ in 0..10 {
        let used = (f.iblkno + f.inode_frags(ipg)) * f.fsize;
        let wanted = u128::from(group_bytes.saturating_sub(used) / density);
        let share = wanted * u128::from(sectors) / u128::from(ncg);
        let share = share / u128::from(SECTORS_PER_CYLINDER) / u128::from(cpg);
        // More inodes than fit into any group need not be distinguished.
        let share = u64::try_from(share).unwrap_or(u64::MAX).clamp(1, 1 << 40);
        let next = share.next_multiple_of(f.inopb);
        if next == ipg {
            break;
        }
        ipg = next;
    }
    ipg
}
