//! qcow2 images, by the crate imago.
//!
//! This module follows the chain of backing files itself, so that each file is locked, a circle is
//! found, and a message names what is missing. Encrypted images, external data files, and backing
//! files in other formats are left to `qemu-nbd`.
//!
//! **Invariants.**
//! 1. Backing files are locked shared and opened for reading.
//! 2. `flush` writes imago's tables and then makes the file durable.
//! 3. Only an image whose tables are marked as used is written ([`refcounts`]).
//! 4. An image with a cluster that begins beyond the end of its file is refused ([`truncated`]).

mod create;
mod refcounts;
mod tables;
mod truncated;

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use ffs_device::error::{check_range, check_writable};
use ffs_device::lock::LockMode;
use ffs_device::{
    BlockDevice, DeviceError, Durability, FailedFlush, FileDevice, LockWait, Operation,
};
use imago::format::PreallocateMode;
use imago::qcow2::Qcow2;
use imago::raw::Raw;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder};

pub use create::{write_empty_qcow2, write_qcow2};

use crate::bytes::{be32, be64};
use crate::image::{DiskImage, Refused};
use crate::magic::{self, Format};

type Storage = imago::file::File;
type Access = FormatAccess<Storage>;

/// Longest chain of backing files.
const MAX_CHAIN: usize = 32;
/// Longest name of a backing file that the format allows.
const MAX_NAME: u32 = 1023;
/// Bits of version 3 that this driver does not read: external data file, compression type,
/// extended L2 entries.
const FOREIGN_FEATURES: u64 = !0b11;
/// The bit of a qcow2 image whose tables are damaged.
const CORRUPT: u64 = 0b10;

/// A qcow2 image.
pub(crate) struct Qcow2Device {
    name: Arc<str>,
    access: RwLock<Access>,
    read_only: bool,
    failed_flush: FailedFlush,
    /// The locked files of the chain.
    _files: Vec<Arc<FileDevice>>,
    /// The names of the backing files.
    backing: Vec<String>,
}

/// Other files that the header names.
struct Header {
    backing: Option<Vec<u8>>,
    backing_format: Option<Vec<u8>>,
}

/// Opens the image in `file`, whose name is `path`.
pub(crate) fn open(
    file: &Arc<FileDevice>,
    path: &Path,
    write: bool,
) -> Result<Arc<dyn DiskImage>, Refused> {
    let mut files = vec![Arc::clone(file)];
    let mut backing = Vec::new();
    let access = layer(file, path, write, &mut files, &mut backing)?;
    Ok(Arc::new(Qcow2Device {
        name: Arc::from(path.to_string_lossy()),
        access: RwLock::new(access),
        read_only: !write,
        failed_flush: FailedFlush::default(),
        _files: files,
        backing,
    }))
}

/// Opens one image of the chain with those behind it. `files` has all images above.
fn layer(
    file: &Arc<FileDevice>,
    path: &Path,
    write: bool,
    files: &mut Vec<Arc<FileDevice>>,
    names: &mut Vec<String>,
) -> Result<Access, Refused> {
    let header = header(&**file, write)?;
    let backing = match &header.backing {
        Some(name) => {
            let format = header.backing_format.as_deref();
            Some(Arc::new(backing(name, format, path, files, names)?))
        }
        None => None,
    };
    let image = storage(file)?;
    let opened = Qcow2::<Storage, Arc<Access>>::builder(image)
        .backing(backing)
        .write(write)
        .open(DenyImplicitOpenGate::default());
    opened.map(FormatAccess::new).map_err(|error| refusal(path, &error))
}

/// What to do with an encrypted image.
const ENCRYPTED: &str = "it is encrypted: start `qemu-nbd -k SOCKET --object \
                         secret,id=key,file=KEYFILE --image-opts \
                         driver=qcow2,encrypt.key-secret=key,file.filename=IMAGE`, and use \
                         nbd+unix:///?socket=SOCKET";

/// imago reports what it lacks as `Unsupported`; other errors are damage or the system's.
fn refusal(path: &Path, error: &io::Error) -> Refused {
    let why = format!("{}: {}", path.display(), ffs_device::host_words(error));
    match error.kind() {
        io::ErrorKind::Unsupported => Refused::Unsupported(why),
        _ => Refused::Damaged(why),
    }
}

/// Opens the backing file `name` of the image `of`.
fn backing(
    name: &[u8],
    format: Option<&[u8]>,
    of: &Path,
    files: &mut Vec<Arc<FileDevice>>,
    names: &mut Vec<String>,
) -> Result<Access, Refused> {
    let shown = String::from_utf8_lossy(name).into_owned();
    if name.starts_with(b"json:") || name.windows(3).any(|three| three == b"://") {
        return Err(Refused::Unsupported(format!("the backing file {shown} is not a file")));
    }
    let path = resolve(of, name.strip_prefix(b"file:").unwrap_or(name));
    if files.len() >= MAX_CHAIN {
        return Err(Refused::Damaged(format!("more than {MAX_CHAIN} backing files")));
    }
    let mut file = FileDevice::open(&path, false).map_err(|error| {
        Refused::Damaged(format!(
            "its backing file {} cannot be opened: {}; put it there, or name another with \
             `qemu-img rebase -u -b FILE`",
            path.display(),
            ffs_device::host_words(&error.source)
        ))
    })?;
    let place = |file: &FileDevice| file.file().metadata().map(|m| (m.dev(), m.ino())).ok();
    if files.iter().any(|other| place(other) == place(&file)) {
        let path = path.display();
        return Err(Refused::Damaged(format!("the backing files form a circle at {path}")));
    }
    file.lock(&path, LockMode::Shared, LockWait::No, true)
        .map_err(|error| Refused::Damaged(format!("its backing file is in use: {error}")))?;
    let file = Arc::new(file);
    files.push(Arc::clone(&file));
    names.push(path.display().to_string());
    let raw = match format {
        Some(b"raw") => true,
        Some(b"qcow2") => false,
        Some(_) => {
            return Err(Refused::Unsupported(format!("the backing file {shown} is not qcow2")));
        }
        None => match magic::recognise(&*file)? {
            Format::Raw => true,
            Format::Qcow2 => false,
            _ => {
                return Err(Refused::Unsupported(format!("the backing file {shown} is not qcow2")));
            }
        },
    };
    if !raw {
        return layer(&file, &path, false, files, names);
    }
    let opened = Raw::builder(storage(&file)?).open(DenyImplicitOpenGate::default());
    opened.map(FormatAccess::new).map_err(|error| refusal(&path, &error))
}

/// The path of a backing file, which is relative to the image that names it.
fn resolve(of: &Path, name: &[u8]) -> PathBuf {
    let name = Path::new(std::ffi::OsStr::from_bytes(name));
    of.parent().map_or_else(|| name.to_owned(), |folder| folder.join(name))
}

/// A second descriptor of the open file, which shares its lock.
fn storage(file: &FileDevice) -> Result<Storage, Refused> {
    let copy: io::Result<File> = file.file().try_clone();
    copy.and_then(Storage::try_from)
        .map_err(|error| Refused::Damaged(ffs_device::host_words(error)))
}

/// Reads the parts of the header that name other files or need another driver. With `write` checks
/// also that the image can be written.
fn header(file: &dyn BlockDevice, write: bool) -> Result<Header, Refused> {
    let damaged = |why: &str| Refused::Damaged(why.to_owned());
    let mut head = [0; 104];
    let have = head.len().min(usize::try_from(file.len_bytes()).unwrap_or(usize::MAX));
    if have < 72 {
        return Err(damaged("the header is truncated"));
    }
    file.read_at(0, &mut head[..have])?;
    let version = be32(&head, 4);
    if !(2..=3).contains(&version) {
        return Err(Refused::Unsupported(format!("version {version}")));
    }
    if be32(&head, 32) != 0 {
        return Err(Refused::Unsupported(ENCRYPTED.to_owned()));
    }
    let features = if version >= 3 { be64(&head, 72) } else { 0 };
    if features & CORRUPT != 0 {
        return Err(damaged("it is marked as damaged; repair it with `qemu-img check -r all`"));
    }
    if features & FOREIGN_FEATURES != 0 {
        return Err(Refused::Unsupported(format!("features {features:#x}")));
    }
    if write {
        refcounts::check(file, &head)?;
    }
    truncated::check(file, &head)?;
    let (at, len) = (be64(&head, 8), be32(&head, 16));
    if at == 0 || len == 0 {
        return Ok(Header { backing: None, backing_format: None });
    }
    if len > MAX_NAME {
        return Err(damaged("the name of the backing file is too long"));
    }
    let mut name = vec![0; len as usize];
    file.read_at(at, &mut name)
        .map_err(|_| damaged("the name of the backing file is beyond the end"))?;
    let extensions = if version >= 3 { be32(&head, 100).max(104) } else { 72 };
    let backing_format = backing_format(file, extensions.into())?;
    Ok(Header { backing: Some(name), backing_format })
}

/// The format of the backing file, from the extensions of the header, which begin at `at`.
fn backing_format(file: &dyn BlockDevice, mut at: u64) -> Result<Option<Vec<u8>>, Refused> {
    const BACKING_FORMAT: u32 = 0xe279_2aca;
    const MAX_EXTENSIONS: usize = 64;
    for _ in 0..MAX_EXTENSIONS {
        let mut head = [0; 8];
        if at.saturating_add(8) > file.len_bytes() {
            break;
        }
        file.read_at(at, &mut head)?;
        let (kind, len) = (be32(&head, 0), be32(&head, 4));
        if kind == 0 || len > 64 << 10 || at + 8 + u64::from(len) > file.len_bytes() {
            break;
        }
        if kind == BACKING_FORMAT {
            let mut name = vec![0; len.min(64) as usize];
            file.read_at(at + 8, &mut name)?;
            return Ok(Some(name));
        }
        at += 8 + u64::from(len).next_multiple_of(8);
    }
    Ok(None)
}

impl Qcow2Device {
    fn access(&self) -> RwLockReadGuard<'_, Access> {
        self.access.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, operation: Operation, at: u64, len: u64, source: io::Error) -> DeviceError {
        DeviceError::at(&self.name, operation, at, len, source)
    }
}

impl BlockDevice for Qcow2Device {
    fn len_bytes(&self) -> u64 {
        self.access().size()
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn durability(&self) -> Durability {
        Durability::OnFlush
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        let access = self.access();
        check_range(&self.name, access.size(), Operation::Read, offset, length)?;
        access
            .read(buf, offset)
            .map_err(|source| self.failed(Operation::Read, offset, length, source))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        let access = self.access();
        check_writable(&self.name, self.read_only, Operation::Write, offset, length)?;
        check_range(&self.name, access.size(), Operation::Write, offset, length)?;
        access
            .write(buf, offset)
            .map_err(|source| self.failed(Operation::Write, offset, length, source))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if self.read_only {
            return Ok(());
        }
        self.failed_flush.guard(&self.name, || {
            let access = self.access();
            // Content is durable before a table refers to it.
            let flushed = access.sync().and_then(|()| access.flush()).and_then(|()| access.sync());
            flushed.map_err(|source| self.failed(Operation::Flush, 0, 0, source))
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_writable(&self.name, self.read_only, Operation::Discard, offset, len)?;
        let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        check_range(&self.name, access.size(), Operation::Discard, offset, len)?;
        match access.discard_to_any(offset, len) {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                Err(self.failed(Operation::Discard, offset, len, error))
            }
            _ => Ok(()),
        }
    }
}

impl DiskImage for Qcow2Device {
    fn format(&self) -> Format {
        Format::Qcow2
    }

    fn remarks(&self) -> Vec<String> {
        self.backing.iter().map(|name| format!("backing file: {name}")).collect()
    }

    fn can_resize(&self) -> bool {
        !self.read_only
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        check_writable(&self.name, self.read_only, Operation::Resize, 0, 0)?;
        let mut access = self.access.write().unwrap_or_else(PoisonError::into_inner);
        access
            .resize(len, PreallocateMode::Zero)
            .map_err(|source| self.failed(Operation::Resize, 0, 0, source))
    }
}
