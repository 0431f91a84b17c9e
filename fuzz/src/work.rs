//! Operations on a mounted volume, with any result.

use crate::RECORD;
use ffs_core::{
    Access, Cred, Error, Fallocate, Ffs, FileFlags, Ino, NodeKind, RenameMode, SetAttr, SetTime,
    Timespec, Vnode, WriteMode, XattrNamespace, XattrSet,
};

/// One operation on files seen so far.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    what: u8,
    /// Indexes of two files and two names.
    file: u8,
    name: u8,
    other: u8,
    new: u8,
    /// An offset and a length, scaled.
    at: u16,
    len: u8,
}

const NAMES: [&[u8]; 18] = [
    b"dir",
    b"sub",
    b"big",
    b"sparse",
    b"link",
    b"short",
    b"long",
    b"fifo",
    b"new",
    b"file with a longer name 7",
    b"..",
    b".snap",
    b"locked",
    b".sujournal",
    b"s1",
    b"lost+found",
    b"another new name which is longer than the others",
    &[b'n'; 255],
];

fn name(n: u8) -> &'static [u8] {
    NAMES[usize::from(n) % NAMES.len()]
}

/// Most bytes read or written at once.
const BUFFER: usize = 70_000;
static ZEROS: [u8; BUFFER] = [9; BUFFER];

/// The files seen on a volume.
pub struct Work<'a> {
    fs: &'a Ffs,
    seen: Vec<Vnode>,
    buf: Vec<u8>,
    /// Errors that report damage of the volume.
    pub complaints: Vec<String>,
}

/// Makes the operations. Returns the errors that report damage.
pub fn run(fs: &Ffs, steps: &[Step]) -> Vec<String> {
    let Ok(root) = fs.root() else { return Vec::new() };
    let mut seen = vec![root.clone()];
    // All paths are known from the start.
    for path in
        [&b"dir"[..], b"dir/sub", b"dir/sub/big", b"dir/sub/sparse", b"short", b"long", b".snap/s1"]
    {
        let cred = Cred::root();
        let walk =
            path.split(|&b| b == b'/').try_fold(root.clone(), |at, n| fs.lookup(&cred, &at, n));
        seen.extend(walk.ok());
    }
    let mut work = Work { fs, seen, buf: Vec::new(), complaints: Vec::new() };
    for step in steps {
        match work.one(*step) {
            Ok(Some(file)) if work.seen.len() < 32 => work.seen.push(file),
            Err(e @ (Error::Format(_) | Error::Io(_))) => {
                work.complaints.push(format!("{step:?}: {e}"))
            }
            _ => {}
        }
    }
    for file in &work.seen {
        let _ = fs.getattr(file);
    }
    work.complaints
}

type Out = Result<Option<Vnode>, Error>;

impl Work<'_> {
    fn at(&self, n: u8) -> &Vnode {
        &self.seen[usize::from(n) % self.seen.len()]
    }

    fn one(&mut self, s: Step) -> Out {
        let fs = self.fs;
        let cred = if s.what >= 112 { Cred::user(1000, 1000) } else { Cred::root() };
        let (f, n) = (self.at(s.file).clone(), name(s.name));
        let g = self.at(s.other).clone();
        match s.what % 28 {
            0 => return fs.lookup(&cred, &f, n).map(Some),
            1 => fs.readdir(&f, u64::from(s.at), &mut |_| true)?,
            2 => return fs.create(&cred, &f, n, NodeKind::Regular, 0o644).map(Some),
            3 => return fs.mkdir(&cred, &f, n, 0o755).map(Some),
            4 => return fs.symlink(&cred, &f, n, &ZEROS[..usize::from(s.at) % 1025 + 1]).map(Some),
            5 => fs.link(&cred, &f, &g, n)?,
            6 => fs.unlink(&cred, &f, n)?,
            7 => fs.rmdir(&cred, &f, n)?,
            8 => fs.rename(&cred, (&f, n), (&g, name(s.new)), RenameMode::Replace)?,
            9 => fs.rename(&cred, (&f, n), (&g, name(s.new)), RenameMode::Exchange)?,
            10 => drop(fs.readlink(&f)?),
            11 => return self.special(s, &f, n),
            12 => fs.sync()?,
            13 if s.len & 1 == 0 => fs.fdatasync(&f)?,
            13 => fs.fsync(&f)?,
            14 => return fs.vget(Ino(u32::from(s.at) % fs.geometry().inodes()), None).map(Some),
            15 => drop(fs.setattr(&cred, &f, &attributes(s))?),
            16 => drop(fs.access(&cred, &f, Access(s.len & 7))),
            17 => self.forget(s.file),
            18 => {
                let ro = fs.is_read_only();
                fs.remount(!ro)?;
                if ro {
                    return Ok(None);
                }
                let _ = fs.remount(false);
            }
            19 | 20 => self.attribute(s, &cred, &f)?,
            _ => self.content(s, &cred, &f)?,
        }
        Ok(None)
    }

    fn special(&self, s: Step, f: &Vnode, n: &[u8]) -> Out {
        let kind = match s.len % 3 {
            0 => NodeKind::Fifo,
            1 => NodeKind::Socket,
            _ => NodeKind::Block(u64::from(s.at)),
        };
        self.fs.create(&Cred::root(), f, n, kind, 0o600).map(Some)
    }

    /// Drops a file, which may be its last use.
    fn forget(&mut self, n: u8) {
        if self.seen.len() > 1 {
            let n = usize::from(n) % self.seen.len();
            drop(self.seen.swap_remove(n));
        }
    }

    /// Damage inside the value of an access list is not damage of the volume.
    fn attribute(&self, s: Step, cred: &Cred, f: &Vnode) -> Result<(), Error> {
        let ns =
            if s.new.is_multiple_of(2) { XattrNamespace::User } else { XattrNamespace::System };
        let key = if s.new % 4 == 3 { &b"posix1e.acl_access"[..] } else { name(s.name) };
        let len = usize::from(s.at) % 9000;
        let changed = match s.len % 4 {
            0 | 1 => self.fs.setxattr(cred, f, ns, key, &ZEROS[..len], XattrSet::Any),
            2 => self.fs.removexattr(cred, f, ns, key),
            _ => self.fs.listxattr(cred, f).map(drop),
        };
        let read = self.fs.getxattr(cred, f, ns, key);
        let _ = self.fs.access_acl(f);
        let _ = self.fs.default_acl(f);
        changed.and(read.map(drop))
    }

    fn content(&mut self, s: Step, cred: &Cred, f: &Vnode) -> Result<(), Error> {
        let fs = self.fs;
        let g = fs.geometry();
        // Near the start, or near the first block of an indirection level.
        let near = u64::from(s.at) * u64::from(g.fsize) / 4;
        let nindir = u64::from(g.nindir);
        let first = [0, 0, 12, 12 + nindir, 12 + nindir * (nindir + 1)][usize::from(s.new) % 5];
        let at = first.saturating_mul(u64::from(g.bsize)).saturating_add(near);
        let len = usize::from(s.len) * 270;
        match s.what % 28 {
            21 => {
                self.buf.resize(len, 0);
                fs.read(f, at, &mut self.buf)?;
            }
            22 | 23 => {
                let mode =
                    WriteMode { append: s.name == 1, sync: s.name == 2, ..WriteMode::default() };
                fs.write(cred, f, at, &ZEROS[..len], mode)?;
            }
            24 => drop(fs.setattr(cred, f, &SetAttr { size: Some(at), ..SetAttr::default() })?),
            25 => {
                use Fallocate::{Allocate, AllocateKeepSize, PunchHole, ZeroRange};
                let how =
                    [Allocate, AllocateKeepSize, PunchHole, ZeroRange][usize::from(s.name) % 4];
                fs.fallocate(cred, f, at, len as u64 + 1, how)?;
            }
            26 => {
                let size = fs.getattr(f).size;
                fs.setattr(cred, f, &SetAttr { size: Some(size / 2), ..SetAttr::default() })?;
            }
            _ => {
                fs.seek_data(f, at)?;
                fs.seek_hole(f, at)?;
            }
        }
        Ok(())
    }
}

fn attributes(s: Step) -> SetAttr {
    let time = Timespec { secs: i64::from(s.at) << (s.len % 48), nsec: 5 };
    match s.new % 5 {
        0 => SetAttr { perm: Some(s.at & 0o7777), ..SetAttr::default() },
        1 => SetAttr { uid: Some(s.at.into()), gid: Some(s.len.into()), ..SetAttr::default() },
        2 => SetAttr { mtime: Some(SetTime::To(time)), ..SetAttr::default() },
        3 => SetAttr { atime: Some(SetTime::Now), birthtime: Some(time), ..SetAttr::default() },
        _ => {
            let bits = u32::from(s.len) | u32::from(s.at & 0xff) << 16;
            SetAttr { flags: Some(FileFlags::from_bits_retain(bits)), ..SetAttr::default() }
        }
    }
}

impl Step {
    /// Decodes an operation.
    #[must_use]
    pub fn of(r: &[u8; RECORD]) -> Step {
        let at = u16::from_le_bytes([r[5], r[6]]);
        // The first byte of the record is odd: its upper bits are the operation.
        Step { what: r[0] >> 1, file: r[1], name: r[2], other: r[3], new: r[4], at, len: r[7] }
    }
}
