//! Numbers with nouns.

/// `n` followed by the noun `one` in its singular or plural form: "1 file", "2 files", "0
/// directories".
#[must_use]
pub fn counted(n: u64, one: &str) -> String {
    match (n, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        (_, None) => format!("{n} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(1, "directory"), "1 directory");
        assert_eq!(counted(0, "directory"), "0 directories");
        assert_eq!(counted(2, "file"), "2 files");
    }
}
