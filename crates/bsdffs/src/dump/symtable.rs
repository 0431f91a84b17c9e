//! The file `restoresymtable`: which inode each restored name had in the dump.
//!
//! An incremental restore needs it to find names that were removed or renamed. BSD's file of this
//! name is a memory image of its program and differs between machines, so this one has a format of
//! its own, of lines (`spec/on-disk-format.md` §24.9).
//!
//! **Invariant.** [`SymTable::parse`] of [`SymTable::to_bytes`] gives the same table.

use std::collections::BTreeMap;

use ffs_ondisk::Ino;
use ffs_ondisk::dir::name_ok;

use super::tree::{Entries, Tree};

/// The first line of the file.
const MAGIC: &str = "ffs restoresymtable 1";

/// The names that earlier dumps restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymTable {
    /// Date of the last dump, seconds since 1970.
    pub date: i64,
    /// Level of the last dump.
    pub level: i32,
    pub(super) dirs: BTreeMap<u32, Entries>,
}

impl SymTable {
    /// The name of the file, in the root of the target.
    pub const NAME: &'static [u8] = b"restoresymtable";

    /// The table before the first dump.
    pub(super) fn empty() -> SymTable {
        SymTable { date: 0, level: -1, dirs: BTreeMap::from([(Ino::ROOT.0, Entries::new())]) }
    }

    /// The names of a tree.
    pub(super) fn of_tree(tree: &Tree, date: i64, level: i32) -> SymTable {
        let mut dirs: BTreeMap<u32, Entries> = BTreeMap::new();
        for (n, node) in tree.nodes.iter().enumerate() {
            if node.directory {
                dirs.entry(node.ino).or_default();
            }
            if n > 0 {
                let parent = tree.nodes[node.parent as usize].ino;
                dirs.entry(parent).or_default().push((node.ino, node.name.clone()));
            }
        }
        SymTable { date, level, dirs }
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = format!("{MAGIC}\ndate {}\nlevel {}\n", self.date, self.level);
        for (dir, entries) in &self.dirs {
            out.push_str(&format!("directory {dir}\n"));
            for (ino, name) in entries {
                out.push_str(&format!("{ino} {}\n", escaped(name)));
            }
        }
        out.into_bytes()
    }

    /// Reads the bytes of the file.
    ///
    /// # Errors
    /// It has another format, for example that of BSD, or a line is malformed.
    pub fn parse(bytes: &[u8]) -> Result<SymTable, String> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.starts_with(MAGIC));
        let Some(text) = text else {
            return Err("another program wrote it; only a restore by ffs can go on here".to_owned());
        };
        let mut table = SymTable { date: 0, level: 0, dirs: BTreeMap::new() };
        let mut dir = None;
        for (number, line) in text.lines().enumerate().skip(1) {
            let parsed = line.split_once(' ').and_then(|(first, rest)| match first {
                "date" => rest.parse().ok().map(|date| table.date = date),
                "level" => rest.parse().ok().map(|level| table.level = level),
                "directory" => rest.parse().ok().map(|ino| {
                    table.dirs.entry(ino).or_default();
                    dir = Some(ino);
                }),
                ino => {
                    let entry = (ino.parse().ok()?, unescaped(rest)?.into());
                    table.dirs.get_mut(&dir?)?.push(entry);
                    Some(())
                }
            });
            if parsed.is_none() {
                return Err(format!("line {} is malformed", number + 1));
            }
        }
        Ok(table)
    }
}

/// The name with every byte but printable ASCII as `\ooo`.
fn escaped(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_graphic() && byte != b'\\' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("\\{byte:03o}"));
        }
    }
    out
}

/// The name that [`escaped`] wrote; `None` if it is no name of a file.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let (mut name, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'\\' {
            name.push(byte);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..3)?).ok()?;
        name.push(u8::from_str_radix(digits, 8).ok()?);
        rest = after.get(3..)?;
    }
    (name_ok(&name) && name != b"." && name != b"..").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back_as_they_were() {
        let entry = |ino, name: &[u8]| (ino, Box::from(name));
        let root = vec![entry(3, b"etc"), entry(4, b"a b\\\n\xff\xc3\xa4"), entry(4, b"second")];
        let dirs = BTreeMap::from([(2, root), (3, Entries::new())]);
        let table = SymTable { date: -5, level: 9, dirs };
        assert_eq!(SymTable::parse(&table.to_bytes()), Ok(table));
        assert_eq!(SymTable::parse(&SymTable::empty().to_bytes()), Ok(SymTable::empty()));
    }

    #[test]
    fn malformed_tables_are_refused() {
        let with = |lines: &str| SymTable::parse(format!("{MAGIC}\n{lines}").as_bytes());
        assert!(with("date 1\nlevel 0\ndirectory 2\n3 x\n").is_ok());
        for bad in [
            "date x",
            "3 outside",
            "directory 2\n3 a/b",
            "directory 2\n3 ..",
            "directory 2\n3 \\",
            "directory 2\n3 \\999",
            "directory 2\n3",
            "directory 2\n4294967296 x",
            "other",
        ] {
            assert!(with(bad).is_err(), "{bad}");
        }
        assert!(SymTable::parse(b"\0\x01\xff").is_err_and(|why| why.contains("another program")));
    }
}
