//! Real and hostile partition tables.

use super::*;
use crate::MemDevice;
use ffs_testkit::fixtures;
use proptest::prelude::*;

const UFS2_MAGIC: u32 = 0x1954_0119;
const UFS1_MAGIC: u32 = 0x0001_1954;

fn looks_like_ufs(device: &dyn BlockDevice) -> bool {
    [65536u64, 8192, 0, 262_144].iter().any(|place| {
        let mut magic = [0; 4];
        let known = [UFS1_MAGIC, UFS2_MAGIC];
        device.read_at(place + 1372, &mut magic).is_ok()
            && (known.contains(&u32::from_le_bytes(magic))
                || known.contains(&u32::from_be_bytes(magic)))
    })
}

fn auto(device: &MemDevice) -> Result<Option<Partition>, SelectError> {
    select(device, &scan(device).unwrap(), &Pick::Auto, Some(looks_like_ufs))
}

fn starts(table: &PartitionTable) -> Vec<(u32, &str, u64, u64)> {
    let row = |p: &'static Partition| (p.index, p.name.as_str(), p.start / 512, p.len / 512);
    // Leaked, so that the result can be compared with literals.
    let table: &'static PartitionTable = Box::leak(Box::new(table.clone()));
    table.partitions.iter().map(row).collect()
}

/// A disk built by a test.
struct Disk(Vec<u8>);

impl Disk {
    fn new(sectors: usize) -> Self {
        Self(vec![0; sectors * 512])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put32(&mut self, at: usize, number: u32) {
        self.put(at, &number.to_le_bytes());
    }

    fn slice(mut self, index: usize, kind: u8, start: u32, len: u32) -> Self {
        let at = 446 + 16 * (index - 1);
        self.put(at + 4, &[kind]);
        self.put32(at + 8, start);
        self.put32(at + 12, len);
        self.put(510, &[0x55, 0xaa]);
        self
    }

    /// A label in sector `sector`; entries are (sectors, offset, fstype).
    fn label(mut self, sector: usize, entries: &[(u32, u32, u8)]) -> Self {
        let at = sector * 512;
        self.put32(at, 0x8256_4557);
        self.put32(at + 132, 0x8256_4557);
        self.put32(at + 40, 512);
        self.put(at + 138, &(entries.len() as u16).to_le_bytes());
        for (index, &(sectors, offset, fstype)) in entries.iter().enumerate() {
            let entry = at + 148 + 16 * index;
            self.put32(entry, sectors);
            self.put32(entry + 4, offset);
            self.put(entry + 12, &[fstype]);
        }
        seal_label(&mut self.0[at..at + 512]);
        self
    }

    /// Both copies of a GPT; entries are (type, first, last sector, name).
    fn gpt(mut self, entries: &[([u8; 16], u64, u64, &str)]) -> Self {
        self = self.slice(1, 0xee, 1, u32::MAX);
        let last = self.0.len() / 512 - 1;
        for (header, table) in [(1, 2), (last, last - 32)] {
            let at = header * 512;
            self.put(at, b"EFI PART");
            self.put32(at + 8, 0x0001_0000);
            self.put32(at + 12, 92);
            self.put(at + 24, &(header as u64).to_le_bytes());
            self.put(at + 32, &((last + 1 - header) as u64).to_le_bytes());
            self.put(at + 72, &(table as u64).to_le_bytes());
            self.put32(at + 80, 128);
            self.put32(at + 84, 128);
            for (index, (guid, first, end, name)) in entries.iter().enumerate() {
                let entry = table * 512 + index * 128;
                self.put(entry, guid);
                self.put(entry + 32, &first.to_le_bytes());
                self.put(entry + 40, &end.to_le_bytes());
                let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
                self.put(entry + 56, &name);
            }
            seal_gpt(&mut self.0, header, table);
        }
        self
    }

    fn ufs(mut self, start_sector: usize) -> Self {
        self.put32(start_sector * 512 + 8192 + 1372, UFS1_MAGIC);
        self
    }

    fn device(&self) -> MemDevice {
        MemDevice::from_bytes(&self.0)
    }
}

fn seal_label(block: &mut [u8]) {
    let count = usize::from(le16(block, 138)).min(22);
    block[136..138].fill(0);
    let sum = block[..148 + 16 * count].chunks_exact(2).fold(0, |sum, pair| sum ^ le16(pair, 0));
    block[136..138].copy_from_slice(&sum.to_le_bytes());
}

fn seal_gpt(disk: &mut [u8], header: usize, table: usize) {
    let count = le32(disk, header * 512 + 80).min(128) as usize;
    let crc = gpt::crc32(&disk[table * 512..table * 512 + count * 128]);
    let block = &mut disk[header * 512..header * 512 + 512];
    block[88..92].copy_from_slice(&crc.to_le_bytes());
    block[16..20].fill(0);
    let size = (le32(block, 12) as usize).min(512);
    let crc = gpt::crc32(&block[..size]);
    block[16..20].copy_from_slice(&crc.to_le_bytes());
}

const FREEBSD_UFS: [u8; 16] =
    [0xb6, 0x7c, 0x6e, 0x51, 0xcf, 0x6e, 0xd6, 0x11, 0x8f, 0xf8, 0, 2, 0x2d, 9, 0x71, 0x2b];

/// The kinds that decide which partitions are looked at, and what users see of the others.
#[test]
fn every_type_of_a_gpt_has_its_kind() {
    use PartitionKind::{BsdSlice, Foreign, Named, Ufs, Unknown};
    let own = "01234567-89AB-CDEF-0123-456789ABCDEF";
    let wanted = [
        ("516E7CB6-6ECF-11D6-8FF8-00022D09712B", Ufs),
        ("netbsd-ffs", Ufs),
        ("apple-ufs", Ufs),
        ("freebsd", BsdSlice),
        ("openbsd-data", BsdSlice),
        ("freebsd-boot", Foreign("FreeBSD boot")),
        ("freebsd-swap", Foreign("FreeBSD swap")),
        ("freebsd-vinum", Foreign("FreeBSD vinum")),
        ("freebsd-zfs", Foreign("FreeBSD ZFS")),
        ("netbsd-swap", Foreign("NetBSD swap")),
        ("efi", Foreign("EFI system")),
        ("linux-data", Named("linux-data")),
        ("dragonfly-ufs", Named("dragonfly-ufs")),
        (own, Unknown(own.to_owned())),
    ];
    let guids = wanted.each_ref().map(|(name, _)| name.parse::<PartitionType>().unwrap());
    let first = |n: usize| 64 + 8 * n as u64;
    let entries: Vec<_> = (0..)
        .zip(guids)
        .map(|(n, guid)| (guid.on_disk(), first(n), first(n) + 7, "of a test"))
        .collect();
    let table = scan(&Disk::new(4000).gpt(&entries).device()).unwrap();
    assert_eq!(table.partitions.len(), wanted.len());
    for (partition, (name, kind)) in table.partitions.iter().zip(&wanted) {
        assert_eq!(partition.kind, *kind, "{name}");
    }
    let error = select(&MemDevice::new(0), &table, &Pick::Number(99), None).unwrap_err();
    let listing = error.to_string();
    assert!(listing.contains("@12  p12  linux-data, 4096 bytes"), "{listing}");
    assert!(listing.contains(&format!("@14  p14  type {own}, 4096 bytes")), "{listing}");
    assert_eq!(guids[0].on_disk(), FREEBSD_UFS);
}

#[test]
fn crc_is_the_one_of_the_specification() {
    assert_eq!(gpt::crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn fixture_gpt() {
    let Some(image) = fixtures::load("part-gpt-ufs2") else { return };
    let device = MemDevice::from_bytes(&image);
    let table = scan(&device).unwrap();
    assert_eq!(table.scheme, Scheme::Gpt);
    assert_eq!(table.notes, Vec::<String>::new());
    assert_eq!(starts(&table), [(1, "p1", 40, 128), (2, "p2", 2048, 8192), (3, "p3", 10240, 2048)]);
    assert_eq!(table.partitions[1].label, "rootfs");
    assert_eq!(table.partitions[1].kind, PartitionKind::Ufs);
    let found = auto(&device).unwrap().unwrap();
    assert_eq!(found, table.partitions[1]);
    let window = Window::of(&device, &found, "disk").unwrap();
    if let Some(inside) = fixtures::load("freebsd14-ufs2-le-4m") {
        let mut bytes = vec![0; window.len_bytes() as usize];
        window.read_at(0, &mut bytes).unwrap();
        assert!(bytes == inside, "the window is the file system");
    }
}

#[test]
fn fixture_gpt_damaged() {
    let Some(mut image) = fixtures::load("part-gpt-ufs2") else { return };
    image[1024 + 40] ^= 1;
    let device = MemDevice::from_bytes(&image);
    let table = scan(&device).unwrap();
    assert!(table.notes[0].contains("backup"), "{:?}", table.notes);
    assert_eq!(auto(&device).unwrap().unwrap().start, 2048 * 512);
    let last = image.len() - 512;
    image[last + 20] ^= 1;
    let device = MemDevice::from_bytes(&image);
    let table = scan(&device).unwrap();
    assert!(table.partitions.is_empty());
    let error = auto(&device).unwrap_err().to_string();
    assert!(error.contains("wrong checksum"), "{error}");
}

#[test]
fn fixture_mbr_with_absolute_label() {
    let Some(image) = fixtures::load("part-mbr-bsd-ufs1-abs") else { return };
    let device = MemDevice::from_bytes(&image);
    let table = scan(&device).unwrap();
    assert_eq!(table.scheme, Scheme::Mbr);
    assert_eq!(starts(&table), [(1, "s1", 63, 9208), (2, "s1a", 79, 8192), (3, "s1b", 8271, 1000)]);
    assert_eq!(auto(&device).unwrap().unwrap().start, 40448);
    let by_type = select(&device, &table, &Pick::Auto, None).unwrap().unwrap();
    assert_eq!(by_type.name, "s1a");
}

#[test]
fn fixture_labels_without_file_systems() {
    let Some(image) = fixtures::load("label-bsd-only") else { return };
    let device = MemDevice::from_bytes(&image);
    let table = scan(&device).unwrap();
    assert_eq!(table.scheme, Scheme::BsdLabel);
    assert_eq!(starts(&table), [(5, "e", 256, 4864), (6, "f", 4864, 3584)]);
    let error = auto(&device).unwrap_err();
    assert!(matches!(&error, SelectError::Ambiguous { candidates, .. } if candidates.len() == 2));
    assert!(error.to_string().contains("@5  e  UFS"), "{error}");
    let picked = select(&device, &table, &Pick::Number(6), None).unwrap().unwrap();
    assert_eq!(picked.name, "f");

    let Some(image) = fixtures::load("label-mbr-bsd") else { return };
    let table = scan(&MemDevice::from_bytes(&image)).unwrap();
    let want = [
        (1, "s1", 32, 7648),
        (2, "s2", 7680, 8704),
        (3, "s2e", 7936, 4864),
        (4, "s2f", 12544, 3584),
    ];
    assert_eq!(starts(&table), want);
}

#[test]
fn fixture_floppy_is_its_own_first_partition() {
    let Some(image) = fixtures::load("openbsd28-ufs1-floppy") else { return };
    let found = auto(&MemDevice::from_bytes(&image)).unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.start, found.len), ("a", 0, 1_474_560));
    for name in ["freebsd14-ufs2-le-4m", "makefs-ufs1-be", "nb-ufs2-4k512-le"] {
        let Some(image) = fixtures::load(name) else { return };
        let device = MemDevice::from_bytes(&image);
        assert_eq!(scan(&device).unwrap().scheme, Scheme::Whole, "{name}");
        assert_eq!(auto(&device).unwrap(), None);
    }
}

#[test]
fn offsets_relative_or_absolute() {
    let relative = Disk::new(4000).slice(2, 0xa5, 100, 3000);
    let relative = relative.label(101, &[(2000, 16, 7), (984, 2016, 1), (3000, 0, 0)]);
    let table = scan(&relative.device()).unwrap();
    assert_eq!(
        starts(&table),
        [(2, "s2", 100, 3000), (3, "s2a", 116, 2000), (4, "s2b", 2116, 984)]
    );
    // OpenBSD: `c` is the whole disk, and offsets count from its start; there is an entry for the
    // slice of another system too.
    let openbsd = Disk::new(4000).slice(4, 0xa6, 1000, 3000);
    let openbsd = openbsd.label(1001, &[(2000, 1000, 7), (0, 0, 0), (4000, 0, 0), (900, 63, 8)]);
    let table = scan(&openbsd.device()).unwrap();
    assert_eq!(starts(&table)[1], (5, "s4a", 1000, 2000));
    // Absolute without c.
    let no_raw = Disk::new(4000).slice(1, 0xa9, 1000, 3000).label(1001, &[(2500, 1500, 7)]);
    assert_eq!(starts(&scan(&no_raw.device()).unwrap())[1], (2, "s1a", 1500, 2500));
}

#[test]
fn the_inner_of_two_that_begin_together_is_meant() {
    let disk = Disk::new(4000)
        .slice(1, 0xa5, 64, 3000)
        .label(65, &[(2000, 0, 7), (0, 0, 0), (3000, 0, 0)]);
    let found = auto(&disk.ufs(64).device()).unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.len), ("s1a", 2000 * 512));
    // Without a label the slice itself is the file system.
    let found = auto(&Disk::new(4000).slice(1, 0xa5, 64, 3000).ufs(64).device()).unwrap().unwrap();
    assert_eq!(found.name, "s1");
}

#[test]
fn boot_blocks_with_a_fake_slice_are_not_a_table() {
    let disk = Disk::new(4000).slice(4, 0xa5, 0, 50000);
    assert_eq!(scan(&disk.device()).unwrap().scheme, Scheme::Whole);
    let labelled = disk.label(1, &[(4000, 0, 7), (0, 0, 0), (4000, 0, 0)]).ufs(0);
    assert_eq!(auto(&labelled.device()).unwrap().unwrap().name, "a");
}

#[test]
fn several_file_systems_need_a_choice() {
    let entries =
        [(FREEBSD_UFS, 100, 999, "root"), ([0; 16], 5, 6, ""), (FREEBSD_UFS, 1000, 1999, "usr")];
    let disk = Disk::new(4000).gpt(&entries);
    // One of them is recognised and selected, although two have the type.
    let one = Disk(disk.0.clone()).ufs(1000);
    assert_eq!(auto(&one.device()).unwrap().unwrap().index, 3);
    let both = Disk(disk.0.clone()).ufs(1000).ufs(100);
    let error = auto(&both.device()).unwrap_err().to_string();
    assert!(error.contains("@1  p1  UFS") && error.contains("\"usr\""), "{error}");
    let table = scan(&both.device()).unwrap();
    let pick = |pick: &Pick| select(&both.device(), &table, pick, None);
    assert_eq!(pick(&Pick::Name("p3".into())).unwrap().unwrap().start, 1000 * 512);
    assert_eq!(pick(&Pick::Whole).unwrap(), None);
    assert_eq!(pick(&Pick::Number(0)).unwrap(), None);
    let error = pick(&Pick::Number(2)).unwrap_err().to_string();
    assert!(error.starts_with("there is no partition @2; there are\n  @1"), "{error}");
    // The whole disk is recognised too: the selection is ambiguous.
    let whole = Disk(disk.0).ufs(1000).ufs(0);
    assert!(matches!(auto(&whole.device()), Err(SelectError::Ambiguous { whole: true, .. })));
    let only_whole = Disk::new(4000).gpt(&[(FREEBSD_UFS, 100, 999, "")]).ufs(0);
    assert_eq!(auto(&only_whole.device()).unwrap(), None);
}

#[test]
fn partitions_beyond_the_image_are_truncated_and_reported() {
    let disk =
        Disk::new(4000).slice(1, 0xa5, 3000, 5000).slice(2, 0xa5, 4000, 1).slice(3, 0x83, 1, 2);
    let table = scan(&disk.device()).unwrap();
    assert_eq!(starts(&table), [(1, "s1", 3000, 1000), (3, "s3", 1, 2)]);
    assert_eq!(table.partitions[0].declared_len, 5000 * 512);
    assert_eq!(table.notes.len(), 2);
    assert!(
        table.partitions[0].to_string().contains("only 512000 of them"),
        "{}",
        table.partitions[0]
    );
    let error = select(&disk.device(), &table, &Pick::Number(2), None).unwrap_err().to_string();
    assert!(error.contains("beyond the end of the image"), "{error}");
}

#[test]
fn windows_keep_their_bounds() {
    let device = MemDevice::new(10_000);
    let window = Window::new(&device, 1000, 500, "disk@1").unwrap();
    window.write_at(499, b"x").unwrap();
    assert_eq!(device.to_vec()[1499], b'x');
    let error = window.write_at(499, b"xy").unwrap_err();
    assert!(error.to_string().starts_with("disk@1: cannot write 2 bytes at byte 499"), "{error}");
    assert!(window.read_at(u64::MAX, &mut [0; 2]).is_err());
    assert!(window.discard(0, 501).is_err());
    assert!(Window::new(&device, 9_999, 2, "").is_err());
    assert!(Window::new(&device, u64::MAX, 2, "").is_err());
}

#[test]
fn tables_for_large_sectors() {
    let small = Disk::new(4096 * 8).gpt(&[(FREEBSD_UFS, 256, 511, "")]);
    let device = small.device().with_sector_size(4096);
    assert_eq!(
        scan(&device).unwrap().partitions[0].start,
        256 * 512,
        "a 512-byte table on a 4096-byte disk"
    );
}

/// Checks that every listed partition is on the device.
fn check_bounds(device: &MemDevice) {
    let table = scan(device).unwrap();
    assert!(table.partitions.len() <= MAX_LISTED && table.notes.len() <= MAX_NOTES);
    for partition in &table.partitions {
        assert!(partition.len > 0 && partition.len <= partition.declared_len);
        assert!(partition.start.checked_add(partition.len).unwrap() <= device.len_bytes());
        assert!(
            !partition.name.contains(char::is_control)
                && !partition.label.contains(char::is_control)
        );
    }
    for probe in [None, Some(looks_like_ufs as Probe)] {
        match select(device, &table, &Pick::Auto, probe) {
            Ok(Some(partition)) => drop(Window::of(device, &partition, "").unwrap()),
            Ok(None) => {}
            Err(error) => assert!(!matches!(error, SelectError::Device(_)), "{error}"),
        }
    }
}

fn sample_disks() -> Vec<Vec<u8>> {
    let names = ["part-gpt-ufs2", "part-mbr-bsd-ufs1-abs", "label-bsd-only", "label-mbr-bsd"];
    let mut disks: Vec<Vec<u8>> = names.iter().filter_map(|name| fixtures::load(name)).collect();
    // The tables are in the first part. Short disks keep the test fast and their ends near.
    for disk in &mut disks {
        disk.truncate(5 << 20);
    }
    let slice_guid = {
        let mut guid = FREEBSD_UFS;
        guid[0] = 0xb4;
        guid
    };
    let gpt = Disk::new(4000).gpt(&[(FREEBSD_UFS, 100, 999, "a"), (slice_guid, 1000, 3900, "b")]);
    disks.push(gpt.label(1001, &[(500, 16, 7), (100, 600, 1), (2901, 0, 0)]).0);
    disks.push(
        Disk::new(4000).slice(1, 0xa5, 63, 3900).label(64, &[(9, 16, 7), (0, 0, 0), (9, 0, 0)]).0,
    );
    disks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn hostile_tables_stay_in_bounds(
        which in any::<prop::sample::Index>(),
        patches in prop::collection::vec(
            (0usize..6, 0usize..512, any::<[u8; 8]>(), 1usize..9), 1..8
        ),
        seal in any::<bool>(),
        keep in prop::option::of(0usize..40_000),
    ) {
        thread_local!(static DISKS: Vec<Vec<u8>> = sample_disks());
        let mut disk = DISKS.with(|disks| which.get(disks).clone());
        let last = disk.len() / 512 - 1;
        // The relevant sectors: MBR, GPT header and entries, labels, backup header.
        let sectors = [0, 1, 2, 64, 1001, last];
        for (sector, within, bytes, len) in patches {
            let at = sectors[sector] * 512 + within;
            let len = len.min(512 - within);
            disk[at..at + len].copy_from_slice(&bytes[..len]);
        }
        if seal {
            for sector in [1, 33, 64, 1001, 7681] {
                if le32(&disk, sector * 512) == 0x8256_4557 {
                    seal_label(&mut disk[sector * 512..sector * 512 + 512]);
                }
            }
            if disk[512..].starts_with(b"EFI PART") {
                seal_gpt(&mut disk, 1, 2);
            }
        }
        if let Some(keep) = keep {
            disk.truncate(keep);
        }
        check_bounds(&MemDevice::from_bytes(&disk));
    }
}
