//! The text files of the repository, and the area that each belongs to.

use ffs_testkit::repository;

/// Extensions of text that people wrote.
const TEXT: [&str; 12] =
    ["rs", "md", "sh", "toml", "yml", "py", "c", "html", "css", "txt", "ci/run", "fuzz/run"];

/// A file of the repository.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// A crate by its folder, a folder at the top, or `top` for the files there.
    pub(crate) fn area(&self) -> &str {
        let mut parts = self.path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(name)) => name,
            (Some(folder), Some(_)) => folder,
            _ => "top",
        }
    }
}

fn is_text(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    TEXT.contains(&extension) || TEXT.contains(&path)
}

/// All text files of the repository, sorted by path.
pub(crate) fn all() -> Vec<Source> {
    let paths = repository::files("").into_iter().filter(|path| is_text(path));
    let found: Vec<Source> =
        paths.map(|path| Source { text: repository::read(&path), path }).collect();
    assert!(found.len() > 500, "only {} files", found.len());
    found
}

#[test]
fn areas_are_crates_and_folders() {
    let area = |path: &str| Source { path: path.to_owned(), text: String::new() }.area().to_owned();
    assert_eq!(area("crates/ffs-core/src/lib.rs"), "ffs-core");
    assert_eq!(area("docs/spec/README.md"), "docs");
    assert_eq!(area("README.md"), "top");
    assert!(is_text(".ci/run") && is_text("a/b.rs") && !is_text("Cargo.lock"));
}
