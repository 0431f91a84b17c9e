//! Every parser of the project, on damaged volumes and on raw bytes.
//!
//! For accepted input the guarantees of the parser are checked, as far as that is inexpensive.

use crate::base::{self, Base, Class};
use crate::disks::{self, DISK};
use crate::{Input, walk};
use bsdffs::disk::Growth;
use ffs_admin::dumpfs::{Dump, Scope};
use ffs_core::{Ffs, MountOptions};
use ffs_device::partition::{self, Pick, Window};
use ffs_device::{BlockDevice, DeviceError, MemDevice};
use ffs_ondisk::dir::{DirFormat, MAXNAMLEN};
use ffs_ondisk::extattr::{self, Namespace};
use ffs_ondisk::sbsearch::{self, FsRecovery};
use ffs_ondisk::{
    Cg, CgNo, Dinode, Endian, FragNo, Geometry, Ino, Lbn, Place, Structure, Superblock, acl, bmap,
    cg, dinode, dir, foreign, journal, sbcheck, snapshot,
};
use std::io::sink;
use std::sync::Arc;

/// Runs all parsers.
pub fn all(data: &[u8]) {
    let input = Input::of(data);
    let image = input.image();
    dump(&image, input.flags >> 5);
    volume(&image, base::base(input.base));
    if base::base(input.base).foreign {
        files(image.snapshot());
    }
    let raw = data.get(2..).unwrap_or(&[]);
    for endian in [Endian::Little, Endian::Big] {
        pieces(endian, raw, &base::base(input.base).geo);
    }
    disks(input.flags, raw);
    superblock_bytes(raw);
}

fn reader(dev: &MemDevice) -> impl Fn(u64, usize) -> Result<Vec<u8>, DeviceError> {
    |at, len| {
        let mut bytes = vec![0; len];
        dev.read_at(at, &mut bytes).map(|()| bytes)
    }
}

fn volume(dev: &MemDevice, b: &Base) {
    let read = reader(dev);
    let _ = sbsearch::probe(&read);
    for at in b.spots[Class::Backup as usize].iter().map(|s| s.at) {
        let _ = sbsearch::at(&read, at, Some(dev.len_bytes()));
    }
    // By the damaged volume, and by its state before: then the structures differ from it.
    let found = sbsearch::find(&read, Some(dev.len_bytes()));
    let own = found.as_ref().ok().map(|f| f.geometry);
    for g in own.iter().chain([&b.geo]) {
        groups(dev, g);
        for s in b.spots[Class::Inode as usize]
            .iter()
            .chain(&b.spots[Class::FreeInode as usize])
            .take(60)
        {
            if let Ok(bytes) = read(s.at, g.format.dinode_size()) {
                inode(g, &bytes);
            }
        }
        for s in b.spots[Class::Entry as usize].iter().chain(&b.spots[Class::Attribute as usize]) {
            // A chunk begins at a multiple of 512.
            if let Ok(bytes) = read(s.at & !511, 512) {
                chunk(DirFormat::of(g), &bytes);
                attributes(g.endian, &bytes);
            }
        }
        if let Some(first) = b.spots[Class::Journal as usize].first()
            && let Ok(bytes) = read(first.at, 2048)
        {
            journal_bytes(g, &bytes);
        }
    }
    if let Ok(f) = found {
        let _ =
            (snapshot::active(&f.sb), f.sb.differing_field(&b.superblock()), FsRecovery::of(&f.sb));
        assert!(f.sb.location == f.sb.standard_location());
    }
}

/// Prints the volume in one of the ways, each of which reads all of it.
fn dump(dev: &MemDevice, how: u8) {
    let Ok(dump) = Dump::open(dev) else { return };
    let _ = dump.recreate();
    let _ = match how {
        0..4 => dump.write_text(&mut sink(), Scope::All),
        4 => dump.write_text(&mut sink(), Scope::Superblock),
        5 => dump.write_free(&mut sink()),
        7 => dump.write_json(&mut sink(), Scope::All),
        _ => dump.write_json(&mut sink(), Scope::Superblock),
    };
}

/// Reads every file of a volume of another system.
fn files(dev: MemDevice) {
    let options = MountOptions { read_only: true, force: true, ..MountOptions::default() };
    let Ok(fs) = Ffs::mount(Arc::new(dev), &options, base::env()) else { return };
    let _ = walk::tree(&fs);
    let _ = fs.unmount();
}

fn groups(dev: &MemDevice, g: &Geometry) {
    for c in (0..g.ncg.min(8)).map(CgNo) {
        let mut bytes = vec![0; g.cgsize as usize];
        if dev.read_at(g.frag_to_byte(g.cgtod(c)), &mut bytes).is_err() {
            continue;
        }
        let sound = cg::validate(g, c, &bytes).is_ok();
        let view = Cg::new(g, &bytes);
        let counts = view.recount();
        assert!(view.inosused().len() <= bytes.len() && view.blksfree().len() <= bytes.len());
        if sound {
            assert!(counts.cs.nbfree >= 0 && counts.cs.nffree >= 0);
        }
        let _ = (
            view.clustersfree(),
            view.inode_used(g.ipg),
            view.block_free(g.fpg),
            cg::hash_ok(g, &bytes),
        );
    }
}

fn inode(g: &Geometry, bytes: &[u8]) {
    let d = Dinode::decode(g, bytes);
    let _ = (d.file_type(), d.has_pointers(g), d.rdev(), journal::inode_problem(g, &d));
    let ino = Ino(3);
    // ffs writes no inodes of other systems.
    if g.variant.is_writable() && dinode::check(g, ino, bytes).is_ok() {
        let mut again = bytes.to_vec();
        d.encode(g, &mut again);
        assert_eq!(Dinode::decode(g, &again), d);
    }
    let _ = snapshot::list_bytes(g, ino, d.size);
    let _ = snapshot::list_words(g, ino, d.size, d.db[0]);
    let _ = snapshot::check_list(g, ino, d.size, &d.db);
    for &p in d.db.iter().chain(&d.ib) {
        let _ = snapshot::classify(g, ino, Lbn(d.size), p);
        if let Ok(n) = u64::try_from(p)
            && g.run_problem(FragNo(n), g.frag).is_none()
        {
            assert!(n + u64::from(g.frag) <= g.size);
        }
        if let Some(named) = bmap::parse_name(g, p) {
            let _ = (named, bmap::name_ok(g, p));
        }
    }
    let _ = (
        g.blksize(d.size, g.lblkno(d.size)),
        g.numfrags_up(d.size),
        bmap::path(g, g.lblkno(d.size)),
    );
    let _ = g.check_ino(d.freelink, Structure::Inode, Place::Inode(ino));
}

/// A whole directory chunk.
fn chunk(fmt: DirFormat, bytes: &[u8]) {
    let mut end = 0;
    for r in dir::records(fmt, bytes).flatten() {
        assert!(r.off == end && r.name.len() <= MAXNAMLEN);
        assert!(!r.live() || dir::name_ok(r.name));
        let _ = r.slack();
        end = r.off + r.reclen;
    }
    assert!(end <= bytes.len());
    for off in (0..bytes.len()).step_by(4) {
        let _ = dir::header(fmt, bytes, off);
        let _ = dir::read(fmt, bytes, off);
    }
}

fn attributes(endian: Endian, area: &[u8]) {
    let sound = extattr::records(endian, area).all(|r| r.is_ok());
    for a in extattr::records(endian, area).flatten() {
        let _ = acl::decode(endian, a.value);
    }
    let user = Namespace::User;
    let _ = extattr::find(endian, area, user, b"name");
    let _ = extattr::remove(endian, area, user, b"name");
    let limit = area.len() + 64;
    match extattr::set(endian, area, user, b"name", b"new", limit) {
        Ok(new) => {
            let found = extattr::find(endian, &new, user, b"name");
            assert!(!sound || found.is_ok_and(|a| a.is_some_and(|a| a.value == b"new")));
        }
        Err(e) => drop(e.to_string()),
    }
}

fn access_list(endian: Endian, raw: &[u8]) {
    let mut bytes = raw.to_vec();
    bytes.resize(388, 0);
    for b in [raw, &bytes] {
        let Ok(list) = acl::decode(endian, b) else { continue };
        let _ = acl::problem(&list);
        let again = acl::encode(endian, &list).map(|b| acl::decode(endian, &b));
        assert!(again == Some(Ok(list)));
    }
}

fn journal_bytes(g: &Geometry, content: &[u8]) {
    for sector in [0, 32, 64, 512, 4096] {
        for s in journal::scan(g.endian, content, sector, base::NOW).unwrap_or_default() {
            assert!(s.offset + s.len <= content.len());
            for r in journal::records(g, content, &s, sector) {
                let _ = r.is_ok();
            }
        }
    }
}

/// Decodes the raw bytes as each of the self-contained structures.
fn pieces(endian: Endian, raw: &[u8], g: &Geometry) {
    attributes(endian, raw);
    access_list(endian, raw);
    for old in [false, true] {
        for part in raw.chunks(512) {
            chunk(DirFormat { endian, old }, part);
        }
    }
    journal_bytes(&Geometry { endian, ..*g }, raw);
    inode(&Geometry { endian, ..*g }, raw);
}

/// Reads disks with tables made of the raw bytes, and the raw bytes as a table.
fn disks(how: u8, raw: &[u8]) {
    let disk = disks::disk(how, raw);
    table(&disk);
    grown(disk);
    let dev = MemDevice::new(DISK);
    let at = [0, 512, 4096, DISK - 512][usize::from(how) % 4];
    let available = (DISK - at) as usize;
    let _ = dev.write_at(at, &raw[..raw.len().min(available)]);
    table(&dev);
    let _ = foreign::label_name(raw);
}

fn table(dev: &MemDevice) {
    let Ok(table) = partition::scan(dev) else { return };
    for p in &table.partitions {
        assert!(p.len > 0 && p.start + p.len <= DISK);
        let window = Window::of(dev, p, "disk");
        let _ = window.map(|w| w.read_at(0, &mut [0; 1]));
    }
    let probe: partition::Probe = |d| {
        sbsearch::probe(|at, len| {
            let mut bytes = vec![0; len];
            d.read_at(at, &mut bytes).map(|()| bytes)
        })
    };
    for pick in [Pick::Auto, Pick::Number(1), Pick::Name("s1a".into())] {
        match partition::select(dev, &table, &pick, Some(probe)) {
            Ok(p) => drop(p.map(|p| p.to_string())),
            Err(e) => drop(e.to_string()),
        }
    }
}

/// A table that is fitted to a longer disk is valid there.
fn grown(disk: MemDevice) {
    let bytes = disk.to_vec();
    let disk: Arc<dyn BlockDevice> = Arc::new(disk);
    let Ok(growth) = Growth::plan(&disk, 2 * DISK) else { return };
    let longer = MemDevice::new(2 * DISK);
    let _ = longer.write_at(0, &bytes);
    let longer: Arc<dyn BlockDevice> = Arc::new(longer);
    growth.apply(&longer).unwrap();
    let found = partition::scan(&*longer).unwrap();
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let last = found.partitions.iter().find(|p| p.index == growth.grown.number);
    let last = last.map(|p| (p.start, p.len));
    assert_eq!(last, Some((growth.grown.start, growth.grown.len)));
}

fn superblock_bytes(raw: &[u8]) {
    let mut bytes = raw.to_vec();
    bytes.resize(8192, 0);
    let _ = foreign::magic_name(&bytes);
    for at in [8192, 65536, 0, 262_144] {
        let Ok(sb) = Superblock::decode(&bytes, at) else { continue };
        let _ = sbcheck::problems(&sb, Some(DISK));
        let _ = sbcheck::geometry(&sb, None);
        let _ = Superblock::decode(&sb.encode(), at);
    }
}
