//! The data that dumpfs shows.

use std::fmt;

use ffs_ondisk::cg::{self, CgFields};
use ffs_ondisk::sbsearch::Source;
use ffs_ondisk::superblock::{CkHash, FsFlags, SbFields};
use ffs_ondisk::{Cg, CgNo, Csum, Endian, Superblock};
use serde::Serialize;

use crate::{AdminError, Volume};

/// The fields of a structure as on disk, with BSD's names.
macro_rules! mirror {
    ($(#[$doc:meta])* $name:ident of $from:ty { $($field:ident: $t:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        pub struct $name {
            $(#[doc = concat!("`", stringify!($field), "`, as stored.")] pub $field: $t,)*
        }

        impl From<&$from> for $name {
            fn from(f: &$from) -> Self {
                Self { $($field: f.$field,)* }
            }
        }
    };
}

mirror! {
    /// The fields of the superblock; see [`SbFields`] for what they mean.
    SuperblockFields of SbFields {
        firstfield: i32,
        unused_1: i32,
        sblkno: i32,
        cblkno: i32,
        iblkno: i32,
        dblkno: i32,
        old_cgoffset: i32,
        old_cgmask: i32,
        old_time: i32,
        old_size: i32,
        old_dsize: i32,
        ncg: u32,
        bsize: i32,
        fsize: i32,
        frag: i32,
        minfree: i32,
        old_rotdelay: i32,
        old_rps: i32,
        bmask: i32,
        fmask: i32,
        bshift: i32,
        fshift: i32,
        maxcontig: i32,
        maxbpg: i32,
        fragshift: i32,
        fsbtodb: i32,
        sbsize: i32,
        spare1: [i32; 2],
        nindir: i32,
        inopb: u32,
        old_nspf: i32,
        optim: i32,
        old_npsect: i32,
        old_interleave: i32,
        old_trackskew: i32,
        id: [i32; 2],
        old_csaddr: i32,
        cssize: i32,
        cgsize: i32,
        spare2: i32,
        old_nsect: i32,
        old_spc: i32,
        old_ncyl: i32,
        old_cpg: i32,
        ipg: u32,
        fpg: i32,
        old_cstotal: [i32; 4],
        fmod: i8,
        clean: i8,
        ronly: i8,
        old_flags: u8,
        cgrotor: i32,
        old_cpc: i32,
        maxbsize: i32,
        unrefs: i64,
        providersize: i64,
        metaspace: i64,
        sblockactualloc: i64,
        sblockloc: i64,
        cstotal: [i64; 5],
        time: i64,
        size: i64,
        dsize: i64,
        csaddr: i64,
        pendingblocks: i64,
        pendinginodes: u32,
        snapinum: [u32; 20],
        avgfilesize: u32,
        avgfpdir: u32,
        save_cgsize: i32,
        mtime: i64,
        sujfree: i32,
        ckhash: u32,
        metackhash: u32,
        flags: u32,
        contigsumsize: i32,
        maxsymlinklen: i32,
        old_inodefmt: i32,
        maxfilesize: u64,
        qbmask: i64,
        qfmask: i64,
        state: i32,
        old_postblformat: i32,
        old_nrpos: i32,
        spare5: [i32; 2],
        magic: u32,
    }
}

mirror! {
    /// The header of a cylinder group; see [`CgFields`] for what the fields mean.
    CgHeader of CgFields {
        firstfield: i32,
        magic: u32,
        old_time: i32,
        cgx: u32,
        old_ncyl: i16,
        old_niblk: i16,
        ndblk: u32,
        cs: [i32; 4],
        rotor: u32,
        frotor: u32,
        irotor: u32,
        frsum: [u32; 8],
        old_btotoff: i32,
        old_boff: i32,
        iusedoff: u32,
        freeoff: u32,
        nextfreeoff: u32,
        clustersumoff: u32,
        clusteroff: u32,
        nclusterblks: u32,
        niblk: u32,
        initediblk: u32,
        unrefs: u32,
        ckhash: u32,
        time: i64,
    }
}

/// Numbers of free objects and of directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Directories.
    pub ndir: i64,
    /// Free whole blocks.
    pub nbfree: i64,
    /// Free inodes.
    pub nifree: i64,
    /// Free fragments in partly used blocks.
    pub nffree: i64,
}

impl From<Csum> for Counts {
    fn from(c: Csum) -> Self {
        let Csum { ndir, nbfree, nifree, nffree } = c;
        Counts { ndir, nbfree, nifree, nffree }
    }
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The lowest.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span { first, last } if first == last => write!(f, "{first}"),
            Span { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

/// Ranges of the numbers below `end` for which `holds`.
fn spans(end: u32, holds: impl Fn(u32) -> bool) -> Vec<Span> {
    let mut out = Vec::new();
    let mut open = None;
    for n in 0..=end {
        match (open, n < end && holds(n)) {
            (None, true) => open = Some(n),
            (Some(first), false) => {
                out.push(Span { first: u64::from(first), last: u64::from(n) - 1 });
                open = None;
            }
            _ => {}
        }
    }
    out
}

/// A superblock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SuperblockDump {
    /// "UFS1" or "UFS2".
    pub format: String,
    /// "little" or "big" endian.
    pub byte_order: &'static str,
    /// Byte offset of the standard superblock.
    pub location: u64,
    /// The copy that is shown.
    pub source: String,
    /// Problems of it or of the search for it.
    pub problems: Vec<String>,
    /// Cleanly unmounted.
    pub clean: bool,
    /// From before FreeBSD 5: without the 64-bit fields.
    pub old_layout: bool,
    /// Label.
    pub volname: String,
    /// Last mount point.
    pub fsmnt: String,
    /// Names of the flags that are set.
    pub flags: Vec<String>,
    /// Structures with check hashes.
    pub check_hashes: Vec<&'static str>,
    /// Whether the superblock's own check hash is right.
    pub check_hash_ok: bool,
    /// Inodes of active snapshots.
    pub snapshots: Vec<u32>,
    /// Totals over all groups.
    pub totals: Counts,
    /// Every field.
    pub fields: SuperblockFields,
}

impl SuperblockDump {
    pub(super) fn of(sb: &Superblock) -> SuperblockDump {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        SuperblockDump {
            format: sb.format.to_string(),
            byte_order: match sb.endian {
                Endian::Little => "little",
                Endian::Big => "big",
            },
            location: sb.location,
            source: String::new(),
            problems: Vec::new(),
            clean: sb.is_clean(),
            old_layout: sb.old_layout,
            volname: text(sb.volname()),
            fsmnt: text(sb.fsmnt()),
            flags: flag_names(sb.flags()),
            check_hashes: hash_names(sb.ckhashes()),
            check_hash_ok: sb.hash_ok(),
            snapshots: sb.f.snapinum.into_iter().take_while(|&i| i != 0).collect(),
            totals: sb.cstotal().into(),
            fields: SuperblockFields::from(&sb.f),
        }
    }
}

/// Description of the source of a superblock.
pub(super) fn source_name(source: Source) -> String {
    match source {
        Source::Primary => "standard".into(),
        Source::PrimaryBadHash => "standard, with a wrong check hash".into(),
        Source::Backup(at) => format!("backup at byte {at}"),
    }
}

/// BSD's names of the flags.
fn flag_names(flags: FsFlags) -> Vec<String> {
    const NAMES: [(FsFlags, &str); 11] = [
        (FsFlags::UNCLEAN, "unclean"),
        (FsFlags::DOSOFTDEP, "soft-updates"),
        (FsFlags::NEEDSFSCK, "needs-fsck-run"),
        (FsFlags::SUJ, "journaled-soft-updates"),
        (FsFlags::ACLS, "acls"),
        (FsFlags::MULTILABEL, "multilabel"),
        (FsFlags::GJOURNAL, "gjournal"),
        (FsFlags::NFS4ACLS, "nfsv4acls"),
        (FsFlags::METACKHASH, "check-hashes"),
        (FsFlags::TRIM, "trim"),
        (FsFlags::SOFTDEP_TEMPORARY, "soft-updates-until-checked"),
    ];
    let known = NAMES.iter().filter(|(bit, _)| flags.contains(*bit));
    let mut names: Vec<String> = known.map(|(_, name)| (*name).to_owned()).collect();
    let all = NAMES.iter().fold(FsFlags::empty(), |all, (bit, _)| all.union(*bit));
    let unknown = flags.difference(all);
    if !unknown.is_empty() {
        names.push(format!("unknown ({:#x})", unknown.bits()));
    }
    names
}

fn hash_names(hashes: CkHash) -> Vec<&'static str> {
    let names = [
        (CkHash::SUPERBLOCK, "superblock"),
        (CkHash::CYLGRP, "cylinder-groups"),
        (CkHash::INODE, "inodes"),
    ];
    names.into_iter().filter(|(bit, _)| hashes.contains(*bit)).map(|(_, name)| name).collect()
}

/// A cylinder group. Numbers of inodes and fragments count from its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupDump {
    /// Its number.
    pub number: u32,
    /// Byte offset of its block.
    pub tell: u64,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// Its counts.
    pub counts: Counts,
    /// Its record in the summary area.
    pub summary: Counts,
    /// Every field of its header.
    pub header: CgHeader,
    /// Runs of 1, 2, ... free blocks; the last counts the longer ones too.
    pub clustersum: Vec<i32>,
    /// Free blocks.
    pub clusters: Vec<Span>,
    /// Inodes in use.
    pub inodes_used: Vec<Span>,
    /// Free fragments.
    pub free: Vec<Span>,
}

impl GroupDump {
    /// Reads group `c`.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn read(vol: &Volume<'_>, c: CgNo) -> Result<GroupDump, AdminError> {
        let g = &vol.geo;
        let block = vol.read_cg(c)?;
        let summary = Counts::from(vol.read_csum(c)?);
        let mut problems = Vec::new();
        if let Err(e) = cg::validate(g, c, &block) {
            problems.push(e.to_string());
        }
        // The views take no offset and no count from the header, so they hold on any bytes.
        let view = Cg::new(g, &block);
        let counts = Counts::from(view.cs());
        if counts != summary {
            problems.push(format!("summary area: {summary:?} instead of {counts:?}"));
        }
        let frags = g.cg_frags(c);
        let free_block = |b| cg::bit(view.clustersfree(), b).unwrap_or(false);
        let whole = if g.contigsumsize > 0 { frags / g.frag } else { 0 };
        Ok(GroupDump {
            number: c.0,
            tell: g.frag_to_byte(g.cgtod(c)),
            problems,
            counts,
            summary,
            header: CgHeader::from(&view.header()),
            clustersum: (1..=g.contigsumsize).map(|k| view.clustersum(k)).collect(),
            clusters: spans(whole, free_block),
            inodes_used: spans(g.ipg, |i| view.inode_used(i)),
            free: spans(frags, |f| cg::bit(view.blksfree(), f).unwrap_or(false)),
        })
    }
}
