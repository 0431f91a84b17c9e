//! The limits and grace periods of `ffs edquota`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ffs_core::{Dqblk, Grace};

/// `VOLUME[:SOFT[:HARD[:ISOFT[:IHARD]]]]`. The limits are the words at the end that begin with a
/// digit, at most four, so the name of the volume may contain colons.
pub(crate) fn parse_edit(edit: &OsStr) -> Result<(&OsStr, Dqblk), String> {
    let bytes = edit.as_bytes();
    let mut words: Vec<&str> = Vec::new();
    let mut end = bytes.len();
    while words.len() < 4 {
        let Some(at) = bytes[..end].iter().rposition(|&b| b == b':').filter(|&at| at > 0) else {
            break;
        };
        let word = std::str::from_utf8(&bytes[at + 1..end]).unwrap_or_default();
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        words.insert(0, word);
        end = at;
    }
    let space = |n: usize| words.get(n).map_or(Ok(0), |word| blocks(word));
    let inodes = |n: usize| words.get(n).map_or(Ok(0), |word| count(word));
    let limits = Dqblk {
        bsoftlimit: space(0)?,
        bhardlimit: space(1)?,
        isoftlimit: inodes(2)?,
        ihardlimit: inodes(3)?,
        ..Dqblk::default()
    };
    Ok((OsStr::from_bytes(&bytes[..end]), limits))
}

/// A limit of space, in blocks of 512 bytes, rounded up.
fn blocks(text: &str) -> Result<u64, String> {
    let (value, suffix) = split(text)?;
    let unit: u64 = match suffix.as_str() {
        "b" => 1,
        "" | "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(format!("{text:?} is not a size such as 4096, 64k or 2g")),
    };
    let bytes = value.checked_mul(unit).ok_or_else(|| format!("{text} is too large"))?;
    Ok(bytes.div_ceil(512))
}

/// A limit of inodes.
fn count(text: &str) -> Result<u64, String> {
    let (value, suffix) = split(text)?;
    let unit: u64 = match suffix.as_str() {
        "" => 1,
        "k" => 1000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err(format!("{text:?} is not a number of inodes such as 1000 or 5k")),
    };
    value.checked_mul(unit).ok_or_else(|| format!("{text} is too large"))
}

fn split(text: &str) -> Result<(u64, String), String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let value = digits.parse().map_err(|_| format!("{text:?} is not a number"))?;
    Ok((value, suffix.to_ascii_lowercase()))
}

/// `BLOCKS:INODES`; one period is that of both.
pub(crate) fn grace(text: &str) -> Result<Grace, String> {
    let (blocks, inodes) = text.split_once(':').unwrap_or((text, text));
    Ok(Grace { blocks: seconds(blocks)?, inodes: seconds(inodes)? })
}

fn seconds(text: &str) -> Result<i64, String> {
    let (value, suffix) = split(text)?;
    let unit: u64 = match suffix.as_str() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err(format!("{text:?} is not a period such as 12h or 7d")),
    };
    let seconds = value.checked_mul(unit).and_then(|s| i64::try_from(s).ok());
    seconds.ok_or_else(|| format!("{text} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, [u64; 4]) {
        let (name, r) = parse_edit(OsStr::new(text)).unwrap();
        let all = [r.bsoftlimit, r.bhardlimit, r.isoftlimit, r.ihardlimit];
        (name.to_str().unwrap().to_owned(), all)
    }

    #[test]
    fn limits_are_read_as_bsd_reads_them() {
        let of = |text: &str, all| assert_eq!(parsed(text), ("a.img".to_owned(), all), "{text}");
        of("a.img", [0; 4]);
        of("a.img:10", [20, 0, 0, 0]);
        of("a.img:1m:2g:3:4k", [2048, 4 << 20, 3, 4000]);
        of("a.img:1000b:0:0:0", [2, 0, 0, 0]);
        assert_eq!(parsed("x:y.img:1").0, "x:y.img");
        assert_eq!(parsed("d@1:1:2:3:4").0, "d@1");
        assert!(parse_edit(OsStr::new("a.img:1x")).is_err());
        assert!(parse_edit(OsStr::new("a.img:99999999999999t")).is_err());
    }

    #[test]
    fn periods_are_read() {
        assert_eq!(grace("7d:12h"), Ok(Grace { blocks: 604_800, inodes: 43_200 }));
        assert_eq!(grace("90"), Ok(Grace { blocks: 90, inodes: 90 }));
        assert!(grace("7w").is_err() && grace("").is_err());
    }
}
