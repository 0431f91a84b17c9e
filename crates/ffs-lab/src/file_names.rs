//! File names of one length, prepared before the clock starts.

/// File names of one length, stored one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNames {
    bytes: Vec<u8>,
    width: usize,
}

/// The digits that the numbers of `n` files need.
#[must_use]
pub(crate) fn digits(n: u32) -> usize {
    n.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize + 1
}

impl FileNames {
    /// Makes the name `prefix` and `digits` digits for each number in `order`.
    #[must_use]
    pub fn new(prefix: &str, digits: usize, order: impl IntoIterator<Item = u32>) -> FileNames {
        let order = order.into_iter();
        let width = prefix.len() + digits;
        let mut bytes = Vec::with_capacity(order.size_hint().0 * width);
        for number in order {
            bytes.extend_from_slice(prefix.as_bytes());
            let mut rest = number;
            let mut text = [b'0'; 10];
            for digit in text.iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            let zeros = digits.saturating_sub(text.len());
            bytes.extend(std::iter::repeat_n(b'0', zeros));
            bytes.extend_from_slice(&text[text.len() - (digits - zeros)..]);
        }
        FileNames { bytes, width }
    }

    /// The same names in the same order with another prefix.
    #[must_use]
    pub fn renamed(&self, prefix: &str) -> FileNames {
        let mut bytes = self.bytes.clone();
        for name in bytes.chunks_exact_mut(self.width) {
            let n = prefix.len().min(name.len());
            name[..n].copy_from_slice(&prefix.as_bytes()[..n]);
        }
        FileNames { bytes, width: self.width }
    }

    /// An empty list of names of `width` bytes, for the entries of a directory.
    #[must_use]
    pub fn listed(width: usize) -> FileNames {
        FileNames { bytes: Vec::new(), width }
    }

    /// Adds a name of the right length; a name of another length is not one of ours.
    pub fn push(&mut self, name: &[u8]) {
        if name.len() == self.width {
            self.bytes.extend_from_slice(name);
        }
    }

    /// The names in groups of `count`, in order; the last group may have fewer.
    pub fn windows(&self, count: usize) -> impl Iterator<Item = FileNames> {
        let bytes = self.bytes.chunks((self.width * count).max(1));
        bytes.map(|window| FileNames { bytes: window.to_vec(), width: self.width })
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width.max(1)
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of a name.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The names in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, u8> {
        self.bytes.chunks_exact(self.width.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_padded_numbers_behind_a_prefix() {
        let names = FileNames::new("f", digits(1000), [7, 0, 999]);
        assert_eq!(names.iter().collect::<Vec<_>>(), [b"f007", b"f000", b"f999"]);
        assert_eq!(names.renamed("r").iter().next(), Some(&b"r007"[..]));
        assert_eq!(names.len(), 3);
        let windows: Vec<usize> = names.windows(2).map(|w| w.len()).collect();
        assert_eq!(
            (windows, names.windows(2).last()),
            (vec![2, 1], Some(FileNames::new("f", 3, [999])))
        );
        let long = FileNames::new("file", 12, [42]);
        assert_eq!(long.iter().next(), Some(&b"file000000000042"[..]));
        assert_eq!((digits(1), digits(10), digits(11), digits(1_000_000)), (1, 1, 2, 6));
        assert_eq!(digits(0), 1);
    }

    #[test]
    fn only_names_of_ours_are_listed() {
        let mut names = FileNames::listed(2);
        for name in [&b"f1"[..], b".", b"..", b"f0", b"other"] {
            names.push(name);
        }
        assert_eq!(names.len(), 3, "'..' is as long: targets do not list it");
    }
}
