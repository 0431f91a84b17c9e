//! Hand-made windows: every state is there, once, and no other.

use super::*;
use ffs_device::Durability;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Sectors of the hand-made device.
const SECTORS: usize = 64;

/// A window of writes, each so many sectors long at that sector, filled with its number plus one.
fn window(writes: &[(u64, usize)]) -> Window {
    let write = |(number, &(sector, len)): (u64, &(u64, usize))| Write {
        at: 11 + number,
        offset: sector * 512,
        bytes: Arc::from(vec![number as u8 + 1; len * SECTOR]),
    };
    let writes: Vec<Write> = (0..).zip(writes).map(write).collect();
    Window { begin: 10, end: 10 + writes.len() as u64, writes }
}

fn overlay() -> OverlayDevice {
    OverlayDevice::new(Arc::new(vec![0; SECTORS * SECTOR]), Durability::OnFlush)
}

/// The first byte of every sector, for every state looked at.
fn contents(window: &Window, effort: Effort) -> Vec<Vec<u8>> {
    let overlay = overlay();
    let window_states = WindowStates::new(window, &overlay, 7);
    let show = |(_, layout): (Choice, Layout)| {
        overlay.reset();
        window_states.apply_to(&layout, &overlay);
        overlay.with_bytes(|bytes| bytes.iter().step_by(SECTOR).copied().collect())
    };
    window_states.distinct(effort).into_iter().map(show).collect()
}

const NONE: Effort = Effort { subsets: 0, sectors: 0, window: 100_000 };

#[test]
fn every_subset_of_a_small_window_once() {
    for n in 0..=ALL_SUBSETS {
        let writes: Vec<(u64, usize)> = (0..n as u64).map(|w| (w * 2, 1)).collect();
        let all = contents(&window(&writes), Effort { sectors: 100, ..NONE });
        let set: BTreeSet<&Vec<u8>> = all.iter().collect();
        assert_eq!((all.len(), set.len()), (1 << n, 1 << n), "{n} writes");
    }
}

#[test]
fn a_write_is_torn_at_every_sector_both_ways() {
    let all: BTreeSet<Vec<u8>> = contents(&window(&[(0, 4)]), NONE).into_iter().collect();
    let all: BTreeSet<String> =
        all.iter().map(|bytes| bytes[..4].iter().map(|b| (b'0' + b) as char).collect()).collect();
    for must in ["0000", "1000", "1100", "1110", "1111", "0111", "0011", "0001"] {
        assert!(all.contains(must), "{must} is missing in {all:?}");
    }
    let all = contents(&window(&[(0, 4)]), Effort { sectors: 500, ..NONE });
    assert_eq!(all.len(), 16, "every mask of four sectors");
}

#[test]
fn a_sector_shows_the_last_write_that_was_kept() {
    // Three writes of one sector: nothing, or any one of them.
    let all: BTreeSet<u8> =
        contents(&window(&[(5, 1), (5, 1), (5, 1)]), NONE).iter().map(|bytes| bytes[5]).collect();
    assert_eq!(all, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_large_window_has_its_prefixes_and_lacks_each_write() {
    let n = 20;
    let writes: Vec<(u64, usize)> = (0..n).map(|w| (w, 1)).collect();
    let all: BTreeSet<Vec<u8>> =
        contents(&window(&writes), Effort { subsets: 50, ..NONE }).into_iter().collect();
    let kept = |keep: &dyn Fn(u64) -> bool| {
        let mut bytes = vec![0; SECTORS];
        (0..n).filter(|w| keep(*w)).for_each(|w| bytes[w as usize] = w as u8 + 1);
        bytes
    };
    for a in 0..n {
        assert!(all.contains(&kept(&|w| w < a)) && all.contains(&kept(&|w| w != a)));
        assert!(all.contains(&kept(&|w| w == a)));
        for b in 0..a {
            assert!(all.contains(&kept(&|w| w != a && w != b)));
            assert!(all.contains(&kept(&|w| w == a || w == b)));
        }
    }
    let few = contents(&window(&writes), Effort { subsets: 50, sectors: 50, window: 100 });
    assert!(few.len() <= 100 && few.len() > 80, "{}", few.len());
    assert!((0..=n).all(|a| few.contains(&kept(&|w| w < a))), "prefixes are never left out");
}

#[test]
fn what_is_in_the_base_already_is_no_state() {
    let overlay = overlay();
    overlay.commit(0, &[1; SECTOR]);
    let window = window(&[(0, 1), (1, 1)]);
    let window_states = WindowStates::new(&window, &overlay, 7);
    assert_eq!(window_states.distinct(NONE).len(), 2);
}

#[test]
fn a_state_has_the_part_of_the_log_that_it_needs() {
    let (window, overlay) = (window(&[(0, 2), (2, 1), (3, 1)]), overlay());
    let window_states = WindowStates::new(&window, &overlay, 7);
    let crash = |choice| window_states.layout(choice).crash.seen;
    assert_eq!((crash(Choice::Prefix(0)), crash(Choice::Prefix(2))), (10, 12));
    assert_eq!((crash(Choice::Only(0)), crash(Choice::AllBut(0))), (11, 13));
    assert_eq!(crash(Choice::Torn { write: 0, how: 0, rest: Rest::None }), 11);
    assert_eq!(crash(Choice::Torn { write: 0, how: 0, rest: Rest::All }), 13);
}

#[test]
fn of_a_torn_write_nothing_had_returned_but_it_was_issued() {
    // Without a volatile cache a write is a window, which ends before the write does.
    let (window, overlay) = (Window { end: 10, ..window(&[(0, 2)]) }, overlay());
    let window_states = WindowStates::new(&window, &overlay, 7);
    let crash = |choice| window_states.layout(choice).crash;
    let torn = Choice::Torn { write: 0, how: 0, rest: Rest::None };
    assert_eq!(crash(torn), CrashPoint { seen: 10, issued: 11 });
    assert_eq!((crash(Choice::Prefix(0)), crash(Choice::Prefix(1))), (10.into(), 11.into()));
}

#[test]
fn a_write_of_which_drawn_sectors_are_missing_is_torn() {
    let (window, overlay) = (Window { end: 10, ..window(&[(0, 3)]) }, overlay());
    let window_states = WindowStates::new(&window, &overlay, 7);
    for number in 0..200 {
        let layout = window_states.layout(Choice::Sectors(number));
        let whole = layout.seen.iter().flatten().count() == 3;
        assert_eq!(layout.crash.seen == 11, whole, "q{number}");
    }
}

#[test]
fn names_of_states_can_be_read_back() {
    let overlay = overlay();
    let writes: Vec<(u64, usize)> = (0..14).map(|w| (w * 3, 3)).collect();
    let (large, small) = (window(&writes), window(&writes[..3]));
    for window in [&large, &small] {
        let window_states = WindowStates::new(window, &overlay, 7);
        for choice in window_states.choices(Effort { subsets: 5, sectors: 5, window: 100_000 }) {
            assert_eq!(choice.to_string().parse(), Ok(choice));
            assert!(window_states.has(choice));
        }
        assert!(!window_states.has(Choice::Prefix(15)) && !window_states.has(Choice::Only(14)));
    }
    for wrong in ["", "x1", "p", "t1.2", "t1n", "s", "o1.", "\u{e4}1", "pp"] {
        assert_eq!(wrong.parse::<Choice>(), Err(()), "{wrong}");
    }
}
