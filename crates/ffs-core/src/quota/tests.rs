//! The rules of limits and grace periods.

use super::*;

const NOW: i64 = 1_000_000;
const USER: Ids = [Some(10), None];

fn quotas(record: Dqblk, used: Amount) -> Quotas {
    let q = Quotas::default();
    let (records, counted) = (BTreeMap::from([(10, record)]), BTreeMap::from([(10, used)]));
    q.set(QuotaType::User, Some(Active::new(records, &counted, NOW)));
    q
}

fn record(q: &Quotas, id: u32) -> Dqblk {
    let all = q.records(QuotaType::User, 0, 9).unwrap();
    all.into_iter().find(|(i, _)| *i == id).unwrap().1
}

fn set_limits(q: &Quotas, id: u32, new: &Dqblk, now: i64) {
    q.change(QuotaType::User, id, Change::Limits(new), now);
}

fn charge(q: &Quotas, blocks: u64, now: i64) -> bool {
    q.charge(USER, Amount::blocks(blocks), Limits::Enforced, now).is_ok()
}

#[test]
fn usage_stays_below_the_hard_limit() {
    let q = quotas(Dqblk { bhardlimit: 100, ..Dqblk::default() }, Amount::blocks(90));
    assert!(!charge(&q, 10, NOW));
    assert_eq!(record(&q, 10).curblocks, 90);
    assert!(charge(&q, 9, NOW) && !charge(&q, 1, NOW));
    q.release(USER, Amount::blocks(1));
    assert!(charge(&q, 1, NOW));
    assert_eq!(record(&q, 10).curblocks, 99);
}

#[test]
fn the_grace_period_begins_at_the_soft_limit_and_then_ends() {
    let q = quotas(Dqblk { bsoftlimit: 100, ..Dqblk::default() }, Amount::blocks(99));
    assert!(charge(&q, 5, NOW + 7));
    assert_eq!(record(&q, 10).btime, NOW + 7 + DEFAULT_GRACE);
    assert!(charge(&q, 5, NOW + 7 + DEFAULT_GRACE));
    assert_eq!(record(&q, 10).btime, NOW + 7 + DEFAULT_GRACE, "it began already");
    assert!(!charge(&q, 1, NOW + 8 + DEFAULT_GRACE));
    // Below the limit again: a new period.
    q.release(USER, Amount::blocks(10));
    let late = NOW + 20 + DEFAULT_GRACE;
    assert!(charge(&q, 10, late) && charge(&q, 10, late + 5));
    assert_eq!(record(&q, 10).btime, late + DEFAULT_GRACE);
}

#[test]
fn inodes_have_limits_of_their_own() {
    let limits = Dqblk { ihardlimit: 3, isoftlimit: 2, ..Dqblk::default() };
    let q = quotas(limits, Amount { blocks: 1 << 40, inodes: 0 });
    let create = |now| q.charge(USER, Amount::inode(), Limits::Enforced, now).is_ok();
    assert!(create(NOW) && create(NOW) && !create(NOW));
    assert_eq!((record(&q, 10).curinodes, record(&q, 10).itime), (2, NOW + DEFAULT_GRACE));
    assert!(charge(&q, 100, NOW + 2 * DEFAULT_GRACE), "blocks are not limited");
}

#[test]
fn root_exceeds_limits_and_is_counted() {
    let q = quotas(Dqblk { bhardlimit: 10, ..Dqblk::default() }, Amount::blocks(9));
    q.charge(USER, Amount::blocks(50), Limits::Ignored, NOW).unwrap();
    assert_eq!(record(&q, 10).curblocks, 59);
}

#[test]
fn a_group_that_refuses_leaves_the_user_uncharged() {
    let q = quotas(Dqblk::default(), Amount::blocks(9));
    let group = Dqblk { bhardlimit: 5, ..Dqblk::default() };
    let records = BTreeMap::from([(20, group)]);
    q.set(QuotaType::Group, Some(Active::new(records, &BTreeMap::new(), NOW)));
    let ids = [Some(10), Some(20)];
    let refused = q.charge(ids, Amount::blocks(5), Limits::Enforced, NOW);
    assert!(matches!(refused, Err(Error::Quota)));
    assert_eq!(record(&q, 10).curblocks, 9);
    q.charge(ids, Amount::blocks(4), Limits::Enforced, NOW).unwrap();
    assert_eq!(record(&q, 10).curblocks, 13);
}

#[test]
fn loading_takes_the_counted_usage_and_starts_missing_periods() {
    // The file has an old count below the soft limit: the period begins now.
    let stale = Dqblk { bsoftlimit: 100, curblocks: 5, btime: 77, ..Dqblk::default() };
    let q = quotas(stale, Amount::blocks(100));
    assert_eq!((record(&q, 10).curblocks, record(&q, 10).btime), (100, NOW + DEFAULT_GRACE));
    // It was above the limit before: the period continues.
    let running = Dqblk { bsoftlimit: 100, curblocks: 120, btime: 77, ..Dqblk::default() };
    let q = quotas(running, Amount::blocks(110));
    assert_eq!(record(&q, 10).btime, 77);
    // An owner whom the file does not have.
    let q = Quotas::default();
    let counted = BTreeMap::from([(7, Amount { blocks: 8, inodes: 1 })]);
    q.set(QuotaType::User, Some(Active::new(BTreeMap::new(), &counted, NOW)));
    let dirty = q.take_dirty(QuotaType::User).unwrap();
    assert_eq!((dirty.len(), dirty[0].0, dirty[0].1.curblocks), (1, 7, 8));
    assert!(q.take_dirty(QuotaType::User).unwrap().is_empty());
    // Counting again keeps limits and forgets nothing that is not written.
    set_limits(&q, 7, &Dqblk { bhardlimit: 5, ..Dqblk::default() }, NOW);
    q.recount(QuotaType::User, &BTreeMap::new(), NOW);
    assert_eq!((record(&q, 7).bhardlimit, record(&q, 7).curblocks), (5, 0));
    assert_eq!(q.take_dirty(QuotaType::User).unwrap().len(), 1);
}

#[test]
fn record_0_has_the_grace_periods() {
    let root = Dqblk { btime: 60, isoftlimit: 1, bsoftlimit: 1, ..Dqblk::default() };
    let records = BTreeMap::from([(0, root), (10, Dqblk { bsoftlimit: 5, ..Dqblk::default() })]);
    let q = Quotas::default();
    q.set(QuotaType::User, Some(Active::new(records, &BTreeMap::new(), NOW)));
    let all = Grace { blocks: 60, inodes: DEFAULT_GRACE };
    assert_eq!(q.grace(QuotaType::User), Some(all));
    assert!(charge(&q, 5, NOW));
    assert_eq!(record(&q, 10).btime, NOW + 60);
    let whole = Amount { blocks: 9, inodes: 9 };
    q.charge([Some(0), None], whole, Limits::Ignored, NOW).unwrap();
    assert_eq!((record(&q, 0).btime, record(&q, 0).itime), (60, 0), "its times are lengths");
    let other = Change::Grace(Grace { blocks: 0, inodes: 5 });
    assert_eq!(q.changed(QuotaType::User, 0, other, NOW).unwrap().itime, 5);
    q.change(QuotaType::User, 0, other, NOW);
    assert_eq!(q.grace(QuotaType::User), Some(Grace { blocks: DEFAULT_GRACE, inodes: 5 }));
    assert!(q.changed(QuotaType::Group, 0, other, NOW).is_err(), "these are off");
}

#[test]
fn a_new_soft_limit_below_the_usage_starts_the_period() {
    let q = quotas(Dqblk::default(), Amount::blocks(50));
    let limits = |soft| Dqblk { bsoftlimit: soft, curblocks: 9, ..Dqblk::default() };
    set_limits(&q, 10, &limits(60), NOW);
    assert_eq!((record(&q, 10).btime, record(&q, 10).curblocks), (0, 50));
    set_limits(&q, 10, &limits(50), NOW + 1);
    assert_eq!(record(&q, 10).btime, NOW + 1 + DEFAULT_GRACE);
    set_limits(&q, 10, &limits(40), NOW + 2);
    assert_eq!(record(&q, 10).btime, NOW + 1 + DEFAULT_GRACE);
}

#[test]
fn records_without_content_are_written_once_and_forgotten() {
    let q = quotas(Dqblk::default(), Amount::inode());
    q.take_dirty(QuotaType::User);
    q.release(USER, Amount::inode());
    let dirty = q.take_dirty(QuotaType::User).unwrap();
    assert_eq!(dirty, [(10, Dqblk::default())]);
    assert!(q.records(QuotaType::User, 0, 9).unwrap().is_empty());
    q.set_dirty(QuotaType::User, [10].into_iter());
    assert_eq!(q.take_dirty(QuotaType::User).unwrap().len(), 1);
}

/// The record of id 0 has the lengths of the grace periods, so the ends of its own are in memory.
#[test]
fn id_0_has_a_grace_period_as_any_other() {
    let record = Dqblk { bsoftlimit: 100, btime: 60, ..Dqblk::default() };
    let q = Quotas::default();
    let records = BTreeMap::from([(0, record)]);
    q.set(QuotaType::User, Some(Active::new(records.clone(), &BTreeMap::new(), NOW)));
    let charge = |q: &Quotas, blocks, now| {
        q.charge([Some(0), None], Amount::blocks(blocks), Limits::Enforced, now).is_ok()
    };
    assert!(charge(&q, 100, NOW + 5) && charge(&q, 1, NOW + 65) && !charge(&q, 1, NOW + 66));
    assert_eq!((self::record(&q, 0).btime, self::record(&q, 0).curblocks), (60, 101));
    q.release([Some(0), None], Amount::blocks(2));
    assert!(charge(&q, 1, NOW + 99) && charge(&q, 1, NOW + 99 + 60));
    // A mount begins the period anew, because no end is stored.
    let used = BTreeMap::from([(0, Amount::blocks(200))]);
    q.set(QuotaType::User, Some(Active::new(records, &used, NOW)));
    assert!(charge(&q, 1, NOW + 60) && !charge(&q, 1, NOW + 61));
    // So does a soft limit that is set below the usage.
    set_limits(&q, 0, &Dqblk::default(), NOW);
    set_limits(&q, 0, &Dqblk { bsoftlimit: 100, ..Dqblk::default() }, NOW + 70);
    assert!(charge(&q, 1, NOW + 130) && !charge(&q, 1, NOW + 131));
    assert_eq!(self::record(&q, 0).btime, 60);
}

/// A mount refuses files with more records.
#[test]
fn no_limit_is_set_beyond_the_records_that_a_mount_reads() {
    let limits = Dqblk { bhardlimit: 5, ..Dqblk::default() };
    let records = (1..=MAX_RECORDS as u32).map(|id| (id, limits.clone())).collect();
    let q = Quotas::default();
    q.set(QuotaType::User, Some(Active::new(records, &BTreeMap::new(), NOW)));
    let changed = |id| q.changed(QuotaType::User, id, Change::Limits(&limits), NOW);
    assert_eq!(changed(7).unwrap(), limits);
    assert!(matches!(changed(MAX_RECORDS as u32 + 1), Err(Error::Invalid(_))));
}
