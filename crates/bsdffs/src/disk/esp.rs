//! The FAT32 volume of an EFI system partition.
//!
//! A [`Plan`] lists the files, sorted by name, and has the size before anything is written.
//! FAT has neither owners nor links: symbolic links and special files are refused. Names that
//! differ only in case are one name on FAT, and are refused, too.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ffs_device::BlockDevice;
use hadris_fat::format::{FatFormatOptions, FatTypeSelection, FatVolumeFormatter};
use hadris_fat::time::{EpochTimeProvider, FatDateTime};
use hadris_fat::{FatDir, FatVolume, FatVolumeWriteExt};
use sha2::{Digest, Sha256};

use super::stream::DeviceStream;
use super::{DiskError, SectorSize};

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
}

impl Plan {
    /// Lists what `source` has. No file gets a later time than `latest`, seconds since 1970.
    ///
    /// # Errors
    /// A file cannot be read, or cannot be on a FAT volume; `size` is too small.
    pub(super) fn new(
        source: &Path,
        size: Option<u64>,
        sector: SectorSize,
        latest: Option<i64>,
    ) -> Result<Plan, DiskError> {
        let fail = |error| DiskError::Source { path: source.to_owned(), error };
        let found = fs::metadata(source).map_err(fail)?;
        let mut files = Vec::new();
        if found.is_dir() {
            list(source, "", &mut files)?;
        } else {
            let name = program_name(source).map_err(fail)?.ok_or_else(|| DiskError::NotForFat {
                path: source.to_owned(),
                why: "neither a directory nor an EFI program for a known processor",
            })?;
            let dir = |to: &str| Planned { from: None, to: to.to_owned(), ..of(&found, None) };
            files.extend([dir("EFI"), dir("EFI/BOOT")]);
            let to = format!("EFI/BOOT/{name}");
            files.push(Planned {
                from: Some(source.to_owned()),
                to,
                ..of(&found, Some(found.len()))
            });
        }
        if let Some(latest) = latest.map(|secs| u64::try_from(secs).unwrap_or(0)) {
            let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(latest);
            files.iter_mut().for_each(|file| file.modified = file.modified.min(latest));
        }
        let mut plan = Plan { files, sector, len: 0 };
        let needs = plan.needs();
        plan.len = size.map_or(needs, |size| size - size % sector.bytes());
        if plan.len < needs || plan.len / sector.bytes() > MAX_SECTORS {
            return Err(DiskError::FatTooSmall { size: plan.len, needs });
        }
        Ok(plan)
    }

    /// Size of the volume, bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the smallest FAT32 volume with the files. A cluster is a sector.
    fn needs(&self) -> u64 {
        let cluster = self.sector.bytes();
        let mut clusters = 2;
        for file in &self.files {
            let units = file.to.rsplit('/').next().map_or(0, |name| name.encode_utf16().count());
            // Each record may begin a cluster, and a directory has two more.
            let records = 3 + (units as u64).div_ceil(UNITS);
            let bytes = file.len.unwrap_or(0).saturating_add(records * RECORD);
            clusters += bytes.div_ceil(cluster) + 1;
        }
        let clusters = clusters.max(MIN_CLUSTERS + 16);
        let fat = ((clusters + 2) * 4).next_multiple_of(cluster);
        let all = RESERVED * cluster + 2 * fat + clusters * cluster;
        all.next_multiple_of(1 << 20)
    }

    /// Makes the volume on `device`, all of whose bytes are zero. It is a partition that begins at
    /// byte `start` of the disk.
    ///
    /// # Errors
    /// The system's; a name that FAT does not allow.
    pub(super) fn write(&self, device: &Arc<dyn BlockDevice>, start: u64) -> Result<(), DiskError> {
        let sector = match self.sector {
            SectorSize::B512 => hadris_fat::format::SectorSize::S512,
            SectorSize::B4096 => hadris_fat::format::SectorSize::S4096,
        };
        // No label: the crate would give its record the time of a clock.
        let options = FatFormatOptions::new(self.len)
            .sector_size(sector)
            .sectors_per_cluster(1)
            .fat_type(FatTypeSelection::Fat32)
            .hidden_sectors(u32::try_from(start / self.sector.bytes()).unwrap_or(0))
            .volume_id(self.id());
        let stream = || DeviceStream::new(device);
        FatVolumeFormatter::format(stream(), options).map_err(fat_failed)?;
        let volume =
            FatVolume::builder(stream()).time_provider(&FIRST_TIME).open().map_err(fat_failed)?;
        self.files.iter().try_for_each(|file| copy(&volume, file))?;
        self.files.iter().try_for_each(|file| set_times(&volume, file))?;
        volume.sync().map_err(fat_failed)
    }

    /// The number of the volume, from what is on it.
    fn id(&self) -> u32 {
        let mut seed = Sha256::new();
        for file in &self.files {
            seed.update(format!("{}\0{:?}\0", file.to, file.len));
        }
        seed.finalize().first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

fn of(found: &Metadata, len: Option<u64>) -> Planned {
    let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Planned { from: None, to: String::new(), len, modified }
}

/// Lists the directory `from`, which is `to` on the volume.
fn list(from: &Path, to: &str, files: &mut Vec<Planned>) -> Result<(), DiskError> {
    let fail = |path: &Path, error| DiskError::Source { path: path.to_owned(), error };
    let refuse = |path: &Path, why| DiskError::NotForFat { path: path.to_owned(), why };
    let entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| fail(from, error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut names = BTreeSet::new();
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| refuse(&path, "the name is not UTF-8"))?;
        if !names.insert(name.to_uppercase()) {
            return Err(refuse(&path, "another name differs only in case, which FAT ignores"));
        }
        let found = entry.metadata().map_err(|error| fail(&path, error))?;
        let to = if to.is_empty() { name.to_owned() } else { format!("{to}/{name}") };
        if found.is_dir() {
            files.push(Planned { from: Some(path.clone()), to: to.clone(), ..of(&found, None) });
            list(&path, &to, files)?;
        } else if !found.is_file() {
            return Err(refuse(&path, "FAT has only files and directories"));
        } else if found.len() > MAX_FILE {
            return Err(refuse(&path, "FAT has no file of 4 GiB or more"));
        } else {
            files.push(Planned { from: Some(path), to, ..of(&found, Some(found.len())) });
        }
    }
    Ok(())
}

type Volume = FatVolume<DeviceStream>;

/// The directory with `file`, and the name of `file` in it.
fn place<'a>(
    volume: &'a Volume,
    file: &'a Planned,
) -> Result<(FatDir<'a, DeviceStream>, &'a str), DiskError> {
    match file.to.rsplit_once('/') {
        Some((parent, name)) => Ok((volume.open_dir_path(parent).map_err(fat_failed)?, name)),
        None => Ok((volume.root_dir(), &file.to)),
    }
}

fn copy(volume: &Volume, file: &Planned) -> Result<(), DiskError> {
    let (dir, name) = place(volume, file)?;
    let from = || file.from.clone().unwrap_or_else(|| PathBuf::from(&file.to));
    let refused = |error: hadris_fat::Error| match error {
        hadris_fat::Error::InvalidFilename | hadris_fat::Error::InvalidShortFilename => {
            DiskError::NotForFat { path: from(), why: "FAT does not allow the name" }
        }
        other => fat_failed(other),
    };
    let Some(len) = file.len else {
        return volume.create_dir(&dir, name).map(|_| ()).map_err(refused);
    };
    let entry = volume.create_file(&dir, name).map_err(refused)?;
    let mut to = volume.write_file(&entry).map_err(fat_failed)?;
    let read = |error| DiskError::Source { path: from(), error };
    let mut source = File::open(from()).map_err(read)?.take(len);
    let mut bytes = vec![0; 64 << 10];
    loop {
        let have = source.read(&mut bytes).map_err(read)?;
        let mut rest = bytes.get(..have).unwrap_or(&[]);
        if rest.is_empty() {
            break;
        }
        while !rest.is_empty() {
            let written = to.write(rest).map_err(fat_failed)?;
            rest = rest.get(written.max(1)..).unwrap_or(&[]);
        }
    }
    to.finish().map_err(fat_failed)
}

/// Gives the file or directory its times.
fn set_times(volume: &Volume, file: &Planned) -> Result<(), DiskError> {
    let (dir, name) = place(volume, file)?;
    let Some(entry) = dir.find(name).map_err(fat_failed)? else { return Ok(()) };
    let at = fat_time(file.modified);
    volume.set_times(&entry, Some(at), Some(at.date), Some(at)).map_err(fat_failed)
}

fn fat_failed(error: hadris_fat::Error) -> DiskError {
    DiskError::Write(io::Error::other(error.to_string()))
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
