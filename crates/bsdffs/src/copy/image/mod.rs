//! Trees of an image.

mod sink;
mod source;

use ffs_core::{Cred, Ffs};

pub use sink::ImageSink;
pub use source::{FileData, ImageSource, ImageSourceOptions};

/// The mounted image that a copy reads or changes.
#[derive(Clone, Copy)]
pub struct ImageRef<'a> {
    /// The file system.
    pub ffs: &'a Ffs,
    /// The user whose permissions count.
    pub cred: &'a Cred,
    /// The name of the image in messages.
    pub name: &'a str,
}
