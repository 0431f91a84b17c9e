//! After a check in the background all summaries of the volume are right: a count of the maps and
//! the inodes, which shares no code with the check, and a full check that changes nothing.

use super::world::{Actor, Disk, START, assert_sound, check, crashed};
use bsdffs::bgfsck::Outcome;
use ffs_admin::Volume;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{Cg, CgMut, CgNo, Csum, Dinode};
use std::sync::Arc;

/// States that are examined.
const STATES: u64 = 40;

/// The summaries of the volume on `dev` that are wrong.
fn wrong_summaries(dev: &dyn BlockDevice) -> Vec<String> {
    let vol = Volume::open(dev).unwrap();
    let (mut wrong, mut total, mut area) = (Vec::new(), Csum::default(), Vec::new());
    vol.for_each_csum(|_, cs| {
        area.push(cs);
        Ok(())
    })
    .unwrap();
    for c in (0..vol.geo.ncg).map(CgNo) {
        let block = vol.read_cg(c).unwrap();
        let view = Cg::new(&vol.geo, &block);
        let counted = count_group(&vol, c, &view, &mut wrong);
        if view.cs() != counted {
            wrong.push(format!("counts of group {c}: {:?}, not {counted:?}", view.cs()));
        }
        if area[c.0 as usize] != counted {
            wrong.push(format!("summary area, group {c}"));
        }
        total.add(&counted);
    }
    if vol.sb.cstotal() != total {
        wrong.push(format!("totals: {:?}, not {total:?}", vol.sb.cstotal()));
    }
    wrong
}

/// Counts a group, and compares its sums of free runs and clusters.
fn count_group(vol: &Volume<'_>, c: CgNo, view: &Cg<'_>, wrong: &mut Vec<String>) -> Csum {
    let g = &vol.geo;
    let free: Vec<bool> = (0..g.cg_frags(c)).map(|f| view.frag_free(f)).collect();
    let (mut cs, mut runs, mut whole) = (Csum::default(), vec![0u32; 8], Vec::new());
    for block in free.chunks(g.frag as usize) {
        let all = block.len() == g.frag as usize && block.iter().all(|f| *f);
        whole.push(all);
        if all {
            cs.nbfree += 1;
            continue;
        }
        for run in block.split(|f| !f).filter(|run| !run.is_empty()) {
            cs.nffree += run.len() as i64;
            runs[run.len()] += 1;
        }
    }
    if (1..g.frag).any(|n| view.frsum(n) != runs[n as usize]) {
        wrong.push(format!("runs of free fragments of group {c}: {runs:?}"));
    }
    let longest = g.contigsumsize as usize;
    if longest > 0 {
        whole.truncate(view.nblocks() as usize);
        let bit = |b: usize| view.clustersfree()[b / 8] & (1 << (b % 8)) != 0;
        if (0..whole.len()).any(|b| bit(b) != whole[b]) {
            wrong.push(format!("cluster map of group {c}"));
        }
        let mut sums = vec![0; longest + 1];
        for run in whole.split(|b| !b).filter(|run| !run.is_empty()) {
            sums[run.len().min(longest)] += 1;
        }
        if (1..=longest).any(|n| view.clustersum(n as u32) != sums[n]) {
            wrong.push(format!("clusters of group {c}: {sums:?}"));
        }
    }
    let size = g.format.dinode_size();
    for i in 0..g.ipg {
        cs.nifree += i64::from(!view.inode_used(i));
        if view.inode_used(i) && (c.0, i) >= (0, 2) {
            let ino = ffs_ondisk::Ino(c.0 * g.ipg + i);
            let mut raw = vec![0; size];
            let at = g.frag_to_byte(g.ino_to_fsba(ino)) + g.ino_to_fsbo(ino) as u64;
            vol.device().read_at(at, &mut raw).unwrap();
            cs.ndir += i64::from(Dinode::decode(g, &raw).is_dir());
        }
    }
    cs
}

#[test]
fn after_the_check_every_summary_is_right() {
    let mut corrections = 0;
    for seed in 1..=STATES {
        let at = format!("seed {seed}");
        let disk = Disk::mount(crashed(seed), seed, START + 50).unwrap();
        if disk.fs.read_only_reason().is_some() {
            // A torn superblock needs the check first.
            continue;
        }
        // Others change the volume before, during and after the corrections.
        let mut actor = Actor::new(seed, "m");
        let report = check(&disk.fs, || actor.step(&disk.fs));
        assert_eq!(report.outcome, Outcome::Completed, "{at}: {:#?}", report.findings);
        corrections += report.corrections;
        for _ in 0..20 {
            actor.step(&disk.fs);
        }
        disk.fs.sync().unwrap();
        let counts = disk.fs.statfs();
        let dev = disk.unmounted();
        let wrong = wrong_summaries(&*dev);
        assert!(wrong.is_empty(), "{at}: {wrong:#?}");
        let report = Fsck::new(Arc::clone(&dev), FsckOptions::no().at(START + 90)).run();
        assert!(report.is_silent() && !report.modified, "{at}: {:#?}", report.findings);
        assert_sound(&dev, &at);
        let vol = Volume::open(&*dev).unwrap();
        let total = vol.sb.cstotal();
        let frags = total.nbfree * i64::from(vol.geo.frag) + total.nffree;
        let now = (counts.frags_free as i64, counts.inodes_free as i64);
        assert_eq!(now, (frags, total.nifree), "{at}: statfs");
    }
    assert!(corrections > 0);
}

/// The count of the test above finds each kind of wrong summary.
#[test]
fn the_count_finds_each_wrong_summary() {
    let state = crashed(1);
    let disk = Disk::mount(state, 1, START + 50).unwrap();
    let report = check(&disk.fs, || ());
    assert_eq!(report.outcome, Outcome::Completed);
    let dev = disk.unmounted();
    let mut bytes = vec![0; dev.len_bytes() as usize];
    dev.read_at(0, &mut bytes).unwrap();
    let wrong = |change: &dyn Fn(&Volume<'_>)| {
        let copy = MemDevice::from_bytes(&bytes);
        change(&Volume::open(&copy).unwrap());
        wrong_summaries(&copy)
    };
    let group = |change: &dyn Fn(&mut CgMut<'_>)| {
        wrong(&|vol| {
            let mut block = vol.read_cg(CgNo(0)).unwrap();
            change(&mut CgMut::new(&vol.geo, &mut block));
            vol.write(vol.geo.cgtod(CgNo(0)), &block).unwrap();
        })
    };
    let one = Csum { nbfree: 1, ..Csum::default() };
    let more = |cs: Csum| {
        let mut cs = cs;
        cs.add(&one);
        cs
    };
    let totals = wrong(&|vol| {
        let mut sb = vol.sb.clone();
        sb.set_cstotal(more(sb.cstotal()));
        vol.device().write_at(sb.location, &sb.encode()).unwrap();
    });
    assert!(totals.len() == 1 && totals[0].starts_with("totals"), "{totals:?}");
    let area = wrong(&|vol| vol.write_csums(CgNo(0), &[one]).unwrap());
    assert_eq!(area, ["summary area, group 0"]);
    type Change<'a> = &'a dyn Fn(&mut CgMut<'_>);
    let cases: [(Change<'_>, &str); 4] = [
        (&|cg| cg.add_frsum(1, 1), "runs of free fragments of group 0"),
        (&|cg| cg.add_clustersum(1, 1), "clusters of group 0"),
        (&|cg| cg.set_cs(more(cg.view().cs())), "counts of group 0"),
        (&|cg| cg.set_cluster_free(0, !cg.view().block_free(0)), "cluster map of group 0"),
    ];
    for (change, expected) in cases {
        let found = group(change);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
    }
}
