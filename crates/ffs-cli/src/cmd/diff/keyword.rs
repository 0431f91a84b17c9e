//! Names of attributes on the command line of `ffs diff`.

use bsdffs::diff::Attribute;

/// Names for several attributes, and second names.
const GROUPS: &[(&str, &[Attribute])] = &[
    ("owner", &[Attribute::Uid, Attribute::Gid]),
    ("times", &[Attribute::Mtime, Attribute::Atime, Attribute::Birthtime]),
    ("mtime", &[Attribute::Mtime]),
    ("links", &[Attribute::Nlink]),
    ("xattrs", &[Attribute::Xattr]),
    ("acls", &[Attribute::Acl]),
];

/// The attributes that a word names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keyword(Vec<Attribute>);

/// Parses one name.
pub(super) fn keyword(text: &str) -> Result<Keyword, String> {
    if let Some(attribute) = Attribute::ALL.into_iter().find(|known| known.name() == text) {
        return Ok(Keyword(vec![attribute]));
    }
    if let Some((_, attributes)) = GROUPS.iter().find(|(name, _)| *name == text) {
        return Ok(Keyword(attributes.to_vec()));
    }
    let names: Vec<&str> = Attribute::ALL.iter().map(|known| known.name()).collect();
    Err(format!("{text:?} is not an attribute; they are {}, owner, times", names.join(", ")))
}

/// The attributes of all words.
pub(super) fn attributes(words: &[Keyword]) -> impl Iterator<Item = Attribute> + '_ {
    words.iter().flat_map(|word| word.0.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_attributes() {
        assert_eq!(keyword("mode"), Ok(Keyword(vec![Attribute::Mode])));
        let owner = keyword("owner").unwrap();
        assert_eq!(owner, Keyword(vec![Attribute::Uid, Attribute::Gid]));
        assert!(keyword("modes").unwrap_err().contains("type, size, content"));
    }
}
