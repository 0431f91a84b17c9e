//! Lines of at most 100 characters, files of at most 500 lines, functions of at most 70.
//!
//! The limit of lines holds for code and for the prose of documents; rows of tables, links on a
//! line of their own and quoted output are exempt. A function is counted from `fn` to its closing
//! brace.

use syn::visit::{self, Visit};

use crate::files::{self, Source};
use crate::findings::{self, Findings};

const LINE: usize = 100;
const FILE: usize = 500;
const FUNCTION: usize = 70;

fn add(findings: &mut Findings, file: &Source, line: usize, why: &str) {
    let area = findings.entry(file.area().to_owned()).or_default();
    area.push(format!("{}:{line}: {why}", file.path));
}

/// The lines of a document that are prose, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let row = line.starts_with('|');
        let is_link = line.starts_with('[') || line.starts_with('!') || !line.trim().contains(' ');
        if !fence && !fenced && !row && !is_link {
            lines.push((number, line));
        }
    }
    lines
}

fn long_lines(file: &Source) -> Vec<usize> {
    let lines = match file.path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => (1..).zip(file.text.lines()).collect(),
        Some("md") => prose(&file.text),
        _ => Vec::new(),
    };
    let long = lines.into_iter().filter(|(_, line)| line.chars().count() > LINE);
    long.map(|(number, _)| number).collect()
}

/// The functions of a file: name, first line, number of lines.
#[derive(Default)]
struct Functions(Vec<(String, usize, usize)>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        self.0.push((signature.ident.to_string(), first, last + 1 - first));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn functions(file: &Source) -> Vec<(String, usize, usize)> {
    let parsed = syn::parse_file(&file.text).unwrap_or_else(|why| panic!("{}: {why}", file.path));
    let mut functions = Functions::default();
    functions.visit_file(&parsed);
    functions.0
}

#[test]
fn lines_files_and_functions_are_short() {
    let [mut lines, mut longest, mut bodies] = [const { Findings::new() }; 3];
    for file in files::all() {
        for number in long_lines(&file) {
            add(&mut lines, &file, number, "a long line");
        }
        if file.is_rust() {
            let count = file.text.lines().count();
            if count > FILE {
                add(&mut longest, &file, 1, &format!("{count} lines"));
            }
            for (name, line, count) in functions(&file) {
                if count > FUNCTION {
                    add(&mut bodies, &file, line, &format!("{name} has {count} lines"));
                }
            }
        }
    }
    findings::check(&[("lines", &lines), ("files", &longest), ("functions", &bodies)]);
}

#[test]
fn no_tabs_and_no_spaces_at_the_end() {
    let mut bad = Vec::new();
    for file in files::all().iter().filter(|file| file.is_rust()) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if line.contains('\t') || line.ends_with(' ') {
                bad.push(format!("{}:{number}: tab or trailing space", file.path));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn lines_and_functions_are_counted_right() {
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let long = "word ".repeat(21);
    let page = format!("{long}\n| {long} |\n```console\n{long}\n```\n{}\n", "x".repeat(200));
    assert_eq!(long_lines(&file("guide.md", &page)), [1]);
    assert_eq!(long_lines(&file("a.rs", &format!("\n// {long}\n"))), [2]);
    let code = "/// Two.\n#[inline]\npub(crate) fn a(\n) {\n}\ntrait T { fn b(); fn c() {\n} }\n\
        impl S { fn d() {} }";
    let found = functions(&file("a.rs", code));
    let found: Vec<_> = found.iter().map(|(name, line, n)| (name.as_str(), *line, *n)).collect();
    assert_eq!(found, [("a", 3, 3), ("c", 6, 2), ("d", 8, 1)]);
}
