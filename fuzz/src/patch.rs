//! Damage at places that mean something.

use arbitrary::Arbitrary;
use ffs_ondisk::cg::CgFields;
use ffs_ondisk::dinode::{self, Dinode1, Dinode2};
use ffs_ondisk::geometry::Format;
use ffs_ondisk::superblock::SbFields;
use ffs_ondisk::wire::Field;
use ffs_ondisk::{CgNo, Geometry, Ino, Superblock, cg};

/// Which structure.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub enum Place {
    /// A field of the superblock.
    Superblock(u8),
    /// A field of a group's header.
    Group(u8, u8),
    /// A byte of a group's maps.
    Map(u8, u16),
    /// A field of an inode, and which word of it.
    Inode(u8, u8, u8),
    /// A byte of the summary area.
    Summary(u8),
    /// A byte of the data area, counted in fragments and bytes.
    Data(u16, u16),
    /// Any byte.
    Byte(u32),
}

/// What happens to the value there.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub enum Change {
    /// Zeros.
    Zero,
    /// Ones.
    Ones,
    /// One bit.
    Flip(u8),
    /// One more.
    Increment,
    /// One less.
    Decrement,
    /// Something else.
    Set(u64),
}

/// One damage.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub struct Patch {
    /// Where.
    pub place: Place,
    /// What.
    pub change: Change,
}

impl Patch {
    /// Does it.
    pub fn apply(&self, bytes: &mut [u8], g: &Geometry) {
        let (at, len) = self.range(g, bytes.len());
        let Some(value) = bytes.get_mut(at..at.saturating_add(len)) else { return };
        match self.change {
            Change::Zero => value.fill(0),
            Change::Ones => value.fill(0xff),
            Change::Flip(bit) => {
                let n = value.len().max(1);
                if let Some(b) = value.get_mut(usize::from(bit / 8) % n) {
                    *b ^= 1 << (bit % 8);
                }
            }
            Change::Increment => value.iter_mut().take(1).for_each(|b| *b = b.wrapping_add(1)),
            Change::Decrement => value.iter_mut().take(1).for_each(|b| *b = b.wrapping_sub(1)),
            Change::Set(v) => {
                for (b, n) in value.iter_mut().zip(v.to_le_bytes()) {
                    *b = n;
                }
            }
        }
    }

    fn range(&self, g: &Geometry, total: usize) -> (usize, usize) {
        let group = |c: u8| CgNo(u32::from(c) % g.ncg);
        let block = |c: u8| g.frag_to_byte(g.cgtod(group(c))) as usize;
        let field = |fields: &[Field], n: u8| {
            let f = fields[usize::from(n) % fields.len()];
            (f.offset, f.size)
        };
        match self.place {
            Place::Superblock(n) => {
                let (off, len) = field(SbFields::FIELDS, n);
                (home(g) + off, len)
            }
            Place::Group(c, n) => {
                let (off, len) = field(CgFields::FIELDS, n);
                (block(c) + off, len)
            }
            Place::Map(c, n) => {
                let room = g.cgsize as usize - cg::CG_HEADER;
                (block(c) + cg::CG_HEADER + usize::from(n) % room, 1)
            }
            Place::Inode(i, n, word) => {
                let ino = Ino(2 + u32::from(i) % 60);
                let (off, len) = match g.format {
                    Format::Ufs1 => field(Dinode1::FIELDS, n),
                    Format::Ufs2 => field(Dinode2::FIELDS, n),
                };
                let unit = g.format.pointer_size().min(len);
                let base = g.frag_to_byte(g.ino_to_fsba(ino)) as usize + g.ino_to_fsbo(ino);
                (base + off + unit * (usize::from(word) % (len / unit)), unit)
            }
            Place::Summary(n) => (g.frag_to_byte(g.csaddr) as usize + usize::from(n), 4),
            Place::Data(f, off) => {
                let first = g.frag_to_byte(g.cgdmin(CgNo(0))) as usize;
                let frags = 400 * g.fsize as usize;
                let at = usize::from(f) * g.fsize as usize % frags;
                (first + at + usize::from(off) % g.fsize as usize, 4)
            }
            Place::Byte(n) => (n as usize % total, 1),
        }
    }
}

fn home(g: &Geometry) -> usize {
    if g.format == Format::Ufs1 { 8192 } else { 65536 }
}

/// Puts every check hash right, wherever the structures still are.
pub fn rehash(bytes: &mut [u8], g: &Geometry) {
    for c in 0..g.ncg {
        let at = g.frag_to_byte(g.cgtod(CgNo(c))) as usize;
        if let Some(b) = bytes.get_mut(at..at + g.bsize as usize) {
            cg::rehash(g, b);
        }
    }
    for i in 2..62 {
        let at = g.frag_to_byte(g.ino_to_fsba(Ino(i))) as usize + g.ino_to_fsbo(Ino(i));
        if let Some(b) = bytes.get_mut(at..at + g.format.dinode_size()) {
            dinode::rehash(g, b);
        }
    }
    let at = home(g);
    let sb = bytes.get(at..at + 8192).and_then(|b| Superblock::decode(b, at as u64).ok());
    if let Some(sb) = sb {
        let new = sb.encode();
        if let Some(dst) = bytes.get_mut(at..at + new.len()) {
            dst.copy_from_slice(&new);
        }
    }
}
