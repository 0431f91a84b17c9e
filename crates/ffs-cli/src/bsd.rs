//! What the commands have that are BSD's: numbers, the content of a device, backup superblocks.

use std::io::{self, Write};

use ffs_device::BlockDevice;

pub(crate) use crate::parse::number::{
    Amount, SECTOR, amount, mode, number, number32, owner, sector_size, sectors, switch,
};

/// The file system or other content on the device, which newfs would destroy.
pub(crate) fn content(device: &dyn BlockDevice) -> Option<&'static str> {
    if crate::session::holds_ufs(device) {
        return Some("a UFS file system");
    }
    ffs_ondisk::foreign::other_system(Some(device.len_bytes()), |at, len| {
        let mut bytes = vec![0; len];
        device.read_at(at, &mut bytes).ok().map(|()| bytes)
    })
}

/// Writes the places of backup superblocks, in sectors, as many to a line as fit.
pub(crate) fn write_backups(
    out: &mut dyn Write,
    sectors: impl Iterator<Item = u64>,
) -> io::Result<()> {
    write!(out, "super-block backups (for fsck_ffs -b #) at:")?;
    let mut width = 80;
    let mut sectors = sectors.peekable();
    while let Some(sector) = sectors.next() {
        let comma = if sectors.peek().is_none() { "" } else { "," };
        let text = format!(" {sector}{comma}");
        if width + text.len() > 79 {
            writeln!(out)?;
            width = 0;
        }
        width += text.len();
        write!(out, "{text}")?;
    }
    writeln!(out)
}
