//! Every operation on names and files, in directories that all processes share.
//!
//! There are few names, so that most operations use a name that another process has just made,
//! removed or exchanged. An operation may fail with any error of a name or of the space. The volume
//! must stay sound, and it must be possible to unmount it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use ffs_device::{Rng, SplitMix64};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, IFlags, Mode, OFlags, RawDir, RenameFlags, Timespec,
    Timestamps, XattrFlags, fallocate,
};
use rustix::io::Errno;

use super::sys::with_mapping;
use super::{Done, Failed, Task, Worker, choose, ensure_dir, pattern};

/// Directories and files on each level; levels.
const DIRECTORIES: u64 = 4;
const FILES: u64 = 12;
const LEVELS: u64 = 3;
/// Bytes of most files, at most.
const SMALL: u64 = 256 << 10;
/// Bytes of sparse files: double indirect blocks, for all block sizes up to 16 KiB.
const SPARSE: u64 = 256 << 20;
/// Files that are kept open, and may lose their names meanwhile.
const OPEN: usize = 8;

type Act = fn(&mut Tree, &SplitMix64) -> Done;

/// The operations with their weights and functions.
pub(super) const OPERATIONS: &[(&str, u32, Act)] = &[
    ("create", 12, Tree::create),
    ("tmpfile", 2, Tree::tmpfile),
    ("mkdir", 6, Tree::mkdir),
    ("mknod", 3, Tree::mknod),
    ("symlink", 4, Tree::symlink),
    ("readlink", 2, Tree::readlink),
    ("link", 6, Tree::link),
    ("rename", 8, |t, r| t.rename(r, RenameFlags::empty())),
    ("rename-noreplace", 3, |t, r| t.rename(r, RenameFlags::NOREPLACE)),
    ("exchange", 4, |t, r| t.rename(r, RenameFlags::EXCHANGE)),
    ("whiteout", 2, |t, r| t.rename(r, RenameFlags::WHITEOUT)),
    ("unlink", 8, Tree::unlink),
    ("rmdir", 4, Tree::rmdir),
    ("remove-tree", 3, Tree::remove_tree),
    ("write", 14, Tree::write),
    ("append", 4, Tree::append),
    ("read", 8, Tree::read),
    ("map", 4, Tree::map),
    ("truncate", 5, Tree::truncate),
    ("sparse-write", 2, Tree::sparse_write),
    ("sparse-truncate", 2, Tree::sparse_truncate),
    ("fallocate", 3, |t, r| t.fallocate(r, FallocateFlags::empty())),
    ("fallocate-keep", 2, |t, r| t.fallocate(r, FallocateFlags::KEEP_SIZE)),
    ("punch", 3, |t, r| t.fallocate(r, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)),
    ("zero", 3, |t, r| t.fallocate(r, FallocateFlags::ZERO_RANGE)),
    ("copy-range", 3, Tree::copy_range),
    ("setxattr", 4, Tree::setxattr),
    ("getxattr", 2, Tree::getxattr),
    ("listxattr", 2, Tree::listxattr),
    ("removexattr", 2, Tree::removexattr),
    ("acl", 2, Tree::acl),
    ("chmod", 3, Tree::chmod),
    ("chown", 3, Tree::chown),
    ("chflags", 1, Tree::chflags),
    ("utimens", 2, Tree::utimens),
    ("fsync", 2, Tree::fsync),
    ("fdatasync", 1, Tree::fdatasync),
    ("fsync-dir", 2, Tree::fsync_dir),
    ("syncfs", 1, Tree::syncfs),
    ("readdir", 4, Tree::readdir),
    ("stat", 6, Tree::stat),
    ("statfs", 1, Tree::statfs),
    ("open-keep", 4, Tree::open_keep),
    ("open-use", 6, Tree::open_use),
    ("open-close", 3, Tree::open_close),
];

/// The worker.
pub(super) struct Tree {
    shared: PathBuf,
    own: PathBuf,
    operations: Vec<(usize, u32)>,
    open: Vec<File>,
    /// The mapped range.
    mapped: File,
}

impl Tree {
    pub(super) fn new(task: &Task) -> io::Result<Tree> {
        let shared = task.dir.join("tree");
        let own = task.dir.join(format!("tree.{}", task.number));
        ensure_dir(&shared)?;
        ensure_dir(&own)?;
        let wanted = |name: &str| !task.without.iter().any(|without| without == name);
        let all = OPERATIONS.iter().enumerate();
        let operations = all
            .filter(|(_, (name, ..))| wanted(name))
            .map(|(number, (_, weight, _))| (number, *weight))
            .collect();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let mapped = options.open(task.dir.join(format!("tree.{}.map", task.number)))?;
        Ok(Tree { shared, own, operations, open: Vec::new(), mapped })
    }

    /// A directory of the tree; it need not exist.
    fn dir(&self, rng: &SplitMix64, own: bool) -> PathBuf {
        let mut path = if own { self.own.clone() } else { self.shared.clone() };
        for _ in 0..rng.below(LEVELS) {
            path.push(format!("d{}", rng.below(DIRECTORIES)));
        }
        path
    }

    /// A path in the shared tree, or in that of this worker.
    fn path(&self, rng: &SplitMix64) -> PathBuf {
        let own = rng.below(3) == 0;
        let mut path = self.dir(rng, own);
        match rng.below(8) {
            0 => path.push(format!("d{}", rng.below(DIRECTORIES))),
            // Long names: directories of several blocks.
            1 => path.push(format!("f{}{}", rng.below(FILES), "x".repeat(200))),
            _ => path.push(format!("f{}", rng.below(FILES))),
        }
        path
    }

    fn any_file(&self, rng: &SplitMix64) -> io::Result<File> {
        let path = self.path(rng);
        // Not a device or a FIFO, which would wait for another process.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(Errno::INVAL.into()) }
    }

    fn create(&mut self, rng: &SplitMix64) -> Done {
        let truncate = rng.below(4) == 0;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(truncate);
        if rng.below(3) == 0 {
            options.create_new(true);
        }
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32);
        let file = options.open(self.path(rng))?;
        Ok(file.write_all_at(&pattern(rng.next_u64(), rng.below(5000) as usize), 0)?)
    }

    fn tmpfile(&mut self, rng: &SplitMix64) -> Done {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let own = rng.below(3) == 0;
        let dir = self.dir(rng, own);
        let file = File::from(rustix::fs::openat(CWD, &dir, flags, Mode::from_raw_mode(0o600))?);
        file.write_all_at(&pattern(rng.next_u64(), rng.below(20_000) as usize), 0)?;
        if rng.below(2) == 0 {
            use std::os::fd::AsRawFd;
            let from = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, &*from, CWD, self.path(rng), AtFlags::SYMLINK_FOLLOW)?;
        }
        Ok(())
    }

    fn mkdir(&mut self, rng: &SplitMix64) -> Done {
        let own = rng.below(3) == 0;
        let dir = self.dir(rng, own).join(format!("d{}", rng.below(DIRECTORIES)));
        Ok(rustix::fs::mkdirat(CWD, &dir, Mode::from_raw_mode(0o755))?)
    }

    fn mknod(&mut self, rng: &SplitMix64) -> Done {
        let kinds =
            [FileType::Fifo, FileType::Socket, FileType::CharacterDevice, FileType::BlockDevice];
        let kind = kinds[rng.below(kinds.len() as u64) as usize];
        // The null device: opening it does no harm.
        let device = rustix::fs::makedev(1, 3);
        Ok(rustix::fs::mknodat(CWD, self.path(rng), kind, Mode::from_raw_mode(0o600), device)?)
    }

    fn symlink(&mut self, rng: &SplitMix64) -> Done {
        // Short texts are in the inode, long ones in a block.
        let target = "t/".repeat(1 + rng.below(400) as usize);
        Ok(rustix::fs::symlinkat(target.as_str(), CWD, self.path(rng))?)
    }

    fn readlink(&mut self, rng: &SplitMix64) -> Done {
        Ok(std::fs::read_link(self.path(rng)).map(drop)?)
    }

    fn link(&mut self, rng: &SplitMix64) -> Done {
        Ok(std::fs::hard_link(self.path(rng), self.path(rng))?)
    }

    fn rename(&mut self, rng: &SplitMix64, flags: RenameFlags) -> Done {
        let (from, to) = (self.path(rng), self.path(rng));
        Ok(rustix::fs::renameat_with(CWD, &from, CWD, &to, flags)?)
    }

    fn unlink(&mut self, rng: &SplitMix64) -> Done {
        Ok(std::fs::remove_file(self.path(rng))?)
    }

    fn rmdir(&mut self, rng: &SplitMix64) -> Done {
        let own = rng.below(3) == 0;
        let dir = self.dir(rng, own).join(format!("d{}", rng.below(DIRECTORIES)));
        Ok(std::fs::remove_dir(dir)?)
    }

    /// Removes directories that were renamed to names of files: no other operation finds them.
    fn remove_tree(&mut self, rng: &SplitMix64) -> Done {
        let path = self.path(rng);
        if !path.symlink_metadata()?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        Ok(std::fs::remove_dir_all(path)?)
    }

    fn write(&mut self, rng: &SplitMix64) -> Done {
        let bytes = pattern(rng.next_u64(), 1 + rng.below(48 << 10) as usize);
        Ok(self.any_file(rng)?.write_all_at(&bytes, rng.below(SMALL))?)
    }

    fn append(&mut self, rng: &SplitMix64) -> Done {
        let file = self.any_file(rng)?;
        let end = file.metadata()?.len();
        if end > SMALL {
            return Ok(());
        }
        Ok(file.write_all_at(&pattern(rng.next_u64(), 1 + rng.below(9000) as usize), end)?)
    }

    fn read(&mut self, rng: &SplitMix64) -> Done {
        let mut bytes = vec![0; 1 + rng.below(64 << 10) as usize];
        Ok(self.any_file(rng)?.read_at(&mut bytes, rng.below(SMALL)).map(drop)?)
    }

    /// A file that no name of the trees leads to: another process could truncate it meanwhile.
    fn map(&mut self, rng: &SplitMix64) -> Done {
        let len = 1 + rng.below(SMALL) as usize;
        self.mapped.set_len(len as u64)?;
        let (at, tag) = (rng.below(len as u64) as usize, rng.next_u64());
        Ok(with_mapping(&self.mapped, (0, len), |memory| {
            let part = &mut memory[at..];
            part.copy_from_slice(&pattern(tag, part.len()));
        })?)
    }

    fn truncate(&mut self, rng: &SplitMix64) -> Done {
        let to = if rng.below(3) == 0 { 0 } else { rng.below(SMALL) };
        Ok(self.any_file(rng)?.set_len(to)?)
    }

    fn sparse_write(&mut self, rng: &SplitMix64) -> Done {
        Ok(self.any_file(rng)?.write_all_at(&pattern(rng.next_u64(), 512), rng.below(SPARSE))?)
    }

    fn sparse_truncate(&mut self, rng: &SplitMix64) -> Done {
        Ok(self.any_file(rng)?.set_len(rng.below(SPARSE))?)
    }

    fn fallocate(&mut self, rng: &SplitMix64, mode: FallocateFlags) -> Done {
        let (offset, len) = (rng.below(SMALL), 1 + rng.below(64 << 10));
        Ok(fallocate(&self.any_file(rng)?, mode, offset, len)?)
    }

    fn copy_range(&mut self, rng: &SplitMix64) -> Done {
        let (from, to) = (self.any_file(rng)?, self.any_file(rng)?);
        let (mut source, mut target) = (rng.below(SMALL), rng.below(SMALL));
        let len = rng.below(64 << 10) as usize;
        let copied =
            rustix::fs::copy_file_range(&from, Some(&mut source), &to, Some(&mut target), len);
        Ok(copied.map(drop)?)
    }

    fn setxattr(&mut self, rng: &SplitMix64) -> Done {
        let names = ["user.a", "user.longer-name", "trusted.b", "security.c"];
        let name = names[rng.below(names.len() as u64) as usize];
        let value = pattern(rng.next_u64(), rng.below(1500) as usize);
        Ok(rustix::fs::lsetxattr(self.path(rng), name, &value, XattrFlags::empty())?)
    }

    fn getxattr(&mut self, rng: &SplitMix64) -> Done {
        let mut value = vec![0u8; 2000];
        Ok(rustix::fs::lgetxattr(self.path(rng), "user.a", &mut value[..]).map(drop)?)
    }

    fn listxattr(&mut self, rng: &SplitMix64) -> Done {
        let mut names = vec![0u8; 4000];
        Ok(rustix::fs::llistxattr(self.path(rng), &mut names[..]).map(drop)?)
    }

    fn removexattr(&mut self, rng: &SplitMix64) -> Done {
        Ok(rustix::fs::lremovexattr(self.path(rng), "user.a")?)
    }

    /// An access list, or that of new files: owner, a user, group, mask, others.
    fn acl(&mut self, rng: &SplitMix64) -> Done {
        let mut list = 2u32.to_le_bytes().to_vec();
        let none = u32::MAX;
        for (tag, permissions, id) in [
            (0x01u16, 6u16, none),
            (0x02, 4, 1000),
            (0x04, 4, none),
            (0x10, 6, none),
            (0x20, 0, none),
        ] {
            list.extend(tag.to_le_bytes());
            list.extend(permissions.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        let kinds = ["system.posix_acl_access", "system.posix_acl_default"];
        let name = kinds[rng.below(2) as usize];
        Ok(rustix::fs::setxattr(self.path(rng), name, &list, XattrFlags::empty())?)
    }

    fn chmod(&mut self, rng: &SplitMix64) -> Done {
        let mode = Mode::from_raw_mode(0o600 | rng.below(0o10000) as u32);
        let path = self.path(rng);
        // A symbolic link has no settable mode, and its target may be outside of the tree.
        if path.symlink_metadata()?.is_symlink() {
            return Ok(());
        }
        Ok(rustix::fs::chmodat(CWD, &path, mode, AtFlags::empty())?)
    }

    fn chown(&mut self, rng: &SplitMix64) -> Done {
        let id = |n: u64| (n % 3 * 1000) as u32;
        let (owner, group) = (id(rng.next_u64()), id(rng.next_u64()));
        Ok(std::os::unix::fs::lchown(self.path(rng), Some(owner), Some(group))?)
    }

    /// Sets and clears a flag: an immutable file could never be removed.
    fn chflags(&mut self, rng: &SplitMix64) -> Done {
        let file = self.any_file(rng)?;
        let flags = [IFlags::IMMUTABLE, IFlags::APPEND, IFlags::NODUMP];
        let flag = flags[rng.below(flags.len() as u64) as usize];
        let before = rustix::fs::ioctl_getflags(&file)?;
        rustix::fs::ioctl_setflags(&file, before | flag)?;
        Ok(rustix::fs::ioctl_setflags(&file, before - flag)?)
    }

    fn utimens(&mut self, rng: &SplitMix64) -> Done {
        let at = Timespec { tv_sec: rng.below(2_000_000_000) as i64, tv_nsec: 0 };
        let times = Timestamps { last_access: at, last_modification: at };
        Ok(rustix::fs::utimensat(CWD, self.path(rng), &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn fsync(&mut self, rng: &SplitMix64) -> Done {
        Ok(self.any_file(rng)?.sync_all()?)
    }

    fn fdatasync(&mut self, rng: &SplitMix64) -> Done {
        Ok(self.any_file(rng)?.sync_data()?)
    }

    fn open_dir(&self, rng: &SplitMix64) -> io::Result<File> {
        let own = rng.below(3) == 0;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(CWD, self.dir(rng, own), flags, Mode::empty())?))
    }

    fn fsync_dir(&mut self, rng: &SplitMix64) -> Done {
        Ok(self.open_dir(rng)?.sync_all()?)
    }

    /// sync(2) would write every file system of the machine.
    fn syncfs(&mut self, _: &SplitMix64) -> Done {
        Ok(rustix::fs::syncfs(File::open(&self.shared)?)?)
    }

    fn readdir(&mut self, rng: &SplitMix64) -> Done {
        let dir = self.open_dir(rng)?;
        let mut buffer = Vec::with_capacity(8 << 10);
        let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            entry?;
        }
        Ok(())
    }

    fn stat(&mut self, rng: &SplitMix64) -> Done {
        Ok(self.path(rng).symlink_metadata().map(drop)?)
    }

    fn statfs(&mut self, _: &SplitMix64) -> Done {
        let found = rustix::fs::statvfs(&self.shared)?;
        if found.f_bfree > found.f_blocks || found.f_ffree > found.f_files {
            let why = format!(
                "more is free than there is: {} of {} blocks, {} of {} files",
                found.f_bfree, found.f_blocks, found.f_ffree, found.f_files
            );
            return Err(Failed::Wrong(why));
        }
        Ok(())
    }

    fn open_keep(&mut self, rng: &SplitMix64) -> Done {
        let file = self.any_file(rng)?;
        if self.open.len() == OPEN {
            self.open.remove(0);
        }
        self.open.push(file);
        Ok(())
    }

    /// Reads and writes a file that may have lost its name.
    fn open_use(&mut self, rng: &SplitMix64) -> Done {
        let Some(file) = self.open.get(rng.below(OPEN as u64) as usize) else { return Ok(()) };
        let bytes = pattern(rng.next_u64(), 1 + rng.below(9000) as usize);
        file.write_all_at(&bytes, rng.below(SMALL))?;
        let mut found = vec![0; 9000];
        file.read_at(&mut found, rng.below(SMALL))?;
        match rng.below(4) {
            0 => Ok(file.sync_data()?),
            1 => Ok(file.set_len(rng.below(SMALL))?),
            _ => Ok(()),
        }
    }

    fn open_close(&mut self, _: &SplitMix64) -> Done {
        drop(self.open.pop());
        Ok(())
    }
}

impl Worker for Tree {
    fn step(&mut self, rng: &SplitMix64) -> (&'static str, Done) {
        match choose(rng, &self.operations).and_then(|number| OPERATIONS.get(number)) {
            Some((name, _, act)) => (name, act(self, rng)),
            None => {
                std::thread::sleep(Duration::from_millis(1));
                ("nothing", Ok(()))
            }
        }
    }
}
