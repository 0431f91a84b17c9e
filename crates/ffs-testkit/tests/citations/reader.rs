//! Finds citations in lines of text, and the document that each belongs to.

use crate::lines::{Line, SIGN};
use std::collections::BTreeMap;

/// Between two sections of one document.
pub(crate) const LIST: [&str; 8] = [", ", " and ", " to ", " or ", ", and ", "-", "\u{2013}", "/"];
/// Words that name a document outside of the repository: the paper of 2002, also by its mark.
pub(crate) const OUTSIDE: [&str; 2] = ["paper", "P"];

/// The documents of the specification and their section numbers, in the order of the document.
pub(crate) type Sections = BTreeMap<String, Vec<String>>;

/// What a section is one of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// One of the specification, by its name without `.md`.
    Spec(String),
    /// Another document of the repository, which has no numbered sections.
    Page(String),
    /// Something that is not in the repository.
    Outside,
}

/// What a section belongs to that has no name of a document before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bare<'a> {
    /// This document, in which it is.
    To(&'a str),
    /// The document named last.
    ToLast,
    /// Anything: a string may speak of other documents, an explanation of none.
    ToAny,
}

pub(crate) struct Reader<'a> {
    pub(crate) all: &'a Sections,
    pub(crate) bare: Bare<'a>,
    /// Whether names of files without a folder are documents of the specification.
    pub(crate) inside: bool,
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
    pub(crate) fn problems(&self, lines: &[Line<'_>]) -> Vec<(usize, String)> {
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
pub(crate) struct Place<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    word: (usize, &'a str),
}

/// Whether a character is one of names and paths.
pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-".contains(c)
}

/// The section number at the start of a text: digits with points between them, perhaps one letter.
pub(crate) fn number(text: &str) -> Option<&str> {
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
