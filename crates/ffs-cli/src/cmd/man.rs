//! `ffs man`.

use std::io::Write;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use ffs_admin::counted;

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome};
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs man /usr/local/share/man", "all pages, each in its section"),
        ("ffs man | man -l -", "read ffs(1) without installing it"),
    ],
    exit: EXIT,
    see_also: &["ffs-completions(1)"],
    section: "1",
    usage_code: 64,
};

/// Write the manual pages.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory for man1 and man8; without it the page ffs(1) goes to standard output
    dir: Option<PathBuf>,
}

/// A page: name, section, text.
type Page = (String, &'static str, Vec<u8>);

/// The command line that the pages describe.
pub(crate) struct CommandLine {
    /// `ffs` with its subcommands.
    pub command: Command,
    /// The texts of a subcommand, by its name.
    pub doc: fn(&str) -> Option<&'static Doc>,
    /// The name of the page of a subcommand.
    pub page_name: fn(&str) -> &'static str,
}

/// Writes the pages of `ffs`.
pub(crate) fn run(args: Args, ffs: &CommandLine) -> Outcome {
    let pages = pages(ffs)?;
    let Some(dir) = args.dir else {
        let mut out = output::stdout();
        if let Some((_, _, text)) = pages.first() {
            out.write_all(text)?;
        }
        out.flush()?;
        return Ok(0);
    };
    for (name, section, text) in &pages {
        let dir = dir.join(format!("man{section}"));
        let path = dir.join(format!("{name}.{section}"));
        std::fs::create_dir_all(&dir)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| Failure::new(path.display(), error))?;
    }
    output::note(format!(
        "{} written below {}",
        counted(pages.len() as u64, "page"),
        dir.display()
    ));
    Ok(0)
}

/// Every page, `ffs` first.
fn pages(ffs: &CommandLine) -> Result<Vec<Page>, Failure> {
    let mut pages = vec![("ffs".to_owned(), "1", page(&ffs.command, ffs, None)?)];
    for sub in ffs.command.get_subcommands() {
        let doc = (ffs.doc)(sub.get_name());
        let name = (ffs.page_name)(sub.get_name());
        let sub = sub.clone().name(name).bin_name(format!("ffs {}", sub.get_name()));
        pages.push((name.to_owned(), section(doc), page(&sub, ffs, doc)?));
    }
    Ok(pages)
}

/// The section of the manual that a page is in.
fn section(doc: Option<&Doc>) -> &'static str {
    doc.map_or("1", |doc| doc.section)
}

/// The page of a command; of `ffs` itself without `doc`.
fn page(command: &Command, ffs: &CommandLine, doc: Option<&Doc>) -> Result<Vec<u8>, Failure> {
    let man = Man::new(command.clone().disable_help_subcommand(true))
        .title(command.get_name().to_uppercase())
        .section(section(doc))
        .source(concat!("ffs ", env!("CARGO_PKG_VERSION")))
        .manual("ffs manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    match doc {
        Some(doc) => text.extend(sections(doc).bytes()),
        None => text.extend(commands(ffs).bytes()),
    }
    Ok(text)
}

/// The commands of the first page, with the sections their pages are in.
fn commands(ffs: &CommandLine) -> String {
    let mut text = ".SH COMMANDS\n".to_owned();
    for sub in ffs.command.get_subcommands() {
        let name = roff(&format!("ffs-{}", sub.get_name()));
        let section = section((ffs.doc)(sub.get_name()));
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!(".TP\n\\fB{name}\\fR({section})\n{}\n", roff(&about)));
    }
    text
}

fn sections(doc: &Doc) -> String {
    let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
    let item = |head: &str, what: &str| format!(".TP\n\\fB{}\\fR\n{}\n", roff(head), roff(what));
    for (code, what) in doc.exit {
        text.push_str(&item(code, what));
    }
    text.push_str(".SH EXAMPLES\n");
    for (command, what) in doc.examples {
        text.push_str(&item(command, what));
    }
    let pages: Vec<String> = doc.see_also.iter().map(|page| roff(page)).collect();
    text.push_str(&format!(".SH \"SEE ALSO\"\n{}\n", pages.join(", ")));
    text
}

/// Text that roff takes literally.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
