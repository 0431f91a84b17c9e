//! Citations of the specification, and links: each one leads somewhere.
//!
//! A citation is the name of a document in `docs/spec/`, with `spec/` in front and `.md` behind,
//! and one or more section numbers, each behind a section sign. A number without a name of its own
//! belongs to the document that was named last in the same comment or paragraph; in a table, to the
//! one that its row or the head of the table names. In a document of the specification itself it
//! belongs to that document, unless it follows the name of another one directly. What is cited of
//! the paper of 2002 is not looked up.
//!
//! Whether the section says what the citation needs, a reader has to judge.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The section sign. It is spelled so that this file cites nothing.
const SIGN: char = '\u{a7}';
/// Between two sections of one document.
const LIST: [&str; 8] = [", ", " and ", " to ", " or ", ", and ", "-", "\u{2013}", "/"];
/// Words that name a document outside of the repository: the paper of 2002, also by its mark.
const OUTSIDE: [&str; 2] = ["paper", "P"];

/// The documents of the specification and their section numbers, in the order of the document.
type Sections = BTreeMap<String, Vec<String>>;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below `folder` with this extension, relative to the workspace.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(workspace().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path, extension));
        } else if entry.path().extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
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

/// A line that may cite: its number, what it begins with, and the text behind that.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    number: usize,
    marker: &'a str,
    text: &'a str,
}

impl Line<'_> {
    fn is_row(&self) -> bool {
        self.text.trim_start().starts_with('|')
    }
}

/// The lines of a document outside of fences.
fn prose(text: &str) -> Vec<Line<'_>> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let fence = text.trim_start().starts_with("```");
        fenced ^= fence;
        if !fence && !fenced {
            lines.push(Line { number, marker: "", text });
        }
    }
    lines
}

fn is_heading(line: &Line<'_>) -> bool {
    line.text.starts_with('#')
}

/// The paragraphs and tables of a document.
fn paragraphs(text: &str) -> Vec<Line<'_>> {
    let mut lines = prose(text);
    lines.retain(|line| !line.text.trim().is_empty() && !is_heading(line));
    lines
}

/// The comments of a source file: those of whole lines, and those behind code.
fn comments(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        let markers = ["///", "//!", "//"];
        if let Some(marker) = markers.into_iter().find(|marker| start.starts_with(marker)) {
            let text = &start[marker.len()..];
            lines.push(Line { number, marker, text: text.strip_prefix(' ').unwrap_or(text) });
        } else if let Some((_, text)) = behind_code(line) {
            // No two such lines are one comment.
            lines.push(Line { number, marker: line, text });
        }
    }
    lines
}

/// Code, and the comment behind it.
fn behind_code(line: &str) -> Option<(&str, &str)> {
    let (code, comment) = line.split_once(" // ")?;
    code.matches('"').count().is_multiple_of(2).then_some((code, comment))
}

/// Code that has a section sign: strings.
fn strings(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = behind_code(line).map_or(line, |(code, _)| code);
        if !line.trim_start().starts_with("//") && code.contains(SIGN) {
            lines.push(Line { number, marker: line, text: code });
        }
    }
    lines
}

/// The comments of a TOML file.
fn toml_comments(text: &str) -> Vec<Line<'_>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with('#'));
    lines.map(|(number, text)| Line { number, marker: "#", text }).collect()
}

/// What a section is one of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Document {
    /// One of the specification, by its name without `.md`.
    Spec(String),
    /// Another document of the repository, which has no numbered sections.
    Page(String),
    /// Something that is not in the repository.
    Outside,
}

/// What a section belongs to that has no name of a document before it.
#[derive(Clone, Copy, Debug)]
enum Bare<'a> {
    /// This document, in which it is.
    To(&'a str),
    /// The document named last.
    ToLast,
    /// Anything: a string may speak of other documents, an explanation of none.
    ToAny,
}

struct Reader<'a> {
    all: &'a Sections,
    bare: Bare<'a>,
    /// Whether names of files without a folder are documents of the specification.
    inside: bool,
}

impl Reader<'_> {
    /// The document that a word names.
    fn document(&self, word: &str) -> Option<Document> {
        let name = word.trim_end_matches('.');
        let path = name.strip_suffix(".md")?;
        let (folder, stem) = path.rsplit_once('/').unwrap_or(("", path));
        let near = folder.is_empty() && self.inside;
        let spec = near || folder == "spec" || folder.ends_with("/spec");
        Some(if spec { Document::Spec(stem.to_owned()) } else { Document::Page(name.to_owned()) })
    }

    /// What is wrong with the citations in `text`, and where; `context` is the document named last
    /// before it, and then at its end.
    fn check(&self, text: &str, context: &mut Option<Document>) -> Vec<(usize, String)> {
        let mut bad = Vec::new();
        let (mut word, mut named, mut cited) = ((0, ""), None, None);
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            if is_word(c) {
                let end = text[at..].find(|c: char| !is_word(c)).map_or(text.len(), |len| at + len);
                word = (end, &text[at..end]);
                if let Some(document) = self.document(word.1) {
                    if let Document::Spec(stem) = &document
                        && !self.all.contains_key(stem)
                    {
                        bad.push((at, format!("there is no docs/spec/{stem}.md")));
                    }
                    *context = Some(document.clone());
                    named = Some((at + word.1.trim_end_matches('.').len(), document));
                }
                at = end;
                continue;
            }
            let start = at;
            at += c.len_utf8();
            let Some(section) = number(&text[at..]).filter(|_| c == SIGN) else { continue };
            at += section.len();
            let place = Place { text, start, end: at, word };
            let document =
                self.document_of(&place, named.as_ref(), cited.as_ref(), context.as_ref());
            bad.extend(self.problem(section, document.as_ref()).map(|why| (start, why)));
            cited = Some((at, document));
        }
        bad
    }

    /// The document of the section at `place`.
    fn document_of(
        &self,
        place: &Place<'_>,
        named: Option<&(usize, Document)>,
        cited: Option<&(usize, Option<Document>)>,
        context: Option<&Document>,
    ) -> Option<Document> {
        let Place { text, start, end, word } = *place;
        // `[the section](NAME.md#anchor)`.
        if let Some(link) = text[end..].strip_prefix("](") {
            let target = link.split([')', '#']).next().unwrap_or("");
            if let Some(document) = self.document(target) {
                return Some(document);
            }
        }
        if let Some((ended, document)) = cited
            && LIST.contains(&&*text[*ended..start].replace('\n', " "))
        {
            return document.clone();
        }
        let close = text[word.0..start].chars().all(|c| " ,\n".contains(c));
        if close && OUTSIDE.contains(&word.1) {
            return Some(Document::Outside);
        }
        let named = named.filter(|(ended, _)| !text[*ended..start].contains(char::is_alphanumeric));
        match (named, self.bare) {
            (Some((_, document)), _) => Some(document.clone()),
            (None, Bare::To(own)) => Some(Document::Spec(own.to_owned())),
            (None, Bare::ToLast) => context.cloned(),
            (None, Bare::ToAny) => Some(Document::Outside),
        }
    }

    fn problem(&self, section: &str, document: Option<&Document>) -> Option<String> {
        match document {
            None => Some(format!("section {section} of which document?")),
            Some(Document::Page(page)) => Some(format!("section {section} of {page}")),
            Some(Document::Outside) => None,
            Some(Document::Spec(stem)) => {
                let sections = self.all.get(stem)?;
                (!sections.iter().any(|each| each == section))
                    .then(|| format!("docs/spec/{stem}.md has no section {section}"))
            }
        }
    }

    /// What is wrong in these lines, each with the number of its line.
    fn problems(&self, lines: &[Line<'_>]) -> Vec<(usize, String)> {
        let follows = |a: &Line<'_>, b: &Line<'_>| b.number == a.number + 1 && b.marker == a.marker;
        let mut bad = Vec::new();
        for block in lines.chunk_by(follows) {
            let mut context = None;
            for part in block.chunk_by(|a, b| a.is_row() == b.is_row()) {
                if part[0].is_row() {
                    bad.extend(self.table_problems(part, context.as_ref()));
                    continue;
                }
                let text: Vec<&str> = part.iter().map(|line| line.text).collect();
                let text = text.join("\n");
                for (at, why) in self.check(&text, &mut context) {
                    bad.push((part[0].number + text[..at].matches('\n').count(), why));
                }
            }
        }
        bad
    }

    /// Each row is read by itself, below the head of its table.
    fn table_problems(
        &self,
        rows: &[Line<'_>],
        context: Option<&Document>,
    ) -> Vec<(usize, String)> {
        let mut head = context.cloned();
        let mut bad = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let mut own = head.clone();
            let found = self.check(row.text, &mut own);
            bad.extend(found.into_iter().map(|(_, why)| (row.number, why)));
            if at == 0 {
                head = own;
            }
        }
        bad
    }
}

/// Where a section is cited: from its sign to its end, and the last word before it with its end.
#[derive(Clone, Copy)]
struct Place<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    word: (usize, &'a str),
}

/// Whether a character is one of names and paths.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-".contains(c)
}

/// The section number at the start of a text: digits with points between them, perhaps one letter.
fn number(text: &str) -> Option<&str> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if end == 0 {
        return None;
    }
    while text[end..].starts_with('.') {
        let more = digits(end + 1);
        if more == 0 {
            break;
        }
        end += 1 + more;
    }
    let rest = &text.as_bytes()[end..];
    let letter = rest.first().is_some_and(u8::is_ascii_lowercase);
    if letter && !rest.get(1).is_some_and(u8::is_ascii_alphanumeric) {
        end += 1;
    }
    Some(&text[..end])
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
    if !workspace().join(&path).exists() {
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
    let this = "crates/ffs-testkit/tests/citations.rs";
    let manifests = files("crates", "toml");
    let all = [pages(), sources(), manifests].concat();
    for path in all.iter().filter(|path| *path != this) {
        for (n, line) in (1..).zip(read(path).lines()) {
            for page in named_pages(line).filter(|page| !workspace().join(page).exists()) {
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
    for bad in ["%7", "[two.md](two.md) %1", "two.md says so; %7"] {
        assert_eq!(found(Bare::To("one"), bad).len(), 1, "{bad}");
    }
    assert_eq!(found(Bare::ToAny, "spec/one.md %9").len(), 1);
}

#[test]
fn broken_links_are_seen() {
    let spec = "spec/known-failures.md";
    assert_eq!(broken("docs/lab.md", &format!("{spec}#4-how-other-projects-test")), None);
    assert_eq!(broken("docs/lab.md", "../README.md"), None);
    assert_eq!(broken("README.md", "docs/lab.md"), None);
    assert!(broken("docs/lab.md", "README.md").is_some());
    assert!(broken("README.md", "docs/lab.md#no-such-heading").is_some());
    assert_eq!(anchor("## 2.1 `fs_flags`, and more"), "21-fs_flags-and-more");
    let links: Vec<&str> = targets("[a](b.md), [c](https://d) and [e](#f)").collect();
    assert_eq!(links, ["b.md", "#f"]);
    let pages: Vec<&str> = named_pages("see `docs/lab.md`, docs/switches.md. ../docs/x").collect();
    assert_eq!(pages, ["docs/lab.md", "docs/switches.md"]);
}
