//! The target of the engine's log events ([`tracing`]).
//!
//! | level | events |
//! | --- | --- |
//! | debug | changes that are rolled back in a write, and writes that are held |
//! | trace | events of the file system, writes issued, completed and durable, items of work |

pub(super) const LOG: &str = "ffs::softdep";
