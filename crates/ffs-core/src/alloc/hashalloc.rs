//! The order in which the allocators search the groups (`spec/allocation.md` §2.3).
//!
//! # Invariants
//! 1. The order visits every group. Only groups of the quadratic part are visited twice (again in
//!    the linear part), so it is finite and short.

use super::Alloc;
use crate::counters::bump;
use crate::error::Result;
use ffs_ondisk::{CgNo, Csum};

/// The groups in search order from `start` (below `ncg`) on: `start`, the quadratic rehash (+1, +3,
/// +7, ...), then all groups but the first two in linear order.
pub(super) fn order(ncg: u32, start: CgNo) -> impl Iterator<Item = CgNo> {
    // In 64 bits, so that sums of group numbers cannot overflow.
    let (n, first) = (u64::from(ncg), u64::from(start.0));
    let steps = std::iter::successors(Some(1u64), |i| Some(i * 2)).take_while(move |i| *i < n);
    // The sum of the steps 1, 2, ..., i is 2i - 1.
    let quadratic = steps.map(move |i| (first + 2 * i - 1) % n);
    let brute = (2..n).map(move |i| (first + i) % n);
    std::iter::once(first).chain(quadratic).chain(brute).map(|c| CgNo(c as u32))
}

impl Alloc {
    /// Calls `each` for the groups from `start` on until it returns a result. The second argument
    /// of `each` is whether the group is `start`, to which the preference applies.
    ///
    /// A group that fails (damaged, unreadable) is skipped. Its error is returned only if no other
    /// group has a result.
    pub(super) fn hash_search<R>(
        &self,
        start: CgNo,
        each: impl FnMut(CgNo, bool) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        self.hash_search_where(start, |_| true, each)
    }

    /// As [`Alloc::hash_search`], but skips groups whose counts do not qualify.
    pub(super) fn hash_search_where<R>(
        &self,
        start: CgNo,
        may_have: impl Fn(&Csum) -> bool,
        mut each: impl FnMut(CgNo, bool) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        let mut failed = None;
        let mut order = order(self.g().ncg, self.clamp_group(start)).enumerate();
        loop {
            let next = {
                let sum = self.sum.lock();
                order.find(|(_, c)| may_have(&sum.group(*c)))
            };
            let Some((i, c)) = next else { break };
            bump(&self.cache.counters.groups_searched);
            match each(c, i == 0) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(e) => {
                    failed.get_or_insert(e);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// `c` if there is such a group, else group 0.
    pub(super) fn clamp_group(&self, c: CgNo) -> CgNo {
        if c.0 < self.g().ncg { c } else { CgNo(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visits(ncg: u32, start: u32) -> Vec<u32> {
        order(ncg, CgNo(start)).map(|c| c.0).collect()
    }

    #[test]
    fn golden_orders() {
        assert_eq!(visits(1, 0), [0]);
        assert_eq!(visits(2, 1), [1, 0]);
        assert_eq!(visits(3, 0), [0, 1, 0, 2]);
        assert_eq!(visits(8, 5), [5, 6, 0, 4, 7, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn every_group_is_tried_and_few_twice() {
        for ncg in 1..70u32 {
            for start in 0..ncg {
                let mut times = vec![0u32; ncg as usize];
                for c in visits(ncg, start) {
                    times[c as usize] += 1;
                }
                assert!(times.iter().all(|t| *t >= 1), "{ncg} groups from {start}: {times:?}");
                let extra: u32 = times.iter().map(|t| t - 1).sum();
                assert!(extra <= 32 - ncg.leading_zeros(), "{ncg} groups from {start}: {times:?}");
            }
        }
    }
}
