//! Numbers and switches in the notation of BSD's command lines.

/// Bytes of a sector, the unit of sizes without a suffix.
pub(crate) const SECTOR: u64 = 512;

/// A number with an optional suffix: b (512), k, m, g, t, p - powers of 1024, either case.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let (value, unit) = parse(text)?;
    value.checked_mul(unit.unwrap_or(1)).ok_or_else(|| format!("{text} is too large"))
}

/// A size: in sectors of 512 bytes without a suffix, in bytes with one.
pub(crate) fn sectors(text: &str) -> Result<u64, String> {
    amount(text)?.bytes(None).ok_or_else(|| format!("{text} is too large"))
}

/// A size whose unit depends on another option: the size of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// A number without a suffix.
    Sectors(u64),
    /// A number with a suffix.
    Bytes(u64),
}

impl Amount {
    /// The size in bytes, with sectors of `sector` bytes or else of 512; `None` if it is too large.
    pub(crate) fn bytes(self, sector: Option<u32>) -> Option<u64> {
        match self {
            Amount::Sectors(count) => count.checked_mul(sector.map_or(SECTOR, u64::from)),
            Amount::Bytes(bytes) => Some(bytes),
        }
    }
}

/// A size, as [`sectors`] reads it, for a sector size that is not known yet.
pub(crate) fn amount(text: &str) -> Result<Amount, String> {
    let (value, unit) = parse(text)?;
    let Some(unit) = unit else { return Ok(Amount::Sectors(value)) };
    let bytes = value.checked_mul(unit).ok_or_else(|| format!("{text} is too large"))?;
    Ok(Amount::Bytes(bytes))
}

/// The size of a sector.
pub(crate) fn sector_size(text: &str) -> Result<u32, String> {
    let valid = |size: &u32| size.is_power_of_two() && (512..=65536).contains(size);
    let size = number(text).ok().and_then(|size| u32::try_from(size).ok()).filter(valid);
    size.ok_or_else(|| format!("{text:?} is not a power of two from 512 to 65536"))
}

/// A number with a suffix that fits 32 bits.
pub(crate) fn number32(text: &str) -> Result<u32, String> {
    u32::try_from(number(text)?).map_err(|_| format!("{text} is too large"))
}

fn parse(text: &str) -> Result<(u64, Option<u64>), String> {
    let bad = || format!("{text:?} is not a number such as 4096, 64k or 2g");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(split);
    let value = if suffix.starts_with(['x', 'X']) && digits == "0" {
        return u64::from_str_radix(&suffix[1..], 16).map(|v| (v, None)).map_err(|_| bad());
    } else {
        digits.parse().map_err(|_| bad())?
    };
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" => None,
        "b" => Some(512),
        "s" => Some(SECTOR),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        "t" | "tb" | "tib" => Some(1 << 40),
        "p" | "pb" | "pib" => Some(1 << 50),
        _ => return Err(bad()),
    };
    Ok((value, unit))
}

/// Seconds since 1970, in decimal digits alone.
pub(crate) fn since_1970(text: &str) -> Option<i64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// `enable` or `disable`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "enable" => Ok(true),
        "disable" => Ok(false),
        _ => Err(format!("{text:?}: write enable or disable")),
    }
}

/// `UID:GID`.
pub(crate) fn owner(text: &str) -> Result<(u32, u32), String> {
    let bad = || format!("{text:?} is not UID:GID, two numbers such as 0:0");
    let (uid, gid) = text.split_once(':').ok_or_else(bad)?;
    Ok((uid.parse().map_err(|_| bad())?, gid.parse().map_err(|_| bad())?))
}

/// Permission bits in octal.
pub(crate) fn mode(text: &str) -> Result<u16, String> {
    u16::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| format!("{text:?} is not a mode such as 755 or 1777"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_bsd_reads_them() {
        assert_eq!(number("4096"), Ok(4096));
        assert_eq!(number("64k"), Ok(65536));
        assert_eq!(number("0x10"), Ok(16));
        assert_eq!(sectors("8"), Ok(4096));
        assert_eq!(sectors("2G"), Ok(2 << 30));
        assert_eq!(sectors("3b"), Ok(1536));
        assert_eq!(amount("8").unwrap().bytes(Some(4096)), Some(32768));
        assert_eq!(amount("8k").unwrap().bytes(Some(4096)), Some(8192));
        assert_eq!(amount("0xffffffffffffffff").unwrap().bytes(Some(512)), None);
        assert_eq!((sector_size("512"), sector_size("64k")), (Ok(512), Ok(65536)));
        for bad in ["0", "256", "1000", "4097", "128k", "8g", "x"] {
            assert!(sector_size(bad).is_err(), "{bad}");
        }
        for bad in ["", "k", "1x", "-1", "1 k", "99999999999999999999", "20000p"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_a_number_that_is_not_negative() {
        assert_eq!(since_1970("0"), Some(0));
        assert_eq!(since_1970("1700000000"), Some(1_700_000_000));
        assert_eq!(since_1970("9223372036854775807"), Some(i64::MAX));
        for bad in ["", "-1", "+1", "abc", "1.5", " 1", "0x10", "9223372036854775808"] {
            assert_eq!(since_1970(bad), None, "{bad}");
        }
    }

    #[test]
    fn owners_and_modes() {
        assert_eq!(owner("0:5"), Ok((0, 5)));
        assert!(owner("root:wheel").is_err());
        assert_eq!(mode("1777"), Ok(0o1777));
        assert!(mode("9").is_err() && mode("17777").is_err());
    }
}
