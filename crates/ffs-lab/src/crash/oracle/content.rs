//! The contents that a crash may leave in a file.
//!
//! **Eras.** A truncation to length 0 begins a new era of a file. All its blocks are new from then
//! on, and bytes of the old era must not appear together with bytes of the new one. Within an era
//! each sector is independent: it has the content of the last durable point, any content that was
//! written later, or zeros if it had no block at the durable point.
//!
//! # Invariants
//! 1. A mask has one bit for each era that explains the bytes found; bit 0 is the era of the
//!    durable point. A file is acceptable if one era explains all of it. All eras from number 63 on
//!    share one bit, so that they are checked less strictly.
//! 2. The model has no record of sectors that no workload wrote. They must be zero in every era.
//!
//! References: `spec/fsck-and-crash.md` §9 G1, G8 to G11, §11.4.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use ffs_ondisk::geometry::NDADDR;

use super::super::history::{ObjId, SECTOR, Violation};
use super::super::image::ImageBytes;
use super::super::raw::{Inode, Tree};
use super::super::tag::{self, POISON};
use super::leniency::Leniency;

/// Violations of a state after which further sectors are not reported one by one.
const MOST: usize = 32;
/// The last era; later ones are counted as this one.
const LAST_ERA: u32 = 63;
/// The mask of all eras.
const ALL: u64 = u64::MAX;
const SECTOR_BYTES: u64 = SECTOR as u64;
const ZEROS: [u8; SECTOR] = [0; SECTOR];

/// A change of a file's content, in program order.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Bytes were written in a version.
    Wrote {
        /// Bytes of the file.
        bytes: Range<u64>,
        /// Tag version.
        version: u32,
        /// The call failed or was in progress: any part of the bytes may be missing.
        partly: bool,
    },
    /// The size was set.
    Resized(u64),
    /// The whole content was found after a crash.
    Found {
        /// Bytes.
        size: u64,
        /// The size that a check may leave.
        least: u64,
        /// Sectors that are not zeros.
        sectors: Vec<(u64, [u8; SECTOR])>,
        /// The sector in which the file ends and those after it, as they are on the device.
        behind: Vec<(u64, [u8; SECTOR])>,
    },
    /// Bytes were set to zero, by a hole or otherwise.
    Zeroed(Range<u64>),
}

impl Change {
    /// The size of a file of `size` bytes after the change.
    fn size_after(&self, size: u64) -> u64 {
        match self {
            Change::Wrote { bytes, .. } | Change::Zeroed(bytes) if bytes.is_empty() => size,
            Change::Wrote { bytes, .. } | Change::Zeroed(bytes) => size.max(bytes.end),
            Change::Resized(size) | Change::Found { size, .. } => *size,
        }
    }
}

/// Whether a change after the first `durable` ones changes the size.
pub(super) fn resizes(changes: &[Change], durable: usize) -> bool {
    let mut size = 0;
    changes.iter().enumerate().any(|(at, change)| {
        let after = change.size_after(size);
        std::mem::replace(&mut size, after) != after && at >= durable
    })
}

/// The sizes that a file may have in an era, bytes.
#[derive(Clone, Copy, Debug)]
struct Size {
    least: u64,
    most: u64,
    era: u32,
}

/// The contents that a sector may have.
#[derive(Clone, Debug, Default)]
struct Sector {
    index: u64,
    /// The eras in which it may be zero.
    zero: u64,
    /// Indices of pages with possible contents, and the eras in which they are valid.
    contents: Vec<(u32, u64)>,
}

/// The contents that a file may have.
#[derive(Debug, Default)]
pub(super) struct Content {
    sizes: Vec<Size>,
    /// In ascending order of their index.
    sectors: Vec<Sector>,
    pages: Vec<[u8; SECTOR]>,
    /// The mask of the eras that the file has.
    eras: u64,
    /// The file was found after a crash and ended in a hole.
    ended_in_hole: bool,
}

/// Applies the changes of a file one after the other.
struct Builder {
    obj: ObjId,
    size: u64,
    era: u32,
    /// The current content of the sectors that are not zeros.
    now: BTreeMap<u64, [u8; SECTOR]>,
    /// The device's content of the sectors after the end that was found.
    behind: BTreeMap<u64, [u8; SECTOR]>,
    sectors: BTreeMap<u64, Sector>,
    out: Content,
    /// Whether the durable point has been passed.
    open: bool,
    /// The size to which a check may shorten a content that was found, bytes.
    short: Option<u64>,
}

impl Content {
    /// The contents that `obj` may have if the first `durable` of its changes are durable.
    pub(super) fn new(obj: ObjId, changes: &[Change], durable: usize) -> Content {
        let mut b = Builder {
            obj,
            size: 0,
            era: 0,
            now: BTreeMap::new(),
            behind: BTreeMap::new(),
            sectors: BTreeMap::new(),
            out: Content::default(),
            open: false,
            short: None,
        };
        let (before, after) = changes.split_at(durable.min(changes.len()));
        before.iter().for_each(|change| b.apply(change));
        b.begin_open_changes();
        after.iter().for_each(|change| b.apply(change));
        b.out.eras = b.bit() | (b.bit() - 1);
        b.out.sectors = b.sectors.into_values().collect();
        b.out
    }
}

impl Builder {
    /// Marks the durable point: the current content stays unless a later change replaces it.
    fn begin_open_changes(&mut self) {
        self.open = true;
        self.era = 0;
        let least = self.short.unwrap_or(self.size);
        self.out.sizes.push(Size { least, most: self.size, era: 0 });
        let held: Vec<(u64, [u8; SECTOR])> = self.now.iter().map(|(&i, &page)| (i, page)).collect();
        for (index, page) in held {
            self.sectors.insert(index, Sector { index, zero: ALL & !1, contents: Vec::new() });
            self.allow(index, &page);
        }
        for (index, page) in self.behind.clone() {
            self.allow(index, &page);
        }
    }

    fn apply(&mut self, change: &Change) {
        let before = self.size;
        let mut partly = false;
        self.short = None;
        match change {
            Change::Wrote { bytes, version, partly: unsure } => {
                partly = *unsure;
                self.write(bytes, *version);
            }
            Change::Resized(size) => self.resize(*size),
            Change::Found { size, least, sectors, behind } => {
                self.size = *size;
                self.now = sectors.iter().copied().collect();
                if Leniency::EarlierTail.grants(!behind.is_empty()) {
                    self.behind = behind.iter().copied().collect();
                }
                self.short = Leniency::EndHole.grants(least < size).then_some(*least);
                self.out.ended_in_hole = least < size;
            }
            Change::Zeroed(bytes) => self.put(bytes, |_, part| part.fill(0)),
        }
        if self.open {
            let least = if partly { before.min(self.size) } else { self.size };
            self.out.sizes.push(Size { least, most: self.size, era: self.era });
        }
    }

    fn write(&mut self, bytes: &Range<u64>, version: u32) {
        let obj = self.obj;
        self.put(bytes, |at, part| tag::fill(obj, version, at, part));
    }

    /// Changes a range of bytes. `fill` gets the bytes of each part and the part's offset in the
    /// file.
    fn put(&mut self, bytes: &Range<u64>, fill: impl Fn(u64, &mut [u8])) {
        if bytes.is_empty() {
            return;
        }
        self.size = self.size.max(bytes.end);
        for index in bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES) {
            let base = index * SECTOR_BYTES;
            let from = bytes.start.saturating_sub(base) as usize;
            let to = (bytes.end - base).min(SECTOR_BYTES) as usize;
            let mut page = self.now.get(&index).copied().unwrap_or(ZEROS);
            if let Some(part) = page.get_mut(from..to) {
                fill(base + from as u64, part);
            }
            self.now.insert(index, page);
            self.allow(index, &page);
            if let Some(mut page) = self.behind.get(&index).copied() {
                if let Some(part) = page.get_mut(from..to) {
                    fill(base + from as u64, part);
                }
                self.behind.insert(index, page);
                self.allow(index, &page);
            }
        }
    }

    fn resize(&mut self, size: u64) {
        let shrinks = size < self.size;
        self.size = size;
        if !shrinks {
            return;
        }
        self.behind.clear();
        let mut removed = self.now.split_off(&(size / SECTOR_BYTES));
        if size == 0 {
            let full = Leniency::ManyEras.grants(self.era == LAST_ERA);
            self.era += u32::from(!full);
            return;
        }
        let era = self.bit();
        let (index, keep) = (size / SECTOR_BYTES, (size % SECTOR_BYTES) as usize);
        // A sector of which no byte is kept is removed with the others.
        if keep != 0
            && let Some(mut page) = removed.remove(&index)
        {
            if let Some(tail) = page.get_mut(keep..) {
                tail.fill(0);
            }
            self.now.insert(index, page);
            self.allow(index, &page);
        }
        for index in removed.into_keys() {
            if let Some(sector) = self.sectors.get_mut(&index) {
                sector.zero |= era;
            }
        }
    }

    fn bit(&self) -> u64 {
        1 << self.era
    }

    /// Adds `page` to the contents that the sector may have in the current era.
    fn allow(&mut self, index: u64, page: &[u8; SECTOR]) {
        if !self.open {
            return;
        }
        let era = self.bit();
        let sector = self.sectors.entry(index);
        let sector = sector.or_insert_with(|| Sector { index, zero: ALL, contents: Vec::new() });
        let pages = &mut self.out.pages;
        let known =
            sector.contents.iter_mut().find(|(at, _)| pages.get(*at as usize) == Some(page));
        match known {
            Some((_, eras)) => *eras |= era,
            None => {
                sector.contents.push((pages.len() as u32, era));
                pages.push(*page);
            }
        }
    }
}

/// A file found after a crash.
pub(super) struct Seen<'a> {
    pub(super) image: &'a dyn ImageBytes,
    pub(super) tree: &'a Tree,
    pub(super) inode: &'a Inode,
    pub(super) obj: ObjId,
    /// Whether blocks without durable content may have any content (G24).
    pub(super) lenient: bool,
    /// Set if a sector has an older content of the file than the last one written there (A11).
    pub(super) older: &'a Cell<bool>,
}

impl Content {
    /// Adds the violations of the file to `out`, up to a limit.
    pub(super) fn judge(&self, seen: &Seen<'_>, out: &mut Vec<Violation>) {
        let (ino, size) = (seen.inode.ino, seen.inode.size);
        let mut eras = Eras { mask: self.eras_of(size, seen.tree), reported: false };
        if eras.mask == 0 {
            let rule = if self.sizes.len() == 1 { "G1" } else { "G8" };
            let known: Vec<u64> = self.sizes.iter().map(|size| size.most).collect();
            let what = format!("{} (inode {ino}) has {size} bytes; it had {known:?}", seen.obj);
            out.push(Violation::new(rule, what));
            return;
        }
        let mut sectors = self.sectors.iter().peekable();
        for extent in seen.tree.extents(seen.inode) {
            while let Some(sector) = sectors.next_if(|sector| sector.index < extent.sector) {
                self.hole(seen, sector, &mut eras, out);
            }
            let Some(bytes) = seen.image.read(extent.at, extent.len) else { continue };
            for (index, part) in (extent.sector..).zip(bytes.chunks(SECTOR)) {
                let sector = sectors.next_if(|sector| sector.index == index);
                let explained = self.explain(sector, part);
                if sector.is_some_and(|sector| self.is_older(sector, part)) {
                    seen.older.set(true);
                }
                if explained == 0 {
                    let kept = eras.mask == 1 && sector.is_some_and(|s| s.zero & 1 == 0);
                    foreign(seen, kept, (extent.at, extent.sector), index, part, out);
                } else {
                    eras.narrow(seen, explained, index, out);
                }
            }
        }
        for sector in sectors.take_while(|sector| sector.index * SECTOR_BYTES < size) {
            self.hole(seen, sector, &mut eras, out);
        }
    }

    /// Whether the size changed after the durable point.
    fn has_other_sizes(&self) -> bool {
        self.sizes.windows(2).any(|two| two[1].most != two[0].most)
    }

    /// The mask of the eras in which the file may have this size: a size that it had, or the end of
    /// a fragment between two such sizes.
    fn eras_of(&self, size: u64, tree: &Tree) -> u64 {
        let mut eras = 0;
        let mut bounds = [(u64::MAX, 0); 64];
        for known in &self.sizes {
            if (known.least..=known.most).contains(&size) {
                eras |= 1 << known.era;
            }
            if let Some((least, most)) = bounds.get_mut(known.era as usize) {
                *least = (*least).min(known.least);
                *most = (*most).max(known.most);
            }
        }
        if !size.is_multiple_of(tree.fragment_size().max(1)) {
            return eras;
        }
        for (era, (least, most)) in bounds.into_iter().enumerate() {
            // In an era without sizes `least` is `u64::MAX`.
            let rolled_back = least <= size && size <= most;
            let short = era == 0 && size <= least && least != u64::MAX;
            let short = short && self.may_end_in_hole(size, least, most, tree.block_size());
            if Leniency::RolledBackSize.grants(rolled_back) || Leniency::EndHole.grants(short) {
                eras |= 1 << era;
            }
        }
        eras
    }

    /// Whether a check may shorten the file from `least` bytes to `size`. The file must need
    /// indirect blocks, for which the size is not rolled back, and have no durable content in
    /// between. Its size must have changed since the durable point, or an earlier crash left a hole
    /// at its end.
    fn may_end_in_hole(&self, size: u64, least: u64, most: u64, block: u64) -> bool {
        let indirect = most > NDADDR as u64 * block;
        let within = size / SECTOR_BYTES..least.div_ceil(SECTOR_BYTES);
        let zeros = |s: &Sector| {
            let page = |at: u32| self.pages.get(at as usize);
            s.contents.iter().any(|(at, eras)| eras & 1 == 1 && page(*at) == Some(&ZEROS))
        };
        let mut all = self.sectors.iter().filter(|s| within.contains(&s.index));
        let may = self.ended_in_hole || self.has_other_sizes();
        indirect && may && all.all(|s| s.zero & 1 == 1 || zeros(s))
    }

    /// The mask of the eras that explain the bytes `part` of a sector.
    fn explain(&self, sector: Option<&Sector>, part: &[u8]) -> u64 {
        let zero = Some(part) == ZEROS.get(..part.len());
        let Some(sector) = sector else { return if zero { self.eras } else { 0 } };
        let mut eras = if Leniency::Unwritten.grants(zero) { sector.zero } else { 0 };
        for &(page, right) in &sector.contents {
            let page = self.pages.get(page as usize).and_then(|page| page.get(..part.len()));
            if page == Some(part) {
                eras |= right;
            }
        }
        eras & self.eras
    }

    /// Whether the sector was overwritten, and has its earlier content.
    fn is_older(&self, sector: &Sector, part: &[u8]) -> bool {
        let (Some((first, _)), Some((last, _))) = (sector.contents.first(), sector.contents.last())
        else {
            return false;
        };
        let page = |at: &u32| self.pages.get(*at as usize).and_then(|page| page.get(..part.len()));
        first != last && page(first) == Some(part) && page(last) != Some(part)
    }

    fn hole(&self, seen: &Seen<'_>, sector: &Sector, eras: &mut Eras, out: &mut Vec<Violation>) {
        let len = seen.inode.size.saturating_sub(sector.index * SECTOR_BYTES).min(SECTOR_BYTES);
        let explained = self.explain(Some(sector), ZEROS.get(..len as usize).unwrap_or(&ZEROS));
        if explained == 0 && out.len() >= MOST {
            return;
        }
        if explained == 0 {
            let what = format!(
                "{} (inode {}) has a hole at sector {}, where durable content was",
                seen.obj, seen.inode.ino, sector.index
            );
            out.push(Violation::new("G1", what));
        } else {
            eras.narrow(seen, explained, sector.index, out);
        }
    }
}

/// Reports a sector that no era explains. `kept`: the file is certainly in the era of the durable
/// point, and had content here.
fn foreign(
    seen: &Seen<'_>,
    kept: bool,
    (at, first): (u64, u64),
    index: u64,
    part: &[u8],
    out: &mut Vec<Violation>,
) {
    if seen.lenient && !kept || out.len() >= MOST {
        return;
    }
    let (rule, shows) = classify(seen.obj, part);
    let rule = if rule == "G9" && kept { "G1" } else { rule };
    let byte = at + (index - first) * SECTOR_BYTES;
    let (obj, ino) = (seen.obj, seen.inode.ino);
    let what = format!("{obj} (inode {ino}) shows {shows} in sector {index} (byte {byte})");
    out.push(Violation::new(rule, what));
}

/// The eras that explain the bytes seen so far.
struct Eras {
    mask: u64,
    reported: bool,
}

impl Eras {
    /// Keeps the eras of `explained`. If none remains, no single era explains the file: a
    /// violation.
    fn narrow(&mut self, seen: &Seen<'_>, explained: u64, index: u64, out: &mut Vec<Violation>) {
        self.mask &= explained;
        if self.mask == 0 && !self.reported {
            self.reported = true;
            let (obj, ino) = (seen.obj, seen.inode.ino);
            let before = "its size or what is before it";
            let what =
                format!("{obj} (inode {ino}): sector {index} is of another era than {before}");
            out.push(Violation::new("G11", what));
        }
    }
}

/// The rule that unexpected bytes break, and a description of them.
fn classify(obj: ObjId, part: &[u8]) -> (&'static str, String) {
    if Some(part) == ZEROS.get(..part.len()) {
        return ("G9", "zeros".to_owned());
    }
    for cell in part.chunks(tag::TAG_BYTES) {
        if cell.iter().all(|&byte| byte == 0) {
            continue;
        }
        match tag::decode(cell) {
            Some(tag) if tag.obj != obj => return ("F6", format!("{}", tag.obj)),
            Some(tag) => {
                let (version, sector) = (tag.version, tag.sector);
                return ("G9", format!("its own version {version} of sector {sector}"));
            }
            None => {}
        }
    }
    if part.iter().all(|&byte| byte == POISON) {
        return ("F6", "bytes that were never written".to_owned());
    }
    ("F6", "bytes that no workload wrote".to_owned())
}
