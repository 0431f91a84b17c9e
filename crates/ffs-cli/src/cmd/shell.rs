//! `ffs shell`.
//!
//! # Invariants
//! 1. The image is opened and mounted once, and unmounted when the shell ends, in every case. What
//!    `sync` wrote is durable before that.
//! 2. The first failure ends a script, with the exit code of the command. At a prompt the shell
//!    goes on.
//! 3. An error of the unmount is reported, and the exit code is not 0.

mod commands;
mod complete;
mod directory;
mod lines;
mod prompt;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;

use ffs_fuse::Syncer;

use self::commands::Next;
use self::complete::Completion;
use self::lines::Script;
use self::prompt::{Ending, Prompt};
use super::Doc;
use crate::current;
use crate::fail::{Failure, Outcome, PIPE_CLOSED, show};
use crate::output;
use crate::parse::line::{self, Parsed};
use crate::session::{Session, held};
use crate::signals;
use crate::spec::{ImagePath, image_path};
use crate::stdin;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs shell disk.img", "look around; Tab completes, help lists the commands"),
        ("ffs shell -w disk.img@2:/etc", "change partition 2, beginning in /etc"),
        ("ffs shell -w disk.img -f setup.ffs", "run a script; the first failure ends it"),
        ("ffs shell -w disk.img -c 'mkdir -p /a/b' -c 'put notes.txt /a/b'", "two commands"),
        ("make-commands | ffs shell -w disk.img", "a script from a pipe"),
        ("ffs shell disk.img:/.snap/monday -c 'get -a /home/joe'", "out of a snapshot"),
    ],
    exit: &[
        ("0", "every command of the script succeeded; at a prompt: the image was unmounted"),
        ("1", "something failed; standard error has a line for each failure"),
        ("64", "a command of the script is wrong"),
        ("130", "interrupted by a signal; the image was unmounted cleanly"),
        ("other", "that of the command that ended the script"),
    ],
    see_also: &["ffs-cp(1)", "ffs-ls(1)", "ffs-edit(1)", "ffs-mount(8)"],
    section: "1",
    usage_code: 64,
};

/// Run many commands on one image: at a prompt, or from a script.
///
/// The image is opened once, to be read, or with -w to be changed. The commands are those of ffs
/// (ls, cp, rm, chmod, ...) without `ffs` and without IMAGE: their paths are in the image, from the
/// current directory, which cd changes. get and put copy to and from the host, whose directory lcd
/// changes; !COMMAND runs a command of the host. `help` lists all commands, `help COMMAND`
/// describes one.
///
/// Words are split as in sh, with quotes, also $'a\nb' for a name with a newline, with the escapes
/// of bash; # begins a comment, so the inode #12 is '#12'. At a terminal Tab completes commands,
/// options and paths, and the lines are kept in $XDG_STATE_HOME/ffs/shell_history (or
/// ~/.local/state). Otherwise standard input is a script. The first command that fails ends a
/// script, with its exit code and a message that has the line; a minus in front of a command
/// ignores its failure.
///
/// With -w the image is locked. `sync` and the end of the shell return when all changes are on the
/// image. At a prompt ^C stops the command, and not the shell; it ends a script. If the shell is
/// killed, a volume with soft updates keeps what these promise; changes are written about half a
/// minute after they were made.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N][:/path]; the shell begins in this directory
    #[arg(value_name = "IMAGE:/PATH")]
    image: OsString,
    /// Open the image to change it
    #[arg(short, long)]
    write: bool,
    /// Run the commands of this file, one a line; - is standard input
    #[arg(short = 'f', long = "file", value_name = "SCRIPT", conflicts_with = "commands")]
    script: Option<PathBuf>,
    /// Run this command; may be given several times
    #[arg(short = 'c', long = "command", value_name = "COMMAND", allow_hyphen_values = true)]
    commands: Vec<OsString>,
    /// Neither read nor write the history of lines
    #[arg(long)]
    no_history: bool,
}

/// Whether standard input is the script that runs, of which an editor must get nothing.
pub(super) fn script_is_on_stdin() -> bool {
    lines::on_stdin()
}

/// Where the lines of a shell come from.
enum Source {
    Script(Script),
    Prompt(Box<Prompt>),
}

pub(crate) fn run(args: Args) -> Outcome {
    let place = image_path(&args.image)?;
    let definition = commands::definition();
    let is_stdin = stdin::names(&place.image);
    let source = match (&args.script, &args.commands[..]) {
        (Some(file), _) if is_stdin && file == Path::new("-") => {
            return Err(Failure::usage("- is standard input, which can be read only once"));
        }
        (Some(file), _) => Source::Script(Script::open(file)?),
        (None, []) if std::io::stdin().is_terminal() => {
            signals::listen_in_shell();
            let completion = Completion::new(definition.clone());
            Source::Prompt(Box::new(Prompt::new(completion, !args.no_history)?))
        }
        (None, []) if is_stdin => {
            let failure = Failure::usage("standard input is the image, so that it has no commands");
            return Err(failure.hint("give -c COMMAND or -f SCRIPT"));
        }
        (None, []) => Source::Script(Script::open(Path::new("-"))?),
        (None, commands) => Source::Script(Script::of_commands(commands)),
    };
    signals::listen();
    let session = match args.write {
        true => Session::write(&place.image)?,
        false => Session::read(&place.image)?,
    };
    let volume = session.ffs.clone();
    let ending = Ending::new(volume.clone(), session.image().to_owned());
    held::hold(session, place.image.clone(), args.write);
    let syncer = Syncer::start(volume, move || ending.check());
    let result = match &syncer {
        Ok(_) => Shell { source, definition }.run(&place),
        Err(error) => Err(Failure::new("a thread cannot be started", error)),
    };
    drop(syncer);
    close(result)
}

/// Unmounts the image and reports what failed.
fn close(result: Outcome) -> Outcome {
    output::set_command("ffs shell");
    let closed = held::release().map_or(Ok(()), Session::finish);
    match (result, closed) {
        (result, Ok(())) => result,
        (Ok(0), Err(failure)) => Err(failure),
        (Ok(code), Err(failure)) => {
            output::error(failure.text);
            Ok(code)
        }
        (Err(first), Err(failure)) => {
            output::error(failure.text);
            Err(first)
        }
    }
}

struct Shell {
    source: Source,
    definition: clap::Command,
}

impl Shell {
    /// Runs the lines in the directory `start`; returns the exit code.
    fn run(mut self, start: &ImagePath) -> Outcome {
        directory::change(start)?;
        loop {
            let line = match &mut self.source {
                Source::Script(script) => script.next()?,
                Source::Prompt(prompt) => prompt.next(&text())?,
            };
            let Some(line) = line else { break };
            let (code, next) = self.line(&line);
            match &self.source {
                Source::Script(_) if code != 0 => return Ok(code),
                Source::Script(_) => signals::check()?,
                Source::Prompt(_) => signals::forget_in_shell(),
            }
            if matches!(next, Next::Quit) || signals::shell_must_end() {
                break;
            }
        }
        output::set_command("ffs shell");
        if signals::shell_must_end() { Err(Failure::interrupted()) } else { Ok(0) }
    }

    /// Runs a line, and prints what is wrong. Returns the exit code, 0 if a failure is ignored.
    fn line(&mut self, line: &[u8]) -> (u8, Next) {
        self.begin(None);
        let (parsed, ignored) = match line::parse(line) {
            Ok(parsed) => parsed,
            Err(why) => {
                let failure = Failure::usage(why);
                output::error(failure.text);
                return (failure.code, Next::Go);
            }
        };
        let (code, next) = match parsed {
            Parsed::Empty => (0, Next::Go),
            Parsed::Host(command) => {
                self.begin(Some("!"));
                (on_host(&command), Next::Go)
            }
            Parsed::Words(words) => {
                let name = show(words.first().map_or(&b""[..], |word| word.as_bytes()));
                self.begin(Some(&name));
                commands::run(&mut self.definition, &words)
            }
        };
        let silent = output::errors() == 0 && matches!(self.source, Source::Script(_));
        if silent && code != 0 && code != PIPE_CLOSED {
            output::error(format!("ended with status {code}"));
        }
        (if ignored { 0 } else { code }, next)
    }

    /// Begins the command `name`, whose messages have the line of a script.
    fn begin(&self, name: Option<&str>) {
        let place = match &self.source {
            Source::Script(script) => format!("ffs shell: {}", script.place()),
            Source::Prompt(_) => return output::set_command(name.unwrap_or("ffs shell")),
        };
        match name {
            Some(name) => output::set_command(&format!("{place}: {name}")),
            None => output::set_command(&place),
        }
    }
}

/// The text of the prompt.
fn text() -> String {
    let image = current::image(OsStr::new(""));
    let name = Path::new(&image).file_name().unwrap_or(&image);
    format!("{}:{}> ", show(name.as_bytes()), show(current::directory()))
}

/// Runs a command of the host's shell, or an interactive shell; returns its exit code.
fn on_host(command: &OsStr) -> u8 {
    let mut shell = match command.is_empty() {
        true => process::Command::new(env::var_os("SHELL").unwrap_or_else(|| "sh".into())),
        false => process::Command::new("sh"),
    };
    if !command.is_empty() {
        shell.arg("-c").arg(command);
    }
    match shell.status() {
        Ok(status) if status.success() => 0,
        Ok(status) => {
            output::error(format!("{}: {status}", show(command.as_bytes())));
            status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
        }
        Err(error) => {
            output::error(Failure::host(Path::new("sh"), &error).text);
            1
        }
    }
}
