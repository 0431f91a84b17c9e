//! A size that is enough, for the message about one that is not.

use ffs_admin::newfs::NewfsOptions;

use super::{MOST_BYTES, MOST_DRY_RUNS, Survey, capacity, dry_run};

impl Survey {
    /// A size in whole MiB at which a file system with these options, and with their density of
    /// inodes, holds the tree. `None` if there is none.
    pub(super) fn enough(&self, options: &NewfsOptions) -> Option<u64> {
        const MIB: u64 = 1 << 20;
        let mut size = self.fit(options, 0).ok()?.size?.next_multiple_of(MIB);
        for _ in 0..MOST_DRY_RUNS {
            let report = dry_run(options, size).ok()?;
            let (free, inodes) = capacity(options, &report);
            // As `fit`, which may have chosen another density.
            if inodes >= self.inodes + self.inodes / 50 + 32 && free >= self.total() {
                return Some(size);
            }
            size = (size + size / 8).next_multiple_of(MIB);
            if size > MOST_BYTES {
                break;
            }
        }
        None
    }
}
