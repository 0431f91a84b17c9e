//! The type and the bounds of a switch, and its value as text.

use super::values::AUTO;

/// The type of a switch, with the least and the greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1.
    Flag,
    /// A number.
    Count(u64, u64),
    /// Bytes; the suffixes k, m and g are accepted.
    Bytes(u64, u64),
    /// Seconds.
    Seconds(u64, u64),
    /// 0 to 100.
    Percent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A number, or `auto`.
    AutoCount(u64, u64),
    /// Bytes, or `auto`.
    AutoBytes(u64, u64),
}

impl Kind {
    /// The least and the greatest value.
    pub(super) fn bounds(self) -> Option<(u64, u64)> {
        match self {
            Kind::Count(min, max)
            | Kind::Bytes(min, max)
            | Kind::Seconds(min, max)
            | Kind::AutoCount(min, max)
            | Kind::AutoBytes(min, max) => Some((min, max)),
            Kind::Percent => Some((0, 100)),
            Kind::Flag | Kind::Choice(_) => None,
        }
    }

    /// Whether `auto` is accepted.
    pub(super) fn is_auto(self) -> bool {
        matches!(self, Kind::AutoCount(..) | Kind::AutoBytes(..))
    }

    /// The accepted values, in words.
    #[must_use]
    pub fn takes(self) -> String {
        match self {
            Kind::Flag => "0 or 1".to_owned(),
            Kind::Count(..) => "a number".to_owned(),
            Kind::Bytes(..) => "a size such as 64m".to_owned(),
            Kind::Seconds(..) => "seconds".to_owned(),
            Kind::Percent => "0 to 100".to_owned(),
            Kind::AutoCount(..) => "a number or auto".to_owned(),
            Kind::AutoBytes(..) => "a size such as 64m, or auto".to_owned(),
            Kind::Choice(names) => match names {
                [first @ .., last] => format!("{} or {last}", first.join(", ")),
                [] => String::new(),
            },
        }
    }

    /// The text of the value `raw`.
    pub(super) fn format(self, raw: u64) -> String {
        match self {
            Kind::AutoCount(..) | Kind::AutoBytes(..) if raw == AUTO => "auto".to_owned(),
            Kind::Choice(names) => {
                let name = usize::try_from(raw).ok().and_then(|i| names.get(i));
                name.copied().unwrap_or_default().to_owned()
            }
            _ => raw.to_string(),
        }
    }

    /// The value of a text; `None` if the text is not of this type. Bounds are not checked.
    pub(super) fn parse(self, text: &str) -> Option<u64> {
        match self {
            Kind::Flag => match text {
                "1" | "on" | "yes" | "true" | "enable" => Some(1),
                "0" | "off" | "no" | "false" | "disable" => Some(0),
                _ => None,
            },
            Kind::Count(..) | Kind::Seconds(..) => number(text),
            Kind::Percent => number(text.strip_suffix('%').unwrap_or(text)),
            Kind::Bytes(..) => size(text),
            Kind::Choice(names) => names.iter().position(|n| *n == text).map(|i| i as u64),
            Kind::AutoCount(..) | Kind::AutoBytes(..) if text == "auto" => Some(AUTO),
            Kind::AutoCount(..) => number(text).filter(|n| *n != AUTO),
            Kind::AutoBytes(..) => size(text).filter(|n| *n != AUTO),
        }
    }
}

/// A number of digits only, without a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The bytes of a size with an optional suffix k, m or g (1024, 1024², 1024³ bytes).
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (text.get(..text.len() - 1)?, 10),
        b'm' => (text.get(..text.len() - 1)?, 20),
        b'g' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}
