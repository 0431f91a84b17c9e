//! The short form of an inode compared with the full one.
#![allow(clippy::unwrap_used, reason = "a test")]

include!("common/small.rs");

use ffs_ondisk::dinode::Outline;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{Dinode, Endian, FileFlags, FileType, Format, Geometry};

fn geometry(format: Format, endian: Endian) -> Geometry {
    let sb = superblock(format, 8192, 8, 4, 100);
    let mut g = ffs_ondisk::sbcheck::geometry(&sb, None).unwrap();
    g.endian = endian;
    g
}

#[test]
fn an_outline_agrees_with_the_inode() {
    for format in [Format::Ufs1, Format::Ufs2] {
        for endian in [Endian::Little, Endian::Big] {
            let g = geometry(format, endian);
            let mut d = Dinode {
                mode: 0o100_644,
                nlink: 3,
                size: 0x1234_5678,
                blocks: 0x4321,
                flags: FileFlags::SF_SNAPSHOT,
                ..Dinode::default()
            };
            for (i, p) in d.db.iter_mut().enumerate().take(9) {
                *p = 0x0102_0300 + i as i64;
            }
            let mut raw = vec![0; format.dinode_size()];
            d.encode(&g, &mut raw);
            let o = Outline::read(&g, &raw).unwrap();
            let same = (o.nlink, o.size, o.blocks, o.flags) == (3, d.size, d.blocks, d.flags);
            assert!(same && o.kind == FileType::Regular, "{o:?}");
            let direct: Vec<i64> = (0..NDADDR).map(|i| o.pointer(&g, i)).collect();
            assert_eq!(direct, d.db);
            assert!(o.ends_at(&g, 9) && o.ends_at(&g, 12) && !o.ends_at(&g, 8));
            for change in [
                |d: &mut Dinode| d.ib[2] = 1,
                |d: &mut Dinode| d.mode = 0o120_777,
                |d: &mut Dinode| d.mode = 0,
            ] {
                let mut other = d.clone();
                change(&mut other);
                let mut raw = vec![0; format.dinode_size()];
                other.encode(&g, &mut raw);
                assert_eq!(Outline::read(&g, &raw), None);
            }
            assert_eq!(Outline::read(&g, &raw[..50]), None);
        }
    }
    let g = geometry(Format::Ufs2, Endian::Little);
    for change in [|d: &mut Dinode| d.extsize = 1, |d: &mut Dinode| d.extb[1] = 1] {
        let mut d = Dinode { mode: 0o100_644, ..Dinode::default() };
        change(&mut d);
        let mut raw = [0; 256];
        d.encode(&g, &mut raw);
        assert_eq!(Outline::read(&g, &raw), None);
    }
}
