//! Every citation of the specification and every link must resolve.
//!
//! A citation is the name of a document in `docs/spec/`, preceded by `spec/` and followed by `.md`,
//! and one or more section numbers, each preceded by a section sign. A number without a document
//! belongs to the document named last in the same comment or paragraph; in a table, to the document
//! that its row or the head of the table names. In a document of the specification it belongs to
//! that document, unless it directly follows the name of another one. Citations of the paper of
//! 2002 are not checked.
//!
//! The test does not check whether the section supports the citing text.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

mod code;
mod glossary;
mod lines;
mod reader;

use ffs_testkit::repository::{self, read};
use lines::{Line, SIGN, comments, is_heading, paragraphs, prose, strings, toml_comments};
use reader::{Bare, Reader, Sections, is_word, number};
use std::collections::BTreeSet;
use std::path::Path;

/// The files below `folder` with this extension.
fn files(folder: &str, extension: &str) -> Vec<String> {
    repository::files_with(folder, &[extension])
}

/// The documents for people, the specification included.
fn pages() -> Vec<String> {
    let mut all = files("docs", "md");
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "fuzz/README.md"];
    all.extend(top.map(str::to_owned));
    all
}

fn sources() -> Vec<String> {
    [files("crates", "rs"), files("fuzz/src", "rs")].concat()
}

/// The numbers that the headings of a document have.
fn numbers(text: &str) -> Vec<String> {
    let lines = prose(text).into_iter().filter(is_heading);
    let titles = lines.map(|line| line.text.trim_start_matches('#').trim_start());
    titles.filter_map(|title| number(title.trim_start_matches(SIGN)).map(str::to_owned)).collect()
}

fn sections() -> Sections {
    let stem = |path: &String| Path::new(path).file_stem().unwrap().to_string_lossy().into_owned();
    files("docs/spec", "md").iter().map(|path| (stem(path), numbers(&read(path)))).collect()
}

fn wrong_in(all: &Sections, path: &str, bare: Bare<'_>, lines: &[Line<'_>]) -> Vec<String> {
    let inside = path.starts_with("docs/spec/");
    let problems = Reader { all, bare, inside }.problems(lines);
    problems.into_iter().map(|(line, why)| format!("{path}:{line}: {why}")).collect()
}

fn listed(problems: &[String]) -> String {
    format!("{} problems\n{}", problems.len(), problems.join("\n"))
}

#[test]
fn every_citation_names_a_section_that_exists() {
    let all = sections();
    assert!(all.values().map(Vec::len).sum::<usize>() > 100, "no specification: {:?}", all.keys());
    let mut bad = Vec::new();
    for path in sources() {
        let text = read(&path);
        bad.extend(wrong_in(&all, &path, Bare::ToLast, &comments(&text)));
        bad.extend(wrong_in(&all, &path, Bare::ToAny, &strings(&text)));
    }
    for path in files("crates", "toml") {
        bad.extend(wrong_in(&all, &path, Bare::ToLast, &toml_comments(&read(&path))));
    }
    for path in files("docs", "md").into_iter().chain(["README.md".to_owned()]) {
        let own = path.strip_prefix("docs/spec/").and_then(|name| name.strip_suffix(".md"));
        let bare = match own {
            None => Bare::ToLast,
            // It has no sections, and explains how to cite.
            Some("README") => Bare::ToAny,
            Some(own) => Bare::To(own),
        };
        bad.extend(wrong_in(&all, &path, bare, &paragraphs(&read(&path))));
    }
    assert!(bad.is_empty(), "{}", listed(&bad));
}

#[test]
fn no_section_number_is_used_twice() {
    for (stem, sections) in sections() {
        let mut seen = BTreeSet::new();
        for section in sections {
            assert!(seen.insert(section.clone()), "docs/spec/{stem}.md has {section} twice");
        }
    }
}

/// The anchor that a heading has where Markdown is shown.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(path: &str) -> BTreeSet<String> {
    let text = read(path);
    let mut found = BTreeSet::new();
    for line in prose(&text).into_iter().filter(is_heading) {
        let first = anchor(line.text);
        let again = (1..).map(|n| format!("{first}-{n}"));
        let free = std::iter::once(first.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// The targets of Markdown links in a line, but for those to other sites.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target)
        .filter(|target| !target.contains([' ', ':']) && !target.is_empty())
}

/// What is wrong with a link from `page`.
fn broken(page: &str, target: &str) -> Option<String> {
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    let path = if file.is_empty() { page.to_owned() } else { parts.join("/") };
    if !repository::root().join(&path).exists() {
        return Some(format!("there is no {path}"));
    }
    let checked = !fragment.is_empty() && path.ends_with(".md");
    (checked && !anchors(&path).contains(fragment)).then(|| format!("{path} has no {fragment}"))
}

/// Paths of documents that a text names from the root of the repository on.
fn named_pages(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !is_word(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| word.starts_with("docs/"))
}

#[test]
fn every_link_to_a_document_resolves() {
    let mut bad = Vec::new();
    for page in pages() {
        for line in prose(&read(&page)) {
            for why in targets(line.text).filter_map(|target| broken(&page, target)) {
                bad.push(format!("{page}:{}: {why}", line.number));
            }
        }
    }
    let this = "crates/ffs-testkit/tests/citations/main.rs";
    let manifests = files("crates", "toml");
    let all = [pages(), sources(), manifests].concat();
    for path in all.iter().filter(|path| *path != this) {
        for (n, line) in (1..).zip(read(path).lines()) {
            for page in named_pages(line).filter(|page| !repository::root().join(page).exists()) {
                bad.push(format!("{path}:{n}: there is no {page}"));
            }
        }
    }
    assert!(bad.is_empty(), "{}", listed(&bad));
}

/// The problems of a comment in a specification of two documents.
fn found(bare: Bare<'_>, text: &str) -> Vec<(usize, String)> {
    let all = [("one", vec!["1", "1.2", "3", "3.1a"]), ("two", vec!["7"])];
    let own = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let all: Sections = all.into_iter().map(|(stem, list)| (stem.to_owned(), own(list))).collect();
    // `%` is the section sign here.
    let text = text.replace('%', "\u{a7}");
    let lines: Vec<Line<'_>> =
        (1..).zip(text.lines()).map(|(number, text)| Line { number, marker: "//", text }).collect();
    Reader { all: &all, bare, inside: matches!(bare, Bare::To(_)) }.problems(&lines)
}

#[test]
fn right_citations_are_seen() {
    for good in [
        "nothing is cited here, nor by a % alone",
        "`spec/one.md` %1, %3.1a and %1.2; then `spec/two.md` %7.",
        "See docs/spec/one.md %1.2 to %3,\n%1, and (%3.1a).",
        "the paper %99, %100, and paper, %4",
        "| a | `spec/one.md` %1 |\n| b | %3; `spec/two.md` %7 |\n| c | %3.1a |",
    ] {
        assert!(found(Bare::ToLast, good).is_empty(), "{good}");
    }
    for good in ["%1; [two.md](two.md) %7; %1.2", "[%7](two.md#7-seven) and %3", "spec/one.md %3"] {
        assert!(found(Bare::To("one"), good).is_empty(), "{good}");
    }
    assert!(found(Bare::ToAny, "paragraph %9, and spec/one.md %1").is_empty());
}

#[test]
fn wrong_citations_are_seen() {
    for (line, bad) in [
        (1_usize, "the rules of %1"),
        (1, "%1 (`spec/one.md`)"),
        (2, "`spec/one.md` %1,\n%2"),
        (1, "`spec/one.md` %3.1"),
        (1, "`spec/three.md`"),
        (1, "docs/two.md %7"),
        (2, "| a | `spec/one.md` %1 |\n| b | `spec/two.md` %1 |"),
        (3, "`spec/two.md` %7\n| a | %7 |\n| b | %1 |"),
    ] {
        let lines: Vec<usize> = found(Bare::ToLast, bad).into_iter().map(|(n, _)| n).collect();
        assert_eq!(lines, [line], "{bad}");
    }
    for bad in ["%7", "[two.md](two.md) %1", "as two.md states; %7"] {
        assert_eq!(found(Bare::To("one"), bad).len(), 1, "{bad}");
    }
    assert_eq!(found(Bare::ToAny, "spec/one.md %9").len(), 1);
}

#[test]
fn broken_links_are_seen() {
    let spec = "../spec/known-failures.md";
    assert_eq!(broken("docs/lab/README.md", &format!("{spec}#4-how-other-projects-test")), None);
    assert_eq!(broken("docs/lab/README.md", "../../README.md"), None);
    assert_eq!(broken("README.md", "docs/lab/README.md"), None);
    assert!(broken("docs/lab/crash.md", "lab/README.md").is_some());
    assert!(broken("README.md", "docs/lab/README.md#no-such-heading").is_some());
    assert_eq!(anchor("## 2.1 `fs_flags`, and more"), "21-fs_flags-and-more");
    let links: Vec<&str> = targets("[a](b.md), [c](https://d) and [e](#f)").collect();
    assert_eq!(links, ["b.md", "#f"]);
    let text = "see `docs/lab/README.md`, docs/switches.md. ../docs/x";
    let pages: Vec<&str> = named_pages(text).collect();
    assert_eq!(pages, ["docs/lab/README.md", "docs/switches.md"]);
}
