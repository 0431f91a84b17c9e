//! Disabling the soft-updates journal (`spec/on-disk-format.md` §14).
//!
//! The journal's file remains as an ordinary file that its owner may delete.

use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Dinode, FileFlags, FragNo, Ino, Lbn, dinode, journal};

use crate::{AdminError, Volume};

/// A pending change of the journal's inode, which has been checked.
pub(super) struct Edit {
    ino: Ino,
}

/// Changes `vol.sb`, whose flag is off already, for use without the journal; `was_enabled` is
/// whether there was one. Returns the change of the journal's inode, if it has one.
pub(super) fn disable(
    vol: &mut Volume<'_>,
    was_enabled: bool,
    notes: &mut Vec<String>,
) -> Result<Option<Edit>, AdminError> {
    if !was_enabled {
        return Ok(None);
    }
    let ino = find(vol)?;
    vol.sb.f.sujfree = 0;
    if !vol.sb.is_clean() {
        // Changes that only the journal records are lost with it, so the volume needs a check.
        vol.sb.set_flags(vol.sb.flags() | FsFlags::NEEDSFSCK);
        notes.push("the volume was not cleanly unmounted: run fsck".into());
    }
    match ino {
        None => notes.push("the journal's file does not exist".into()),
        Some(ino) => {
            notes.push(format!("clearing the journal's flags from inode {ino}"));
            notes.push("soft updates are still on; remove .sujournal to reclaim its space".into());
        }
    }
    Ok(ino.map(|ino| Edit { ino }))
}

/// The inode of the journal, according to the root directory.
pub(super) fn find(vol: &Volume<'_>) -> Result<Option<Ino>, AdminError> {
    let g = &vol.geo;
    let (root, _, _) = read_inode(vol, Ino::ROOT)?;
    // FreeBSD's tunefs and kernel also search the direct blocks only.
    for l in (0..NDADDR as u64).map(Lbn) {
        if g.lblktosize(l) >= root.size {
            break;
        }
        let at = u64::try_from(root.db[l.0 as usize]).unwrap_or(0);
        let len = g.blksize(root.size, l);
        let at = FragNo(at);
        if at.is_hole() || g.run_problem(at, len / g.fsize).is_some() {
            return Err(AdminError::Refused(
                "the root directory is damaged: run fsck first".into(),
            ));
        }
        let mut block = vec![0; len as usize];
        vol.read(at, &mut block)?;
        for dirblk in block.chunks_exact(DIRBLKSIZ) {
            for record in dir::records(DirFormat::of(g), dirblk).map_while(Result::ok) {
                if record.live() && record.name == journal::NAME {
                    return check_journal(vol, record.ino).map(Some);
                }
            }
        }
    }
    Ok(None)
}

/// Checks that inode number `raw`, which has the journal's name, is a file that may be changed.
fn check_journal(vol: &Volume<'_>, raw: u32) -> Result<Ino, AdminError> {
    let ino = Ino(raw);
    let sane = (3..vol.geo.inodes()).contains(&raw);
    if !sane || read_inode(vol, ino)?.0.mode == 0 {
        let why = format!("the journal's entry names inode {raw}, which is free: run fsck first");
        return Err(AdminError::Refused(why));
    }
    Ok(ino)
}

/// Inode `ino`, the block that contains it, and its offset in the block.
pub(super) fn read_inode(
    vol: &Volume<'_>,
    ino: Ino,
) -> Result<(Dinode, Vec<u8>, usize), AdminError> {
    let g = &vol.geo;
    let mut block = vec![0; g.bsize as usize];
    vol.read(g.ino_to_fsba(ino), &mut block)?;
    let at = g.ino_to_fsbo(ino);
    let raw = &block[at..at + g.format.dinode_size()];
    let inode = dinode::check(g, ino, raw)?;
    Ok((inode, block, at))
}

impl Edit {
    /// Makes the journal an ordinary file.
    pub(super) fn write(self, vol: &Volume<'_>) -> Result<(), AdminError> {
        let g = &vol.geo;
        let (mut inode, mut block, at) = read_inode(vol, self.ino)?;
        inode.flags = FileFlags::empty();
        let raw = &mut block[at..at + g.format.dinode_size()];
        inode.encode(g, raw);
        dinode::rehash(g, raw);
        vol.write(g.ino_to_fsba(self.ino), &block)
    }
}
