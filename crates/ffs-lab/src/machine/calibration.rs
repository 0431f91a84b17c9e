//! Calibration tests: the costs of single operations on the machine, compared with the paper. No
//! constant belongs to a single workload.
//!
//! Reference: `docs/spec/benchmarks.md` §2.1, §2.4, §6.1, §6.5.

use crate::systems::sim::SimTarget;
use crate::systems::sim_spec::SimSpec;
use crate::systems::{Demand, DirId, Target};
use crate::watch::Unwatched;
use crate::workload::{PhaseOptions, by_name, measure};

/// A volume without ageing: it is made quickly, and ageing makes no difference to one directory.
const YOUNG: &str = "size=2048,used=10,turnover=0";

fn sim(words: &str, seed: u64) -> SimTarget {
    let spec = SimSpec::parse(&format!("{YOUNG},{words}")).unwrap();
    SimTarget::new("sim", spec, seed)
}

/// The mean time of `n` operations, microseconds.
fn each(t: &mut SimTarget, n: u32, mut work: impl FnMut(&mut SimTarget, u32)) -> f64 {
    let before = t.now();
    (0..n).for_each(|i| work(t, i));
    (t.now() - before).as_secs_f64() * 1e6 / f64::from(n)
}

fn name(i: u32) -> Vec<u8> {
    format!("f{i:06}").into_bytes()
}

fn begun(words: &str) -> (SimTarget, DirId) {
    let mut t = sim(words, 1);
    let dir = t.begin(Demand::files(20_000)).unwrap();
    (t, dir)
}

fn create(t: &mut SimTarget, dir: DirId, from: u32, n: u32) -> f64 {
    each(t, n, |t, i| t.create(dir, &name(from + i)).unwrap())
}

fn stat(t: &mut SimTarget, dir: DirId, n: u32) -> f64 {
    each(t, n, |t, i| assert!(t.stat(dir, &name(i)).unwrap().is_some()))
}

fn within(name: &str, found: f64, wanted: f64, percent: f64) {
    let off = (found / wanted - 1.0) * 100.0;
    println!("{name}: {found:.2}, expected {wanted:.2}: {off:+.1} %");
    assert!(off.abs() <= percent, "{name}: {found:.2}, expected {wanted:.2}: {off:+.1} %");
}

const LINEAR: &str = "softdep,dirhash_maxmem=0";
const HASHED: &str = "softdep,dirhash_minsize=512";

#[test]
fn figure_2_create_is_flat_with_a_hash_and_grows_without() {
    let (mut t, dir) = begun(HASHED);
    create(&mut t, dir, 0, 1000);
    within("create, hash", create(&mut t, dir, 1000, 200), 50.0, 20.0);
    let (mut t, dir) = begun(LINEAR);
    create(&mut t, dir, 0, 2000);
    let small = create(&mut t, dir, 2000, 200);
    create(&mut t, dir, 2200, 7700);
    let large = create(&mut t, dir, 9900, 100);
    within("create, linear, 10000 files", large, 400.0, 20.0);
    within("growth an entry", (large - small) / 7850.0, 0.035, 10.0);
}

#[test]
fn figures_3_and_4_in_listing_order() {
    let n = 1500;
    for (words, first, remove) in [(HASHED, 7.0, 35.0), (LINEAR, 9.0, 45.0)] {
        let (mut t, dir) = begun(words);
        create(&mut t, dir, 0, n);
        t.forget().unwrap();
        within(&format!("stat, {words}"), stat(&mut t, dir, n), first, 20.0);
        within("stat, name cache", stat(&mut t, dir, n), 5.0, 20.0);
        let took = each(&mut t, n, |t, i| t.unlink(dir, &name(i)).unwrap());
        within(&format!("remove, {words}"), took, remove, 25.0);
    }
}

/// The mean time of a `stat` in the second pass over `n` files, microseconds.
fn again(n: u32, words: &str) -> f64 {
    let (mut t, dir) = begun(&format!("{HASHED},{words}"));
    create(&mut t, dir, 0, n);
    stat(&mut t, dir, n);
    stat(&mut t, dir, n)
}

/// Removal in listing order leaves empty chunks at the front, which a linear search reads.
#[test]
fn figure_3_with_ten_thousand_files() {
    let n = 10_000;
    for (words, wanted) in [(HASHED, 35.0), (LINEAR, 45.0)] {
        let (mut t, dir) = begun(words);
        create(&mut t, dir, 0, n);
        let took = each(&mut t, n, |t, i| t.unlink(dir, &name(i)).unwrap());
        within(&format!("remove, 10000 files, {words}"), took, wanted, 20.0);
    }
}

#[test]
fn figure_4_jumps_where_the_vnodes_end() {
    let few = again(3900, "wantfreevnodes=25");
    within("stat, 3900 files", few, 5.0, 20.0);
    assert!(again(5500, "wantfreevnodes=25") > 1.5 * few, "no jump at minvnodes");
    assert!(again(2500, "minvnodes=2000") > 1.5 * few, "the jump did not move");
    within("stat, 5500 files, more vnodes", again(5500, "minvnodes=7000"), 5.0, 20.0);
}

/// The mean times of an operation in the phases of the MH folder, milliseconds.
fn folder(count: u32, words: &str) -> [f64; 3] {
    let mut t = sim(words, 1);
    let work = by_name(&format!("mh:count={count}"), 1.0).unwrap();
    let outcome = measure(&*work, &mut t, 1, PhaseOptions::default(), &mut Unwatched).unwrap();
    let phase = |at: usize| outcome.phases[at].elapsed * 1e3 / outcome.phases[at].work;
    [phase(0), phase(1), phase(2)]
}

#[test]
fn without_soft_updates_the_disk_determines_the_time_and_a_hash_hardly_helps() {
    let n = 3000;
    let (linear, hashed) = (folder(n, "sync,dirhash_maxmem=0"), folder(n, "sync"));
    // The expected costs for a small directory on a nearly empty volume (`docs/spec/benchmarks.md`
    // §6.1). The paper's directory was large and its volume was not empty.
    within("create", linear[0], 20.0, 20.0);
    within("rename", linear[1], 31.0, 20.0);
    within("remove", linear[2], 11.16, 3.0);
    within("create, hash", hashed[0], linear[0], 5.0);
    within("rename, hash", hashed[1], linear[1], 12.0);
    within("remove, hash", hashed[2], linear[2], 5.0);
}

#[test]
fn a_quarter_of_the_mail_folder() {
    let n = 8000;
    let linear = folder(n, LINEAR);
    let hashed = folder(n, "softdep");
    let scan = f64::from(n) * 0.035e-3;
    within("create, linear", linear[0], 0.060 + scan / 2.0, 30.0);
    // With a stat before, as `rm -rf` does (Figure 4). On average half of the chunks are empty.
    within("remove, linear", linear[2], 0.042 + 0.009 + f64::from(n) / 64.0 * 0.05e-3, 25.0);
    within("create", hashed[0], 0.060, 30.0);
    within("pack", hashed[1], 0.072, 30.0);
    within("remove", hashed[2], 0.042 + 0.007, 30.0);
    assert!(linear[1] > 1.2 * scan && linear[1] < 3.0 * scan, "pack: {} ms", linear[1]);
}

/// The trace hash and the time of a small workload.
fn trace(seed: u64, words: &str) -> (u64, u128) {
    let mut t = sim(words, seed);
    let dir = t.begin(Demand::files(1000)).unwrap();
    create(&mut t, dir, 0, 300);
    let (mut inner, mut size) = (t.mkdir(dir, b"d").unwrap(), 100);
    for i in 0..50 {
        let file = t.open(inner, &name(i), crate::systems::Open::CreateNew).unwrap();
        t.write(file, 0, size).unwrap();
        t.close(file).unwrap();
        size = size * 5 / 4;
        if i % 20 == 19 {
            inner = t.mkdir(inner, b"d").unwrap();
        }
    }
    t.sync().unwrap();
    let machine = t.machine().unwrap();
    (machine.trace_hash(), machine.now().as_nanos())
}

#[test]
fn the_same_seed_is_the_same_run_to_the_nanosecond() {
    for words in ["softdep", "sync"] {
        assert_eq!(trace(3, words), trace(3, words), "{words}");
        assert_ne!(trace(3, words), trace(4, words), "{words}: the seed makes no difference");
    }
}

#[test]
fn machines_share_their_volume_but_not_their_changes() {
    let (mut one, at_one) = begun("softdep");
    let (mut other, at_other) = begun("softdep");
    one.create(at_one, b"mine").unwrap();
    one.sync().unwrap();
    assert!(one.stat(at_one, b"mine").unwrap().is_some());
    assert_eq!(other.stat(at_other, b"mine").unwrap(), None);
    drop(one);
    other.create(at_other, b"mine").unwrap();
    other.sync().unwrap();
    let (mut third, at_third) = begun("softdep");
    assert_eq!(third.stat(at_third, b"mine").unwrap(), None);
}

#[test]
fn impossible_specifications_are_refused_with_a_reason() {
    let refused = |words: &str| SimSpec::parse(words).unwrap_err();
    assert!(refused("machine=/no/such").contains("ide2001-5400"));
    assert!(refused("used=99").contains("0 to 85"));
    assert!(refused("seed=x").contains("a number"));
    assert!(refused("vmiodri=on").contains("unknown name"));
    assert!(refused("image=x").contains("the machine's"));
    let mut t = sim("softdep", 1);
    let error = t.begin(Demand { files: 1, bytes: 1 << 40 }).unwrap_err().to_string();
    assert!(error.contains("do not fit"), "{error}");
}
