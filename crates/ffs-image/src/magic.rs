//! The formats of disk images, recognised by content; new images by their names.

use std::path::Path;

use ffs_device::{BlockDevice, DeviceError};

use crate::bytes::{be32, be64};

/// The format of a disk image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The bytes of the disk, one after the other.
    Raw,
    /// The export of an NBD server.
    Nbd,
    /// QEMU's older format, version 1 of its files.
    Qcow,
    /// QEMU's format.
    Qcow2,
    /// VMware's format.
    Vmdk,
    /// The text file that describes a VMware disk.
    VmdkDescription,
    /// Microsoft's older format.
    Vhd,
    /// Microsoft's newer format.
    Vhdx,
    /// VirtualBox's format.
    Vdi,
    /// Compressed with gzip.
    Gzip,
    /// Compressed with xz.
    Xz,
    /// Compressed with zstd.
    Zstd,
    /// Compressed with bzip2.
    Bzip2,
}

impl Format {
    /// Its name, as users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Raw => "raw",
            Format::Nbd => "NBD",
            Format::Qcow => "qcow (v1)",
            Format::Qcow2 => "qcow2",
            Format::Vmdk | Format::VmdkDescription => "VMDK",
            Format::Vhd => "VHD",
            Format::Vhdx => "VHDX",
            Format::Vdi => "VDI",
            Format::Gzip => "gzip",
            Format::Xz => "xz",
            Format::Zstd => "zstd",
            Format::Bzip2 => "bzip2",
        }
    }

    /// The format that files with the end of this name have, such as `.vmdk`; `None` for other
    /// names, which are usual for raw images.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Format> {
        let end = path.extension()?.to_ascii_lowercase();
        Some(match end.to_str()? {
            "qcow" => Format::Qcow,
            "qcow2" => Format::Qcow2,
            "vmdk" => Format::Vmdk,
            "vhd" => Format::Vhd,
            "vhdx" => Format::Vhdx,
            "vdi" => Format::Vdi,
            "gz" => Format::Gzip,
            "xz" => Format::Xz,
            "zst" => Format::Zstd,
            "bz2" => Format::Bzip2,
            _ => return None,
        })
    }

    /// QEMU's name of it; `None` if QEMU does not read it.
    #[must_use]
    pub fn qemu_name(self) -> Option<&'static str> {
        match self {
            Format::Qcow => Some("qcow"),
            Format::Qcow2 => Some("qcow2"),
            Format::Vmdk | Format::VmdkDescription => Some("vmdk"),
            Format::Vhd => Some("vpc"),
            Format::Vhdx => Some("vhdx"),
            Format::Vdi => Some("vdi"),
            _ => None,
        }
    }

    /// The program that decompresses it; `None` for other formats.
    #[must_use]
    pub fn decompressor(self) -> Option<&'static str> {
        match self {
            Format::Gzip => Some("gzip -dc"),
            Format::Xz => Some("xz -dc"),
            Format::Zstd => Some("zstd -dc"),
            Format::Bzip2 => Some("bzip2 -dc"),
            _ => None,
        }
    }
}

/// First bytes of each format.
const MAGICS: [(&[u8], Format); 9] = [
    (b"QFI\xfb", Format::Qcow2),
    (b"KDMV", Format::Vmdk),
    (b"# Disk DescriptorFile", Format::VmdkDescription),
    (b"conectix", Format::Vhd),
    (b"vhdxfile", Format::Vhdx),
    (b"\x28\xb5\x2f\xfd", Format::Zstd),
    (b"\xfd7zXZ\0", Format::Xz),
    (b"\x1f\x8b\x08", Format::Gzip),
    (b"BZh", Format::Bzip2),
];

/// Where the signature of a VDI image is, and the signature.
const VDI_MAGIC: (usize, [u8; 4]) = (64, 0xbeda_107f_u32.to_le_bytes());
/// Length of the footer of a VHD image, and the type of a fixed one.
const VHD_FOOTER: u64 = 512;
const VHD_FIXED: u32 = 2;

/// The format with a signature at the beginning of the file.
pub(crate) fn recognise_start(start: &[u8]) -> Option<Format> {
    let (_, format) = MAGICS.iter().find(|(magic, _)| start.starts_with(magic))?;
    // Both have the same signature.
    Some(if *format == Format::Qcow2 && be32(start, 4) == 1 { Format::Qcow } else { *format })
}

/// Whether `file` begins with the signature of `format`.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn starts_as(file: &dyn BlockDevice, format: Format) -> Result<bool, DeviceError> {
    let mut start = [0; 8];
    let have = start.len().min(usize::try_from(file.len_bytes()).unwrap_or(usize::MAX));
    file.read_at(0, &mut start[..have])?;
    Ok(recognise_start(&start) == Some(format))
}

/// The format of the image in `file`. What has no known signature is raw.
///
/// # Errors
/// The file cannot be read.
pub fn recognise(file: &dyn BlockDevice) -> Result<Format, DeviceError> {
    let mut start = [0; 68];
    let have = start.len().min(usize::try_from(file.len_bytes()).unwrap_or(usize::MAX));
    file.read_at(0, &mut start[..have])?;
    if let Some(format) = recognise_start(&start) {
        return Ok(format);
    }
    if start[VDI_MAGIC.0..] == VDI_MAGIC.1 && start.starts_with(b"<<<") {
        return Ok(Format::Vdi);
    }
    if is_fixed_vhd(file)? { Ok(Format::Vhd) } else { Ok(Format::Raw) }
}

/// Whether the file is a disk with the footer of a VHD behind it.
fn is_fixed_vhd(file: &dyn BlockDevice) -> Result<bool, DeviceError> {
    let Some(at) = file.len_bytes().checked_sub(VHD_FOOTER) else { return Ok(false) };
    let mut footer = [0; 64];
    file.read_at(at, &mut footer)?;
    // A disk may end with a partition that holds a VHD: the type and the size decide.
    let (size, kind) = (be64(&footer, 48), be32(&footer, 60));
    Ok(footer.starts_with(b"conectix") && kind == VHD_FIXED && size == at)
}
