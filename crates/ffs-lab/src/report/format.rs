//! Numbers as text, in the page and in the terminal.

use crate::plot::scale::group;
use crate::portable_math::decade;
use crate::workload::MetricKind;

/// Bytes are shown in units of 10^6.
const MILLION: f64 = 1e6;

/// The unit of a result. For a rate, `what` is the unit of work.
#[must_use]
pub fn unit(kind: MetricKind, what: &str) -> String {
    match kind {
        MetricKind::Time => "s".to_owned(),
        MetricKind::Rate if what == "bytes" => "MB/s".to_owned(),
        MetricKind::Rate => format!("{what}/s"),
        MetricKind::CpuPercent => "% CPU".to_owned(),
    }
}

/// A value in its [`unit`].
pub(super) fn scaled(kind: MetricKind, what: &str, value: f64) -> f64 {
    if kind == MetricKind::Rate && what == "bytes" { value / MILLION } else { value }
}

/// A value in its [`unit()`] for a terminal, with three or four significant digits.
#[must_use]
pub fn plain(kind: MetricKind, what: &str, value: f64) -> String {
    short(scaled(kind, what, value)).replace('\u{202f}', "").replace('−', "-")
}

/// The digits after the point that show at least four significant digits; at least two.
pub(super) fn digits(smallest: f64) -> usize {
    if smallest.is_nan() || smallest <= 0.0 {
        return 2;
    }
    (3 - decade(smallest)).clamp(2, 7) as usize
}

/// A number with `digits` digits after the point, spaces between thousands, and a minus sign.
pub(super) fn fixed(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = group(&format!("{value:.digits$}"));
    let nothing = text.trim_start_matches('-').chars().all(|c| "0.".contains(c));
    if nothing { text.trim_start_matches('-').to_owned() } else { text.replace('-', "−") }
}

/// A number with three or four significant digits.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        s if s == 0.0 || s >= 999.5 => 0,
        s if s >= 99.95 => 1,
        s if s >= 9.995 => 2,
        s if s >= 0.995 => 3,
        s if s >= 0.0995 => 3,
        s => (2 - decade(s)).min(9) as usize,
    };
    let text = fixed(value, digits);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A count, with `k`, `M` or `G` if it is large.
pub(super) fn count(value: f64) -> String {
    match value.abs() {
        v if v >= 9.995e9 => format!("{}G", short(value / 1e9)),
        v if v >= 9.995e6 => format!("{}M", short(value / 1e6)),
        v if v >= 99_950.0 => format!("{}k", short(value / 1e3)),
        v if v >= 100.0 => fixed(value, 0),
        _ => short(value),
    }
}

/// A duration with three digits, in seconds, milliseconds or microseconds.
pub(super) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        s if s >= 0.9995 => (seconds, "s"),
        s if s >= 0.9995e-3 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    let digits = (2 - decade(value.abs().max(0.1))).clamp(0, 2) as usize;
    format!("{} {unit}", fixed(value, digits))
}

/// A p value for a table.
pub(super) fn chance(p: f64) -> String {
    match p {
        p if p < 1e-9 => "< 1e−9".to_owned(),
        p if p < 1e-3 => format!("{p:.0e}").replace('-', "−"),
        p => format!("{p:.3}"),
    }
}

/// A ratio with two digits after the point, or more if it is small.
pub(super) fn ratio(ratio: f64) -> String {
    let digits = if ratio < 0.0995 { (-decade(ratio)).clamp(2, 6) as usize } else { 2 };
    fixed(ratio, digits)
}

/// A change in percent with its sign.
pub(super) fn signed(percent: f64, digits: usize) -> String {
    let text = fixed(percent, digits);
    let nothing = text.chars().all(|c| "0.".contains(c));
    if percent > 0.0 && !nothing { format!("+{text}") } else { text }
}

/// `1 run`, `4 runs`.
pub(super) fn plural(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_shown_in_its_unit() {
        let shown =
            |kind, what| format!("{} {}", plain(kind, what, 12_345_678.0), unit(kind, what));
        assert_eq!(shown(MetricKind::Rate, "bytes"), "12.35 MB/s");
        assert_eq!(shown(MetricKind::Rate, "files"), "12345678 files/s");
        assert_eq!(shown(MetricKind::Time, ""), "12345678 s");
        assert_eq!(unit(MetricKind::CpuPercent, ""), "% CPU");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([2032.85, 4.5, 0.37].map(digits), [2, 3, 4]);
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(-14.285, 2), "−14.29");
        assert_eq!(
            [0.0, 1234.5, 123.45, 12.345, 1.25, 0.5, 0.00123].map(short),
            ["0", "1234", "123.5", "12.35", "1.25", "0.5", "0.00123"]
        );
        assert_eq!(
            [12.0, 12_345.0, 123_456.0, 12_345_678.0].map(count),
            ["12", "12\u{202f}345", "123.5k", "12.35M"]
        );
        assert_eq!([2.5, 0.0246, 0.000_072].map(time), ["2.50 s", "24.6 ms", "72.0 µs"]);
        assert_eq!([1.004, 0.0313, 0.0008].map(ratio), ["1.00", "0.03", "0.0008"]);
        assert_eq!(signed(4.566, 2), "+4.57");
        assert_eq!(signed(0.001, 2), "0.00");
        assert_eq!(plural(1, "run"), "1 run");
    }
}
