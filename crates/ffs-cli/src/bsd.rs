//! Numbers and switches in the notation of BSD's command lines.

use std::io::{self, Write};

use ffs_device::BlockDevice;

/// Bytes of a sector, the unit of sizes without a suffix.
pub(crate) const SECTOR: u64 = 512;

/// A number with an optional suffix: b (512), k, m, g, t, p - powers of 1024, either case.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let (value, unit) = parse(text)?;
    value.checked_mul(unit.unwrap_or(1)).ok_or_else(|| format!("{text} is too large"))
}

/// A size: in sectors without a suffix, in bytes with one.
pub(crate) fn sectors(text: &str) -> Result<u64, String> {
    let (value, unit) = parse(text)?;
    value.checked_mul(unit.unwrap_or(SECTOR)).ok_or_else(|| format!("{text} is too large"))
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

/// The file system or other content on the device, which newfs would destroy.
pub(crate) fn content(device: &dyn BlockDevice) -> Option<&'static str> {
    if crate::session::holds_ufs(device) {
        return Some("a UFS file system");
    }
    ffs_ondisk::foreign::other_system(Some(device.len_bytes()), |at, len| {
        let mut bytes = vec![0; len];
        device.read_at(at, &mut bytes).ok().map(|()| bytes)
    })
}

/// Writes the places of backup superblocks, in sectors, as many to a line as fit.
pub(crate) fn write_backups(
    out: &mut dyn Write,
    sectors: impl Iterator<Item = u64>,
) -> io::Result<()> {
    write!(out, "super-block backups (for fsck_ffs -b #) at:")?;
    let mut width = 80;
    let mut sectors = sectors.peekable();
    while let Some(sector) = sectors.next() {
        let comma = if sectors.peek().is_none() { "" } else { "," };
        let text = format!(" {sector}{comma}");
        if width + text.len() > 79 {
            writeln!(out)?;
            width = 0;
        }
        width += text.len();
        write!(out, "{text}")?;
    }
    writeln!(out)
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
        for bad in ["", "k", "1x", "-1", "1 k", "99999999999999999999", "20000p"] {
            assert!(number(bad).is_err(), "{bad}");
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
