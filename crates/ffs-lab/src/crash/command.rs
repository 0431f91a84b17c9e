//! Commands on an unmounted volume, whose interruption is examined.

use std::ops::ControlFlow;

use ffs_admin::AdminError;
use ffs_admin::growfs::{GrowfsOptions, growfs};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::{BlockDevice, DeviceError, Durability, SplitMix64};

use super::history::SECTOR;
use super::mounting::clock;

/// The time at which a command runs, seconds after the volumes were made.
pub(super) const TIME: i64 = 600;

/// A command whose interruption is examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `tunefs` with these options.
    Tunefs(Box<TunefsOptions>),
    /// `growfs` to this size, bytes.
    Growfs(u64),
}

impl Command {
    /// Runs the command on `dev`.
    pub(super) fn run(&self, dev: &dyn BlockDevice) -> std::result::Result<(), AdminError> {
        match self {
            Command::Tunefs(options) => tunefs(dev, options).map(drop),
            Command::Growfs(size) => {
                let options = GrowfsOptions { size: Some(*size), ..GrowfsOptions::default() };
                let rng = SplitMix64::new(*size);
                let go_on = &mut |_, _| ControlFlow::Continue(());
                growfs(dev, &options, &*clock(TIME), &rng, go_on).map(drop)
            }
        }
    }
}

/// A device whose writes are of whole sectors: what the operating system makes of smaller ones.
pub(super) struct WholeSectors<D>(pub(super) D);

impl<D: BlockDevice> BlockDevice for WholeSectors<D> {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.0.sector_size()
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), DeviceError> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> std::result::Result<(), DeviceError> {
        let before = (offset % SECTOR as u64) as usize;
        let len = (before + buf.len()).next_multiple_of(SECTOR);
        if len == buf.len() {
            return self.0.write_at(offset, buf);
        }
        let (first, mut whole) = (offset - before as u64, vec![0; len]);
        self.0.read_at(first, &mut whole)?;
        whole[before..before + buf.len()].copy_from_slice(buf);
        self.0.write_at(first, &whole)
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        self.0.flush()
    }
}
