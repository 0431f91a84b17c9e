//! Common code of the tests: fixture volumes and naive readers of a whole image in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]
#![allow(dead_code, reason = "each test file uses a part")]

use ffs_ondisk::bmap::{self, Path};
use ffs_ondisk::sbsearch::{self, Found, SearchError};
use ffs_ondisk::{Cg, CgNo, Dinode, FragNo, Geometry, Ino, Lbn, wire};
use ffs_testkit::fixtures;

/// A file system of a fixture: the bytes from its start on.
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The start of the file system in an image; `None` for images without one.
fn start_of(name: &str) -> Option<usize> {
    match name {
        "part-gpt-ufs2" => Some(2048 * 512),
        "part-mbr-bsd-ufs1-abs" => Some(40448),
        _ if name.starts_with("label-") => None,
        _ => Some(0),
    }
}

pub(crate) fn volume(name: &str) -> Option<Volume> {
    let bytes = fixtures::load(name)?.split_off(start_of(name)?);
    Some(Volume { name: name.to_owned(), bytes })
}

/// All file systems but the truncated one.
pub(crate) fn volumes() -> impl Iterator<Item = Volume> {
    let whole = |n: &String| n != "freebsd8-ufs2-head-1m";
    fixtures::image_names().into_iter().filter(whole).filter_map(|n| volume(&n))
}

/// A small volume of each kind, for tests that change it many times.
pub(crate) fn small_volumes() -> impl Iterator<Item = Volume> {
    let names = [
        "freebsd14-ufs2-le-4m",
        "freebsd14-ufs2-be-4m",
        "freebsd-ufs1-10m-a",
        "makefs-ufs1-be",
        "makefs-ufs2-sb8k-le",
        "openbsd28-ufs1-floppy",
        "nb-ufs1-64k8k-le",
        "newfs10-ufs2-8k8k-32m",
    ];
    names.into_iter().filter_map(volume)
}

pub(crate) fn reader(bytes: &[u8]) -> impl FnMut(u64, usize) -> Result<Vec<u8>, String> + '_ {
    |at, len| {
        let at = usize::try_from(at).map_err(|e| e.to_string())?;
        let end = at.saturating_add(len).min(bytes.len());
        Ok(bytes.get(at..end).unwrap_or(&[]).to_vec())
    }
}

pub(crate) fn find(bytes: &[u8]) -> Result<Found, SearchError<String>> {
    sbsearch::find(reader(bytes), Some(bytes.len() as u64))
}

impl Volume {
    pub(crate) fn found(&self) -> Found {
        find(&self.bytes).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    pub(crate) fn at(&self, g: &Geometry, d: FragNo, len: usize) -> &[u8] {
        let start = g.frag_to_byte(d) as usize;
        &self.bytes[start..start + len]
    }

    pub(crate) fn cg_block(&self, g: &Geometry, c: u32) -> &[u8] {
        self.at(g, g.cgtod(CgNo(c)), g.bsize as usize)
    }

    pub(crate) fn cg<'a>(&'a self, g: &'a Geometry, c: u32) -> Cg<'a> {
        Cg::new(g, self.cg_block(g, c))
    }

    pub(crate) fn inode_bytes(&self, g: &Geometry, i: Ino) -> &[u8] {
        let start = g.frag_to_byte(g.ino_to_fsba(i)) as usize + g.ino_to_fsbo(i);
        &self.bytes[start..start + g.format.dinode_size()]
    }

    /// Numbers of all used inodes except 0 and 1.
    pub(crate) fn used_inodes(&self, g: &Geometry) -> Vec<Ino> {
        let mut out = Vec::new();
        for c in 0..g.ncg {
            let cg = self.cg(g, c);
            let used = (0..g.ipg).filter(|&i| cg.inode_used(i)).map(|i| Ino(c * g.ipg + i));
            out.extend(used.filter(|i| i.0 >= 2));
        }
        out
    }

    fn pointer(&self, g: &Geometry, block: i64, index: u32) -> i64 {
        let b = self.at(g, FragNo(block as u64), g.bsize as usize);
        let off = index as usize * g.format.pointer_size();
        match g.format {
            ffs_ondisk::Format::Ufs1 => wire::get::<i32>(b, off, g.endian).into(),
            ffs_ondisk::Format::Ufs2 => wire::get::<i64>(b, off, g.endian),
        }
    }

    /// The pointer to logical block `l`; 0 is a hole.
    pub(crate) fn bmap(&self, g: &Geometry, d: &Dinode, l: Lbn) -> i64 {
        match bmap::path(g, l).unwrap() {
            Path::Direct(n) => d.db[n],
            Path::Indirect { levels, index } => {
                let step = |p: i64, i: &u32| if p == 0 { 0 } else { self.pointer(g, p, *i) };
                index[..levels].iter().fold(d.ib[levels - 1], step)
            }
        }
    }

    /// The whole content of a small file.
    pub(crate) fn content(&self, g: &Geometry, d: &Dinode) -> Vec<u8> {
        let mut out = Vec::new();
        let mut l = Lbn(0);
        while (out.len() as u64) < d.size {
            let len = g.blksize(d.size, l) as usize;
            match self.bmap(g, d, l) {
                0 => out.resize(out.len() + len, 0),
                p => out.extend_from_slice(self.at(g, FragNo(p as u64), len)),
            }
            l = l.plus(1);
        }
        out.truncate(d.size as usize);
        out
    }
}
