//! The tree that an image is built from.

use std::fs::File;
use std::path::PathBuf;

use super::error::BuildError;
use crate::copy::{CopyEnded, Emitter, FileId, HostSource, HostSourceOptions, Source};
use crate::tar::{Input, TarSource};

/// The tree to build an image from.
pub enum Tree {
    /// A directory, and files in it to leave out.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Files and directories to leave out.
        skip: Vec<FileId>,
    },
    /// An archive in a regular file, which is read twice.
    Archive {
        /// The archive.
        file: File,
        /// Its name in messages.
        name: String,
    },
    /// An archive that can be read only once. The image must have a given size.
    Stream {
        /// The archive.
        input: Input,
        /// Its name in messages.
        name: String,
    },
    /// Several trees, one after the other in the same directory. A file replaces one of the same
    /// path in a tree before it; directories are merged. The size of a replaced file counts when
    /// the image is made to fit.
    Layers(Vec<Tree>),
}

impl Tree {
    /// A second reader of the same tree; `None` if the tree can be read only once.
    pub(super) fn try_clone(&self) -> Result<Option<Tree>, BuildError> {
        Ok(match self {
            Tree::Directory { path, skip } => {
                Some(Tree::Directory { path: path.clone(), skip: skip.clone() })
            }
            Tree::Archive { file, name } => {
                let file = file.try_clone().map_err(BuildError::Tree)?;
                Some(Tree::Archive { file, name: name.clone() })
            }
            Tree::Stream { .. } => None,
            Tree::Layers(trees) => {
                let all: Result<Option<Vec<Tree>>, BuildError> =
                    trees.iter().map(Tree::try_clone).collect();
                all?.map(Tree::Layers)
            }
        })
    }

    /// Leaves out this file if it is in a directory of the tree.
    pub fn skip(&mut self, file: FileId) {
        match self {
            Tree::Directory { skip, .. } => skip.push(file),
            Tree::Layers(trees) => trees.iter_mut().for_each(|tree| tree.skip(file)),
            Tree::Archive { .. } | Tree::Stream { .. } => {}
        }
    }
}

/// A tree and the parts of it to send.
pub(super) struct TreeSource {
    pub(super) tree: Tree,
    pub(super) with_data: bool,
    pub(super) with_xattrs: bool,
}

impl Source for TreeSource {
    fn send(self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        let (input, name) = match self.tree {
            Tree::Directory { path, skip } => {
                let options = HostSourceOptions {
                    xattrs: self.with_xattrs,
                    hard_links: true,
                    data: self.with_data,
                    follow: true,
                    skip,
                    ..HostSourceOptions::default()
                };
                return HostSource::new(path, b"", options).send(emitter);
            }
            Tree::Archive { file, name } => match Input::from_file(file) {
                Ok(input) => (input, name),
                Err(error) => return emitter.failed(name.as_bytes(), error),
            },
            Tree::Stream { input, name } => (input, name),
            Tree::Layers(trees) => {
                for tree in trees {
                    TreeSource { tree, ..self }.send(emitter)?;
                }
                return Ok(());
            }
        };
        let archive = TarSource::new(input, name).require_alone();
        if self.with_data { archive.send(emitter) } else { archive.without_data().send(emitter) }
    }
}
