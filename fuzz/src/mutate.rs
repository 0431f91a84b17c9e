//! Mutations of an input that keep its records whole. libFuzzer itself mutates single bytes.

use crate::RECORD;
use ffs_device::clock::{Rng, SplitMix64};

/// Bytes before the first record.
const HEAD: usize = 2;

/// Changes the first `size` bytes of `data` in one of several ways. Returns the new size, or `None`
/// to leave the mutation to libFuzzer.
pub fn records(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> Option<usize> {
    let rng = SplitMix64::new(seed.into());
    let below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    let count = size.checked_sub(HEAD)? / RECORD;
    let at = |n: usize| HEAD + n * RECORD;
    let whole = at(count);
    let fits = whole + RECORD <= max_size.min(data.len());
    let how = below(10);
    match how {
        // A new record anywhere, random or a copy of another.
        0..3 if fits => {
            let n = below(count + 1);
            let record = match how {
                0 if count > 0 => copy(data, at(below(count))),
                1 => rng.next_u64().to_le_bytes(),
                _ => small(rng.next_u64()),
            };
            data.copy_within(at(n)..whole, at(n + 1));
            data[at(n)..at(n + 1)].copy_from_slice(&record);
            Some(whole + RECORD)
        }
        3 if count > 1 => {
            let n = below(count);
            data.copy_within(at(n + 1)..whole, at(n));
            Some(whole - RECORD)
        }
        4 if count > 1 => {
            let (a, b) = (at(below(count)), at(below(count)));
            let (x, y) = (copy(data, a), copy(data, b));
            data[a..a + RECORD].copy_from_slice(&y);
            data[b..b + RECORD].copy_from_slice(&x);
            Some(whole)
        }
        5 | 6 if count > 0 => {
            let place = at(below(count)) + below(RECORD);
            data[place] = if how == 5 { below(24) as u8 } else { rng.next_u64() as u8 };
            Some(size)
        }
        7 => {
            data[below(HEAD)] = rng.next_u64() as u8;
            Some(size)
        }
        _ => None,
    }
}

fn copy(data: &[u8], at: usize) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record.copy_from_slice(&data[at..at + RECORD]);
    record
}

/// Small random numbers, which select the first few items of every kind.
fn small(random: u64) -> [u8; RECORD] {
    let mut record = random.to_le_bytes();
    record.iter_mut().skip(1).for_each(|b| *b %= 20);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_in_bounds() {
        for seed in 0..20_000 {
            let mut data = vec![seed as u8; 100];
            let size = seed as usize % 90;
            if let Some(new) = records(&mut data, size, 95, seed) {
                assert!(new <= 95 && new + RECORD >= size - size.min(RECORD));
            }
        }
    }
}
