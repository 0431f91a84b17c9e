//! A volume drawn block by block, as a page for teaching.
//!
//! The page shows the use of each fragment and inode of an image. Buttons step through a create, a
//! rename, the writes that follow, a crash and a repair: on a copy in memory, with the events of
//! the ordering engine.
//!
//! | module | holds |
//! | --- | --- |
//! | `map` | the use of fragments and inodes, and the paths of the inodes |
//! | `story` | the steps on the copy, recorded by the crash laboratory |
//! | `page` | the HTML page and the table for a terminal |
//!
//! # Invariants
//! 1. The image is read only. All changes are made on a copy in memory.
//! 2. The page follows from the bytes of the image: the clock is virtual, and numbers are seeded.
//! 3. Work and memory are bounded by the length of the image, even for arbitrary bytes.
//!
//! Reference: `docs/lab/README.md`, *A volume drawn*.

mod map;
mod page;
mod story;
#[cfg(test)]
mod tests;

use crate::error::{LabError, Result};
use map::VolumeMap;
use story::Story;

/// The largest image that is drawn, bytes.
pub const LARGEST: u64 = 256 << 20;
/// The largest image of which a copy is changed, bytes.
const LARGEST_STORY: u64 = 64 << 20;

/// A volume and the steps on its copy.
#[derive(Debug)]
pub struct Drawing {
    name: String,
    map: VolumeMap,
    /// The steps; the reason if there are none.
    story: std::result::Result<Story, String>,
}

impl Drawing {
    /// Reads the bytes of an image. `name` is for people.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the image has no superblock that a volume can have, or is larger
    /// than [`LARGEST`].
    pub fn of(name: &str, image: &[u8]) -> Result<Drawing> {
        let len = image.len() as u64;
        if len > LARGEST {
            let why = format!("{len} bytes are too many to draw; at most {LARGEST} are drawn");
            return Err(LabError::unusable(name, why));
        }
        let map = VolumeMap::of(&image).map_err(|why| LabError::unusable(name, why))?;
        let story = if len > LARGEST_STORY {
            Err(format!("The image has more than {LARGEST_STORY} bytes: no copy of it is changed."))
        } else {
            Story::on(image)
        };
        Ok(Drawing { name: name.to_owned(), map, story })
    }

    /// The page.
    ///
    /// # Errors
    /// [`LabError::Plan`] if the template fails.
    pub fn html(&self) -> Result<String> {
        page::render(self)
    }

    /// The use of each group, as a table for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        page::text(self)
    }
}
