//! dumpfs as text: BSD's names, several per line.

use std::fmt::Display;
use std::io::{self, Write};

use super::data::{GroupDump, Span, SuperblockDump};
use crate::{AdminError, Volume};

/// Limit on the columns of a wrapped list.
const WIDTH: usize = 96;

/// One line of names and values.
fn line(out: &mut dyn Write, pairs: &[(&str, &dyn Display)]) -> io::Result<()> {
    let cells: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name:<10} {value}")).collect();
    let (last, rest) = match cells.split_last() {
        Some(split) => split,
        None => return Ok(()),
    };
    for cell in rest {
        write!(out, "{cell:<26} ")?;
    }
    writeln!(out, "{}", last.trim_end())
}

/// Seconds since 1970 as a date.
fn date(secs: i64) -> String {
    match jiff::Timestamp::from_second(secs) {
        Ok(t) => t.to_string(),
        Err(_) => format!("{secs} seconds after 1970"),
    }
}

/// The superblock.
pub(super) fn superblock(out: &mut dyn Write, d: &SuperblockDump) -> io::Result<()> {
    let f = &d.fields;
    for problem in &d.problems {
        writeln!(out, "problem: {problem}")?;
    }
    let magic = format!("{:x} ({}, {} endian)", f.magic, d.format, d.byte_order);
    line(out, &[("magic", &magic), ("time", &date(f.time))])?;
    let id = format!("[ {:x} {:x} ]", f.id[0], f.id[1]);
    line(out, &[("superblock", &d.source), ("location", &d.location), ("id", &id)])?;
    line(out, &[("ncg", &f.ncg), ("size", &f.size), ("blocks", &f.dsize)])?;
    let mask = |m: i32| format!("{m:#010x}");
    line(out, &[("bsize", &f.bsize), ("shift", &f.bshift), ("mask", &mask(f.bmask))])?;
    line(out, &[("fsize", &f.fsize), ("shift", &f.fshift), ("mask", &mask(f.fmask))])?;
    line(out, &[("frag", &f.frag), ("shift", &f.fragshift), ("fsbtodb", &f.fsbtodb)])?;
    let optim = match f.optim {
        0 => "time".to_owned(),
        1 => "space".to_owned(),
        n => format!("unknown ({n})"),
    };
    let minfree = format!("{}%", f.minfree);
    line(out, &[("minfree", &minfree), ("optim", &optim), ("symlinklen", &f.maxsymlinklen)])?;
    line(out, &[("maxbsize", &f.maxbsize), ("maxbpg", &f.maxbpg)])?;
    line(out, &[("maxcontig", &f.maxcontig), ("contigsumsize", &f.contigsumsize)])?;
    let t = &d.totals;
    line(
        out,
        &[("nbfree", &t.nbfree), ("ndir", &t.ndir), ("nifree", &t.nifree), ("nffree", &t.nffree)],
    )?;
    line(out, &[("fpg", &f.fpg), ("ipg", &f.ipg), ("unrefs", &f.unrefs)])?;
    line(out, &[("nindir", &f.nindir), ("inopb", &f.inopb), ("maxfilesize", &f.maxfilesize)])?;
    line(
        out,
        &[
            ("sbsize", &f.sbsize),
            ("cgsize", &f.cgsize),
            ("csaddr", &f.csaddr),
            ("cssize", &f.cssize),
        ],
    )?;
    line(
        out,
        &[
            ("sblkno", &f.sblkno),
            ("cblkno", &f.cblkno),
            ("iblkno", &f.iblkno),
            ("dblkno", &f.dblkno),
        ],
    )?;
    state(out, d)
}

/// The state of the volume and its policy.
fn state(out: &mut dyn Write, d: &SuperblockDump) -> io::Result<()> {
    let f = &d.fields;
    let clean = if d.clean { "yes".to_owned() } else { format!("no ({})", f.clean) };
    line(out, &[("clean", &clean), ("fmod", &f.fmod), ("ronly", &f.ronly)])?;
    line(
        out,
        &[("metaspace", &f.metaspace), ("avgfpdir", &f.avgfpdir), ("avgfilesize", &f.avgfilesize)],
    )?;
    if f.pendingblocks != 0 || f.pendinginodes != 0 {
        line(out, &[("pendingblocks", &f.pendingblocks), ("pendinginodes", &f.pendinginodes)])?;
    }
    line(out, &[("flags", &words(&d.flags))])?;
    line(out, &[("hashes", &words(&d.check_hashes))])?;
    if !d.check_hash_ok {
        line(out, &[("ckhash", &format!("{:#010x} (wrong)", f.ckhash))])?;
    }
    if !d.snapshots.is_empty() {
        line(out, &[("snapinum", &words(&d.snapshots))])?;
    }
    line(out, &[("fsmnt", &printable(&d.fsmnt))])?;
    line(out, &[("volname", &printable(&d.volname)), ("providersize", &f.providersize)])
}

fn words<T: Display>(items: &[T]) -> String {
    match items {
        [] => "none".into(),
        _ => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// Text from a disk with control characters escaped.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c.is_control() {
            true => c.escape_default().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
}

/// The summary area, four groups per line.
pub(super) fn summaries(out: &mut dyn Write, vol: &Volume<'_>) -> Result<(), AdminError> {
    writeln!(out, "\ncs[].cs_(nbfree,ndir,nifree,nffree):").map_err(AdminError::output)?;
    let ncg = vol.geo.ncg;
    vol.for_each_csum(|c, cs| {
        let end = if c.0 % 4 == 3 || c.0 + 1 == ncg { "\n" } else { " " };
        let cs = format!("({},{},{},{})", cs.nbfree, cs.ndir, cs.nifree, cs.nffree);
        let lead = if c.0 % 4 == 0 { "\t" } else { "" };
        write!(out, "{lead}{cs}{end}").map_err(AdminError::output)
    })?;
    let last = vol.geo.cg_frags(ffs_ondisk::CgNo(ncg.saturating_sub(1)));
    writeln!(out, "blocks in last group {}", last / vol.geo.frag).map_err(AdminError::output)
}

/// A group.
pub(super) fn group(out: &mut dyn Write, d: &GroupDump) -> io::Result<()> {
    let h = &d.header;
    writeln!(out, "\ncg {}:", d.number)?;
    for problem in &d.problems {
        writeln!(out, "problem: {problem}")?;
    }
    let time = if h.time != 0 { h.time } else { h.old_time.into() };
    let (magic, tell) = (format!("{:x}", h.magic), format!("{:x}", d.tell));
    line(out, &[("magic", &magic), ("tell", &tell), ("time", &date(time))])?;
    let niblk = if h.niblk != 0 { h.niblk } else { u32::from(h.old_niblk as u16) };
    line(
        out,
        &[("cgx", &h.cgx), ("ndblk", &h.ndblk), ("niblk", &niblk), ("initiblk", &h.initediblk)],
    )?;
    let c = &d.counts;
    line(
        out,
        &[("nbfree", &c.nbfree), ("ndir", &c.ndir), ("nifree", &c.nifree), ("nffree", &c.nffree)],
    )?;
    line(
        out,
        &[("rotor", &h.rotor), ("irotor", &h.irotor), ("frotor", &h.frotor), ("unrefs", &h.unrefs)],
    )?;
    list(out, "frsum", &h.frsum[1..])?;
    if !d.clustersum.is_empty() {
        list(out, "clustersum", &d.clustersum)?;
        list(out, "clusters free", &d.clusters)?;
    }
    list(out, "inodes used", &d.inodes_used)?;
    list::<Span>(out, "frags free", &d.free)
}

/// A list with a name, wrapped.
fn list<T: Display>(out: &mut dyn Write, name: &str, items: &[T]) -> io::Result<()> {
    let mut row = format!("{name}:");
    for item in items {
        let item = item.to_string();
        if row.len() + item.len() >= WIDTH {
            writeln!(out, "{row}")?;
            row = "   ".into();
        }
        row.push(' ');
        row.push_str(&item);
    }
    writeln!(out, "{row}")
}
