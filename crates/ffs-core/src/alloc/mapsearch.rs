//! Finding a free run in a fragment map (`spec/allocation.md` §5.3).
//!
//! # Invariants
//! 1. A run is maximal: bounded by used fragments or by its block. A byte holds `8 / frag` blocks.
//! 2. [`search`] examines every byte, so it finds a run if there is one. Stretches of 64 bytes
//!    without a suitable block are skipped as a whole.

/// Bytes of the map that are tested together.
const STRETCH: usize = 64;

/// Bit `n - 1` of `RUNS[log2(frag)][byte]` is set if the byte has a maximal free run of exactly `n`
/// fragments. FreeBSD's `fragtbl`, computed.
static RUNS: [[u8; 256]; 4] = [table(1), table(2), table(4), table(8)];

const fn table(frag: u32) -> [u8; 256] {
    let mut out = [0u8; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut run = 0;
        let mut bit = 0;
        while bit < 8 {
            if (byte >> bit) & 1 == 1 {
                run += 1;
            } else {
                run = 0;
            }
            let ends = bit % frag == frag - 1 || (byte >> (bit + 1)) & 1 == 0;
            if run > 0 && ends {
                out[byte] |= 1 << (run - 1);
                run = 0;
            }
            bit += 1;
        }
        byte += 1;
    }
    out
}

/// The first fragment of the first maximal run of exactly `n` free fragments (`1 <= n <= frag`) in
/// `map`, searched from the byte of fragment `from` to the end and then from the start.
pub(super) fn search(map: &[u8], frag: u32, from: u32, n: u32) -> Option<u32> {
    let start = (from as usize / 8).min(map.len());
    let (front, back) = map.split_at(start);
    let at = match position(back, frag, n) {
        Some(i) => start + i,
        None => position(front, frag, n)?,
    };
    let byte = *map.get(at)?;
    Some(at as u32 * 8 + find_in_byte(byte, frag, n)?)
}

/// Index of the first byte with a maximal free run of exactly `n` fragments.
fn position(map: &[u8], frag: u32, n: u32) -> Option<usize> {
    let table = RUNS.get(frag.trailing_zeros() as usize)?;
    let want = 1u8.checked_shl(n.checked_sub(1)?)?;
    let hit = |b: &u8| table.get(usize::from(*b)).is_some_and(|runs| runs & want != 0);
    let may = |stretch: &[u8; STRETCH]| {
        let (words, _) = stretch.as_chunks::<8>();
        let words = words.iter().map(|w| u64::from_le_bytes(*w));
        // Folded without a branch, so that the compiler emits a few vector instructions.
        let some = if n == frag {
            words.fold(0, |acc, w| acc | whole_blocks(w, frag))
        } else {
            words.fold(0, |acc, w| acc | partial_blocks(w, frag))
        };
        some != 0
    };
    let (stretches, rest) = map.as_chunks::<STRETCH>();
    for (i, stretch) in stretches.iter().enumerate() {
        if may(stretch)
            && let Some(k) = stretch.iter().position(hit)
        {
            return Some(i * STRETCH + k);
        }
    }
    rest.iter().position(hit).map(|k| stretches.len() * STRETCH + k)
}

/// The first bit of every block in a word.
fn block_starts(frag: u32) -> u64 {
    match frag {
        1 => u64::MAX,
        2 => 0x5555_5555_5555_5555,
        4 => 0x1111_1111_1111_1111,
        _ => 0x0101_0101_0101_0101,
    }
}

/// Not 0 if a block in `word` is partly free: two adjacent bits differ.
fn partial_blocks(word: u64, frag: u32) -> u64 {
    let block_ends = block_starts(frag) << (frag - 1);
    (word ^ (word >> 1)) & !block_ends
}

/// The first bit of every wholly free block in `word`.
fn whole_blocks(word: u64, frag: u32) -> u64 {
    let mut free = word;
    let mut n = 1;
    while n < frag {
        free &= free >> n;
        n *= 2;
    }
    free & block_starts(frag)
}

/// The first bit of the first maximal run of exactly `n` free fragments in a byte of the map.
fn find_in_byte(byte: u8, frag: u32, n: u32) -> Option<u32> {
    let free = |bit: u32| (byte >> bit) & 1 == 1;
    let fits = |at: u32| {
        let end = at + n;
        let in_block = at % frag + n <= frag;
        let open_before = at.is_multiple_of(frag) || !free(at - 1);
        in_block && open_before && (at..end).all(free) && (end.is_multiple_of(frag) || !free(end))
    };
    (0..8u32).find(|at| fits(*at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_ondisk::cg::runs;

    #[test]
    fn tables_agree_with_the_runs_of_each_block() {
        for frag in [1u32, 2, 4, 8] {
            for byte in 0..=255u8 {
                let mut want = 0u8;
                for block in 0..8 / frag {
                    let pattern = (u16::from(byte) >> (block * frag)) & ((1 << frag) - 1);
                    for (n, count) in runs(pattern as u8, frag).into_iter().enumerate().skip(1) {
                        want |= u8::from(count > 0) << (n - 1);
                    }
                }
                let got = RUNS[frag.trailing_zeros() as usize][usize::from(byte)];
                assert_eq!(got, want, "frag {frag}, byte {byte:08b}");
                for n in 1..=frag {
                    let found = find_in_byte(byte, frag, n).is_some();
                    assert_eq!(found, got >> (n - 1) & 1 == 1, "frag {frag}, {byte:08b}, {n}");
                }
            }
        }
    }

    #[test]
    fn long_maps_give_what_bytes_give() {
        let mut dice = ffs_testkit::rng::SplitMix64::new(9);
        for round in 0..3000 {
            let frag = 1 << dice.below(4);
            let n = dice.between(1, u64::from(frag)) as u32;
            let mut map = vec![0u8; dice.between(1, 400) as usize];
            // Mostly full and free blocks, so that many stretches are skipped.
            for byte in &mut map {
                *byte = [0, 0xff, 0, 0xff, 0xf0, 0x0c][dice.below(6 - round % 3) as usize];
            }
            let at = dice.below(map.len() as u64) as usize;
            map[at] = dice.next_u64() as u8;
            let from = dice.below(map.len() as u64 * 8) as u32;
            let order = (from as usize / 8..map.len()).chain(0..from as usize / 8);
            let slow =
                order.filter_map(|i| Some(i as u32 * 8 + find_in_byte(map[i], frag, n)?)).next();
            assert_eq!(search(&map, frag, from, n), slow, "round {round}: frag {frag}, run {n}");
        }
    }

    #[test]
    fn search_goes_on_from_the_start_and_wraps() {
        let mut map = vec![0u8; 64];
        map[3] = 0b0001_1000;
        map[40] = 0b0110_0000;
        assert_eq!(search(&map, 8, 0, 2), Some(27));
        assert_eq!(search(&map, 8, 31, 2), Some(27), "same byte, earlier bit");
        assert_eq!(search(&map, 8, 32, 2), Some(325));
        assert_eq!(search(&map, 8, 328, 2), Some(27), "wraps");
        assert_eq!(search(&map, 8, 9999, 2), Some(27), "hostile start");
        assert_eq!(search(&map, 4, 0, 2), Some(325), "the first run is two of one fragment here");
        assert_eq!(search(&map, 4, 0, 1), Some(27));
        assert_eq!(search(&map, 8, 0, 3), None);
        assert_eq!(search(&map, 8, 0, 0), None);
        assert_eq!(search(&[], 8, 0, 1), None);
        assert_eq!(search(&map, 1, 0, 1), Some(27));
    }
}
