//! The passes of a dump (`spec/on-disk-format.md` §24.6; BSD's `traverse.c`).
//!
//! 1. `mapfiles`: which inodes are used, are directories, and have changed since the base. The
//!    journal is left out: it belongs to its volume alone, and the one of a restored volume is its
//!    own.
//! 2. `mapdirs`, repeated until nothing changes: the directories that lead to a dumped file are
//!    dumped too; the flag `nodump` of a directory extends to everything below it.
//! 3. The directories are written, by inode number.
//! 4. The other files are written, by inode number.
//!
//! # Invariants
//! 1. Memory is three bits for each inode of the volume, the names of one directory, and a list of
//!    the directories that have not changed.
//! 2. Pass 2 ends on a damaged volume too: each step adds an inode to `dumpinomap`, removes one
//!    from `dumpdirmap`, or searches a directory with `nodump` for the first time.
//! 3. The root directory is always dumped: `restore` needs it.

use std::io::Write;

use ffs_admin::Volume;
use ffs_core::{Attr, Cred, Ffs, FileFlags, FileType, Ino};
use ffs_device::BlockDevice;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{Cg, CgNo, Format, cg, journal};

use super::dumpino::Dumper;
use super::error::DumpError;
use super::inomap::InodeMap;
use super::observer::DumpObserver;
use super::output::{Output, WINDOW};
use super::spcl::{Header, RecordKind};
use super::{NTREC, TP_BSIZE};
use crate::dir::is_journal;

/// What to dump, and what its headers contain.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Level, 0 to 9.
    pub level: u8,
    /// Date of this dump, seconds since 1970.
    pub date: i64,
    /// Date of the dump that this one is relative to; 0 dumps everything.
    pub ddate: i64,
    /// The lowest level that leaves out files with the flag `nodump`.
    pub honor_level: u8,
    /// Records that are written at a time: the length of the stream is a multiple.
    pub ntrec: u32,
    /// Where the file system is mounted, as text for its reader.
    pub filesys: Vec<u8>,
    /// The device, as text.
    pub dev: Vec<u8>,
    /// The host, as text.
    pub host: Vec<u8>,
    /// The label.
    pub label: Vec<u8>,
}

impl Default for DumpOptions {
    fn default() -> DumpOptions {
        DumpOptions {
            level: 0,
            date: 0,
            ddate: 0,
            honor_level: 1,
            ntrec: NTREC,
            filesys: Vec::new(),
            dev: Vec::new(),
            host: Vec::new(),
            label: b"none".to_vec(),
        }
    }
}

/// What a dump did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpReport {
    /// Directories in the dump.
    pub directories: u64,
    /// Other files in the dump.
    pub files: u64,
    /// Records written.
    pub records: u64,
    /// Records expected before.
    pub estimate: u64,
    /// Files that are not complete in the dump.
    pub problems: u64,
}

/// Writes a dump of the volume on `device`, which is mounted read-only as `ffs`.
///
/// # Errors
/// The volume cannot be read, the stream cannot be written, or the observer cancelled. Files that
/// cannot be read are reported to the observer and counted.
pub fn dump(
    device: &dyn BlockDevice,
    ffs: &Ffs,
    options: &DumpOptions,
    out: &mut dyn Write,
    observer: &mut dyn DumpObserver,
) -> Result<DumpReport, DumpError> {
    let mut maps = Maps::new(ffs, options);
    maps.survey(device, observer)?;
    let estimate = maps.records();
    let base = Header {
        filesys: options.filesys.clone(),
        dev: options.dev.clone(),
        host: options.host.clone(),
        label: options.label.clone(),
        ..Header::new(options.level, options.date, options.ddate)
    };
    let Maps { used, dirs, dumped, problems, .. } = maps;
    let maxino = ffs.geometry().inodes();
    let output = Output::new(out, base);
    let (cred, buf) = (Cred::root(), Vec::new());
    let mut dumper = Dumper { ffs, cred, output, observer, estimate, problems, buf };
    let mut tape = dumper.output.base(RecordKind::Tape, 0);
    dumper.output.header(&mut tape)?;
    dumper.output.dumpmap(RecordKind::Clri, &used, maxino - 1)?;
    let first = dumped.iter().find(|ino| dirs.contains(*ino)).unwrap_or_default();
    dumper.output.dumpmap(RecordKind::Bits, &dumped, first)?;
    let mut report = DumpReport { estimate, ..DumpReport::default() };
    for ino in dirs.iter().filter(|ino| dumped.contains(*ino)) {
        dumper.dumpino(ino)?;
        report.directories += 1;
    }
    for ino in dumped.iter().filter(|ino| !dirs.contains(*ino)) {
        dumper.dumpino(ino)?;
        report.files += 1;
    }
    dumper.output.end(options.ntrec, maxino - 1)?;
    Ok(DumpReport { records: dumper.output.records(), problems: dumper.problems, ..report })
}

/// The records that a dump would have.
///
/// # Errors
/// As [`dump()`].
pub fn estimate(
    device: &dyn BlockDevice,
    ffs: &Ffs,
    options: &DumpOptions,
    observer: &mut dyn DumpObserver,
) -> Result<u64, DumpError> {
    let mut maps = Maps::new(ffs, options);
    maps.survey(device, observer)?;
    Ok(maps.records())
}

/// The maps of passes 1 and 2.
struct Maps<'a> {
    ffs: &'a Ffs,
    ddate: i64,
    /// Whether files with `nodump` are left out.
    honor: bool,
    /// `usedinomap`: inodes in use, except directories that `nodump` leaves out, and the journal.
    used: InodeMap,
    /// `dumpdirmap`: directories that may be dumped.
    dirs: InodeMap,
    /// `dumpinomap`: inodes to dump.
    dumped: InodeMap,
    /// Directories that were searched because of `nodump`.
    searched: InodeMap,
    /// Expected records of the files.
    tapesize: u64,
    problems: u64,
}

/// What a directory contains.
#[derive(Default)]
struct Contains {
    dumped: bool,
    subdirs: bool,
}

impl<'a> Maps<'a> {
    fn new(ffs: &'a Ffs, options: &DumpOptions) -> Maps<'a> {
        let map = InodeMap::new(ffs.geometry().inodes());
        Maps {
            ffs,
            ddate: options.ddate,
            honor: options.level >= options.honor_level,
            used: map.clone(),
            dirs: map.clone(),
            dumped: map.clone(),
            searched: map,
            tapesize: 0,
            problems: 0,
        }
    }

    /// Passes 1 and 2.
    fn survey(
        &mut self,
        device: &dyn BlockDevice,
        observer: &mut dyn DumpObserver,
    ) -> Result<(), DumpError> {
        self.mapfiles(device, observer)?;
        self.leave_out_journal();
        while self.mapdirs(observer)? {}
        for map in [&mut self.used, &mut self.dirs, &mut self.dumped] {
            map.insert(Ino::ROOT.0);
        }
        Ok(())
    }

    /// Records of the whole stream.
    fn records(&self) -> u64 {
        let maps = 2 * (1 + self.used.bytes().len() / TP_BSIZE) as u64;
        1 + maps + self.tapesize + 1
    }

    fn problem(&mut self, observer: &mut dyn DumpObserver, ino: u32, why: impl std::fmt::Display) {
        self.problems += 1;
        observer.problem(&format!("inode {ino}: {why}"));
    }

    /// Pass 1.
    fn mapfiles(
        &mut self,
        device: &dyn BlockDevice,
        observer: &mut dyn DumpObserver,
    ) -> Result<(), DumpError> {
        self.ffs.root().map_err(DumpError::Root)?;
        let geo = self.ffs.geometry();
        let volume = Volume::open_at(device, self.ffs.superblock_location())?;
        for group in (0..geo.ncg).map(CgNo) {
            if observer.is_cancelled() {
                return Err(DumpError::Cancelled);
            }
            let bytes = volume.read_cg(group)?;
            cg::validate_header(geo, group, &bytes).map_err(ffs_admin::AdminError::from)?;
            let view = Cg::new(geo, &bytes);
            // UFS2 initialises inode blocks when they are first used.
            let initialised = match geo.format {
                Format::Ufs1 => geo.ipg,
                Format::Ufs2 => view.initediblk().min(geo.ipg),
            };
            for index in (0..initialised).filter(|&index| view.inode_used(index)) {
                let ino = group.0 * geo.ipg + index;
                if ino >= Ino::ROOT.0 {
                    self.mapfile(ino, observer);
                }
            }
        }
        Ok(())
    }

    fn leave_out_journal(&mut self) {
        let (ffs, name) = (self.ffs, journal::NAME);
        let found = ffs.root().and_then(|root| ffs.lookup(&Cred::root(), &root, name));
        // The passes that need the root report that it cannot be read.
        let Ok(file) = found else { return };
        if is_journal(ffs, Ino::ROOT, name, &file) {
            self.used.remove(file.ino().0);
            self.forget_dumped(&ffs.getattr(&file));
        }
    }

    /// The file with the attributes `attr` is not dumped.
    fn forget_dumped(&mut self, attr: &Attr) {
        if self.dumped.contains(attr.ino.0) {
            self.dumped.remove(attr.ino.0);
            self.tapesize = self.tapesize.saturating_sub(self.blockest(attr));
        }
    }

    fn mapfile(&mut self, ino: u32, observer: &mut dyn DumpObserver) {
        let attr = match self.ffs.vget(Ino(ino), None) {
            Ok(file) => self.ffs.getattr(&file),
            // Used according to the map, but without a file, as a crash leaves it.
            Err(ffs_core::Error::Stale) => return,
            Err(error) => {
                self.used.insert(ino);
                return self.problem(observer, ino, format!("not dumped: {error}"));
            }
        };
        self.used.insert(ino);
        let directory = attr.kind == FileType::Directory;
        if directory {
            self.dirs.insert(ino);
        }
        let nodump = self.honor && attr.flags.contains(FileFlags::UF_NODUMP);
        let changed = attr.mtime.secs >= self.ddate || attr.ctime.secs >= self.ddate;
        if (changed || self.ddate == 0) && !nodump {
            self.dumped.insert(ino);
            self.tapesize += self.blockest(&attr);
        } else if directory && nodump {
            self.used.remove(ino);
        }
    }

    /// Pass 2, once; whether something changed.
    fn mapdirs(&mut self, observer: &mut dyn DumpObserver) -> Result<bool, DumpError> {
        let is_nodump = |maps: &Self, ino| maps.honor && !maps.used.contains(ino);
        let todo: Vec<u32> = self
            .dirs
            .iter()
            .filter(|&ino| !self.dumped.contains(ino) || is_nodump(self, ino))
            .collect();
        let mut change = false;
        for ino in todo {
            if observer.is_cancelled() {
                return Err(DumpError::Cancelled);
            }
            let nodump = is_nodump(self, ino);
            let found = self.searchdir(ino, nodump, observer);
            if found.dumped {
                self.dumped.insert(ino);
                if let Ok(dir) = self.ffs.vget(Ino(ino), None) {
                    self.tapesize += self.blockest(&self.ffs.getattr(&dir));
                }
                change = true;
            } else if nodump {
                self.dirs.remove(ino);
                change |= found.subdirs;
            } else if !found.subdirs && !self.dumped.contains(ino) {
                self.dirs.remove(ino);
                change = true;
            }
        }
        Ok(change)
    }

    /// Searches directory `ino` for files that are dumped and for directories. With `nodump` these
    /// are left out instead.
    fn searchdir(&mut self, ino: u32, nodump: bool, observer: &mut dyn DumpObserver) -> Contains {
        let mut found = Contains::default();
        let dir = match self.ffs.vget(Ino(ino), None) {
            Ok(dir) => dir,
            Err(error) => {
                self.problem(observer, ino, error);
                return found;
            }
        };
        if nodump {
            self.searched.insert(ino);
        }
        let ffs = self.ffs;
        let read = ffs.readdir(&dir, 0, &mut |entry| {
            if entry.name == b"." || entry.name == b".." {
                return true;
            }
            let below = entry.ino.0;
            if nodump {
                self.leave_out(below, &mut found);
                return true;
            }
            found.dumped |= self.dumped.contains(below);
            found.subdirs |= self.dirs.contains(below);
            !(found.dumped && found.subdirs)
        });
        if let Err(error) = read {
            self.problem(observer, ino, error);
        }
        found
    }

    /// Leaves out a file that is in a directory with `nodump`.
    fn leave_out(&mut self, ino: u32, found: &mut Contains) {
        let Ok(file) = self.ffs.vget(Ino(ino), None) else { return };
        let attr = self.ffs.getattr(&file);
        self.forget_dumped(&attr);
        if attr.kind == FileType::Directory && !self.searched.contains(ino) && ino != Ino::ROOT.0 {
            self.dirs.insert(ino);
            self.used.remove(ino);
            found.subdirs = true;
        }
    }

    /// Records that a file will take, approximately (BSD's `blockest`).
    fn blockest(&self, attr: &Attr) -> u64 {
        let has_data =
            matches!(attr.kind, FileType::Regular | FileType::Directory | FileType::Symlink);
        if !has_data || attr.flags.contains(FileFlags::SF_SNAPSHOT) {
            return 1;
        }
        let record = TP_BSIZE as u64;
        let by_size = attr.size.div_ceil(record);
        let by_blocks = attr.blocks.saturating_mul(512).div_ceil(record);
        // A short symbolic link has no blocks.
        let data = by_blocks.max(u64::from(attr.kind == FileType::Symlink)).min(by_size);
        let direct = NDADDR as u64 * u64::from(self.ffs.geometry().bsize) / record;
        data + by_size.saturating_sub(direct).div_ceil(WINDOW) + 1
    }
}
