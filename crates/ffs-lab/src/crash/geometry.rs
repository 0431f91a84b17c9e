//! The volumes on which workloads run. They are small, so that every structure of the format comes
//! into use early.
//!
//! Reference: `spec/fsck-and-crash.md` §12.1.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{Env, Ffs, MountOptions};
use ffs_device::{BlockDevice, ManualClock, MemDevice, SplitMix64, Timestamp};
use ffs_ondisk::{Endian, Format, Geometry, Ino, journal};

use super::exec::{Executor, Tree};
use super::history::{Action, Step};
use super::mounting::{self, START, failed};
use super::op::{Op, Path};
use super::snapshots::{SnapshotLog, SnapshotRecord};
use super::tag::POISON;
use super::{Updates, raw};
use crate::error::{LabError, Result};

/// Bytes that a volume with a journal is larger: the journal, its indirect blocks, and the groups
/// that hold them.
const JOURNAL_SPACE: u64 = journal::MIN_BYTES + (1 << 20);

/// A kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The name on the command line.
    pub name: &'static str,
    /// The purpose.
    pub purpose: &'static str,
    /// Format.
    pub format: Format,
    /// Byte order.
    pub endian: Endian,
    /// Bytes of a block.
    pub bsize: u32,
    /// Bytes of a fragment.
    pub fsize: u32,
    /// Bytes of the volume; one with a journal is larger.
    pub bytes: u64,
    /// Fragments of a group at most.
    pub group: u32,
    /// Data bytes per inode.
    pub density: u32,
    /// Whether the volume is nearly full.
    pub full: bool,
}

/// A small UFS2 volume; the others differ from it in some fields.
const SMALL: Shape = Shape {
    name: "ufs2-2m",
    purpose: "UFS2, four groups, inode blocks made as they are needed",
    format: Format::Ufs2,
    endian: Endian::Little,
    bsize: 4096,
    fsize: 512,
    bytes: 2 << 20,
    group: 1024,
    density: 8192,
    full: false,
};

/// All kinds.
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "ufs1-1m",
        purpose: "UFS1, two groups, many inodes in a block",
        format: Format::Ufs1,
        bytes: 1 << 20,
        ..SMALL
    },
    SMALL,
    Shape {
        name: "ufs1-be",
        purpose: "UFS1 in big-endian byte order",
        format: Format::Ufs1,
        endian: Endian::Big,
        ..SMALL
    },
    Shape {
        name: "ufs2-8m",
        purpose: "UFS2, larger blocks",
        bsize: 8192,
        fsize: 1024,
        bytes: 8 << 20,
        group: 4096,
        ..SMALL
    },
    Shape {
        name: "ufs2-32m",
        purpose: "UFS2 with today's block size",
        bsize: 32768,
        fsize: 4096,
        bytes: 32 << 20,
        group: 4096,
        density: 32768,
        ..SMALL
    },
    Shape {
        name: "ufs1-full",
        purpose: "UFS1, nearly full",
        format: Format::Ufs1,
        bytes: 1 << 20,
        full: true,
        ..SMALL
    },
    Shape { name: "ufs2-full", purpose: "UFS2, nearly full", full: true, ..SMALL },
];

/// The kind of volume called `name`.
///
/// # Errors
/// [`LabError::Plan`] with the name that was probably meant.
pub fn find(name: &str) -> Result<&'static Shape> {
    SHAPES.iter().find(|shape| shape.name == name).ok_or_else(|| {
        let names = || SHAPES.iter().map(|shape| shape.name);
        let hint = match ffs_core::nearest(name, names()) {
            None => format!("; there are {}", names().collect::<Vec<&str>>().join(", ")),
            near => ffs_core::suggestion(near),
        };
        LabError::Plan(format!("unknown geometry '{name}'{hint}"))
    })
}

/// A volume before a workload runs on it.
#[derive(Debug)]
pub struct BaseVolume {
    /// Its kind.
    pub shape: &'static Shape,
    /// Its constants.
    pub geometry: Geometry,
    /// Its bytes.
    pub(crate) image: Arc<Vec<u8>>,
    /// Its device; every run takes a snapshot.
    pub(super) device: MemDevice,
    /// The tree on it.
    pub(super) tree: Tree,
    /// The steps that made the tree.
    pub(super) steps: Vec<Step>,
    /// The journal's blocks, as byte ranges of the device in the order of the file; empty without
    /// a journal.
    pub(super) journal: Arc<[Range<u64>]>,
    /// A hash that differs between the contents of volumes of one kind.
    pub(super) fingerprint: u64,
    /// Its snapshots.
    pub(super) snapshots: Vec<SnapshotRecord>,
    /// Whether it has lost space: a crash left it, and it was not checked.
    pub(super) unchecked: bool,
    /// Inodes that its superblock lists as snapshots and that are none: a crash interrupted the
    /// making of one, or its removal. A mount removes them from the list.
    pub(super) listed_in_vain: Vec<Ino>,
}

impl Shape {
    /// Makes the volume. `standard_tree`: the volume has the standard tree.
    ///
    /// # Errors
    /// Those of newfs, tunefs and the file system; no shape of [`SHAPES`] should have any.
    pub fn base(&'static self, updates: Updates, standard_tree: bool) -> Result<Arc<BaseVolume>> {
        let (device, geometry) = self.format(updates)?;
        let image = Arc::new(device.to_vec());
        let base = BaseVolume {
            shape: self,
            geometry,
            journal: raw::journal_extents(&image).into(),
            image,
            device,
            tree: Tree::default(),
            steps: Vec::new(),
            fingerprint: 0,
            snapshots: Vec::new(),
            unchecked: false,
            listed_in_vain: Vec::new(),
        };
        let ops = if standard_tree { self.standard_tree() } else { Vec::new() };
        let mut base = base.with(&ops)?;
        if self.full {
            base = base.filled()?;
        }
        Ok(Arc::new(base))
    }

    fn format(&self, updates: Updates) -> Result<(MemDevice, Geometry)> {
        let journaled = updates == Updates::Journaled;
        let bytes = self.bytes + if journaled { JOURNAL_SPACE } else { 0 };
        let len = usize::try_from(bytes).unwrap_or(0);
        let device = MemDevice::from_bytes(&vec![POISON; len]);
        let options = NewfsOptions {
            format: Some(self.format),
            endian: self.endian,
            bsize: Some(self.bsize),
            fsize: Some(self.fsize),
            max_group: Some(self.group),
            density: Some(self.density),
            soft_updates: updates != Updates::None,
            no_snap: true,
            ..NewfsOptions::default()
        };
        let clock = ManualClock::new(Timestamp::new(START, 0));
        let report = newfs(&device, &options, &clock, &SplitMix64::new(1), &mut |_, _| {})
            .map_err(|error| LabError::unusable(self.name, error))?;
        if journaled {
            let journal_size = Some(journal::MIN_BYTES);
            let on = TunefsOptions { journal: Some(true), journal_size, ..Default::default() };
            let made = tunefs(&device, &TunefsOptions { now: START, ..on });
            made.map_err(|error| LabError::unusable(self.name, error))?;
        }
        Ok((device, report.geometry))
    }

    /// The tree on which generated workloads run: directories A, B and A/C, a file in each, and
    /// objects to remove.
    #[must_use]
    pub fn standard_tree(&self) -> Vec<Op> {
        let path = |text: &str| Path::parse(text).unwrap_or_else(|| unreachable!("a constant"));
        let (block, frag) = (u64::from(self.bsize), u64::from(self.fsize));
        let write = |at: &str, len| Op::Write { at: path(at), offset: 0, len, sync: false };
        let mut ops = Vec::new();
        for dir in ["A", "B", "A/C", "B/e"] {
            ops.push(Op::Mkdir(path(dir)));
        }
        for file in ["foo", "A/foo", "B/foo", "A/C/foo"] {
            ops.push(Op::Create(path(file)));
        }
        ops.push(write("foo", 3 * frag - 100));
        ops.push(write("A/foo", block + frag + 7));
        ops.push(write("B/foo", 13 * block + 2 * frag));
        ops.push(Op::Symlink(path("A/s"), "C/foo".to_owned()));
        ops.push(Op::Link(path("A/foo"), path("B/l")));
        ops
    }
}

impl BaseVolume {
    /// The volume after `ops`, which are durable.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn with(&self, ops: &[Op]) -> Result<BaseVolume> {
        let device = self.device.snapshot();
        let (tree, steps, snapshots) = prepare(self, &device, ops)?;
        let (shape, geometry, image) = (self.shape, self.geometry, Arc::new(device.to_vec()));
        let (unchecked, journal) = (self.unchecked, Arc::clone(&self.journal));
        let fingerprint = 0;
        Ok(BaseVolume {
            shape,
            geometry,
            image,
            device,
            tree,
            steps,
            journal,
            fingerprint,
            snapshots,
            unchecked,
            listed_in_vain: Vec::new(),
        })
    }

    /// The same volume, which a command has changed on `device`.
    pub(super) fn on(&self, device: MemDevice) -> BaseVolume {
        let image = device.to_vec();
        BaseVolume {
            shape: self.shape,
            geometry: self.geometry,
            fingerprint: foldhash::fast::FixedState::default().hash_one(&image),
            journal: raw::journal_extents(&image).into(),
            image: Arc::new(image),
            device,
            tree: self.tree.clone(),
            steps: self.steps.clone(),
            snapshots: self.snapshots.clone(),
            unchecked: self.unchecked,
            listed_in_vain: self.listed_in_vain.clone(),
        }
    }

    /// The volume, nearly full: one block and a few fragments are free.
    fn filled(&self) -> Result<BaseVolume> {
        let path = Path::parse("full").unwrap_or_else(|| unreachable!("a constant"));
        let mut ops = vec![Op::Create(path.clone())];
        let free = free_bytes(self)?;
        let block = u64::from(self.shape.bsize);
        // Two blocks stay free, and those for the indirect blocks of the filler.
        let indirect = free / block / (block / 8) + 2;
        let len = free.saturating_sub((2 + indirect) * block);
        ops.push(Op::Append(path, len));
        self.with(&ops)
    }
}

/// The tree of a volume, the steps that led to it, and its snapshots.
type Prepared = (Tree, Vec<Step>, Vec<SnapshotRecord>);

/// Performs `ops` on `device`, a copy of `base`. Returns the resulting tree and the steps that led
/// to it, and the snapshots.
fn prepare(base: &BaseVolume, device: &MemDevice, ops: &[Op]) -> Result<Prepared> {
    let shared: Arc<MemDevice> = Arc::new(device.snapshot());
    let (fs, _) = mounting::mount(Arc::clone(&shared) as _, &mounting::unordered(), 1)?;
    let mut executor = Executor::new(fs, base.tree.clone());
    base.snapshots.iter().for_each(|known| executor.add_snapshot(known.obj, &known.hashes));
    let mut snapshots = SnapshotLog::new(&base.snapshots, !base.unchecked);
    let mut steps = base.steps.clone();
    let step = |what| Step { began: 0, at: 0, op: None, what };
    for op in ops {
        match executor.perform(op) {
            Ok(done) => {
                steps.extend(done.into_iter().map(step));
                snapshots.note(&mut executor, &steps, (0, 0))?;
            }
            // On a full volume.
            Err(ffs_core::Error::NoSpace | ffs_core::Error::NoInodes) => {}
            Err(error) => return Err(failed(&format!("before: {op}"), &error)),
        }
    }
    steps.push(step(Action::Synced));
    executor.close();
    executor.fs.unmount().map_err(|error| failed("unmount", &error))?;
    let copied = device.write_at(0, &shared.to_vec());
    copied.map_err(|error| failed("copy", &error))?;
    Ok((executor.tree, steps, snapshots.settled()))
}

/// Free bytes of the volume, the reserve included.
fn free_bytes(base: &BaseVolume) -> Result<u64> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let fs =
        Ffs::mount(Arc::new(base.device.snapshot()), &options, Env::seeded(mounting::clock(0), 1));
    let stat = fs.map_err(|error| failed("mount", &error))?.statfs();
    Ok(stat.frags_free * u64::from(stat.fsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_admin::fsck::quick_check;
    use ffs_device::BlockDevice;

    #[test]
    fn every_shape_can_be_made_and_is_sound() {
        for shape in SHAPES {
            for updates in [Updates::None, Updates::Journaled] {
                let base = shape.base(updates, true).unwrap();
                assert!(base.geometry.ncg >= 2, "{}: {} groups", shape.name, base.geometry.ncg);
                let device: Arc<dyn BlockDevice> = Arc::new(base.device.snapshot());
                let findings = quick_check(&device);
                assert!(findings.is_empty(), "{}: {findings:?}", shape.name);
                let free = free_bytes(&base).unwrap() / u64::from(shape.bsize);
                assert_eq!(free < 8, shape.full, "{}: {free} blocks free", shape.name);
                let of_journal: u64 = base.journal.iter().map(|r| r.end - r.start).sum();
                let wanted = if updates == Updates::None { 0 } else { journal::MIN_BYTES };
                assert_eq!(of_journal, wanted, "{}", shape.name);
            }
        }
    }

    #[test]
    fn an_unknown_shape_gets_a_suggestion() {
        let why = find("ufs2-2n").unwrap_err().to_string();
        assert!(why.contains("did you mean 'ufs2-2m'?"), "{why}");
        assert!(find("xyz").unwrap_err().to_string().contains("ufs1-full"));
    }
}
