//! Mounting. Completing interrupted operations needs the other operations, so it is here and not in
//! [`crate::mount`].

use crate::error::Result;
use crate::mount::{Env, Ffs, Recovery, attach};
use crate::options::MountOptions;
use ffs_device::BlockDevice;
use std::sync::Arc;

impl Ffs {
    /// Mounts the volume on `dev`.
    ///
    /// The mount is read-write if `opts` asks for it and the volume allows it; see
    /// [`Ffs::is_read_only`].
    ///
    /// # Errors
    /// The device's; [`crate::Error::Format`] if there is no superblock to trust or the root is no
    /// directory, and for a damaged quota file if the options turn quotas on;
    /// [`crate::Error::NoQuotaFile`].
    pub fn mount(dev: Arc<dyn BlockDevice>, opts: &MountOptions, env: Env) -> Result<Ffs> {
        let ffs = recover(attach(None, dev, opts, env)?)?;
        if let Err(e) = ffs.quotaon(opts.quotas) {
            // Nothing was changed, so the volume is marked as it was before.
            drop(ffs.unmount());
            return Err(e);
        }
        Ok(ffs)
    }

    /// As [`Ffs::mount`], in an ordering mode that no option names.
    #[cfg(test)]
    pub(crate) fn mount_under<T: crate::ordering::Ordering + 'static>(
        mode: &Arc<T>,
        dev: Arc<dyn BlockDevice>,
        opts: &MountOptions,
        env: Env,
    ) -> Result<Ffs> {
        recover(attach(Some((mode.clone(), mode.clone())), dev, opts, env)?)
    }
}

/// Completes operations that a crash interrupted.
fn recover((ffs, recovery): (Ffs, Recovery)) -> Result<Ffs> {
    match recovery {
        Recovery::None => {}
        Recovery::Exchanges => drop(ffs.recover_exchanges()?),
    }
    Ok(ffs)
}
