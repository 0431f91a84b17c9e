//! The lines of documents and source files that may contain citations.

/// The section sign. It is spelled so that this file cites nothing.
pub(crate) const SIGN: char = '\u{a7}';
/// A line that may cite: its number, what it begins with, and the text behind that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) marker: &'a str,
    pub(crate) text: &'a str,
}

impl Line<'_> {
    pub(crate) fn is_row(&self) -> bool {
        self.text.trim_start().starts_with('|')
    }
}

/// The lines of a document outside of fences.
pub(crate) fn prose(text: &str) -> Vec<Line<'_>> {
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

pub(crate) fn is_heading(line: &Line<'_>) -> bool {
    line.text.starts_with('#')
}

/// The paragraphs and tables of a document.
pub(crate) fn paragraphs(text: &str) -> Vec<Line<'_>> {
    let mut lines = prose(text);
    lines.retain(|line| !line.text.trim().is_empty() && !is_heading(line));
    lines
}

/// The comments of a source file: those of whole lines, and those behind code.
pub(crate) fn comments(text: &str) -> Vec<Line<'_>> {
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
pub(crate) fn behind_code(line: &str) -> Option<(&str, &str)> {
    let (code, comment) = line.split_once(" // ")?;
    code.matches('"').count().is_multiple_of(2).then_some((code, comment))
}

/// Code that has a section sign: strings.
pub(crate) fn strings(text: &str) -> Vec<Line<'_>> {
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
pub(crate) fn toml_comments(text: &str) -> Vec<Line<'_>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with('#'));
    lines.map(|(number, text)| Line { number, marker: "#", text }).collect()
}
