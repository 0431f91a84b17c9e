//! Content compared with a vector of bytes: random writes, truncations and holes on many
//! geometries.

use super::*;
use crate::Error;
use crate::types::SyncScope;
use ffs_testkit::rng::{SplitMix64 as Numbers, fill};
use proptest::prelude::*;

/// A change of a file.
#[derive(Clone, Debug)]
enum Op {
    Write { off: u64, len: usize },
    Append { len: usize },
    Truncate(u64),
    Punch { off: u64, len: u64 },
    Zero { off: u64, len: u64 },
    Allocate { off: u64, len: u64, keep: bool },
    Forget,
    Check,
}

/// Offsets and lengths near the edges of fragments, blocks and indirect blocks. `unit` is the
/// fragment size.
fn place(bsize: u64, unit: u64) -> impl Strategy<Value = u64> {
    let blocks = prop_oneof![4 => 0..14u64, 1 => 0..40u64];
    (blocks, 0..(bsize / unit), prop_oneof![Just(0u64), Just(1), Just(unit - 1), 0..unit])
        .prop_map(move |(b, f, x)| b * bsize + f * unit + x)
}

fn op(bsize: u64, unit: u64) -> impl Strategy<Value = Op> {
    let at = move || place(bsize, unit);
    let len = move || prop_oneof![1..unit * 3, 1..bsize * 5, Just(bsize), Just(unit)];
    prop_oneof![
        5 => (at(), len()).prop_map(|(off, len)| Op::Write { off, len: len as usize }),
        4 => len().prop_map(|len| Op::Append { len: len as usize }),
        4 => at().prop_map(Op::Truncate),
        2 => (at(), len()).prop_map(|(off, len)| Op::Punch { off, len }),
        1 => (at(), len()).prop_map(|(off, len)| Op::Zero { off, len }),
        1 => (at(), len(), any::<bool>())
            .prop_map(|(off, len, keep)| Op::Allocate { off, len, keep }),
        1 => Just(Op::Forget),
        1 => Just(Op::Check),
    ]
}

/// The expected content of a file.
#[derive(Default)]
struct Model(Vec<u8>);

impl Model {
    fn write(&mut self, off: u64, bytes: &[u8]) {
        let end = off as usize + bytes.len();
        if self.0.len() < end {
            self.0.resize(end, 0);
        }
        self.0[off as usize..end].copy_from_slice(bytes);
    }

    fn zero(&mut self, off: u64, len: u64) {
        let end = (off + len).min(self.0.len() as u64) as usize;
        if let Some(part) = self.0.get_mut(off as usize..end) {
            part.fill(0);
        }
    }
}

/// Two files that are changed in turn, so that the blocks of one are between those of the other.
struct Pair {
    b: Bench,
    files: [(Arc<Inode>, Model); 2],
    seed: u64,
}

impl Pair {
    fn new(shape: Shape) -> Pair {
        let b = Bench::new(shape, 24 << 20);
        let files = ["a", "b"].map(|name| (b.file(name), Model::default()));
        Pair { b, files, seed: 0 }
    }

    fn apply(&mut self, which: usize, op: &Op) {
        self.seed += 1;
        let (b, (ip, model)) = (&self.b, &mut self.files[which]);
        match *op {
            Op::Write { off, len } => {
                let bytes = fill(len, self.seed, 0);
                assert_eq!(b.write(ip, off, &bytes).unwrap(), len);
                model.write(off, &bytes);
            }
            Op::Append { len } => {
                let bytes = fill(len, self.seed, 0);
                assert_eq!(b.write(ip, model.0.len() as u64, &bytes).unwrap(), len);
                model.0.extend_from_slice(&bytes);
            }
            Op::Truncate(size) => {
                b.truncate(ip, size).unwrap();
                model.0.resize(size as usize, 0);
            }
            Op::Punch { off, len } => {
                b.lock(ip).punch_hole(off, len).unwrap();
                model.zero(off, len);
            }
            Op::Zero { off, len } => {
                b.lock(ip).zero_range(off, len, Reserve::Allowed).unwrap();
                model.write(off, &vec![0; len as usize]);
            }
            Op::Allocate { off, len, keep } => {
                let growth = if keep { Growth::KeepSize } else { Growth::Allowed };
                b.lock(ip).allocate_range(off, len, growth, Reserve::Allowed).unwrap();
                let end = (off + len) as usize;
                if !keep && model.0.len() < end {
                    model.0.resize(end, 0);
                }
                let last = model.0.len().min(end) as u64;
                if off < last {
                    let seen = b.view(ip, &ip.read()).seek_hole(off).unwrap();
                    assert!(seen >= last, "hole at {seen} in {off}..{last}");
                }
            }
            Op::Forget => {
                self.b = b.again();
                for (name, (ip, _)) in [3, 4].iter().zip(&mut self.files) {
                    let _ = name;
                    let new = self.b.t.get(ip.ino).unwrap();
                    self.b.t.hold(&new);
                    *ip = new;
                }
            }
            Op::Check => self.b.check("in between"),
        }
        self.compare(which);
    }

    fn compare(&self, which: usize) {
        let (ip, model) = &self.files[which];
        let got = self.b.all(ip);
        assert_eq!(got.len(), model.0.len(), "size");
        if let Some(at) = got.iter().zip(&model.0).position(|(a, b)| a != b) {
            panic!("byte {at} of {} is {:#x}, not {:#x}", got.len(), got[at], model.0[at]);
        }
        self.compare_holes(ip, &model.0);
    }

    /// Asserts that holes are only where the model has zeros.
    fn compare_holes(&self, ip: &Inode, model: &[u8]) {
        let d = ip.read();
        let file = self.b.view(ip, &d);
        let mut at = 0;
        while at < model.len() as u64 {
            let data = match file.seek_data(at) {
                Ok(off) => off,
                Err(Error::NoData) => model.len() as u64,
                Err(e) => panic!("{e}"),
            };
            assert!(model[at as usize..data as usize].iter().all(|&b| b == 0), "data in a hole");
            if data == model.len() as u64 {
                return;
            }
            at = file.seek_hole(data).unwrap();
            assert!(at > data && at <= model.len() as u64);
        }
        assert!(matches!(file.seek_hole(model.len() as u64), Err(Error::NoData)));
    }
}

fn run(shape: Shape, ops: &[(usize, Op)]) {
    let mut pair = Pair::new(shape);
    let before = pair.b.t.ump.alloc.totals();
    for (which, op) in ops {
        pair.apply(*which, op);
    }
    pair.b.check("at the end");
    pair.compare(0);
    pair.compare(1);
    for i in 0..2 {
        pair.apply(i, &Op::Truncate(0));
        assert_eq!(pair.files[i].0.read().d.blocks, 0);
    }
    assert_eq!(pair.b.t.ump.alloc.totals(), before, "everything was freed");
    pair.b.check("empty");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn content_is_a_vector_of_bytes_4k_512(
        ops in prop::collection::vec((0..2usize, op(4096, 512)), 1..40),
        shape in prop::sample::select(vec![0, 4]),
    ) {
        run(SHAPES[shape], &ops);
    }

    #[test]
    fn content_is_a_vector_of_bytes_8k(
        ops in prop::collection::vec((0..2usize, op(8192, 1024)), 1..40),
        shape in prop::sample::select(vec![1, 6]),
    ) {
        run(SHAPES[shape], &ops);
    }

    #[test]
    fn content_is_a_vector_of_bytes_large_blocks(
        ops in prop::collection::vec((0..2usize, op(32768, 4096)), 1..15),
        shape in prop::sample::select(vec![2, 3, 5]),
    ) {
        run(SHAPES[shape], &ops);
    }
}

#[test]
fn a_file_grows_byte_by_byte_through_all_fragments() {
    for shape in SHAPES {
        let b = Bench::new(shape, 16 << 20);
        let (ip, other) = (b.file("a"), b.file("b"));
        let (bsize, step) = (u64::from(shape.2), 997);
        let mut model = Vec::new();
        let mut numbers = Numbers::new(1);
        while (model.len() as u64) < 3 * bsize {
            let bytes = numbers.bytes(step);
            assert_eq!(b.write(&ip, model.len() as u64, &bytes).unwrap(), step);
            model.extend_from_slice(&bytes);
            // Sometimes the other file allocates the fragment after the last one.
            if numbers.one_in(3) {
                b.write(&other, numbers.below(2 * bsize), b"in the way").unwrap();
            }
            let d = ip.read().d.clone();
            let want = model.len().div_ceil((shape.2 / shape.3) as usize) as u64;
            let full = model.len() as u64 / bsize * u64::from(shape.3);
            let held = d.blocks * 512 / u64::from(shape.2 / shape.3);
            assert!(held == want && held >= full, "{shape:?} at {}: {held}", model.len());
        }
        assert!(b.all(&ip) == model, "{shape:?}");
        b.check("grown");
    }
}

#[test]
fn two_streams_are_sorted_out_by_moving_clusters() {
    let shape = (Format::Ufs2, Endian::Little, 8192, 8);
    let b = Bench::new(shape, 64 << 20);
    let files = [b.file("a"), b.file("b")];
    let block = vec![7; 8192];
    for k in 0..600u64 {
        for ip in &files {
            b.write(ip, k * 8192, &block).unwrap();
        }
    }
    let extents = |ip: &Inode| {
        let (d, mut at, mut n) = (ip.read(), 0, 0);
        while at < 600 {
            at += b.view(ip, &d).extent(Lbn(at), u64::MAX).unwrap().1;
            n += 1;
        }
        n
    };
    assert!(b.counters().clusters_moved > 0);
    for ip in &files {
        assert!(extents(ip) < 120, "{} extents for 600 blocks", extents(ip));
        assert!(b.all(ip).iter().all(|&x| x == 7));
    }
    b.check("two streams");
}

#[test]
fn large_and_small_reads_agree_with_any_blocks_in_memory() {
    for shape in SHAPES {
        let b = Bench::new(shape, 24 << 20);
        let ip = b.file("a");
        let len = 5 << 20;
        let mut model = fill(len, 9, 0);
        b.write(&ip, 0, &model).unwrap();
        let b = b.again();
        let ip = b.t.get(ip.ino).unwrap();
        assert!(b.all(&ip) == model, "{shape:?}: straight from the device");
        let reads = b.counters().reads;
        assert!(reads < 40, "{shape:?}: {reads} device reads for 5 MiB");
        let mut numbers = Numbers::new(4);
        for _ in 0..200 {
            let (at, n) = (numbers.below(len as u64) as usize, numbers.below(400_000) as usize);
            if numbers.one_in(3) {
                let bytes = numbers.bytes(n.min(len - at).min(9000));
                b.write(&ip, at as u64, &bytes).unwrap();
                model[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            let want = &model[at..len.min(at + n)];
            assert!(b.read(&ip, at as u64, n).unwrap() == want, "{shape:?} at {at}");
        }
    }
}

#[test]
fn a_stream_is_written_while_it_is_made() {
    let b = Bench::new((Format::Ufs2, Endian::Little, 16384, 8), 64 << 20);
    let ip = b.file("stream");
    let content = fill(24 << 20, 7, 0);
    for (i, part) in content.chunks(10_000).enumerate() {
        b.write(&ip, i as u64 * 10_000, part).unwrap();
        // One cluster that may still be moved, the next cluster, and metadata.
        assert!(b.t.ump.cache.stats().dirtyspace < 2 << 20, "part {i}");
    }
    b.sync();
    assert_eq!(b.again().t.get(ip.ino).map(|ip| b.all(&ip)).unwrap(), content);
    b.check("streamed");
}

#[test]
fn what_a_stream_could_not_write_is_reported_by_fsync() {
    let dev = Arc::new(ffs_device::FaultInjector::new(volume(SHAPES[0], 32 << 20), Vec::new()));
    let b = Bench::open(dev.clone());
    let ip = b.file("stream");
    let content = fill(4 << 20, 8, 0);
    dev.add(ffs_device::Rule::new(ffs_device::Operation::Write, ffs_device::Fault::Errno(5)));
    let mut at = 0;
    let refused = content.chunks(1 << 16).any(|part| {
        let n = b.write(&ip, at, part);
        at += part.len() as u64;
        n.is_err()
    });
    assert!(refused || b.syncer.fsync(&ip, SyncScope::All).is_err());
    dev.heal();
    b.write(&ip, 0, &content).unwrap();
    b.syncer.fsync(&ip, SyncScope::All).unwrap();
    assert_eq!(b.all(&ip), content);
    b.check("healed");
}
