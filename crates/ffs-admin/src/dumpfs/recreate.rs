//! The newfs command that makes an equal volume (`dumpfs -m`).

use std::fmt::Write;

use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Format, Superblock};

use crate::newfs::{NewfsOptions, Optim, Release, plan};

/// Options that make a volume like another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recreate {
    /// The options.
    pub options: NewfsOptions,
    /// Whether newfs would make the same groups.
    pub exact: bool,
    /// Properties that newfs cannot give the new volume.
    pub notes: Vec<String>,
}

impl Recreate {
    /// The command line for a device named `device`, with BSD's letters.
    #[must_use]
    pub fn command(&self, device: &str) -> String {
        let o = &self.options;
        let mut s = format!("newfs -O {}", if o.format() == Format::Ufs1 { 1 } else { 2 });
        let mut number = |letter: char, value: Option<u64>| {
            if let Some(value) = value {
                let _ = write!(s, " -{letter} {value}");
            }
        };
        number('a', o.maxcontig.map(u64::from));
        number('b', o.bsize.map(u64::from));
        number('d', o.max_extent.map(u64::from));
        number('e', o.maxbpg.map(u64::from));
        number('f', o.fsize.map(u64::from));
        number('g', Some(o.avgfilesize.into()));
        number('h', Some(o.avgfpdir.into()));
        number('i', o.density.map(u64::from));
        number('k', o.metaspace.map(u64::from));
        number('m', Some(o.minfree.into()));
        number('s', o.size.map(|bytes| bytes / 512));
        // Without a flag newfs enables soft updates for UFS2.
        let none = !o.soft_updates && o.format() == Format::Ufs2;
        let flags = [
            (o.soft_updates, " -U"),
            (none, " -u"),
            (o.gjournal, " -J"),
            (o.multilabel, " -l"),
            (o.trim, " -t"),
        ];
        s.extend(flags.into_iter().filter(|(on, _)| *on).map(|(_, letter)| letter));
        let optim = if o.optim == Some(Optim::Space) { "space" } else { "time" };
        let _ = write!(s, " -o {optim}");
        if let Some(label) = &o.label {
            let _ = write!(s, " -L {label}");
        }
        let _ = write!(s, " {device}");
        s
    }
}

/// Finds the options whose plan is closest to the volume of `sb`.
pub(super) fn recreate(sb: &Superblock) -> Recreate {
    let options = policy(sb);
    let density = densities(sb).find(|&d| same_groups(sb, &with_density(&options, d)));
    let exact = density.is_some();
    let mut notes = Vec::new();
    if !exact {
        notes.push("newfs would make different cylinder groups".to_owned());
    }
    let without = [
        (FsFlags::SUJ, "the soft updates journal"),
        (FsFlags::ACLS, "POSIX.1e ACLs"),
        (FsFlags::NFS4ACLS, "NFSv4 ACLs"),
    ];
    for (bit, what) in without {
        if sb.flags().contains(bit) {
            notes.push(format!("{what}: to be enabled with tunefs"));
        }
    }
    let nearest = density.or_else(|| densities(sb).nth(1));
    Recreate { options: with_density(&options, nearest.unwrap_or(None)), exact, notes }
}

fn with_density(options: &NewfsOptions, density: Option<u32>) -> NewfsOptions {
    NewfsOptions { density, ..options.clone() }
}

/// All options except the density.
fn policy(sb: &Superblock) -> NewfsOptions {
    let f = &sb.f;
    let count = |v: i32| u32::try_from(v).ok();
    let today = f.sblockactualloc != 0 || f.metackhash != 0;
    let bytes = u64::try_from(f.size).unwrap_or(0).saturating_mul(f.fsize.unsigned_abs().into());
    let flags = sb.flags();
    let label = String::from_utf8_lossy(sb.volname()).into_owned();
    NewfsOptions {
        release: if today { Release::Current } else { Release::Freebsd10 },
        endian: sb.endian,
        format: Some(sb.format),
        bsize: count(f.bsize),
        fsize: count(f.fsize),
        minfree: count(f.minfree).unwrap_or(0).min(99),
        optim: Some(if f.optim == 1 { Optim::Space } else { Optim::Time }),
        maxcontig: count(f.maxcontig.clamp(1, 256)),
        maxbpg: count(f.maxbpg.max(1)),
        max_extent: count(f.maxbsize).filter(|_| !sb.old_layout && f.maxbsize > f.bsize),
        avgfilesize: f.avgfilesize.clamp(1, i32::MAX as u32),
        avgfpdir: f.avgfpdir.clamp(1, i32::MAX as u32),
        metaspace: u32::try_from(f.metaspace).ok(),
        label: Some(label).filter(|l| !l.is_empty()),
        soft_updates: flags.permanent().contains(FsFlags::DOSOFTDEP),
        gjournal: flags.contains(FsFlags::GJOURNAL),
        multilabel: flags.contains(FsFlags::MULTILABEL),
        trim: flags.contains(FsFlags::TRIM),
        size: Some(bytes),
        ..NewfsOptions::default()
    }
}

/// Densities to try: the default of newfs, then that of the groups, then nearby multiples of the
/// fragment size.
fn densities(sb: &Superblock) -> impl Iterator<Item = Option<u32>> {
    let f = &sb.f;
    let fsize = u64::from(f.fsize.unsigned_abs().max(1));
    let group = u64::from(f.fpg.unsigned_abs()).saturating_mul(fsize);
    let share = (group / u64::from(f.ipg.max(1))).next_multiple_of(fsize);
    let steps = (-8..=8i64).filter(|&n| n != 0);
    let near = steps.map(move |n| share.saturating_add_signed(n * fsize as i64));
    let candidates = std::iter::once(share).chain(near).filter_map(|d| u32::try_from(d).ok());
    std::iter::once(None).chain(candidates.filter(|&d| d > 0).map(Some))
}

fn same_groups(sb: &Superblock, options: &NewfsOptions) -> bool {
    let bytes = options.size.unwrap_or(0);
    let Ok(p) = plan(options, bytes, 512) else { return false };
    let have = (u64::from(sb.f.ncg), i64::from(sb.f.fpg), u64::from(sb.f.ipg));
    (p.ncg, i64::try_from(p.fpg).unwrap_or(0), p.ipg) == have
}
