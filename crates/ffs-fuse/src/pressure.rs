//! Whether the system is short of memory: the kernel's pressure stall information.

use std::fs;

/// The file in which the kernel counts how long tasks waited for memory.
const SOURCE: &str = "/proc/pressure/memory";
/// Memory is short if tasks waited for so many microseconds between two samples, a second apart.
const SHORT: u64 = 100_000;

/// The last sample.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    total: Option<u64>,
}

impl Pressure {
    /// Takes a sample; whether tasks waited for memory much since the one before. Always `false` on
    /// kernels without pressure stall information.
    pub(crate) fn is_high(&mut self) -> bool {
        let now = fs::read_to_string(SOURCE).ok().and_then(|text| waited(&text));
        self.rose_to(now)
    }

    fn rose_to(&mut self, now: Option<u64>) -> bool {
        let before = std::mem::replace(&mut self.total, now);
        matches!((before, now), (Some(b), Some(n)) if n.saturating_sub(b) >= SHORT)
    }
}

/// The field `total` of the line `some`, in microseconds.
fn waited(text: &str) -> Option<u64> {
    let some = text.lines().find(|l| l.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_the_wait_since_the_last_sample() {
        let text = |total: u64| {
            format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=7\n"
            )
        };
        let mut p = Pressure::default();
        let mut sample = |total| p.rose_to(waited(&text(total)));
        assert!(!sample(5_000_000), "the first sample has none to compare with");
        assert!(!sample(5_099_999));
        assert!(sample(5_199_999));
        assert!(!sample(0));
        assert_eq!(waited("some"), None);
        assert!(!p.rose_to(None) && !p.rose_to(Some(u64::MAX)));
    }
}
