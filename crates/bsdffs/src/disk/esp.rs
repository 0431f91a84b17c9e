//! The FAT32 volume of an EFI system partition.
//!
//! A [`Plan`] lists the files, sorted by name, and has the size before anything is written.
//! FAT has neither owners nor links: symbolic links and special files are refused. Names that
//! differ only in case are one name on FAT, and are refused, too.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use ffs_device::{BlockDevice, DeviceError};
use hadris_fat::format::{FatFormatOptions, FatTypeSelection, FatVolumeFormatter};
use hadris_fat::time::{EpochTimeProvider, FatDateTime};
use hadris_fat::{DirectoryEntry, FatDir, FatVolume, FatVolumeWriteExt};
use sha2::{Digest, Sha256};

use super::stream::DeviceStream;
use super::{DiskError, SectorSize};
use crate::copy::{FileId, Observer};

/// Clusters of the smallest volume that is FAT32 by definition.
const MIN_CLUSTERS: u64 = 65_525;
/// Sectors before the first FAT.
const RESERVED: u64 = 32;
/// Bytes of a record of a directory, and UTF-16 units of a name in one.
const RECORD: u64 = 32;
const UNITS: u64 = 13;
/// The longest file, bytes.
const MAX_FILE: u64 = u32::MAX as u64;
/// Sectors of the largest volume.
const MAX_SECTORS: u64 = u32::MAX as u64;
/// Bytes of a label.
const LABEL: usize = 11;
/// The attribute of the record that has the label.
const ATTR_VOLUME_ID: u8 = 8;
/// 1 January 1980 in a record.
const FIRST_DATE: [u8; 2] = [0x21, 0];
/// Sectors of a cluster, and of the largest volume with such clusters, as other tools choose them.
const CLUSTERS: [(u8, u64); 5] =
    [(1, 532_480), (8, 16_777_216), (16, 33_554_432), (32, 67_108_864), (64, MAX_SECTORS)];

/// The times of what has no others: 1980 began then. A clock would make each image different.
static FIRST_TIME: EpochTimeProvider = EpochTimeProvider;

/// A file or directory of the new volume.
struct Planned {
    /// Where it comes from; `None` for a directory without one.
    from: Option<PathBuf>,
    /// Its path on the volume, with slashes.
    to: String,
    /// Bytes of a file; `None` for a directory.
    len: Option<u64>,
    modified: SystemTime,
}

/// The files of a volume, and its size.
pub(super) struct Plan {
    /// Parents come before what is in them.
    files: Vec<Planned>,
    sector: SectorSize,
    len: u64,
    label: Option<VolumeLabel>,
}

/// The label of a FAT volume: 1 to 11 characters, as FAT stores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLabel(String);

impl FromStr for VolumeLabel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<VolumeLabel, &'static str> {
        let allowed = |byte: u8| {
            byte.is_ascii_uppercase()
                || byte.is_ascii_digit()
                || b" !#$%&'()-@^_`{}~".contains(&byte)
        };
        if !(1..=LABEL).contains(&text.len()) {
            return Err("a label of FAT has 1 to 11 characters");
        }
        if !text.bytes().all(allowed) {
            return Err(
                "a label of FAT has upper-case letters, digits, spaces and !#$%&'()-@^_`{}~",
            );
        }
        if text.starts_with(' ') || text.ends_with(' ') {
            return Err("a label of FAT neither begins nor ends with a space");
        }
        Ok(VolumeLabel(text.to_owned()))
    }
}

/// What a plan is made from.
pub(super) struct Sources<'a> {
    /// A directory, or an EFI program.
    pub(super) source: &'a Path,
    /// Files that are not copied: the image itself, and the old one that it replaces.
    pub(super) skip: &'a [FileId],
    /// The latest time of a file, seconds since 1970.
    pub(super) latest: Option<i64>,
}

impl Plan {
    /// Lists the files of a volume of `size` bytes, or of the smallest that holds them.
    ///
    /// # Errors
    /// A file cannot be read, or cannot be on a FAT volume; `size` is too small or too large.
    pub(super) fn new(
        from: &Sources<'_>,
        size: Option<u64>,
        sector: SectorSize,
    ) -> Result<Plan, DiskError> {
        let mut files = Vec::new();
        let source = from.source;
        let found = fs::metadata(source).map_err(|error| unread(source, error))?;
        if found.is_dir() {
            list(source, "", from.skip, &mut files)?;
        } else {
            program(source, &found, &mut files)?;
        }
        if let Some(latest) = from.latest.map(|secs| u64::try_from(secs).unwrap_or(0)) {
            let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(latest);
            files.iter_mut().for_each(|file| file.modified = file.modified.min(latest));
        }
        let mut plan = Plan { files, sector, len: 0, label: None };
        let most = MAX_SECTORS * sector.bytes();
        let size = size.map(|size| size - size % sector.bytes());
        let fits = |(per_cluster, most): &(u8, u64)| {
            let needs = plan.needs(*per_cluster);
            (size.unwrap_or(needs).max(needs) <= most * sector.bytes()).then_some(needs)
        };
        let needs = CLUSTERS.iter().find_map(fits);
        let Some(needs) = needs.filter(|_| size.is_none_or(|size| size <= most)) else {
            return Err(DiskError::FatTooLarge { size: size.unwrap_or(plan.needs(64)), most });
        };
        plan.len = size.unwrap_or(needs);
        if plan.len < needs {
            return Err(DiskError::FatTooSmall { size: plan.len, needs });
        }
        Ok(plan)
    }

    /// The same with a label.
    pub(super) fn label(self, label: Option<VolumeLabel>) -> Plan {
        Plan { label, ..self }
    }

    /// Size of the volume, bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Sectors of a cluster.
    fn per_cluster(&self) -> u8 {
        let sectors = self.len / self.sector.bytes();
        CLUSTERS.iter().find(|(_, most)| sectors <= *most).map_or(64, |(of_one, _)| *of_one)
    }

    /// Bytes of the smallest FAT32 volume with the files.
    fn needs(&self, per_cluster: u8) -> u64 {
        let sector = self.sector.bytes();
        let cluster = sector * u64::from(per_cluster);
        let mut clusters = 2;
        for file in &self.files {
            let units = file.to.rsplit('/').next().map_or(0, |name| name.encode_utf16().count());
            // Each record may begin a cluster, and a directory has two more.
            let records = 3 + (units as u64).div_ceil(UNITS);
            let bytes = file.len.unwrap_or(0).saturating_add(records * RECORD);
            clusters += bytes.div_ceil(cluster) + 1;
        }
        let clusters = clusters.max(MIN_CLUSTERS + 16);
        let fat = ((clusters + 2) * 4).next_multiple_of(sector);
        let all = RESERVED * sector + 2 * fat + clusters * cluster;
        all.next_multiple_of(1 << 20)
    }

    /// Makes the volume on `device`, all of whose bytes are zero. It is a partition that begins at
    /// byte `start` of the disk.
    ///
    /// # Errors
    /// The system's; a name that FAT does not allow; `observer` cancelled.
    pub(super) fn write(
        &self,
        device: &Arc<dyn BlockDevice>,
        start: u64,
        observer: &mut dyn Observer,
    ) -> Result<(), DiskError> {
        let sector = match self.sector {
            SectorSize::B512 => hadris_fat::format::SectorSize::S512,
            SectorSize::B4096 => hadris_fat::format::SectorSize::S4096,
        };
        let options = FatFormatOptions::new(self.len)
            .sector_size(sector)
            .sectors_per_cluster(self.per_cluster())
            .fat_type(FatTypeSelection::Fat32)
            .hidden_sectors(u32::try_from(start / self.sector.bytes()).unwrap_or(0))
            .volume_id(self.id());
        let whole = Path::new("the FAT volume");
        let options = match &self.label {
            Some(label) => options.volume_label(&label.0),
            None => options,
        };
        let formatted = DeviceStream::new(device);
        let errors = Errors(formatted.error());
        FatVolumeFormatter::format(formatted, options).map_err(|e| errors.of(whole, &e))?;
        if self.label.is_some() {
            date_label(device)?;
        }
        let stream = DeviceStream::new(device);
        let errors = Errors(stream.error());
        let volume = FatVolume::builder(stream).time_provider(&FIRST_TIME).open();
        let volume = volume.map_err(|error| errors.of(whole, &error))?;
        let target = Target { volume: &volume, errors: &errors };
        for file in &self.files {
            if observer.is_cancelled() {
                return Err(DiskError::Cancelled);
            }
            target.copy(file, observer)?;
        }
        target.set_times(&self.files)?;
        volume.sync().map_err(|error| errors.of(whole, &error))
    }

    /// The number of the volume, from what is on it.
    fn id(&self) -> u32 {
        let mut seed = Sha256::new();
        if let Some(label) = &self.label {
            seed.update(format!("{}\0", label.0));
        }
        for file in &self.files {
            seed.update(format!("{}\0{:?}\0", file.to, file.len));
        }
        seed.finalize().first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// Gives the record of the label, the first of the root directory, the time of 1980: the crate gave
/// it that of a clock.
fn date_label(device: &Arc<dyn BlockDevice>) -> Result<(), DiskError> {
    let mut boot = [0; 64];
    device.read_at(0, &mut boot).map_err(DiskError::Device)?;
    let short = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
    let fat = short(36) | short(38) << 16;
    let root = (short(14) + u64::from(boot[16]) * fat) * short(11);
    let mut record = [0; RECORD as usize];
    device.read_at(root, &mut record).map_err(DiskError::Device)?;
    if record[11] == ATTR_VOLUME_ID {
        record[13..20].fill(0);
        record[22..26].copy_from_slice(&[0, 0, FIRST_DATE[0], FIRST_DATE[1]]);
        device.write_at(root, &record).map_err(DiskError::Device)?;
    }
    Ok(())
}

fn of(found: &Metadata, len: Option<u64>) -> Planned {
    let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Planned { from: None, to: String::new(), len, modified }
}

fn unread(path: &Path, error: io::Error) -> DiskError {
    DiskError::Source { path: path.to_owned(), error }
}

fn refused(path: &Path, why: impl Into<String>) -> DiskError {
    DiskError::NotForFat { path: path.to_owned(), why: why.into() }
}

/// Plans the EFI program `path` as the one that firmware starts.
fn program(path: &Path, found: &Metadata, files: &mut Vec<Planned>) -> Result<(), DiskError> {
    let none = || refused(path, "neither a directory nor an EFI program for a known processor");
    if !found.is_file() {
        return Err(none());
    }
    check_length(path, found)?;
    let name = program_name(path).map_err(|error| unread(path, error))?.ok_or_else(none)?;
    let dir = |to: &str| Planned { to: to.to_owned(), ..of(found, None) };
    files.extend([dir("EFI"), dir("EFI/BOOT")]);
    let (from, to) = (Some(path.to_owned()), format!("EFI/BOOT/{name}"));
    files.push(Planned { from, to, ..of(found, Some(found.len())) });
    Ok(())
}

fn check_length(path: &Path, found: &Metadata) -> Result<(), DiskError> {
    match found.len() > MAX_FILE {
        true => Err(refused(path, "FAT has no file of 4 GiB or more")),
        false => Ok(()),
    }
}

/// Lists the directory `from`, which is `to` on the volume.
fn list(from: &Path, to: &str, skip: &[FileId], files: &mut Vec<Planned>) -> Result<(), DiskError> {
    let entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| unread(from, error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut names = BTreeSet::new();
    for entry in entries {
        let path = entry.path();
        let found = entry.metadata().map_err(|error| unread(&path, error))?;
        if skip.contains(&FileId::from(&found)) {
            continue;
        }
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| refused(&path, "the name is not UTF-8"))?;
        if name.ends_with(['.', ' ']) {
            return Err(refused(&path, "FAT has no name that ends in a dot or a space"));
        }
        if !names.insert(name.chars().map(upper).collect::<String>()) {
            return Err(refused(&path, "another name differs only in case, which FAT ignores"));
        }
        let to = if to.is_empty() { name.to_owned() } else { format!("{to}/{name}") };
        if found.is_dir() {
            files.push(Planned { from: Some(path.clone()), to: to.clone(), ..of(&found, None) });
            list(&path, &to, skip, files)?;
        } else if !found.is_file() {
            return Err(refused(&path, "FAT has only files and directories"));
        } else {
            check_length(&path, &found)?;
            files.push(Planned { from: Some(path), to, ..of(&found, Some(found.len())) });
        }
    }
    Ok(())
}

/// The letter that FAT compares: the upper-case one, if that is one letter.
fn upper(letter: char) -> char {
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}

/// The first error of the device below a FAT volume. The crate between reports only that there was
/// one.
struct Errors(Arc<OnceLock<DeviceError>>);

impl Errors {
    fn of(&self, path: &Path, error: &hadris_fat::Error) -> DiskError {
        match self.0.get() {
            Some(cause) => DiskError::Device(cause.clone()),
            None => refused(path, error.to_string()),
        }
    }
}

/// The volume that is written.
struct Target<'a> {
    volume: &'a FatVolume<DeviceStream>,
    errors: &'a Errors,
}

impl<'a> Target<'a> {
    /// The directory with `file`, and the name of `file` in it.
    fn place<'f>(
        &self,
        file: &'f Planned,
    ) -> Result<(FatDir<'a, DeviceStream>, &'f str), hadris_fat::Error> {
        match file.to.rsplit_once('/') {
            Some((parent, name)) => Ok((self.volume.open_dir_path(parent)?, name)),
            None => Ok((self.volume.root_dir(), &file.to)),
        }
    }

    fn copy(&self, file: &Planned, observer: &mut dyn Observer) -> Result<(), DiskError> {
        let path = file.path();
        let failed = |error: hadris_fat::Error| match error {
            hadris_fat::Error::InvalidFilename | hadris_fat::Error::InvalidShortFilename => {
                refused(&path, "FAT does not allow the name")
            }
            other => self.errors.of(&path, &other),
        };
        let (dir, name) = self.place(file).map_err(failed)?;
        let Some(len) = file.len else {
            return self.volume.create_dir(&dir, name).map(|_| ()).map_err(failed);
        };
        let entry = self.volume.create_file(&dir, name).map_err(failed)?;
        let mut to = self.volume.write_file(&entry).map_err(failed)?;
        let mut source = File::open(&path).map_err(|error| unread(&path, error))?;
        let mut bytes = vec![0; 64 << 10];
        let mut copied = 0;
        loop {
            let have = source.read(&mut bytes).map_err(|error| unread(&path, error))?;
            copied += have as u64;
            let mut rest = bytes.get(..have).unwrap_or(&[]);
            if rest.is_empty() || copied > len {
                break;
            }
            if observer.is_cancelled() {
                return Err(DiskError::Cancelled);
            }
            while !rest.is_empty() {
                let written = to.write(rest).map_err(failed)?;
                rest = rest.get(written.max(1)..).unwrap_or(&[]);
            }
            observer.progress(have as u64);
        }
        if copied != len {
            return Err(refused(&path, "the file changed while it was copied"));
        }
        to.finish().map_err(failed)
    }

    /// Gives the files and directories their times. A search for each name would read its directory
    /// once more.
    fn set_times(&self, files: &[Planned]) -> Result<(), DiskError> {
        let mut left: HashMap<&str, &Planned> =
            files.iter().map(|file| (file.to.as_str(), file)).collect();
        let directories = files.iter().filter(|file| file.len.is_none());
        let whole = Path::new("the FAT volume");
        let root = self.set_times_in("", &mut left);
        root.map_err(|error| self.errors.of(whole, &error))?;
        for dir in directories {
            let inside = self.set_times_in(&dir.to, &mut left);
            inside.map_err(|error| self.errors.of(&dir.path(), &error))?;
        }
        match files.iter().find(|file| left.contains_key(file.to.as_str())) {
            Some(file) => Err(refused(&file.path(), "its directory on FAT does not list the name")),
            None => Ok(()),
        }
    }

    /// The same for what is in the directory `path`. Removes it from `left`.
    fn set_times_in(
        &self,
        path: &str,
        left: &mut HashMap<&str, &Planned>,
    ) -> Result<(), hadris_fat::Error> {
        let dir = match path {
            "" => self.volume.root_dir(),
            _ => self.volume.open_dir_path(path)?,
        };
        for entry in dir.entries() {
            let DirectoryEntry::Entry(entry) = entry?;
            let name = entry.name();
            let to = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
            if let Some(file) = left.remove(to.as_str()) {
                let at = fat_time(file.modified);
                self.volume.set_times(&entry, Some(at), Some(at.date), Some(at))?;
            }
        }
        Ok(())
    }
}

impl Planned {
    /// Its path on the host, or on the volume if the host has none.
    fn path(&self) -> PathBuf {
        self.from.clone().unwrap_or_else(|| PathBuf::from(&self.to))
    }
}

/// The time as FAT has it: from 1980 to 2107, here in UTC.
fn fat_time(at: SystemTime) -> FatDateTime {
    let at = jiff::Timestamp::try_from(at).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    let part = |value: i8| u8::try_from(value).unwrap_or(0);
    match u16::try_from(at.year()) {
        Ok(year) if (1980..=2107).contains(&year) => FatDateTime::new(
            year,
            part(at.month()),
            part(at.day()),
            part(at.hour()),
            part(at.minute()),
            part(at.second()),
        ),
        _ => FatDateTime::new(1980, 1, 1, 0, 0, 0),
    }
}

/// The name under which firmware starts the EFI program at `path`: it depends on the processor.
/// `None` if it is no such program.
fn program_name(path: &Path) -> io::Result<Option<&'static str>> {
    let mut head = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut head)?;
    let at = |at: usize| head.get(at..)?.first_chunk::<4>();
    let header = at(0x3c).map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    let machine = match (head.starts_with(b"MZ"), at(header)) {
        (true, Some(b"PE\0\0")) => at(header + 4),
        _ => None,
    };
    Ok(match machine {
        Some([0x4c, 0x01, ..]) => Some("BOOTIA32.EFI"),
        Some([0x64, 0x86, ..]) => Some("BOOTX64.EFI"),
        Some([0x64, 0xaa, ..]) => Some("BOOTAA64.EFI"),
        Some([0xc2 | 0xc4, 0x01, ..]) => Some("BOOTARM.EFI"),
        Some([0x64, 0x50, ..]) => Some("BOOTRISCV64.EFI"),
        _ => None,
    })
}
