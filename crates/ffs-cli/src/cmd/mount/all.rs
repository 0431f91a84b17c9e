//! `ffs mount --all`: every volume of a disk image.
//!
//! Each volume has a server of its own. The servers of a disk that is mounted read-write share one
//! open file, and thus its lock. This is possible for raw images only: the tables of another format
//! have one writer.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use ffs_device::partition::{self, Partition, Scheme};
use ffs_fuse::{MountError, MountRequest, Mounted, Options, mount_daemon};
use ffs_image::{Format, OpenOptions, Opened};

use super::{FAILED, print_mounted, print_rights};
use crate::fail::{Failure, Outcome, show};
use crate::session::{self, holds_ufs, snapshot};
use crate::spec::names_partition;
use crate::{bgfsck, output};

/// mount(8): some of the mounts succeeded.
const SOME: u8 = 64;

/// Mounts the volumes of `image` on directories in `dir`.
pub(super) fn mount_all(options: &Options, image: &OsStr, dir: &Path) -> Outcome {
    let name = show(image.as_bytes());
    if names_partition(image) || snapshot::inside(image).is_some() {
        return Err(Failure::usage(format!("{name}: --all takes the image of a whole disk")));
    }
    let write = !options.core.read_only;
    let how =
        OpenOptions { write, whole_disk: true, kernel_may_use: true, ..OpenOptions::default() };
    let disk = ffs_image::open(image, &how).map_err(|e| Failure::plain(e).code(FAILED))?;
    if write && disk.format() != Format::Raw {
        let why = format!("several servers cannot write a {} image", disk.format().name());
        let hint = "-o ro mounts all of its volumes; read-write, mount one at a time";
        return Err(Failure::new(name, why).hint(hint).code(FAILED));
    }
    let volumes = volumes(&disk, &name)?;
    let names = names(&volumes);
    // The servers of a read-only mount open the image themselves: readers share its lock.
    let shared = write.then_some(disk);
    let mut mounted = 0;
    for (volume, own) in volumes.iter().zip(names) {
        let mut spec = image.to_owned();
        spec.push(format!("@{}", volume.index));
        let name = show(spec.as_bytes());
        let dir = dir.join(own);
        let made = fs::create_dir(&dir).is_ok();
        match mount_one(options, &spec, &dir, shared.as_ref().map(|disk| (disk, volume))) {
            Ok(point) => {
                mounted += 1;
                print_mounted(&name, &point);
                print_rights(&point);
            }
            Err(error) => {
                output::error(format!("{name}: {error}"));
                if made {
                    // It is empty still; otherwise it stays.
                    let _ = fs::remove_dir(&dir);
                }
            }
        }
    }
    Ok(match mounted {
        0 => FAILED,
        all if all == volumes.len() => 0,
        _ => SOME,
    })
}

/// The partitions that have a UFS.
fn volumes(disk: &Opened, name: &str) -> Result<Vec<Partition>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(name, error).code(FAILED);
    let table = partition::scan(disk.disk()).map_err(|error| failed(&error))?;
    session::warn_of_notes(name, &table.notes);
    if table.scheme == Scheme::Whole {
        let hint = format!("ffs mount {name} DIR mounts the whole of it");
        return Err(failed(&"has no partitions").hint(hint));
    }
    let found = partition::volumes(disk.disk(), &table, holds_ufs).map_err(|e| failed(&e))?;
    if found.is_empty() {
        let hint = format!("ffs info {name} shows what its partitions have");
        return Err(failed(&"no partition has a UFS").hint(hint));
    }
    Ok(found)
}

/// The names of the directories: the labels of the partitions, or their BSD names where there is no
/// label, where it is not a name, or where two are the same.
fn names(volumes: &[Partition]) -> Vec<OsString> {
    let is_name = |label: &str| !matches!(label, "" | "." | "..") && !label.contains(['/', '\0']);
    let once = |label: &str| volumes.iter().filter(|v| v.label == label || v.name == label).count();
    let own = |volume: &Partition| {
        let labelled = is_name(&volume.label) && once(&volume.label) == 1;
        let name = if labelled { &volume.label } else { &volume.name };
        OsString::from_vec(name.clone().into_bytes())
    };
    volumes.iter().map(own).collect()
}

/// Mounts one volume. `shared` is the open disk and its partition, unless the server opens them.
fn mount_one(
    options: &Options,
    spec: &OsStr,
    dir: &Path,
    shared: Option<(&Opened, &Partition)>,
) -> Result<Mounted, MountError> {
    let mut request = MountRequest {
        options: options.clone(),
        open: session::open_to_mount,
        check: Some(bgfsck::of_mount as _),
        ..MountRequest::new(spec, dir)
    };
    if let Some((disk, partition)) = shared {
        let how = OpenOptions { write: true, ..OpenOptions::default() };
        let mut volume = disk.partition(partition.index, &how)?;
        volume.notes.extend(session::recover(&volume.device));
        request.volume = Some(volume);
    }
    mount_daemon(&request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::partition::PartitionKind;

    #[test]
    fn directories_have_labels_or_the_names_of_bsd() {
        let of = |name: &str, label: &str| Partition {
            index: 1,
            name: name.to_owned(),
            label: label.to_owned(),
            start: 0,
            len: 0,
            declared_len: 0,
            kind: PartitionKind::Ufs,
        };
        let volumes = [
            of("p1", "root"),
            of("p2", "home"),
            of("p3", "home"),
            of("p4", ""),
            of("p5", "../etc"),
            of("p6", "p4"),
        ];
        assert_eq!(names(&volumes), ["root", "p2", "p3", "p4", "p5", "p6"]);
    }
}
