//! Building and enlarging images of whole disks: a GUID partition table (GPT), an EFI system
//! partition, boot code, swap, and UFS volumes.
//!
//! [`DiskBuilder`] makes the partitions in their order, each after the one before. A volume that is
//! made to fit its tree thus needs no second pass. The table is written last. The same input gives
//! the same bytes: the GUIDs follow from the contents of the table.
//!
//! | module | content |
//! | --- | --- |
//! | `esp` | the FAT volume of an EFI system partition |
//! | `file` | the content of a partition from a file |
//! | `grow` | [`Growth`]: the table of a disk that became larger |
//! | `stream` | block devices as streams |
//! | `table` | the partition table and the boot code before it |
//! | `error` | [`DiskError`] |
//!
//! # Invariants
//! 1. Partitions do not overlap, are in the order in which they were added, and begin at a multiple
//!    of 1 MiB, except that of boot code, which may be before that.
//! 2. No image is left if an error occurs.

mod error;
mod esp;
mod file;
mod grow;
mod stream;
mod table;

use std::path::{Path, PathBuf};

use crate::build::{
    BuildError, BuildObserver, BuiltImage, ImageBuilder, ImageFormat, PartialImage, Tree,
};
use crate::copy::FileId;

pub use error::DiskError;
pub use esp::VolumeLabel;
pub use file::FileContent;
pub use grow::{Grown, Growth};
// Reading a table uses the same types.
pub use ffs_device::partition::{PartitionType, UnknownType};

/// Partitions begin at multiples of this, bytes.
const ALIGN: u64 = 1 << 20;
/// Largest boot code in a partition of its own that FreeBSD's first stage loads, bytes.
pub const MAX_BOOT: u64 = 545 << 10;
/// Largest boot code for the first sector, bytes.
pub const MAX_PMBR: usize = 512;
/// UTF-16 units of a name in the table.
const MAX_NAME: usize = 36;
/// Size of the largest disk, bytes: what a file can have, in whole units of [`ALIGN`].
const MAX_SIZE: u64 = (i64::MAX as u64 >> 20) << 20;
/// Entries of the table.
const MAX_PARTITIONS: usize = 128;

/// What a new partition has.
#[non_exhaustive]
pub enum NewContent {
    /// A second stage of boot code, such as FreeBSD's `gptboot`.
    Boot(Vec<u8>),
    /// An EFI system partition.
    Efi {
        /// A directory with its files, or an EFI program, which becomes the one that firmware
        /// starts.
        source: PathBuf,
        /// Its size, bytes; `None` for the smallest FAT32 volume that holds the files.
        size: Option<u64>,
        /// The label of the volume.
        label: Option<VolumeLabel>,
    },
    /// Space to swap, bytes.
    Swap(u64),
    /// A partition of any type, with the content of a file, or with zeros.
    Other {
        /// Its type.
        kind: PartitionType,
        /// Its size, bytes; `None` for that of the content.
        size: Option<u64>,
        /// The content; zeros follow it.
        content: Option<FileContent>,
    },
    /// A UFS volume. One without a size fits its tree; the last one, if it is the last partition of
    /// a disk with a size, fills the disk.
    Ufs {
        /// The options of the volume.
        builder: Box<ImageBuilder>,
        /// Its size, bytes.
        size: Option<u64>,
        /// The files.
        tree: Tree,
    },
}

/// A partition of a built disk.
#[derive(Clone, Debug)]
pub struct BuiltPartition {
    /// Its label in the table.
    pub label: String,
    /// Its type.
    pub kind: PartitionType,
    /// Its first byte on the disk.
    pub start: u64,
    /// Its length, bytes.
    pub len: u64,
    /// The volume in it, if that is UFS.
    pub volume: Option<BuiltImage>,
}

/// A built disk.
#[derive(Clone, Debug)]
pub struct BuiltDisk {
    /// Its size, bytes.
    pub size: u64,
    /// The partitions, of which the first is number 1.
    pub partitions: Vec<BuiltPartition>,
}

/// Options of a disk to build.
///
/// ```
/// use bsdffs::build::{BuildObserver, ImageBuilder, Tree};
/// use bsdffs::copy::{Observer, SkippedFile};
/// use bsdffs::disk::{DiskBuilder, NewContent};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let (tree, image) = (dir.path().join("tree"), dir.path().join("disk.img"));
/// # std::fs::create_dir(&tree)?;
/// # std::fs::write(tree.join("motd"), "Welcome\n")?;
/// struct Quiet;
/// impl Observer for Quiet {
///     fn skipped(&mut self, _: &SkippedFile) {}
/// }
/// impl BuildObserver for Quiet {}
///
/// let tree = Tree::Directory { path: tree, skip: Vec::new() };
/// let builder = Box::new(ImageBuilder::new());
/// let built = DiskBuilder::new()
///     .partition("swapfs", NewContent::Swap(8 << 20))
///     .partition("rootfs", NewContent::Ufs { builder, size: None, tree })
///     .build_file(&image, &mut Quiet)?;
/// assert_eq!(built.partitions[1].start, 9 << 20);
/// assert_eq!(bsdffs::Volume::open(&image)?.read_to_string("motd")?, "Welcome\n");
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct DiskBuilder {
    size: Option<u64>,
    sector: SectorSize,
    pmbr: Option<Vec<u8>>,
    skip: Vec<FileId>,
    partitions: Vec<NewPartition>,
    source_date_epoch: Option<i64>,
    format: ImageFormat,
}

struct NewPartition {
    label: String,
    content: NewContent,
}

/// The size of a disk's sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SectorSize {
    /// 512 bytes, also of disks with larger physical sectors.
    #[default]
    B512,
    /// 4096 bytes ("4Kn").
    B4096,
}

impl SectorSize {
    /// Bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            SectorSize::B512 => 512,
            SectorSize::B4096 => 4096,
        }
    }
}

impl DiskBuilder {
    /// A disk without partitions.
    #[must_use]
    pub fn new() -> DiskBuilder {
        DiskBuilder::default()
    }

    /// Size of the disk, bytes; `None` for the smallest that holds the partitions.
    #[must_use]
    pub fn size(mut self, size: Option<u64>) -> DiskBuilder {
        self.size = size;
        self
    }

    /// Size of its sectors.
    #[must_use]
    pub fn sector(mut self, sector: SectorSize) -> DiskBuilder {
        self.sector = sector;
        self
    }

    /// Boot code for the first sector, such as FreeBSD's `pmbr`, of at most [`MAX_PMBR`] bytes. The
    /// table of the MBR replaces what is behind byte 446.
    #[must_use]
    pub fn pmbr(mut self, code: Vec<u8>) -> DiskBuilder {
        self.pmbr = Some(code);
        self
    }

    /// Leaves a file out of every directory that is copied, such as the image that the new one
    /// replaces.
    #[must_use]
    pub fn skip(mut self, file: FileId) -> DiskBuilder {
        self.skip.push(file);
        self
    }

    /// Adds a partition behind those that were added before.
    #[must_use]
    pub fn partition(mut self, label: &str, content: NewContent) -> DiskBuilder {
        self.partitions.push(NewPartition { label: label.to_owned(), content });
        self
    }

    /// The latest time of files in EFI system partitions, seconds since 1970; `None` to keep
    /// theirs. [`ImageBuilder::source_date_epoch`] is that of a UFS volume.
    #[must_use]
    pub fn source_date_epoch(mut self, seconds: Option<i64>) -> DiskBuilder {
        self.source_date_epoch = seconds;
        self
    }

    /// The format of the file.
    #[must_use]
    pub fn format(mut self, format: ImageFormat) -> DiskBuilder {
        self.format = format;
        self
    }

    /// Builds the image in the file `path`, which is replaced when the new image is complete.
    ///
    /// # Errors
    /// [`DiskError`]. The old file stays, or no file is left.
    pub fn build_file(
        self,
        path: &Path,
        observer: &mut dyn BuildObserver,
    ) -> Result<BuiltDisk, DiskError> {
        self.check()?;
        let partial = PartialImage::create(path)?;
        let mut skip = self.skip;
        skip.extend(partial.id());
        let mut build = DiskBuild {
            name: path,
            partial: &partial,
            skip: &skip,
            observer: &mut *observer,
            end_of_space: self.size.unwrap_or(MAX_SIZE) - table::backup_bytes(self.sector),
            fills: self.size.is_some(),
            sector: self.sector,
            latest: self.source_date_epoch,
            end: table::first_usable(self.sector),
        };
        let mut partitions = Vec::new();
        let last = self.partitions.len().saturating_sub(1);
        for (n, new) in self.partitions.into_iter().enumerate() {
            let label = new.label.clone();
            if build.observer.is_cancelled() {
                return Err(DiskError::Cancelled);
            }
            let built = build.partition(new, n == last);
            partitions.push(built.map_err(|error| error.in_partition(&label))?);
        }
        let least = (build.end + table::backup_bytes(self.sector)).next_multiple_of(ALIGN);
        let size = self.size.unwrap_or(least);
        let pmbr = self.pmbr.as_deref().unwrap_or(&[]);
        table::write(&partial.whole(size)?, self.sector, pmbr, &partitions)?;
        partial.install(path, self.format, &|| observer.is_cancelled())?;
        Ok(BuiltDisk { size, partitions })
    }

    /// Whether the table can have the partitions.
    fn check(&self) -> Result<(), DiskError> {
        let least = table::first_usable(self.sector) + table::backup_bytes(self.sector);
        if let Some(size) = self.size {
            if size % self.sector.bytes() != 0 {
                return Err(DiskError::NotWholeSectors { size, sector: self.sector.bytes() });
            }
            if size > MAX_SIZE {
                return Err(DiskError::TooLarge { size });
            }
            if size < least {
                return Err(DiskError::TooSmall { size, needs: least });
            }
        }
        if self.partitions.len() > MAX_PARTITIONS {
            return Err(DiskError::TooManyPartitions);
        }
        match self.pmbr.as_ref().map(Vec::len) {
            Some(0) => return Err(DiskError::EmptyBootCode),
            Some(len) if len > MAX_PMBR => {
                return Err(DiskError::BootCodeTooLong { len, most: MAX_PMBR as u64 });
            }
            _ => {}
        }
        let mut labels: Vec<&str> = self.partitions.iter().map(|new| &*new.label).collect();
        if let Some(label) = labels.iter().find(|label| !is_label(label)) {
            return Err(DiskError::BadLabel((*label).to_owned()));
        }
        labels.sort_unstable();
        match labels.windows(2).find(|two| two.first() == two.last()) {
            Some(two) => Err(DiskError::SameLabel(two.first().copied().unwrap_or("").to_owned())),
            None => Ok(()),
        }
    }
}

/// Whether the table can have `label`.
fn is_label(label: &str) -> bool {
    let units = label.encode_utf16().count();
    (1..=MAX_NAME).contains(&units) && !label.chars().any(char::is_control)
}

/// A disk that is being built.
struct DiskBuild<'a> {
    name: &'a Path,
    partial: &'a PartialImage,
    /// Files that are not copied.
    skip: &'a [FileId],
    observer: &'a mut dyn BuildObserver,
    /// Where the backup of the table begins, or would begin on the largest disk, bytes.
    end_of_space: u64,
    /// Whether the last volume fills the disk.
    fills: bool,
    sector: SectorSize,
    /// The latest time of files, seconds since 1970.
    latest: Option<i64>,
    /// Where the last partition ends, bytes.
    end: u64,
}

impl DiskBuild<'_> {
    fn partition(&mut self, new: NewPartition, last: bool) -> Result<BuiltPartition, DiskError> {
        let NewPartition { label, content } = new;
        let start = match &content {
            NewContent::Boot(_) => self.end.next_multiple_of(4096),
            _ => self.end.next_multiple_of(ALIGN),
        };
        let mut volume = None;
        let (kind, len) = match content {
            NewContent::Boot(code) => (PartitionType::BOOT, self.boot(start, &code)?),
            NewContent::Efi { source, size, label } => {
                let (skip, latest) = (self.skip, self.latest);
                let from = esp::Sources { source: &source, skip, latest };
                let plan = esp::Plan::new(&from, size, self.sector)?.label(label);
                self.check_fits(start, plan.len())?;
                let device = self.partial.device(start..start + plan.len())?;
                plan.write(&device, start, self.observer)?;
                (PartitionType::EFI, plan.len())
            }
            NewContent::Swap(len) => {
                self.check_fits(start, len)?;
                (PartitionType::SWAP, self.whole_or_error(len)?)
            }
            NewContent::Other { kind, size, content } => (kind, self.other(start, size, content)?),
            NewContent::Ufs { builder, size, tree } => {
                let built = self.ufs(*builder, size, tree, start, last)?;
                let len = built.size;
                volume = Some(built);
                (PartitionType::UFS, len)
            }
        };
        self.end = start + len;
        Ok(BuiltPartition { label, kind, start, len, volume })
    }

    /// Writes boot code. Returns the length of its partition.
    fn boot(&self, start: u64, code: &[u8]) -> Result<u64, DiskError> {
        let len = (code.len() as u64).next_multiple_of(self.sector.bytes());
        if code.is_empty() {
            return Err(DiskError::EmptyBootCode);
        }
        if len > MAX_BOOT {
            return Err(DiskError::BootCodeTooLong { len: code.len(), most: MAX_BOOT });
        }
        self.check_fits(start, len)?;
        let device = self.partial.device(start..start + len)?;
        device.write_at(0, code).map_err(BuildError::Device)?;
        Ok(len)
    }

    /// Writes the content of a file. Returns the length of its partition.
    fn other(
        &mut self,
        start: u64,
        size: Option<u64>,
        content: Option<FileContent>,
    ) -> Result<u64, DiskError> {
        let needs = content.as_ref().map_or(0, FileContent::len);
        let len = match size {
            Some(size) => self.whole_or_error(size)?,
            None => needs.next_multiple_of(self.sector.bytes()).max(self.sector.bytes()),
        };
        if needs > len {
            return Err(DiskError::ContentTooLong { len: needs, most: len });
        }
        self.check_fits(start, len)?;
        if let Some(content) = content {
            let device = self.partial.device(start..start + len)?;
            content.write(&device, self.observer)?;
        }
        Ok(len)
    }

    /// The whole sectors of `len` bytes, which have one at least.
    fn whole_or_error(&self, len: u64) -> Result<u64, DiskError> {
        match self.whole(len) {
            0 => Err(DiskError::NotWholeSectors { size: len, sector: self.sector.bytes() }),
            len => Ok(len),
        }
    }

    fn ufs(
        &mut self,
        builder: ImageBuilder,
        size: Option<u64>,
        mut tree: Tree,
        start: u64,
        last: bool,
    ) -> Result<BuiltImage, DiskError> {
        let has = self.has(start);
        let size = match size {
            Some(size) => Some(self.whole(size)),
            None => (last && self.fills).then_some(self.whole(has)),
        };
        self.skip.iter().for_each(|id| tree.skip(*id));
        let partial = self.partial;
        let at = |size: u64| {
            if size > has {
                return Err(BuildError::DeviceTooSmall { has, needs: size });
            }
            partial.device(start..start + size)
        };
        let built = builder.size(size).build_at(tree, self.name, &at, self.observer)?;
        Ok(built)
    }

    /// Fails if a partition of `len` bytes at `start` is longer than the disk.
    fn check_fits(&self, start: u64, len: u64) -> Result<(), DiskError> {
        let has = self.has(start);
        if len > has {
            return Err(DiskError::TooLong { has, needs: len });
        }
        Ok(())
    }

    /// Bytes from `start` to the end of the disk.
    fn has(&self, start: u64) -> u64 {
        self.end_of_space.saturating_sub(start)
    }

    /// The whole sectors of `len` bytes.
    fn whole(&self, len: u64) -> u64 {
        len - len % self.sector.bytes()
    }
}
