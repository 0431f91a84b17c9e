//! The crash laboratory: a workload on a recording device, every state a power cut may leave, each examined.
//!
//! | module | holds |
//! | --- | --- |
//! | [`history`] | what a workload did, in program order: what the oracle judges a recovered tree by |
//! | [`image`] | bytes of an image that nobody copies |
//! | [`tag`] | contents that say whose they are |
//! | [`raw`] | the independent checker: the bytes of an image against the contract, and the tree they hold |
//! | [`oracle`] | whether a recovered tree keeps what the workload was promised |
//!
//! References: `spec/fsck-and-crash.md` part II, `spec/soft-updates.md` §1.

pub mod history;
pub mod image;
pub mod oracle;
pub mod raw;
pub mod tag;
