//! The same operations on a volume and, with `std::fs`, on the host: same results, same kinds of
//! error.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use bsdffs::{File, OpenOptions, Permissions, Volume};
use ffs_device::{Rng, SplitMix64};
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const NAMES: [&str; 5] = ["a", "b", "c", "link", "d"];
const OPERATIONS: usize = 4000;

/// The two sides.
struct Pair {
    volume: Volume,
    host: PathBuf,
    _dir: tempfile::TempDir,
}

impl Pair {
    fn new() -> Pair {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        bsdffs::format(&image, 16 << 20).unwrap();
        let volume = Volume::options().write(true).open(&image).unwrap();
        let host = dir.path().join("host");
        fs::create_dir(&host).unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).unwrap();
        Pair { volume, host, _dir: dir }
    }

    fn is_one_file(&self, one: &str, other: &str) -> bool {
        let ino = |path: &str| self.volume.metadata(path).map(|found| found.ino()).ok();
        ino(one).is_some() && ino(one) == ino(other)
    }

    fn is_directory(&self, path: &str) -> bool {
        self.volume.symlink_metadata(path).is_ok_and(|found| found.is_dir())
    }

    /// What both sides say must be the same.
    fn both<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        volume: impl FnOnce(&Volume) -> io::Result<T>,
        host: impl FnOnce(&Path) -> io::Result<T>,
    ) {
        let ours = volume(&self.volume).map_err(|e| e.kind());
        let theirs = host(&self.host).map_err(|e| e.kind());
        assert_eq!(ours, theirs, "{what}");
    }
}

/// A path of one to three names.
fn draw(rng: &SplitMix64) -> String {
    let len = rng.next_u64() % 3 + 1;
    let name = |_| NAMES[rng.next_u64() as usize % NAMES.len()];
    (0..len).map(name).collect::<Vec<_>>().join("/")
}

/// Type, size, permissions, links: not the size of a directory, which no standard fixes.
type Shape = (bool, bool, bool, u64, u32, u64);

fn shape_here(m: &bsdffs::Metadata) -> Shape {
    let (len, nlink) = if m.is_dir() { (0, 0) } else { (m.len(), m.nlink()) };
    (m.is_dir(), m.is_file(), m.is_symlink(), len, m.permissions().mode(), nlink)
}

fn shape_there(m: &fs::Metadata) -> Shape {
    let (len, nlink) = if m.is_dir() { (0, 0) } else { (m.len(), m.nlink()) };
    (m.is_dir(), m.is_file(), m.is_symlink(), len, m.mode() & 0o7777, nlink)
}

fn step(pair: &Pair, rng: &SplitMix64, number: usize) {
    let (p, q, r) = (draw(rng), draw(rng), rng.next_u64());
    let what = format!("operation {number}: {} {p} {q} {r}", r % 20);
    let text = vec![b'x'; (r >> 8) as usize % 30_000];
    match r % 20 {
        0 | 1 => pair.both(&what, |v| v.create_dir(&p), |h| fs::create_dir(h.join(&p))),
        2 => pair.both(&what, |v| v.create_dir_all(&p), |h| fs::create_dir_all(h.join(&p))),
        3..6 => pair.both(&what, |v| v.write(&p, &text), |h| fs::write(h.join(&p), &text)),
        6 => pair.both(&what, |v| v.read(&p), |h| fs::read(h.join(&p))),
        7 => pair.both(
            &what,
            |v| v.rename(&p, &q).map_err(one_kind),
            |h| fs::rename(h.join(&p), h.join(&q)).map_err(one_kind),
        ),
        // Of a directory that is linked to an existing name BSD and Linux report different errors.
        8 if !pair.is_directory(&p) => {
            pair.both(&what, |v| v.hard_link(&p, &q), |h| fs::hard_link(h.join(&p), h.join(&q)))
        }
        9 | 10 => pair.both(&what, |v| v.symlink(&q, &p), |h| symlink(&q, h.join(&p))),
        11 => pair.both(&what, |v| v.remove_file(&p), |h| fs::remove_file(h.join(&p))),
        12 => pair.both(&what, |v| v.remove_dir(&p), |h| fs::remove_dir(h.join(&p))),
        13 if r % 3 == 0 => {
            pair.both(&what, |v| v.remove_dir_all(&p), |h| fs::remove_dir_all(h.join(&p)));
        }
        14 => pair.both(&what, |v| v.read_link(&p), |h| fs::read_link(h.join(&p))),
        15 => pair.both(
            &what,
            |v| v.metadata(&p).map(|m| shape_here(&m)),
            |h| fs::metadata(h.join(&p)).map(|m| shape_there(&m)),
        ),
        16 => pair.both(&what, |v| v.exists(&p), |h| fs::exists(h.join(&p))),
        17 => {
            let mode = (r >> 20) as u32 & 0o777 | 0o600;
            pair.both(
                &what,
                |v| v.set_permissions(&p, Permissions::from_mode(mode)),
                |h| fs::set_permissions(h.join(&p), fs::Permissions::from_mode(mode)),
            );
        }
        // std::fs::copy empties a file that it copies onto itself.
        18 if !pair.is_one_file(&p, &q) => {
            pair.both(&what, |v| v.copy(&p, &q), |h| fs::copy(h.join(&p), h.join(&q)))
        }
        19 => seek_and_write(pair, &what, &p, r),
        _ => {}
    }
}

/// Opened to append, or to write in the middle.
fn seek_and_write(pair: &Pair, what: &str, path: &str, r: u64) {
    let (append, create) = (r & 0x1_0000 != 0, r & 0x2_0000 != 0);
    let at = SeekFrom::Start((r >> 20) % 40_000);
    let edit = |file: &mut dyn FileLike| {
        let at = file.seek(at)?;
        file.write_all(b"edited")?;
        let after = file.stream_position()?;
        file.seek(SeekFrom::Start(0))?;
        let mut all = Vec::new();
        file.read_to_end(&mut all)?;
        Ok((at, after, all))
    };
    let mut ours = OpenOptions::new();
    ours.read(true).write(true).append(append).create(create).mode(0o640);
    let mut theirs = fs::OpenOptions::new();
    theirs.read(true).write(true).append(append).create(create).mode(0o640);
    pair.both(what, |v| edit(&mut ours.open(v, path)?), |h| edit(&mut theirs.open(h.join(path))?));
}

trait FileLike: Read + Write + Seek {}
impl FileLike for File {}
impl FileLike for fs::File {}

/// Linux reports ENOTEMPTY if the new name of a file is a directory above it, and else EISDIR.
fn one_kind(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::IsADirectory => ErrorKind::DirectoryNotEmpty.into(),
        _ => error,
    }
}

/// Path, shape, content or target.
fn tree_here(volume: &Volume) -> Vec<(PathBuf, Shape, Vec<u8>)> {
    let mut all: Vec<_> = volume
        .walk("")
        .unwrap()
        .map(|entry| {
            let (path, meta) = (entry.as_ref().unwrap().path(), entry.unwrap().metadata().unwrap());
            let content = match (meta.is_file(), meta.is_symlink()) {
                (true, _) => volume.read(&path).unwrap(),
                (_, true) => volume.read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                _ => Vec::new(),
            };
            (path, shape_here(&meta), content)
        })
        .filter(|(path, ..)| path != Path::new(".snap"))
        .collect();
    all.sort();
    all
}

fn tree_there(top: &Path, dir: &Path, all: &mut Vec<(PathBuf, Shape, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = match (meta.is_file(), meta.is_symlink()) {
            (true, _) => fs::read(&path).unwrap(),
            (_, true) => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        all.push((path.strip_prefix(top).unwrap().to_owned(), shape_there(&meta), content));
        if meta.is_dir() {
            tree_there(top, &path, all);
        }
    }
}

#[test]
fn a_volume_answers_as_the_host_does() {
    let seed = ffs_testkit::envvar::number("FFS_SEED").unwrap_or(1);
    println!("FFS_SEED={seed}");
    // The modes of new files on the host: 0644 and 0755.
    rustix::process::umask(rustix::fs::Mode::from(0o022));
    let pair = Pair::new();
    let rng = SplitMix64::new(seed);
    for number in 0..OPERATIONS {
        step(&pair, &rng, number);
        if number % 200 == 0 {
            let mut there = Vec::new();
            tree_there(&pair.host, &pair.host, &mut there);
            there.sort();
            assert_eq!(tree_here(&pair.volume), there, "after operation {number}");
        }
    }
    pair.volume.close().unwrap();
}

/// A change of the path with the number of the change, on both sides.
fn change(pair: &Pair, number: usize, path: &str) -> Option<()> {
    let (v, h) = (&pair.volume, pair.host.as_path());
    let (ours, theirs) = match number {
        0 => (v.write(path, "x"), fs::write(h.join(path), "x")),
        1 => (v.rename("plain", path), fs::rename(h.join("plain"), h.join(path))),
        2 => (v.rename("full", path), fs::rename(h.join("full"), h.join(path))),
        3 => (v.rename(path, "moved"), fs::rename(h.join(path), h.join("moved"))),
        4 => (v.hard_link("plain", path), fs::hard_link(h.join("plain"), h.join(path))),
        5 => (v.symlink("plain", path), symlink("plain", h.join(path))),
        6 => (v.remove_file(path), fs::remove_file(h.join(path))),
        7 => (v.remove_dir(path), fs::remove_dir(h.join(path))),
        8 => (v.create_dir(path), fs::create_dir(h.join(path))),
        9 => {
            let ours = OpenOptions::new().write(true).create_new(true).open(v, path);
            let theirs = fs::OpenOptions::new().write(true).create_new(true).open(h.join(path));
            (ours.map(drop), theirs.map(drop))
        }
        _ => return None,
    };
    assert_eq!(ours.is_ok(), theirs.is_ok(), "change {number} of {path}: {ours:?}, {theirs:?}");
    Some(())
}

#[test]
fn a_slash_at_the_end_of_a_path_is_for_a_directory() {
    rustix::process::umask(rustix::fs::Mode::from(0o022));
    for path in ["new/", "file/", "dir/", "link/", "link-to-file/", "dangling/", "to-slash"] {
        for number in 0.. {
            let pair = Pair::new();
            let (v, h) = (&pair.volume, pair.host.as_path());
            for name in ["plain", "file"] {
                v.write(name, name).unwrap();
                fs::write(h.join(name), name).unwrap();
            }
            for name in ["dir", "full", "full/below"] {
                v.create_dir(name).unwrap();
                fs::create_dir(h.join(name)).unwrap();
            }
            for (name, text) in [
                ("link", "dir"),
                ("link-to-file", "file"),
                ("dangling", "none"),
                ("to-slash", "none/"),
            ] {
                v.symlink(text, name).unwrap();
                symlink(text, h.join(name)).unwrap();
            }
            let Some(()) = change(&pair, number, path) else { break };
            let mut there = Vec::new();
            tree_there(&pair.host, &pair.host, &mut there);
            there.sort();
            assert_eq!(tree_here(&pair.volume), there, "after change {number} of {path}");
        }
    }
}
