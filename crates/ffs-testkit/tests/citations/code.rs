//! The names that the sources define, for tests of documents that cite them.
//!
//! The index is made of tokens. So it also has what a macro defines.

use ffs_testkit::repository;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Keywords before the name of an item.
const ITEMS: [&str; 8] = ["struct", "enum", "trait", "type", "const", "static", "mod", "union"];

/// The names in one file.
#[derive(Default)]
struct Names {
    /// Items but functions.
    items: BTreeSet<String>,
    functions: BTreeSet<String>,
    /// Types that the file defines, or implements methods of.
    owners: BTreeSet<String>,
    /// Names before a colon: fields, parameters, tunables.
    fields: BTreeSet<String>,
    /// Every identifier.
    identifiers: BTreeSet<String>,
}

impl Names {
    fn read(&mut self, tokens: TokenStream) {
        let mut before = String::new();
        let mut in_impl = false;
        for token in tokens {
            let text = token.to_string();
            match token {
                TokenTree::Group(group) => {
                    in_impl &= group.delimiter() != proc_macro2::Delimiter::Brace;
                    self.read(group.stream());
                }
                TokenTree::Ident(_) => {
                    if ITEMS.contains(&before.as_str()) {
                        self.items.insert(text.clone());
                        self.owners.insert(text.clone());
                    } else if before == "fn" {
                        self.functions.insert(text.clone());
                    }
                    in_impl |= text == "impl";
                    if in_impl {
                        self.owners.insert(text.clone());
                    }
                    self.identifiers.insert(text.clone());
                }
                TokenTree::Punct(_) if text == ":" => _ = self.fields.insert(before),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            before = text;
        }
    }
}

/// The names in the sources of all crates, by file.
pub(crate) struct Code(BTreeMap<String, Names>);

impl Code {
    pub(crate) fn new() -> Code {
        let sources = repository::files_with("crates", &["rs"]).into_iter();
        let sources = sources.filter(|path| path.contains("/src/"));
        Code(
            sources
                .map(|path| (path.clone(), Names::of(&path, &repository::read(&path))))
                .collect(),
        )
    }

    /// Whether an item, a function, a field, a module, or `Type::member` has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        if let Some((owner, member)) = name.rsplit_once("::") {
            let owner = owner.rsplit("::").next().unwrap_or(owner);
            return self
                .0
                .values()
                .any(|names| names.owners.contains(owner) && names.identifiers.contains(member));
        }
        let is_lower = name.starts_with(|c: char| c.is_lowercase());
        self.0.iter().any(|(path, names)| {
            names.items.contains(name)
                || names.functions.contains(name)
                || is_lower && names.fields.contains(name)
                || is_lower && path.split(['/', '.']).any(|part| part == name)
        })
    }
}

impl Code {
    /// Whether a quoted word is a name of the sources, or a path below one of the `folders`.
    pub(crate) fn cites(&self, word: &str, folders: &[&str]) -> bool {
        let is_path = word.contains('/') || word.ends_with(".rs");
        let exists = |folder: &&str| repository::root().join(folder).join(word).exists();
        if is_path { folders.iter().any(exists) } else { self.has(word) }
    }
}

impl Names {
    fn of(path: &str, text: &str) -> Names {
        let mut names = Names::default();
        names.read(text.parse().unwrap_or_else(|why| panic!("{path}: {why}")));
        names
    }
}

/// The words in backquotes.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn items_members_and_modules_are_found() {
    let text = "pub struct Dep<T> { kind: T } impl<T> Dep<T> { fn ready(&self) {} }
        impl Hooks for Mode { fn call() { let Other { value } = make(); } } rules! { Rule = 1 }";
    let code = Code([("crates/a/src/graph.rs".to_owned(), Names::of("a", text))].into());
    for good in ["Dep", "kind", "ready", "graph", "Dep::kind", "crate::Dep::ready", "Mode::call"] {
        assert!(code.has(good), "{good}");
    }
    for bad in ["Other", "Other::value", "Dep::none", "value", "Kind", "T", "Hook"] {
        assert!(!code.has(bad), "{bad}");
    }
    assert_eq!(quoted("`a` b `c`").collect::<Vec<_>>(), ["a", "c"]);
    assert!(code.cites("crates/", &[""]) && code.cites("Dep::kind", &[]));
    assert!(code.cites("src/lib.rs", &["fuzz", "crates/ffs-core"]) && !code.cites("lib.rs", &[""]));
}
