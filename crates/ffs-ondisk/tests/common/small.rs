// Included by property tests and by the examples of the documentation.

/// The superblock of a volume as newfs creates it: `groups` groups of `blocks` data blocks.
fn superblock(
    format: ffs_ondisk::Format,
    bsize: i32,
    frag: i32,
    groups: u32,
    blocks: i32,
) -> ffs_ondisk::Superblock {
    use ffs_ondisk::superblock::{FS_UFS1_MAGIC, FS_UFS2_MAGIC, SbFields};
    use ffs_ondisk::Format;
    let fsize = bsize / frag;
    let up = |bytes: i32| {
        (bytes + fsize - 1) / fsize / frag * frag
            + if (bytes + fsize - 1) / fsize % frag == 0 { 0 } else { frag }
    };
    let sblockloc = if format == Format::Ufs1 { 8192 } else { 65536 };
    let nindir = bsize / format.pointer_size() as i32;
    let inopb = bsize / format.dinode_size() as i32;
    let sblkno = up(sblockloc + 8192);
    let cblkno = sblkno + up(8192);
    let iblkno = cblkno + frag;
    let dblkno = iblkno + 2 * frag;
    let fpg = dblkno + blocks * frag;
    let cssize = (groups as i32 * 16 + fsize - 1) / fsize * fsize;
    let size = i64::from(fpg) * i64::from(groups);
    let f = SbFields {
        sblkno,
        cblkno,
        iblkno,
        dblkno,
        old_cgmask: -1,
        old_flags: 0x80,
        ncg: groups,
        bsize,
        fsize,
        frag,
        minfree: 8,
        bmask: !(bsize - 1),
        fmask: !(fsize - 1),
        bshift: bsize.trailing_zeros() as i32,
        fshift: fsize.trailing_zeros() as i32,
        maxcontig: 16,
        maxbpg: bsize / 8,
        fragshift: frag.trailing_zeros() as i32,
        fsbtodb: fsize.trailing_zeros() as i32 - 9,
        sbsize: 8192,
        nindir,
        inopb: inopb as u32,
        cssize,
        cgsize: bsize,
        old_cpg: 1,
        old_nrpos: 1,
        ipg: 2 * inopb as u32,
        fpg,
        maxbsize: bsize,
        sblockloc: sblockloc.into(),
        size,
        dsize: size,
        csaddr: dblkno.into(),
        contigsumsize: 16,
        maxsymlinklen: format.short_symlink_capacity() as i32,
        old_inodefmt: 2,
        maxfilesize: ffs_ondisk::sbcheck::max_file_size(bsize as u64, nindir as u64),
        qbmask: i64::from(bsize) - 1,
        qfmask: i64::from(fsize) - 1,
        magic: if format == Format::Ufs1 { FS_UFS1_MAGIC } else { FS_UFS2_MAGIC },
        ..SbFields::default()
    };
    let endian = ffs_ondisk::Endian::Little;
    ffs_ondisk::Superblock::from_fields(f, format, endian, sblockloc as u64)
}
