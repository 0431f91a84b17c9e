//! The syncer: makes changes durable, and does the deferred work that then is safe.
//!
//! | module | contents |
//! | --- | --- |
//! | `flush` | passes that write everything, or what is due; waiting for space |
//! | `fsync` | making one file durable |
//! | `worklist` | deferred work: dropping links, freeing blocks and inodes |
//!
//! # Locking
//! The lock of the worklist comes before the inode locks. No method is called with an inode or a
//! buffer locked.

mod flush;
mod fsync;
mod worklist;

use crate::inode::InodeTable;
use crate::sync::Mutex;
use crate::ufsmount::UfsMount;
use fsync::Fsyncs;
use std::sync::Arc;
use worklist::Worklist;

/// Makes the changes of a mount durable.
pub(crate) struct Syncer {
    ump: Arc<UfsMount>,
    table: Arc<InodeTable>,
    /// Held while deferred work is done.
    worklist: Mutex<Worklist>,
    /// Held while an operation waits because too many dependencies are outstanding.
    relief: Mutex<()>,
    /// The fsyncs in progress.
    fsyncs: Fsyncs,
}

impl Syncer {
    /// The syncer of the volume whose inodes `table` holds.
    pub(crate) fn new(table: Arc<InodeTable>) -> Syncer {
        Syncer {
            ump: Arc::clone(&table.ump),
            table,
            worklist: Mutex::default(),
            relief: Mutex::default(),
            fsyncs: Fsyncs::default(),
        }
    }
}
