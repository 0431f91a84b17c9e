//! `ffs man`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command};
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

/// A command whose pages come with another program, `ffs-lab`.
const ELSEWHERE: Option<&str> = if cfg!(feature = "lab") { None } else { Some("lab") };

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

/// Every page, `ffs` first. A command's subcommands follow it, each with a page of its own.
fn pages(ffs: &CommandLine) -> Result<Vec<Page>, Failure> {
    let mut pages = vec![("ffs".to_owned(), "1", page(&ffs.command, ffs, None)?)];
    let here = |sub: &&Command| ELSEWHERE != Some(sub.get_name());
    for sub in ffs.command.get_subcommands().filter(here) {
        let doc = (ffs.doc)(sub.get_name());
        let name = (ffs.page_name)(sub.get_name());
        let named = sub.clone().name(name).bin_name(format!("ffs {}", sub.get_name()));
        pages.push((name.to_owned(), section(doc), page(&named, ffs, doc)?));
        add_subcommands(&mut pages, sub, name, doc)?;
    }
    Ok(pages)
}

/// Adds the pages of the subcommands of `parent`, whose page is `name`.
fn add_subcommands(
    pages: &mut Vec<Page>,
    parent: &Command,
    name: &str,
    doc: Option<&Doc>,
) -> Result<(), Failure> {
    for sub in parent.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let title = format!("{name}-{}", sub.get_name());
        let called = format!("ffs {} {}", parent.get_name(), sub.get_name());
        let named = sub.clone().display_name(&title).bin_name(&called);
        let mut text = body(&named, &title, section(doc))?;
        let of_parent = doc.map_or(&[][..], |doc| doc.examples);
        let of_sub = |command: &str| format!("{command} ").contains(&format!("{called} "));
        let examples: Vec<_> = of_parent.iter().filter(|(command, _)| of_sub(command)).collect();
        if !examples.is_empty() {
            text.extend(b".SH EXAMPLES\n");
        }
        for (command, what) in examples {
            text.extend(item(command, what).bytes());
        }
        let parent_page = format!("{}({})", roff(name), section(doc));
        text.extend(format!(".SH \"SEE ALSO\"\n{parent_page}\n").bytes());
        pages.push((title, section(doc), text));
    }
    Ok(())
}

/// The section of the manual that a page is in.
fn section(doc: Option<&Doc>) -> &'static str {
    doc.map_or("1", |doc| doc.section)
}

/// The page of a command; of `ffs` itself without `doc`.
fn page(command: &Command, ffs: &CommandLine, doc: Option<&Doc>) -> Result<Vec<u8>, Failure> {
    let mut text = body(command, command.get_name(), section(doc))?;
    let Some(doc) = doc else {
        text.extend(commands(ffs).bytes());
        return Ok(text);
    };
    text.extend(subcommands(command, section(Some(doc))).bytes());
    if command.get_name() == "ffs-mount" {
        text.extend(mount_options().bytes());
    }
    text.extend(sections(doc).bytes());
    Ok(text)
}

/// The part of a page that follows from the definition of the command line.
fn body(command: &Command, title: &str, section: &str) -> Result<Vec<u8>, Failure> {
    let man = Man::new(command.clone().disable_help_subcommand(true))
        .title(title.to_uppercase())
        .section(section)
        .source(concat!("ffs ", env!("CARGO_PKG_VERSION")))
        .manual("ffs manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend(synopsis(command).bytes());
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    Ok(text)
}

/// The synopsis. That of clap_mangen omits the values of options.
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut words = vec![format!("\\fB{}\\fR", roff(name))];
    let shown = |arg: &&Arg| !arg.is_hide_set();
    words.extend(command.get_opts().filter(shown).map(option));
    for arg in command.get_positionals().filter(shown) {
        let dots = if takes_several(arg) { "..." } else { "" };
        let value = format!("{}{dots}", values(arg));
        words.push(if arg.is_required_set() { value } else { format!("[{value}]") });
    }
    if command.has_subcommands() {
        words.push("\\fICOMMAND\\fR".to_owned());
    }
    format!(".SH SYNOPSIS\n{}\n", words.join(" "))
}

/// An option of a synopsis: `[-o OPTIONS]`.
fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let mut text = format!("\\fB{}\\fR", roff(&names.join("|")));
    if arg.get_action().takes_values() {
        let optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
        let value = values(arg);
        text.push_str(&if optional { format!(" [{value}]") } else { format!(" {value}") });
    }
    let text = if arg.is_required_set() { text } else { format!("[{text}]") };
    let repeated = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
    if repeated { format!("{text}...") } else { text }
}

/// The names of the values of `arg`.
fn values(arg: &Arg) -> String {
    let name = |name: &str| format!("\\fI{}\\fR", roff(name));
    match arg.get_value_names() {
        Some(names) => names.iter().map(|word| name(word)).collect::<Vec<_>>().join(" "),
        None => name(&arg.get_id().as_str().to_uppercase()),
    }
}

fn takes_several(arg: &Arg) -> bool {
    let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    many || matches!(arg.get_action(), ArgAction::Append)
}

/// The commands of the first page, with the sections their pages are in.
fn commands(ffs: &CommandLine) -> String {
    let mut text = ".SH COMMANDS\n".to_owned();
    for sub in ffs.command.get_subcommands() {
        let section = section((ffs.doc)(sub.get_name()));
        text.push_str(&command_item(&format!("ffs-{}", sub.get_name()), section, sub));
    }
    text
}

/// The subcommands of a command, with their pages.
fn subcommands(command: &Command, section: &str) -> String {
    let mut text = String::new();
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        if text.is_empty() {
            text.push_str(".SH COMMANDS\n");
        }
        let name = format!("{}-{}", command.get_name(), sub.get_name());
        text.push_str(&command_item(&name, section, sub));
    }
    text
}

fn command_item(page: &str, section: &str, command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    format!(".TP\n\\fB{}\\fR({section})\n{}\n", roff(page), roff(&about))
}

/// Every mount option.
fn mount_options() -> String {
    let mut text = ".SH \"MOUNT OPTIONS\"\n".to_owned();
    for (word, help) in ffs_fuse::describe_options() {
        text.push_str(&item(&word, &help));
    }
    text
}

/// An item of a list with its description.
fn item(head: &str, what: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", roff(head), roff(what))
}

fn sections(doc: &Doc) -> String {
    let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
    for (code, what) in doc.exit_rows() {
        text.push_str(&item(&code, &what));
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
