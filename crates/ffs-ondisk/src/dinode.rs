//! Inodes: both on-disk formats as one native structure (`spec/on-disk-format.md` §7).
//!
//! # Invariants
//! 1. [`Dinode::encode`] of [`Dinode::decode`] gives the same bytes, unknown fields included.
//! 2. The pointer area is decoded either as pointers (`db`, `ib`) or as link text (`short`);
//!    [`Dinode::is_short_symlink`] decides which.
//! 3. Decoding checks nothing but the check hash; [`check`] validates the fields.

mod kind;
mod outline;
mod ufs1;

pub use kind::{FileFlags, FileType};
pub use outline::Outline;
pub use ufs1::{Dinode1, SunDinode};

use crate::error::{Corrupt, Error, Place, Structure};
use crate::geometry::{Format, Geometry, NDADDR, NIADDR};
use crate::hash::check_hash;
use crate::layout;
use crate::superblock::CkHash;
use crate::units::Ino;
use crate::wire::{get, put};

/// Byte offset of the check hash in a UFS2 inode.
const CKHASH_OFFSET: usize = 244;
/// Largest size of a directory, bytes.
pub const MAXDIRSIZE: u64 = 0x7fff_ffff;
/// Largest link count that this implementation assigns (`UFS_LINK_MAX`).
pub const LINK_MAX: u16 = 32767;

layout! {
    /// UFS2 inode on disk.
    pub struct Dinode2[256] {
        0 => mode: u16, "Type and permissions.";
        2 => nlink: u16, "Links.";
        4 => uid: u32, "Owner.";
        8 => gid: u32, "Group.";
        12 => blksize: u32, "Unused.";
        16 => size: u64, "Bytes.";
        24 => blocks: u64, "512-byte units held.";
        32 => atime: i64, "Access time, seconds.";
        40 => mtime: i64, "Modification time, seconds.";
        48 => ctime: i64, "Change time, seconds.";
        56 => birthtime: i64, "Creation time, seconds.";
        64 => mtimensec: i32, "Nanoseconds.";
        68 => atimensec: i32, "Nanoseconds.";
        72 => ctimensec: i32, "Nanoseconds.";
        76 => birthnsec: i32, "Nanoseconds.";
        80 => gen_: u32, "Generation.";
        84 => kernflags: u32, "Unused.";
        88 => flags: u32, "File flags.";
        92 => extsize: u32, "Bytes of extended attributes.";
        96 => extb: [i64; 2], "Extended-attribute blocks.";
        112 => db: [i64; 12], "Direct pointers.";
        208 => ib: [i64; 3], "Indirect pointers.";
        232 => modrev: u64, "Change counter.";
        240 => freelink: u32, "SU+J: next unlinked inode; directories: depth.";
        244 => ckhash: u32, "Check hash.";
        248 => spare: [u32; 2], "Unused.";
    }
}

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord, Hash)]
pub struct Timespec {
    /// Seconds, may be negative.
    pub secs: i64,
    /// Nanoseconds; `0..1_000_000_000` on an undamaged volume.
    pub nsec: i32,
}

impl Timespec {
    /// The seconds as UFS1 stores them: limited to the range of 32 bits (1901 to 2038).
    fn secs_in_ufs1(self) -> i32 {
        i32::try_from(self.secs.clamp(i32::MIN.into(), i32::MAX.into())).unwrap_or_default()
    }
}

/// An inode in native form, decoded from either format.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/small.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sb = superblock(ffs_ondisk::Format::Ufs2, 8192, 8, 4, 100);
/// # let g = ffs_ondisk::sbcheck::geometry(&sb, None)?;
/// use ffs_ondisk::{Dinode, FileType, Ino, dinode};
///
/// let file = Dinode { mode: 0o100_644, nlink: 1, size: 5, ..Dinode::default() };
/// let mut bytes = [0; 256];
/// file.encode(&g, &mut bytes);
/// let read = dinode::check(&g, Ino(4), &bytes)?;
/// assert_eq!(read.file_type(), Some(FileType::Regular));
/// assert_eq!(read, file);
/// # Ok(())
/// # }
/// ```
///
/// The order of the fields matters for speed: what `stat` returns comes first, in adjacent memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Dinode {
    /// Type and permissions; 0 = free.
    pub mode: u16,
    /// Links.
    pub nlink: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte units in use, including indirect and extended-attribute blocks.
    pub blocks: u64,
    /// Access time.
    pub atime: Timespec,
    /// Modification time.
    pub mtime: Timespec,
    /// Change time.
    pub ctime: Timespec,
    /// Creation time; zero on UFS1.
    pub birthtime: Timespec,
    /// Generation number.
    pub generation: u32,
    /// File flags.
    pub flags: FileFlags,
    /// Direct pointers (fragment addresses, 0 = hole); `db[0]` is the number of a device.
    pub db: [i64; NDADDR],
    /// Single, double and triple indirect pointers.
    pub ib: [i64; NIADDR],
    /// The pointer area as link text, if [`Dinode::is_short_symlink`].
    pub short: ShortLink,
    /// Bytes of extended attributes (UFS2).
    pub extsize: u32,
    /// Blocks of the extended attributes (UFS2).
    pub extb: [i64; 2],
    /// Change counter.
    pub modrev: u64,
    /// SU+J: next unlinked inode; directories: depth below the root.
    pub freelink: u32,
    /// Fields without a use here, preserved: `blksize`, `kernflags`, `spare`.
    pub unused: [u32; 4],
}

/// Link text stored in the pointer area. It is boxed since few inodes have one.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ShortLink {
    /// `None` if all bytes are zero.
    bytes: Option<Box<ShortBytes>>,
}

/// The size of the pointer area of UFS2, bytes.
type ShortBytes = [u8; 120];

static NO_TEXT: ShortBytes = [0; 120];

impl std::fmt::Debug for ShortLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.area().split(|&b| b == 0).next().unwrap_or(&[]);
        write!(f, "{:?}", String::from_utf8_lossy(text))
    }
}

impl ShortLink {
    /// Text, truncated to 120 bytes.
    #[must_use]
    pub fn new(text: &[u8]) -> ShortLink {
        let mut area = NO_TEXT;
        for (d, b) in area.iter_mut().zip(text) {
            *d = *b;
        }
        ShortLink { bytes: (area != NO_TEXT).then(|| Box::new(area)) }
    }

    fn area(&self) -> &ShortBytes {
        self.bytes.as_deref().unwrap_or(&NO_TEXT)
    }

    /// The first `len` bytes.
    #[must_use]
    pub fn text(&self, len: u64) -> &[u8] {
        let area = self.area();
        let n = usize::try_from(len).unwrap_or(usize::MAX).min(area.len());
        area.get(..n).unwrap_or(&[])
    }
}

impl Dinode {
    /// Decodes the inode at the start of `b`.
    #[must_use]
    pub fn decode(g: &Geometry, b: &[u8]) -> Dinode {
        match g.format {
            Format::Ufs1 => Self::from_ufs1(g, b),
            Format::Ufs2 => Self::from_ufs2(g, b),
        }
    }

    fn from_ufs2(g: &Geometry, b: &[u8]) -> Dinode {
        let d = Dinode2::decode(b, g.endian);
        let [s0, s1] = d.spare;
        let mut out = Dinode {
            mode: d.mode,
            nlink: d.nlink,
            uid: d.uid,
            gid: d.gid,
            size: d.size,
            blocks: d.blocks,
            atime: Timespec { secs: d.atime, nsec: d.atimensec },
            mtime: Timespec { secs: d.mtime, nsec: d.mtimensec },
            ctime: Timespec { secs: d.ctime, nsec: d.ctimensec },
            birthtime: Timespec { secs: d.birthtime, nsec: d.birthnsec },
            generation: d.gen_,
            flags: FileFlags::from_bits_retain(d.flags),
            db: d.db,
            ib: d.ib,
            extsize: d.extsize,
            extb: d.extb,
            modrev: d.modrev,
            freelink: d.freelink,
            unused: [d.blksize, d.kernflags, s0, s1],
            short: ShortLink::default(),
        };
        out.take_short(g, b.get(112..232).unwrap_or(&[]));
        out
    }

    fn take_short(&mut self, g: &Geometry, area: &[u8]) {
        if self.is_short_symlink(g) {
            self.short = ShortLink::new(area);
            self.db = [0; NDADDR];
            self.ib = [0; NIADDR];
        }
    }

    /// Writes the inode to the start of `b`, with its check hash if the volume has one.
    pub fn encode(&self, g: &Geometry, b: &mut [u8]) {
        match g.format {
            Format::Ufs1 => self.to_ufs1(g, b),
            Format::Ufs2 => self.to_ufs2(g, b),
        }
    }

    fn to_ufs2(&self, g: &Geometry, b: &mut [u8]) {
        let [blksize, kernflags, s0, s1] = self.unused;
        let d = Dinode2 {
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            blksize,
            size: self.size,
            blocks: self.blocks,
            atime: self.atime.secs,
            mtime: self.mtime.secs,
            ctime: self.ctime.secs,
            birthtime: self.birthtime.secs,
            mtimensec: self.mtime.nsec,
            atimensec: self.atime.nsec,
            ctimensec: self.ctime.nsec,
            birthnsec: self.birthtime.nsec,
            gen_: self.generation,
            kernflags,
            flags: self.flags.bits(),
            extsize: self.extsize,
            extb: self.extb,
            db: self.db,
            ib: self.ib,
            modrev: self.modrev,
            freelink: self.freelink,
            ckhash: get(b, CKHASH_OFFSET, g.endian),
            spare: [s0, s1],
        };
        d.encode(b, g.endian);
        self.put_short(g, b, 112);
        rehash(g, b);
    }

    fn put_short(&self, g: &Geometry, b: &mut [u8], off: usize) {
        if self.is_short_symlink(g) {
            let capacity = g.format.short_symlink_capacity();
            let text = self.short.text(capacity as u64);
            if let Some(dst) = b.get_mut(off..off + capacity) {
                dst.copy_from_slice(text);
            }
        }
    }

    /// The file type; `None` for a free inode or an invalid mode.
    #[must_use]
    pub fn file_type(&self) -> Option<FileType> {
        FileType::of_mode(self.mode)
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }

    /// Whether the pointer area holds link text instead of pointers (`spec/on-disk-format.md`
    /// §7.6). Such a link can still have blocks, for extended attributes.
    #[must_use]
    pub fn is_short_symlink(&self, g: &Geometry) -> bool {
        let capacity = g.format.short_symlink_capacity() as u64;
        let inside = self.size < capacity || (self.size == capacity && self.blocks == 0);
        self.file_type() == Some(FileType::Symlink) && inside && g.maxsymlinklen > 0
    }

    /// Whether the pointer area holds block pointers.
    #[must_use]
    pub fn has_pointers(&self, g: &Geometry) -> bool {
        match self.file_type() {
            Some(FileType::Regular | FileType::Directory) => true,
            Some(FileType::Symlink) => !self.is_short_symlink(g),
            _ => false,
        }
    }

    /// Device number of a device inode in FreeBSD's encoding: see [`crate::rdev`].
    #[must_use]
    pub fn rdev(&self) -> u64 {
        let [first, ..] = self.db;
        first as u64
    }

    /// 512-byte units in `frags` fragments.
    #[must_use]
    pub fn sectors(g: &Geometry, frags: u32) -> u64 {
        g.frags_to_sectors(frags.into())
    }

    /// Fragments of block `i` of the extended attributes.
    #[must_use]
    pub fn ext_frags(&self, g: &Geometry, i: u64) -> u32 {
        ext_frags(g, self.extsize, i)
    }

    /// 512-byte sectors of the extended attributes.
    #[must_use]
    pub fn ext_sectors(&self, g: &Geometry) -> u64 {
        let frags = (0..).zip(self.extb).filter(|&(_, p)| p != 0);
        Dinode::sectors(g, frags.map(|(i, _)| self.ext_frags(g, i)).sum())
    }
}

/// Whether the inode at the start of `b` has a check hash; free inodes do not
/// (`spec/on-disk-format.md` §9).
fn hashed(g: &Geometry, b: &[u8]) -> bool {
    let kept = g.ckhash.contains(CkHash::INODE) && g.format == Format::Ufs2;
    kept && get::<u16>(b, 0, g.endian) != 0
}

/// Fragments of block `i` of extended attributes of `size` bytes.
#[must_use]
pub fn ext_frags(g: &Geometry, size: u32, i: u64) -> u32 {
    let rest = u64::from(size).saturating_sub(i * u64::from(g.bsize)).min(g.bsize.into());
    g.numfrags_up(rest)
}

/// Recomputes the check hash of the UFS2 inode at the start of `b` if it has one.
pub fn rehash(g: &Geometry, b: &mut [u8]) {
    if hashed(g, b) {
        let hash = check_hash(b.get(..Dinode2::SIZE).unwrap_or(&[]), CKHASH_OFFSET);
        put(b, CKHASH_OFFSET, g.endian, hash);
    }
}

/// Whether the stored check hash is right; true if there is none.
#[must_use]
pub fn hash_ok(g: &Geometry, b: &[u8]) -> bool {
    if !hashed(g, b) {
        return true;
    }
    let hash = check_hash(b.get(..Dinode2::SIZE).unwrap_or(&[]), CKHASH_OFFSET);
    hash == get::<u32>(b, CKHASH_OFFSET, g.endian)
}

/// Checks an allocated inode read from disk, without following its pointers
/// (`spec/on-disk-format.md` §18.3).
///
/// [`Error::Corrupt`] with the invalid field.
/// [`Error::Corrupt`] naming the field.
pub fn check(g: &Geometry, ino: Ino, b: &[u8]) -> Result<Dinode, Error> {
    let bad = |field, found: String, want: String| {
        Error::from(Corrupt::new(Structure::Inode, Place::Inode(ino), field, found, want))
    };
    let d = Dinode::decode(g, b);
    if !hash_ok(g, b) {
        let found = format!("{:#010x}", get::<u32>(b, CKHASH_OFFSET, g.endian));
        return Err(bad("ckhash", found, "the check hash of the inode".into()));
    }
    let Some(t) = d.file_type() else {
        return Err(bad("mode", format!("{:#o}", d.mode), "a known file type".into()));
    };
    let limit = match t {
        FileType::Directory => MAXDIRSIZE.min(g.maxfilesize),
        FileType::Regular => g.maxfilesize,
        FileType::Symlink => u64::from(g.bsize),
        _ => 0,
    };
    if d.size > limit {
        return Err(bad("size", d.size.to_string(), format!("at most {limit}")));
    }
    if t == FileType::Directory && !d.size.is_multiple_of(512) {
        return Err(bad("size", d.size.to_string(), "a multiple of 512".into()));
    }
    if u64::from(d.extsize) > 2 * u64::from(g.bsize) {
        return Err(bad("extsize", d.extsize.to_string(), format!("at most {}", 2 * g.bsize)));
    }
    Ok(d)
}
