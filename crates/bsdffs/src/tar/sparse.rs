//! Maps of sparse members in the formats of GNU tar: old headers, and pax versions 0.0, 0.1 and
//! 1.0.

use std::io::Read;

use super::ReadError;
use super::header::{BLOCK, Header, number};
use super::input::Input;
use super::pax::Pax;

/// Most extents of a file.
pub(super) const MAX_EXTENTS: usize = 1 << 20;

/// A range of a file that contains data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// The map of a sparse file.
pub(crate) struct Map {
    /// Bytes of the file.
    pub size: u64,
    /// Ranges with data, in order.
    pub extents: Vec<Extent>,
    /// Bytes of data in the archive for all extents.
    pub stored: u64,
}

/// The map of a member; `None` if it is not sparse. Reads the part of the map that precedes the
/// data.
pub(crate) fn map(
    input: &mut Input,
    header: &Header,
    pax: &Pax,
    stored: u64,
) -> Result<Option<Map>, ReadError> {
    let sparse = &pax.sparse;
    let (size, numbers, stored) = if header.kind == b'S' {
        let (size, numbers) = old(input, header)?;
        (size, numbers, stored)
    } else if sparse.major == Some(1) {
        let (numbers, used) = version_1(input, stored)?;
        (sparse.size.unwrap_or(stored), numbers, stored - used)
    } else if let Some(numbers) = &sparse.map {
        (sparse.size.unwrap_or(stored), numbers.clone(), stored)
    } else {
        return Ok(None);
    };
    Ok(Some(Map { size, extents: checked(size, &numbers)?, stored }))
}

/// Checks that pairs of offset and length are in order and within the file.
fn checked(size: u64, numbers: &[u64]) -> Result<Vec<Extent>, String> {
    let bad = || "a sparse file's map is out of order: the archive is damaged".to_owned();
    let mut extents = Vec::with_capacity(numbers.len() / 2);
    let mut at = 0;
    for pair in numbers.chunks(2) {
        let &[offset, len] = pair else { return Err(bad()) };
        let end = offset.checked_add(len).filter(|&end| offset >= at && end <= size);
        at = end.ok_or_else(bad)?;
        extents.push(Extent { offset, len });
    }
    Ok(extents)
}

fn old(input: &mut Input, header: &Header) -> Result<(u64, Vec<u64>), ReadError> {
    let bad = || "a sparse file's header is malformed: the archive is damaged".to_owned();
    let mut numbers = Vec::new();
    let mut entries = |block: &[u8], first: usize, count: usize| -> Option<()> {
        for entry in 0..count {
            let at = first + 24 * entry;
            if block[at] == 0 {
                break;
            }
            numbers.push(u64::try_from(number(block, at..at + 12)?).ok()?);
            numbers.push(u64::try_from(number(block, at + 12..at + 24)?).ok()?);
        }
        (numbers.len() <= 2 * MAX_EXTENTS).then_some(())
    };
    entries(&header.block, 386, 4).ok_or_else(bad)?;
    let mut more = header.block[482] != 0;
    while more {
        let mut block = [0; BLOCK];
        input.read_exact(&mut block)?;
        entries(&block, 0, 21).ok_or_else(bad)?;
        more = block[504] != 0;
    }
    let size = number(&header.block, 483..495).and_then(|size| u64::try_from(size).ok());
    Ok((size.ok_or_else(bad)?, numbers))
}

/// Reads the map of version 1.0: lines before the data with the number of pairs, then the pairs.
/// Returns also the bytes read.
fn version_1(input: &mut Input, stored: u64) -> Result<(Vec<u64>, u64), ReadError> {
    let bad = || "a sparse file's map is malformed: the archive is damaged".to_owned();
    let mut numbers: Vec<u64> = Vec::new();
    let (mut used, mut wanted) = (0, 1);
    let mut value: Option<u64> = None;
    while numbers.len() < wanted {
        if used + BLOCK as u64 > stored.next_multiple_of(BLOCK as u64) {
            return Err(bad().into());
        }
        let mut block = [0; BLOCK];
        input.read_exact(&mut block)?;
        used += BLOCK as u64;
        for byte in block {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    let sum = value.unwrap_or(0).checked_mul(10).and_then(|v| v.checked_add(digit));
                    value = Some(sum.ok_or_else(bad)?);
                }
                b'\n' => numbers.push(value.take().ok_or_else(bad)?),
                _ => return Err(bad().into()),
            }
            if numbers.len() == 1 && wanted == 1 {
                let pairs = usize::try_from(numbers[0]).ok().filter(|&n| n <= MAX_EXTENTS);
                wanted = 1 + 2 * pairs.ok_or_else(bad)?;
            }
            if numbers.len() == wanted {
                break;
            }
        }
    }
    numbers.remove(0);
    // The padding of the map may exceed the stored size.
    Ok((numbers, used.min(stored)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_must_be_in_order() {
        let extent = |offset, len| Extent { offset, len };
        assert_eq!(checked(10, &[0, 4, 6, 4]), Ok(vec![extent(0, 4), extent(6, 4)]));
        assert!(checked(10, &[0, 4, 3, 4]).is_err());
        assert!(checked(10, &[6, 5]).is_err());
        assert!(checked(10, &[6]).is_err());
        assert!(checked(u64::MAX, &[u64::MAX, 1]).is_err());
    }

    #[test]
    fn a_map_of_version_1_is_text_before_the_data() {
        let mut text = b"2\n0\n512\n4096\n512\n".to_vec();
        text.resize(512, 0);
        text.extend([7; 1024]);
        let mut input = Input::Stream(Box::new(std::io::Cursor::new(text)));
        let Ok((numbers, used)) = version_1(&mut input, 1536) else { panic!("not read") };
        assert_eq!((numbers, used), (vec![0, 512, 4096, 512], 512));
        let mut next = [0; 1];
        input.read_exact(&mut next).unwrap();
        assert_eq!(next, [7]);
    }
}
