//! Copies of whole trees: into an image, out of an image, and between images.
//!
//! A [`Source`] sends the files of a tree: [`HostSource`], [`ImageSource`], or
//! [`TarSource`](crate::tar::TarSource). A [`Sink`] creates them: [`HostSink`] or [`ImageSink`].
//! [`transfer`] connects the two and reports to an [`Observer`].
//! [`Volume::copy_in`](crate::Volume::copy_in) and
//! [`Volume::copy_out`](crate::Volume::copy_out) do all of it in one call.
//!
//! # Invariants
//! 1. A source sends a directory before its entries, and the first name of a file before its hard
//!    links.
//! 2. The order of files depends on the tree alone. The entries of a directory come in byte order,
//!    depth first.
//! 3. A file that cannot be copied completely is reported. A new file is removed then; of an
//!    overwritten file the message gives the bytes that it contains.
//! 4. Attributes that the target cannot represent are counted ([`Loss`]) and reported.
//! 5. Memory is bounded by the number of directories and of files with several names, not by data.
//!
//! | module | content |
//! | --- | --- |
//! | `entry` | [`Entry`]: a file with its attributes |
//! | `acl` | [`Acls`]: the access control lists of a file |
//! | `options` | [`CopyOptions`] |
//! | `select` | [`Select`]: which files are copied; [`Targets`]: the files that exist |
//! | `resume` | the comparison of an unfinished file with its source |
//! | `sparse` | [`SparseSink`]: makes holes, or fills them |
//! | `content` | the content of an open file of either tree |
//! | `digest` | [`DigestSink`]: hashes of content, to verify a copy |
//! | `report` | [`CopyReport`], [`Loss`] |
//! | `error` | [`CopyError`], [`SkippedFile`] |
//! | `sink` | the traits [`Source`], [`Sink`] and [`Observer`] |
//! | `emitter` | the channel between the two threads of a copy |
//! | `transfer` | [`transfer()`] |
//! | `volume` | `Volume::copy_in`, `Volume::copy_out` |
//! | `host` | the tree of the host: source, sink, extended attributes |
//! | `image` | the tree of an image: source and sink |

mod acl;
mod content;
mod digest;
mod emitter;
mod entry;
mod error;
mod host;
mod image;
mod options;
mod path;
mod report;
mod resume;
mod select;
mod sink;
mod sparse;
mod transfer;
mod volume;

pub use acl::{Acls, Nfs4Acl, PosixAcl};
pub use digest::{Digest, DigestSink, Digests, Mismatch, TargetTree};
pub use emitter::{CopyEnded, Emitter, READ_SIZE};
pub use entry::{Entry, EntryKind, EntryMeta, Xattr};
pub use error::{CopyError, PartialFile, SinkError, SinkResult, SkipReason, SkippedFile};
pub use host::{FileId, HostSink, HostSource, HostSourceOptions};
pub use host::{drop_cached, sync_around};
pub use image::{FileData, ImageRef, ImageSink, ImageSource, ImageSourceOptions};
pub use options::{Attributes, CopyOptions, Existing};
pub use path::create_under_temporary_name;
pub use report::{CopyReport, Loss};
pub use select::{Found, HostTargets, ImageTargets, Select, Targets, Verdict};
pub use sink::{CopyOutcome, Observer, Sink, SkippedPath, Source};
pub(crate) use sparse::ZEROS;
pub use sparse::{Sparse, SparseSink};
pub use transfer::{transfer, transfer_selected};

pub(crate) use content::Content;
pub(crate) use emitter::{Batch, Event, SMALL_FILE};
pub(crate) use host::{loss_of_attribute, next_data, open_regular, remove_xattr, xattr_names};
pub(crate) use path::split_last;
pub(crate) use transfer::{is_below, spawn};
