//! Destroys old superblocks.
//!
//! A superblock of an earlier volume that survives at another standard location could be found
//! first, or instead of the new one (`spec/on-disk-format.md` §2.1, §17.3 "old superblock wipe").

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::{RECOVERY_OFFSET, SBLOCKSEARCH};
use ffs_ondisk::superblock::{MAGIC_OFFSET, SBLOCKSIZE, magic_of};
use ffs_ondisk::{CgNo, Format, Superblock, sbcheck};

use crate::AdminError;

/// Destroys the magic numbers of every standard superblock except the one at `keep`. For a new UFS2
/// volume it also destroys those of the backups of a UFS1 volume at 8192.
pub(super) fn old_superblocks(
    dev: &dyn BlockDevice,
    keep: u64,
    format: Format,
) -> Result<(), AdminError> {
    for at in SBLOCKSEARCH.into_iter().filter(|&at| at != keep) {
        let Some(bytes) = superblock_at(dev, at)? else { continue };
        if magic_of(&bytes).is_none() {
            continue;
        }
        dev.write_at(at + MAGIC_OFFSET as u64, &[0; 4])?;
        if format == Format::Ufs2
            && let Ok(sb) = Superblock::decode(&bytes, at)
            && sb.format == Format::Ufs1
        {
            ufs1_backups(dev, &sb)?;
        }
    }
    Ok(())
}

fn superblock_at(dev: &dyn BlockDevice, at: u64) -> Result<Option<Vec<u8>>, AdminError> {
    if at + SBLOCKSIZE as u64 > dev.len_bytes() {
        return Ok(None);
    }
    let mut bytes = vec![0; SBLOCKSIZE];
    dev.read_at(at, &mut bytes)?;
    Ok(Some(bytes))
}

/// Destroys the magic numbers of the backups of `sb` that still exist.
fn ufs1_backups(dev: &dyn BlockDevice, sb: &Superblock) -> Result<(), AdminError> {
    // An invalid superblock does not yield the locations of backups.
    let Ok(g) = sbcheck::geometry(sb, Some(dev.len_bytes())) else { return Ok(()) };
    let mut magic = [0; 4];
    sb.raw()
        .get(MAGIC_OFFSET..)
        .into_iter()
        .flatten()
        .zip(&mut magic)
        .for_each(|(from, to)| *to = *from);
    for c in 0..g.ncg {
        let at = g.frag_to_byte(g.cgsblock(CgNo(c))) + MAGIC_OFFSET as u64;
        let mut found = [0; 4];
        if at + 4 > dev.len_bytes() {
            break;
        }
        dev.read_at(at, &mut found)?;
        if found == magic {
            dev.write_at(at, &[0; 4])?;
        }
    }
    Ok(())
}

/// Clears the location of a recovery record, which an earlier UFS2 volume may have left
/// (`spec/on-disk-format.md` §2.3).
pub(super) fn recovery_record(dev: &dyn BlockDevice) -> Result<(), AdminError> {
    let zeros = [0; ffs_ondisk::sbsearch::FsRecovery::SIZE];
    if RECOVERY_OFFSET + zeros.len() as u64 <= dev.len_bytes() {
        dev.write_at(RECOVERY_OFFSET, &zeros)?;
    }
    Ok(())
}
