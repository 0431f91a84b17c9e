//! Dumps of images, restored into other images.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod foreign;
mod hostile;
mod incremental;
mod nodump;
mod random;
mod roundtrip;
mod seen;
mod stream;

use std::io::Cursor;
use std::sync::Arc;

use bsdffs::copy::{
    CopyOptions, CopyReport, ImageRef, ImageSink, Observer, SkippedFile, Source, transfer,
};
use bsdffs::dump::{
    DumpObserver, DumpOptions, DumpReport, ImageTarget, Incremental, Restore, RestoreOptions,
    StreamError, SymTable, Target, dump,
};
use bsdffs::tar::Input;
use ffs_core::{Atime, Cred, Env, Ffs, MountOptions};
use ffs_device::{BlockDevice, ManualClock, MemDevice, Timestamp};
use ffs_ondisk::{Endian, Format};

/// The formats and byte orders of volumes.
pub(crate) const VOLUMES: [(Format, Endian); 4] = [
    (Format::Ufs2, Endian::Little),
    (Format::Ufs1, Endian::Little),
    (Format::Ufs2, Endian::Big),
    (Format::Ufs1, Endian::Big),
];

/// A volume in memory.
pub(crate) struct Image {
    pub(crate) device: Arc<MemDevice>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Image {
    pub(crate) fn new((format, endian): (Format, Endian)) -> Image {
        let device = ffs_admin::newfs::quick(endian, format, 4096, 1024, 32 << 20).unwrap();
        let clock = ManualClock::new(Timestamp::new(1_700_000_000, 7));
        Image { device: Arc::new(device), clock: Arc::new(clock) }
    }

    pub(crate) fn mount(&self, read_only: bool) -> Ffs {
        let device: Arc<dyn BlockDevice> = self.device.clone();
        let atime = Atime::Never;
        let options = MountOptions { read_only, atime, ..MountOptions::default() };
        Ffs::mount(device, &options, Env::seeded(self.clock.clone(), 5)).unwrap()
    }

    /// Calls `change` with the volume mounted for writing.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&Ffs) -> T) -> T {
        let ffs = self.mount(false);
        let result = change(&ffs);
        ffs.unmount().unwrap();
        result
    }

    /// The stream of a dump; no file may be a problem.
    pub(crate) fn dump(&self, options: &DumpOptions) -> (Vec<u8>, DumpReport) {
        let ffs = self.mount(true);
        let (mut stream, mut problems) = (Vec::new(), Problems::default());
        let report = dump(&*self.device, &ffs, options, &mut stream, &mut problems).unwrap();
        assert_eq!(problems.0, [""; 0]);
        (stream, report)
    }

    /// The stream of a dump of level 0.
    pub(crate) fn full_dump(&self) -> Vec<u8> {
        self.dump(&DumpOptions { date: 1_700_000_000, ..DumpOptions::default() }).0
    }

    pub(crate) fn fsck(&self) {
        let device: Arc<dyn BlockDevice> = self.device.clone();
        let report = ffs_admin::fsck::Fsck::new(device, ffs_admin::fsck::FsckOptions::no()).run();
        assert!(report.is_silent(), "{report:#?}");
    }
}

/// What could not be dumped or restored.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<String>);

impl DumpObserver for Problems {
    fn problem(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

impl Observer for Problems {
    fn skipped(&mut self, file: &SkippedFile) {
        self.0.push(file.to_string());
    }
}

pub(crate) fn open_with(stream: &[u8], options: RestoreOptions) -> Result<Restore, StreamError> {
    let input = Input::from_stream(Cursor::new(stream.to_vec())).unwrap();
    Restore::open(input, "the dump", options)
}

pub(crate) fn open(stream: &[u8]) -> Restore {
    open_with(stream, RestoreOptions::default()).unwrap()
}

pub(crate) fn copy_into(ffs: &Ffs, source: impl Source) -> (CopyReport, Vec<String>) {
    let cred = Cred::root();
    let image = ImageRef { ffs, cred: &cred, name: "target" };
    let mut sink = ImageSink::new(image, ffs.root().unwrap(), CopyOptions::archive());
    let mut problems = Problems::default();
    let report = transfer(source, &mut sink, &mut problems).unwrap();
    (report, problems.0)
}

/// Restores a stream into a new volume.
pub(crate) fn restore(stream: &[u8], volume: (Format, Endian)) -> Image {
    let target = Image::new(volume);
    let (_, problems) = target.write(|ffs| copy_into(ffs, open(stream).source(false)));
    assert_eq!(problems, [""; 0]);
    target.fsck();
    target
}

/// Applies a dump to a volume, as `restore -r` does.
pub(crate) fn apply(target: &Image, stream: &[u8]) -> Result<(), String> {
    target.write(|ffs| {
        let cred = Cred::root();
        let image = ImageRef { ffs, cred: &cred, name: "target" };
        let mut names = ImageTarget::new(image, ffs.root().unwrap());
        let table = names.read(SymTable::NAME)?;
        let table = table.map(|bytes| SymTable::parse(&bytes)).transpose()?;
        let mut incremental = Incremental::new(open(stream), table)?;
        let failed = incremental.change_names(&mut names, &mut |_| {});
        assert_eq!(failed, [""; 0]);
        let (source, table) = incremental.into_source();
        let (_, problems) = copy_into(ffs, source);
        assert_eq!(problems, [""; 0]);
        names.write(SymTable::NAME, &table.to_bytes())
    })?;
    target.fsck();
    Ok(())
}
