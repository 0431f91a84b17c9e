//! Tree copies between the host and a [`Volume`] in one call.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::error::SkippedFile;
use super::host::{HostSink, HostSource, HostSourceOptions};
use super::image::{ImageRef, ImageSink, ImageSource, ImageSourceOptions};
use super::options::CopyOptions;
use super::report::CopyReport;
use super::sink::Observer;
use super::transfer::transfer;
use crate::namei::{self, Last};
use crate::volume::Volume;

/// Ignores everything: the report counts the files that could not be copied.
struct Quiet;

impl Observer for Quiet {
    fn skipped(&mut self, _: &SkippedFile) {}
}

impl Volume {
    /// Copies the file or tree `from` of the host into the directory `to` of the volume, which must
    /// exist. Of a directory it copies the entries, not the directory itself; to see the files that
    /// could not be copied, use [`Volume::copy_in_with`].
    ///
    /// ```
    /// use bsdffs::Volume;
    /// use bsdffs::copy::CopyOptions;
    /// # fn main() -> std::io::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let (image, tree) = (dir.path().join("disk.img"), dir.path().join("tree"));
    /// # let out = dir.path().join("out");
    /// # std::fs::create_dir(&tree)?;
    /// # std::fs::create_dir(&out)?;
    /// # std::fs::write(tree.join("motd"), "Welcome\n")?;
    /// bsdffs::format(&image, 16 << 20)?;
    /// let volume = Volume::options().write(true).open(&image)?;
    /// let copied = volume.copy_in(&tree, "/", CopyOptions::archive())?;
    /// assert_eq!((copied.files, copied.failed), (1, 0));
    /// volume.copy_out("/", &out, CopyOptions::default())?;
    /// assert_eq!(std::fs::read_to_string(out.join("motd"))?, "Welcome\n");
    /// volume.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `to` is not a directory; the volume is full; an I/O error. Files that were complete stay.
    pub fn copy_in(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: CopyOptions,
    ) -> io::Result<CopyReport> {
        self.copy_in_with(from, to, options, &mut Quiet)
    }

    /// As [`Volume::copy_in`], with an observer, which also learns of files that could not be
    /// copied.
    ///
    /// # Errors
    /// As [`Volume::copy_in`]; the observer cancelled the copy.
    pub fn copy_in_with(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: CopyOptions,
        observer: &mut dyn Observer,
    ) -> io::Result<CopyReport> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let is_dir = std::fs::symlink_metadata(from)?.is_dir();
        let name = if is_dir { None } else { from.file_name() };
        let dir = namei::namei(self.fs(), self.cred(), to.as_os_str().as_bytes(), Last::Follow)?;
        let source = HostSourceOptions {
            xattrs: options.preserve,
            hard_links: options.hard_links,
            data: true,
            ..HostSourceOptions::default()
        };
        let target = name.map(OsStrExt::as_bytes).unwrap_or_default();
        let mut sink = ImageSink::new(self.image_ref(), dir, options);
        Ok(transfer(HostSource::new(from, target, source), &mut sink, observer)?)
    }

    /// Copies the file or tree `from` of the volume into the directory `to` of the host, which must
    /// exist. Of a directory it copies the entries, not the directory itself.
    ///
    /// # Errors
    /// `from` does not exist; `to` is not a directory; the host has no space left; an I/O error.
    /// Files that were complete stay.
    pub fn copy_out(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: CopyOptions,
    ) -> io::Result<CopyReport> {
        self.copy_out_with(from, to, options, &mut Quiet)
    }

    /// As [`Volume::copy_out`], with an observer, which also learns of files that could not be
    /// copied.
    ///
    /// # Errors
    /// As [`Volume::copy_out`]; the observer cancelled the copy.
    pub fn copy_out_with(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: CopyOptions,
        observer: &mut dyn Observer,
    ) -> io::Result<CopyReport> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let path = from.as_os_str().as_bytes();
        let top = namei::namei(self.fs(), self.cred(), path, Last::Keep)?;
        let is_dir = self.fs().getattr(&top).kind == ffs_core::FileType::Directory;
        let name = if is_dir { None } else { namei::basename(path) };
        let source = ImageSourceOptions {
            hard_links: options.hard_links,
            xattrs: options.preserve,
            ..ImageSourceOptions::default()
        };
        let source = ImageSource::new(self.image_ref(), top, path, source);
        let mut sink = HostSink::new(to, options, Vec::new())?;
        Ok(transfer(source.target(name.unwrap_or_default()), &mut sink, observer)?)
    }

    fn image_ref(&self) -> ImageRef<'_> {
        ImageRef { ffs: self.fs(), cred: self.cred(), name: "volume" }
    }
}
