//! The commands of the shell: those of `ffs` that work on a mounted image, with paths from the
//! current directory, and the shell's own.
//!
//! # Invariants
//! 1. A command of `ffs` has the arguments, the output and the exit code that it has outside.
//! 2. A path of an `ffs` command is in the image. Paths of the host are arguments of `get`, `put`,
//!    `lcd` and of options that name files of the host.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser};

use super::directory;
use crate::cmd::{self, cp};
use crate::current;
use crate::fail::{EX_USAGE, Failure, Outcome};
use crate::session::{Session, held};
use crate::spec::{Place, image_path, outside, place};
use crate::{other_names, output};

/// What the shell does after a command.
pub(super) enum Next {
    /// It reads the next line.
    Go,
    /// It ends.
    Quit,
}

#[derive(Parser)]
#[command(
    name = "",
    multicall = true,
    subcommand_required = true,
    subcommand_value_name = "COMMAND",
    help_template = "{all-args}{after-help}",
    after_help = LINES,
    disable_help_flag = true,
    max_term_width = 100
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// The end of `help`.
const LINES: &str = "\
Lines:
  !COMMAND     run a command of the host's shell
  -COMMAND     go on with a script although the command fails
  # comment    a number sign begins a comment; quote it in '#1234', the inode of this number

Words are split as in sh: quote spaces with '...', \"...\" or a backslash, and control characters as
in $'a\\nb', which is a, a newline and b. Paths are in the image,
from the current directory. `help COMMAND` describes a command.";

/// Defines the commands that `ffs` has, too, and those of the shell.
macro_rules! commands {
    ($($variant:ident $module:ident;)*) => {
        #[derive(clap::Subcommand)]
        enum Command {
            $($variant(cmd::$module::Args),)*
            /// Change the current directory; without PATH to the root
            Cd {
                /// The directory, also a snapshot
                path: Option<OsString>,
            },
            /// Print the current directory
            Pwd,
            /// Copy files of the image to the host
            ///
            /// With one PATH the copy is in the directory of the host (lcd). Of several, the last
            /// one is the target on the host. The options are those of `ffs cp`.
            #[command(visible_alias = "dump")]
            Get(Transfer),
            /// Copy files of the host into the image
            ///
            /// With one PATH the copy is in the current directory. Of several, the last one is the
            /// target in the image. A source IMAGE:/path is in another image. The options are those
            /// of `ffs cp`.
            #[command(visible_alias = "write")]
            Put(Transfer),
            /// As put -a: trees, with modes, owners and times
            #[command(name = "copy-in")]
            CopyIn(Transfer),
            /// As get -a: trees, with modes, owners and times
            #[command(name = "copy-out")]
            CopyOut(Transfer),
            /// Change the directory on the host; without DIR to the home directory
            Lcd {
                /// The directory
                dir: Option<PathBuf>,
            },
            /// Print the directory on the host
            Lpwd,
            /// Remove empty directories
            Rmdir {
                /// The directories
                #[arg(required = true, value_name = "PATH")]
                paths: Vec<OsString>,
            },
            /// Write all changes to the image
            Sync,
            /// End the shell; end of input does so, too
            #[command(visible_alias = "exit")]
            Quit,
        }

        /// The exit code of a wrong command line.
        fn usage_code(command: &str) -> u8 {
            match command {
                $(stringify!($module) => cmd::$module::DOC.usage_code,)*
                _ => EX_USAGE,
            }
        }

        impl Command {
            fn run(self) -> Result<(u8, Next), Failure> {
                let code = match self {
                    $(Command::$variant(args) => cmd::$module::run(args)?,)*
                    Command::Cd { path } => cd(path.as_deref())?,
                    Command::Pwd => print(&current::directory())?,
                    Command::Get(args) => get(args.paths, &args.flags)?,
                    Command::Put(args) => put(args.paths, &args.flags)?,
                    Command::CopyOut(args) => get(args.paths, &args.flags.archive())?,
                    Command::CopyIn(args) => put(args.paths, &args.flags.archive())?,
                    Command::Lcd { dir } => lcd(dir)?,
                    Command::Lpwd => print(working_directory()?.as_os_str().as_encoded_bytes())?,
                    Command::Rmdir { paths } => rmdir(&paths)?,
                    Command::Sync => sync()?,
                    Command::Quit => return Ok((0, Next::Quit)),
                };
                Ok((code, Next::Go))
            }
        }
    };
}

commands! {
    Ls ls;
    Tree tree;
    Find find;
    Stat stat;
    Cat cat;
    Edit edit;
    Cp cp;
    Mv mv;
    Rm rm;
    Mkdir mkdir;
    Ln ln;
    Touch touch;
    Truncate truncate;
    Chmod chmod;
    Chown chown;
    Chflags chflags;
    Getfacl getfacl;
    Setfacl setfacl;
    Xattr xattr;
    Du du;
    Df df;
    Info info;
    Diff diff;
    Tar tar;
    Snapshot snapshot;
    Debug debug;
}

/// The arguments of `get` and `put`.
#[derive(clap::Args)]
struct Transfer {
    /// Sources, then the target
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    flags: cp::Flags,
}

/// The definition of the commands.
pub(super) fn definition() -> clap::Command {
    Line::command().mut_subcommands(adapted)
}

/// A command with the names and the defaults that its paths have in a shell.
fn adapted(command: clap::Command) -> clap::Command {
    let name = command.get_name().to_owned();
    let has_default = ["ls", "tree", "find", "du", "df", "info", "list", "body"];
    let has = |wanted: &str| command.get_arguments().any(|arg| arg.get_long() == Some(wanted));
    // That of clap is off here, for the commands of the shell and for all below them.
    let command = match has("help") {
        true => command,
        false => {
            let help = clap::Arg::new("help").long("help").help("Print help");
            command.arg(help.action(clap::ArgAction::Help))
        }
    };
    let command = command.mut_args(|arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let arg = if help.contains("IMAGE") { arg.help(help_in_shell(&help)) } else { arg };
        let outside = match arg.get_value_names() {
            Some([outside]) if outside.contains("IMAGE") => outside.to_string(),
            _ => return arg,
        };
        let arg = arg.value_name(in_shell(&outside));
        match arg.is_positional() && has_default.contains(&&*name) {
            true => arg.required(false).default_value("").hide_default_value(true),
            false => arg,
        }
    });
    command.mut_subcommands(adapted)
}

/// The help of an argument in the shell, where no image is named.
fn help_in_shell(help: &str) -> String {
    help.replace("; a path in an image is IMAGE[@N]:/path", "")
        .replace(", all in one image", "")
        .replace("IMAGE[@N][:/path]", "A path in the image")
        .replace("IMAGE[@N]:/path", "A path in the image")
        .replace("IMAGE[@N]", "A path in the image")
}

/// The name of a value in the shell, where no image is named.
fn in_shell(name: &str) -> &'static str {
    match name {
        "[VALUE] IMAGE:/PATH" => "[VALUE] PATH",
        "c|x IMAGE[:/PATH]" => "c|x PATH",
        "IMAGE:/SNAPSHOT" => "SNAPSHOT",
        _ => "PATH",
    }
}

/// Runs the command of `words`, the first of which is its name. Prints what is wrong.
pub(super) fn run(definition: &mut clap::Command, words: &[OsString]) -> (u8, Next) {
    let name = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    // clap would take the name from the end of a path, and without an extension.
    if name.is_empty() || name.contains(['/', '.']) {
        output::error(format!("no such command{NO_TIP}"));
        return (EX_USAGE, Next::Go);
    }
    let is_command = definition.find_subcommand(name).is_some() || name == "help";
    let matches = definition.try_get_matches_from_mut(words);
    match matches.and_then(|matches| Line::from_arg_matches(&matches)) {
        Ok(line) => match line.command.run() {
            Ok(done) => done,
            Err(failure) => {
                if !failure.text.is_empty() {
                    output::error(&failure.text);
                }
                (failure.code_for(usage_code(name)), Next::Go)
            }
        },
        Err(error) if !is_command => {
            let has = |command: &str| definition.find_subcommand(command).is_some();
            let tip = match other_names::in_shell(name, has) {
                Some(here) => format!("; write: {here}"),
                None if name == "ffs" => "; in the shell a command is typed without ffs".to_owned(),
                None if OUTSIDE.contains(&name) => {
                    format!(" of the shell; run it outside: ffs {name}")
                }
                None if other_names::is_known(name) => NO_TIP.to_owned(),
                None => suggestion(&error),
            };
            output::error(format!("no such command{tip}"));
            (EX_USAGE, Next::Go)
        }
        Err(error) => (output::usage(error, usage_code(name)), Next::Go),
    }
}

/// The commands of ffs that the shell does not have.
const OUTSIDE: &[&str] = &[
    "build",
    "completions",
    "demo",
    "disk",
    "dumpfs",
    "edquota",
    "fsck",
    "growfs",
    "lab",
    "man",
    "mount",
    "newfs",
    "quota",
    "quotacheck",
    "quotaoff",
    "quotaon",
    "repquota",
    "restore",
    "serve",
    "shell",
    "sysctl",
    "tunefs",
    "umount",
    "undelete",
];
/// The end of the message where no command is similar.
const NO_TIP: &str = "; `help` lists the commands";

/// What to type in place of a word that is no command.
fn suggestion(error: &clap::Error) -> String {
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(words)) => words.first().map(String::as_str),
        Some(ContextValue::String(word)) => Some(&**word),
        _ => None,
    };
    match similar {
        Some(word) => format!("; a similar one is {word}, and `help` lists all"),
        None => NO_TIP.to_owned(),
    }
}

fn print(path: &[u8]) -> Outcome {
    use std::io::Write;
    let mut out = output::stdout();
    output::name(&mut out, path)?;
    writeln!(out)?;
    out.flush()?;
    Ok(0)
}

fn cd(path: Option<&OsStr>) -> Outcome {
    directory::change(&image_path(path.unwrap_or(OsStr::new("/")))?)?;
    Ok(0)
}

fn get(mut paths: Vec<OsString>, flags: &cp::Flags) -> Outcome {
    let target = if paths.len() > 1 { paths.pop() } else { None };
    let target = target.map_or_else(|| Place::Host(".".into()), |target| outside(&target));
    let sources = paths.iter().map(|path| place(path));
    cp::copy(flags, sources.chain([target]).collect())
}

fn put(mut paths: Vec<OsString>, flags: &cp::Flags) -> Outcome {
    let target = if paths.len() > 1 { paths.pop() } else { None };
    let target = place(&target.unwrap_or_default());
    let sources = paths.iter().map(|path| outside(path));
    cp::copy(flags, sources.chain([target]).collect())
}

fn working_directory() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(|error| Failure::host(Path::new("."), &error))
}

fn lcd(dir: Option<PathBuf>) -> Outcome {
    let home = || env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let Some(dir) = dir.or_else(home) else {
        return Err(Failure::usage("HOME is not set; name a directory"));
    };
    current::make_name_absolute().map_err(|error| Failure::host(Path::new("."), &error))?;
    env::set_current_dir(&dir).map_err(|error| Failure::host(&dir, &error))?;
    Ok(0)
}

fn rmdir(paths: &[OsString]) -> Outcome {
    for path in paths {
        let place = image_path(path)?;
        let session = Session::write(&place.image)?;
        let removed = session.find_parent(&place.path).and_then(|(dir, name)| {
            let removed = session.ffs.rmdir(&session.cred, &dir, &name);
            removed.map_err(|error| session.failed(&place.path, error))
        });
        output::report(session.finish_with(removed))?;
    }
    Ok(u8::from(output::errors() > 0))
}

fn sync() -> Outcome {
    let Some(volume) = held::volume() else { return Ok(0) };
    let image = current::image(OsStr::new(""));
    let failed =
        |error| Failure::new(image.display(), format!("not everything is written: {error}"));
    volume.sync().map_err(failed)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_outside_are_all_others() {
        let (shell, whole) = (definition(), crate::app::command_line());
        let names = whole.get_subcommands().map(clap::Command::get_name);
        let mut others: Vec<&str> = names.filter(|n| shell.find_subcommand(n).is_none()).collect();
        others.sort_unstable();
        others.retain(|name| *name != "help");
        assert_eq!(others, OUTSIDE);
    }

    #[test]
    fn the_definition_is_sound_and_names_no_image() {
        definition().debug_assert();
        for command in definition().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for arg in command.get_arguments() {
                let names = arg.get_value_names().unwrap_or_default();
                assert!(!names.iter().any(|name| name.contains("IMAGE")), "{arg}");
            }
        }
    }
}
