//! The numbers, sizes, ages and bits in an expression of find(1).

use ffs_ondisk::geometry::DEV_BSIZE;

/// Seconds of a day.
pub(crate) const DAY: i64 = 24 * 3600;

/// A comparison with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Is(i128),
    More(i128),
    Less(i128),
}

impl Number {
    /// The comparison with a number that is `unit` times as large.
    pub(crate) fn times(self, unit: i64) -> Number {
        let unit = i128::from(unit);
        match self {
            Number::Is(n) => Number::Is(n * unit),
            Number::More(n) => Number::More(n * unit),
            Number::Less(n) => Number::Less(n * unit),
        }
    }

    pub(crate) fn holds(self, value: i128) -> bool {
        match self {
            Number::Is(n) => value == n,
            Number::More(n) => value > n,
            Number::Less(n) => value < n,
        }
    }
}

/// Which of the times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Access,
    Modification,
    Change,
    Birth,
}

/// How bits are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bits {
    /// Exactly these.
    Exactly,
    /// All of these.
    All,
    /// One of these or more.
    Some,
}

impl Bits {
    pub(crate) fn holds(self, wanted: u32, value: u32) -> bool {
        match self {
            Bits::Exactly => value == wanted,
            Bits::All => value & wanted == wanted,
            Bits::Some => wanted == 0 || value & wanted != 0,
        }
    }
}

/// `N`, `+N` or `-N`.
pub(crate) fn number(text: &str) -> Option<Number> {
    let digits = text.trim_start_matches(['+', '-']);
    let n = digits.parse::<u64>().ok().filter(|_| text.len() - digits.len() <= 1)?;
    Some(match text.as_bytes().first()? {
        b'+' => Number::More(n.into()),
        b'-' => Number::Less(n.into()),
        _ => Number::Is(n.into()),
    })
}

/// The value of -size: a number, and its unit in bytes. As on BSD, a size with a unit is compared
/// in bytes; the units of GNU are rounded up.
pub(crate) fn size(text: &str) -> Option<(Number, u64)> {
    let unit: i64 = match text.as_bytes().last()? {
        b'0'..=b'9' => return Some((number(text)?, DEV_BSIZE)),
        b'b' => return Some((number(text.get(..text.len() - 1)?)?, DEV_BSIZE)),
        b'w' => return Some((number(text.get(..text.len() - 1)?)?, 2)),
        b'c' => 1,
        b'k' => 1 << 10,
        b'M' => 1 << 20,
        b'G' => 1 << 30,
        b'T' => 1 << 40,
        b'P' => 1 << 50,
        _ => return None,
    };
    let number = number(text.get(..text.len() - 1)?)?.times(unit);
    Some((number, 1))
}

/// The value of a test of ages: a number, and its unit in seconds. As on BSD, an age with a unit is
/// compared in seconds, and one without is rounded up.
pub(crate) fn time(text: &str, without: i64) -> Option<(Number, i64)> {
    let unit = match text.as_bytes().last()? {
        b'0'..=b'9' => return Some((number(text)?, without)),
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'd' => DAY,
        b'w' => 7 * DAY,
        _ => return None,
    };
    let number = number(text.get(..text.len() - 1)?)?.times(unit);
    Some((number, 1))
}

/// `-X` (all bits), `+X` or `/X` (some bits), or `X` (exactly these).
pub(crate) fn bits(text: &str) -> (Bits, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (Bits::All, &text[1..]),
        Some(b'+' | b'/') => (Bits::Some, &text[1..]),
        _ => (Bits::Exactly, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_sign_or_none() {
        assert_eq!(number("7"), Some(Number::Is(7)));
        assert_eq!(number("+7"), Some(Number::More(7)));
        assert_eq!(number("-7"), Some(Number::Less(7)));
        for bad in ["", "+", "+-7", "7k", "x", "99999999999999999999"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(time("-2h", DAY), Some((Number::Less(7200), 1)));
        assert_eq!(time("3", 60), Some((Number::Is(3), 60)));
        assert!(time("h", DAY).is_none() && time("2\u{e9}", DAY).is_none());
    }
}
