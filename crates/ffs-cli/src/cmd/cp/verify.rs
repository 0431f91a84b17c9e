//! `--checksum`: reads the copied files again and compares them with what was read.
//!
//! The files of an image are read through a second, read-only mount of the device: the first one
//! was synced, and its caches are not used. The host is requested to drop what it has cached.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bsdffs::copy::{
    Digest, Digests, EntryKind, ImageRef, Mismatch, TargetTree, drop_cached, sync_around,
};
use bsdffs::diff::{Attribute, DiffObserver, DiffOptions, Difference, Side, Tree, diff};
use bsdffs::namei::namei_from;
use ffs_core::Vnode;

use super::watch::Names;
use crate::fail::{Failure, show};
use crate::namei::Last;
use crate::output;
use crate::progress::Progress;
use crate::session::Session;
use crate::signals;
use crate::spec::{Place, outside};

/// Where the copies are.
pub(super) enum Copies<'a> {
    Image(&'a Session, &'a OsStr, &'a Vnode),
    Host(&'a Path),
}

/// Where the sources are.
#[derive(Clone)]
pub(super) enum Origin<'a> {
    Image(ImageRef<'a>, Vnode),
    Host(PathBuf),
    /// It cannot be read again.
    Stream,
}

impl Origin<'_> {
    /// The file at `below` the top.
    fn tree(&self, below: &[u8]) -> Option<Tree<'_>> {
        match self {
            Origin::Image(image, top) => {
                let file = namei_from(image.ffs, image.cred, top.clone(), below, Last::Follow);
                Some(Tree::Image { image: *image, top: file.ok()?, path: b"/".to_vec() })
            }
            Origin::Host(path) => Some(Tree::Host(below_path(path, below))),
            Origin::Stream => None,
        }
    }
}

fn below_path(top: &Path, below: &[u8]) -> PathBuf {
    if below.is_empty() { top.to_owned() } else { top.join(OsStr::from_bytes(below)) }
}

/// Compares the files of `digests`. Prints an error for each that differs; returns their number.
pub(super) fn verify(
    digests: &Digests,
    copies: &Copies<'_>,
    origin: &Origin<'_>,
    names: &Names,
) -> Result<u64, Failure> {
    let mut found = Vec::new();
    match copies {
        Copies::Image(session, image, dir) => {
            let failed =
                |error| Failure::new(session.image(), format!("cannot be synced: {error}"));
            session.ffs.sync().map_err(failed)?;
            if let Some(file) = image_file(image) {
                drop_cached(&file);
            }
            let second = Session::on(image, Arc::clone(&session.device))?;
            let root = second.ffs.vget(dir.ino(), None);
            let root = root.map_err(|error| Failure::new(session.image(), error))?;
            let tree = TargetTree::Image(second.image_ref(), root.clone());
            let copied = Origin::Image(second.image_ref(), root);
            compare(digests, &tree, origin, &copied, names, &mut found);
            drop(tree);
        }
        Copies::Host(root) => {
            let fd = OwnedFd::from(File::open(root).map_err(|error| Failure::host(root, &error))?);
            sync_around(&fd).map_err(|error| Failure::host(root, &error))?;
            let copied = Origin::Host(root.to_path_buf());
            compare(digests, &TargetTree::Host(fd), origin, &copied, names, &mut found);
        }
    }
    if signals::interrupted() {
        return Err(Failure::interrupted());
    }
    for text in &found {
        output::error(text);
    }
    Ok(found.len() as u64)
}

fn compare(
    digests: &Digests,
    tree: &TargetTree<'_>,
    origin: &Origin<'_>,
    copied: &Origin<'_>,
    names: &Names,
    found: &mut Vec<String>,
) {
    let total = digests.files().iter().map(|digest| digest.size).sum();
    let mut progress = Progress::bytes("verify", Some(total));
    let progress = |bytes| {
        progress.add(bytes);
        !signals::interrupted()
    };
    digests.verify(tree, progress, |digest, mismatch| {
        found.push(message(digest, &mismatch, origin, copied, names));
    });
}

/// The message for a file that differs.
fn message(
    digest: &Digest,
    mismatch: &Mismatch,
    origin: &Origin<'_>,
    copied: &Origin<'_>,
    names: &Names,
) -> String {
    let (target, source) = (names.target(&digest.path), names.source(&digest.path));
    let (target, source) = (show(&target), show(&source));
    if let Mismatch::Unreadable(why) = mismatch {
        return format!("{target}: cannot be read again: {why}");
    }
    let below = names.below(&digest.path);
    let first = match (origin.tree(below), copied.tree(&digest.path)) {
        (Some(source), Some(copy)) => first_difference(source, copy),
        _ => None,
    };
    let place = match first {
        Some(at) => format!(", first at byte {at}"),
        None => String::new(),
    };
    format!(
        "{target}: differs from what was read from {source}{place}; copy it again, and if that \
         fails, too, check the memory and the disk"
    )
}

/// The offset of the first byte that differs in two files.
fn first_difference(old: Tree<'_>, new: Tree<'_>) -> Option<u64> {
    let attributes = BTreeSet::from([Attribute::Content, Attribute::Size]);
    let mut first = First::default();
    diff(old, new, &DiffOptions { attributes, brief: false }, &mut first);
    first.0
}

#[derive(Default)]
struct First(Option<u64>);

impl DiffObserver for First {
    fn only(&mut self, _: Side, _: &[u8], _: &EntryKind) {}

    fn differs(&mut self, _: &[u8], differences: &[Difference]) {
        self.0 = differences.iter().find_map(|difference| difference.offset);
    }

    fn failed(&mut self, _: &str, _: &str) {}
}

/// The file of `IMAGE` or `IMAGE@N`.
fn image_file(image: &OsStr) -> Option<File> {
    if let Place::Image(inside) = outside(image) {
        return image_file(&inside.image);
    }
    let bytes = image.as_bytes();
    let whole = || {
        let at = bytes.iter().rposition(|&byte| byte == b'@')?;
        File::open(OsStr::from_bytes(&bytes[..at])).ok()
    };
    File::open(image).ok().or_else(whole)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use bsdffs::copy::{
        CopyOptions, DigestSink, HostSource, HostSourceOptions, ImageSink, Observer, SkippedFile,
        transfer,
    };
    use ffs_core::WriteMode;
    use ffs_ondisk::{Endian, Format};

    struct Quiet;

    impl Observer for Quiet {
        fn skipped(&mut self, _: &SkippedFile) {}
    }

    #[test]
    fn a_copy_that_changed_is_reported_with_its_first_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let fresh = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 16 << 20);
        std::fs::write(&path, fresh.unwrap().to_vec()).unwrap();
        let source = dir.path().join("source");
        std::fs::write(&source, vec![7; 300_000]).unwrap();
        let session = Session::write(path.as_os_str()).map_err(|_| "refused").unwrap();
        let root = session.ffs.root().unwrap();
        let mut digests = Digests::default();
        let options = HostSourceOptions { data: true, ..HostSourceOptions::default() };
        let mut sink = ImageSink::new(session.image_ref(), root.clone(), CopyOptions::default());
        let mut hashed = DigestSink::new(&mut sink, &mut digests);
        let from = HostSource::new(&source, b"file", options);
        transfer(from, &mut hashed, &mut Quiet).unwrap();
        let names = Names {
            source: b"source".to_vec(),
            target: b"disk.img:/file".to_vec(),
            top: b"file".to_vec(),
            renamed: true,
        };
        let (copies, origin) =
            (Copies::Image(&session, path.as_os_str(), &root), Origin::Host(source.clone()));
        let check = || verify(&digests, &copies, &origin, &names).map_err(|f| f.text);
        assert_eq!(check().unwrap(), 0);
        // One byte of the target becomes another.
        let file = session.ffs.lookup(&session.cred, &root, b"file").unwrap();
        let mode = WriteMode::default();
        session.ffs.write(&session.cred, &file, 200_123, &[8], mode).unwrap();
        assert_eq!(check().unwrap(), 1);
        let copied = Origin::Image(session.image_ref(), root.clone());
        let text = message(&digests.files()[0], &Mismatch::Content, &origin, &copied, &names);
        let wanted = "disk.img:/file: differs from what was read from source, first at byte 200123";
        assert!(text.starts_with(wanted), "{text}");
        // The source changed in the same way: the byte is not known, and the copy is still wrong.
        let mut content = vec![7; 300_000];
        content[200_123] = 8;
        std::fs::write(&source, content).unwrap();
        assert_eq!(check().unwrap(), 1);
        session.finish().map_err(|failure| failure.text).unwrap();
    }
}
