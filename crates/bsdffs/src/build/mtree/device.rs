//! The numbers of devices in a specification.

use ffs_core::DeviceNumber;

/// The systems whose numbers NetBSD's mtree(8) packs. The image stores all of them as FreeBSD does,
/// so that only major and minor matter. BSD/OS, 4.3BSD and others also have units and subunits.
const FORMATS: [&str; 17] = [
    "native", "386bsd", "4bsd", "bsdos", "freebsd", "hpux", "isc", "linux", "netbsd", "osf1",
    "sco", "solaris", "sunos", "svr3", "svr4", "ultrix", "darwin",
];

/// Reads `FORMAT,MAJOR,MINOR`, or the number as FreeBSD stores it.
pub(super) fn parse(text: &str) -> Option<DeviceNumber> {
    let mut parts = text.split(',');
    let (first, major, minor) = (parts.next()?, parts.next(), parts.next());
    match (major, minor, parts.next()) {
        (None, None, None) => number(first).map(DeviceNumber::from_disk),
        (Some(major), Some(minor), None) if FORMATS.contains(&first) => {
            let [major, minor] = [major, minor].map(|part| number(part)?.try_into().ok());
            Some(DeviceNumber { major: major?, minor: minor? })
        }
        _ => None,
    }
}

/// A number in C's notation: `0x1f`, `037` or `31`.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') && text.len() > 1 => (&text[1..], 8),
        None => (text, 10),
    };
    let plain = digits.chars().all(|digit| digit.is_digit(radix));
    plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_forms_of_mtree() {
        let device = |major, minor| Some(DeviceNumber { major, minor });
        for (text, wanted) in [
            ("native,1,3", device(1, 3)),
            ("freebsd,0x2f,010", device(0x2f, 8)),
            ("linux,259,1048575", device(259, 1_048_575)),
            ("0x103", device(1, 3)),
            ("259", device(1, 3)),
            ("0403", device(1, 3)),
            ("0", device(0, 0)),
            ("0x1f0005", device(0, 0x1f_0005)),
        ] {
            assert_eq!(parse(text), wanted, "{text}");
        }
        for text in [
            "",
            "1,3",
            "native,1",
            "native,1,3,4",
            "plan9,1,3",
            "native,+1,3",
            "0x",
            "native,1,4294967296",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
