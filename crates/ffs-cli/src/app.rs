//! The command line as a whole.
//!
//! # Invariants
//! 1. If the program is called by a BSD name (`newfs`, `fsck_ffs`, `mount.fuse.ffs` ...), it runs
//!    the command of that name.
//! 2. A wrong command line exits with 64. Only the administration programs of BSD and diff(1) keep
//!    their codes, which scripts test: `Doc::usage_code`, docs/guide/streams.md.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cmd::{self, Doc};
use crate::fail::{EX_USAGE, Outcome};
use crate::lab_program;
use crate::{bgfsck, bsd_args, expand, log, other_names, output, session};

/// The Berkeley Fast File System in user space: make, check, mount and fill UFS images.
///
/// IMAGE is a file, a block device, or the export of an NBD server (nbd://HOST/EXPORT). Its format
/// is recognised: raw, qcow2, VMDK, VHD, VHDX, VDI; gzip, xz, zstd and bzip2 are read in place. In
/// a whole-disk image ffs finds the BSD partition (GPT, MBR slice, disklabel); IMAGE@N chooses one.
/// Commands that only read take - for an image on standard input, and /dev/stdin:/path in it.
/// IMAGE:/path is a file in an image, which needs no mount and no root. IMAGE:/.snap/NAME is also
/// an image, to be read: the snapshot NAME.
#[derive(Parser)]
#[command(name = "ffs", version, max_term_width = 100, disable_help_subcommand = false)]
struct Ffs {
    #[command(subcommand)]
    command: Cmd,
    /// Log internal events, for example `debug` or `ffs::buf=trace` [default: RUST_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// To change a compressed IMAGE, expand it beside it (disk.img.xz to disk.img) and change that
    #[arg(long, global = true)]
    write: bool,
}

/// Defines the commands. `completions` and `man` are apart: they take the command line itself.
macro_rules! commands {
    ($($variant:ident $module:ident $name:literal;)*) => {
        #[derive(Subcommand)]
        enum Cmd {
            $($variant(cmd::$module::Args),)*
            Completions(cmd::completions::Args),
            Man(cmd::man::Args),
        }

        impl Cmd {
            fn run(self) -> Outcome {
                match self {
                    $(Cmd::$variant(args) => cmd::$module::run(args),)*
                    Cmd::Completions(args) => cmd::completions::run(&args, command_line()),
                    Cmd::Man(args) => {
                        let command = command_line();
                        cmd::man::run(args, &cmd::man::CommandLine { command, doc, page_name })
                    }
                }
            }
        }

        /// The examples and exit codes of a command.
        pub(crate) fn doc(command: &str) -> Option<&'static Doc> {
            match command {
                $($name => Some(&cmd::$module::DOC),)*
                "completions" => Some(&cmd::completions::DOC),
                "man" => Some(&cmd::man::DOC),
                _ => None,
            }
        }

        /// The name of a command's manual page.
        fn page_name(command: &str) -> &'static str {
            match command {
                $($name => concat!("ffs-", $name),)*
                "completions" => "ffs-completions",
                "man" => "ffs-man",
                _ => "ffs",
            }
        }

        /// Runs one command under a name of its own.
        fn run_alone(name: &'static str, command: &str, args: Vec<OsString>) -> u8 {
            match command {
                $($name => alone(name, command, args, cmd::$module::run),)*
                _ => EX_USAGE,
            }
        }
    };
}

commands! {
    Newfs newfs "newfs";
    Fsck fsck "fsck";
    Tunefs tunefs "tunefs";
    Growfs growfs "growfs";
    Dumpfs dumpfs "dumpfs";
    Debug debug "debug";
    Undelete undelete "undelete";
    Dump dump "dump";
    Restore restore "restore";
    Snapshot snapshot "snapshot";
    Serve serve "serve";
    Mount mount "mount";
    Umount umount "umount";
    Sysctl sysctl "sysctl";
    Build build "build";
    Disk disk "disk";
    Tar tar "tar";
    Info info "info";
    Ls ls "ls";
    Tree tree "tree";
    Find find "find";
    Stat stat "stat";
    Cat cat "cat";
    Edit edit "edit";
    Cp cp "cp";
    Touch touch "touch";
    Truncate truncate "truncate";
    Chmod chmod "chmod";
    Chown chown "chown";
    Chflags chflags "chflags";
    Getfacl getfacl "getfacl";
    Setfacl setfacl "setfacl";
    Xattr xattr "xattr";
    Mkdir mkdir "mkdir";
    Rm rm "rm";
    Mv mv "mv";
    Ln ln "ln";
    Diff diff "diff";
    Shell shell "shell";
    Df df "df";
    Du du "du";
    Quotacheck quotacheck "quotacheck";
    Quota quota "quota";
    Repquota repquota "repquota";
    Edquota edquota "edquota";
    Quotaon quotaon "quotaon";
    Quotaoff quotaoff "quotaoff";
    Demo demo "demo";
    Lab lab "lab";
}

/// Names of BSD's programs, and the command that each name runs.
const MULTICALL: &[(&str, &str)] = &[
    ("newfs", "newfs"),
    ("newfs_ufs", "newfs"),
    ("newfs_ffs", "newfs"),
    ("mkfs.ffs", "newfs"),
    ("mkfs.ufs", "newfs"),
    ("fsck_ffs", "fsck"),
    ("fsck_ufs", "fsck"),
    ("fsck.ffs", "fsck"),
    ("fsck.ufs", "fsck"),
    ("tunefs", "tunefs"),
    ("growfs", "growfs"),
    ("dumpfs", "dumpfs"),
    ("dump.ufs", "dump"),
    ("dump_ffs", "dump"),
    ("restore.ufs", "restore"),
    ("restore_ffs", "restore"),
    ("chflags", "chflags"),
    ("quotacheck", "quotacheck"),
    ("quota", "quota"),
    ("repquota", "repquota"),
    ("edquota", "edquota"),
    ("quotaon", "quotaon"),
    ("quotaoff", "quotaoff"),
    ("mount_ffs", "mount"),
    ("mount_ufs", "mount"),
];

/// BSD's command that makes a snapshot.
const MKSNAP: &str = "mksnap_ffs";

/// Runs the command line; returns the exit code.
pub(crate) fn run(args: Vec<OsString>) -> u8 {
    let hooks = Some((session::open_to_mount as ffs_fuse::Opener, bgfsck::of_mount as _));
    if let Some(code) = ffs_fuse::run_as_helper(args.clone(), hooks, log::start_helper) {
        return u8::try_from(code).unwrap_or(1);
    }
    let program = args.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    let called = MULTICALL.iter().find(|(name, _)| Some(*name) == program);
    if let Some((name, command)) = called {
        output::set_command(name);
        return run_alone(name, command, args);
    }
    let args = match program {
        Some(MKSNAP) => bsd_args::of_mksnap(args),
        Some(lab_program::NAME) => lab_args(args),
        _ => args,
    };
    let (at, command) = command_of(&args);
    let known = doc(command);
    output::set_command(&known.map_or("ffs".to_owned(), |_| format!("ffs {command}")));
    #[cfg(not(feature = "lab"))]
    if let Some(failure) = run_lab_program(&args) {
        return finish(Err(failure), EX_USAGE);
    }
    let line = command_line();
    let definition = line.find_subcommand(command);
    let modern = definition.and_then(|sub| bsd_args::modernize(command, sub, &args, at + 1));
    let matches = line.try_get_matches_from(modern.as_ref().unwrap_or(&args));
    match matches.and_then(|m| Ffs::from_arg_matches(&m)) {
        Ok(ffs) => match log::set_filter(ffs.log) {
            Ok(()) => {
                expand::set(ffs.write);
                start_log(command);
                finish(ffs.command.run(), usage_code(known))
            }
            Err(error) => {
                output::error(format!("--log: {error}"));
                usage_code(known)
            }
        },
        Err(mut error) => {
            if known.is_none() {
                other_names::suggest(&mut error);
            }
            let code = code_of(&error, command);
            output::usage(error, code)
        }
    }
}

/// The arguments of `ffs` for those of `ffs-lab`: `ffs-lab run` is `ffs lab run`. Any other command
/// of ffs is run as such, because the laboratory runs its own program to mount and to check.
fn lab_args(mut args: Vec<OsString>) -> Vec<OsString> {
    let words = words_of(&args);
    let line = command_line();
    let experiment = |word| line.find_subcommand("lab").and_then(|lab| lab.find_subcommand(word));
    let is_command = |word| doc(word).is_some() && experiment(word).is_none();
    // `ffs-lab help newfs` is about the command that `ffs-lab newfs` runs.
    let topic = words.iter().find(|word| **word != "help");
    let is_of_ffs = match topic {
        Some(word) => is_command(word),
        None if !words.is_empty() => false,
        None => args[1..].iter().any(|arg| arg == "-V" || arg == "--version"),
    };
    args[0] = "ffs".into();
    if !is_of_ffs {
        args.insert(1, "lab".into());
    }
    args
}

/// Runs the laboratory's program in the place of this one, if the command line is for it and there
/// is one. Returns why it cannot run.
#[cfg(not(feature = "lab"))]
fn run_lab_program(args: &[OsString]) -> Option<crate::fail::Failure> {
    let program = lab_program::is_called(&words_of(args)).then(lab_program::find)??;
    Some(lab_program::replace(&program, &args[1..]))
}

/// Starts the log, except for `ffs mount`, which starts it after it has read the mount options.
fn start_log(command: &str) {
    if command != "mount" {
        log::start();
    }
}

/// The first word that is neither an option nor the value of `--log`, with its position.
fn command_of(args: &[OsString]) -> (usize, &str) {
    words_at(args).first().copied().unwrap_or_default()
}

/// The words that are neither options nor the value of `--log`.
fn words_of(args: &[OsString]) -> Vec<&str> {
    words_at(args).into_iter().map(|(_, word)| word).collect()
}

/// As [`words_of`], with their positions.
fn words_at(args: &[OsString]) -> Vec<(usize, &str)> {
    let mut args = args.iter().enumerate().skip(1);
    let mut words = Vec::new();
    while let Some((at, arg)) = args.next() {
        match arg.to_str() {
            Some("--log") => drop(args.next()),
            Some(word) if !word.starts_with('-') => words.push((at, word)),
            _ => {}
        }
    }
    words
}

fn alone<A: Args>(
    name: &'static str,
    command: &str,
    args: Vec<OsString>,
    run: fn(A) -> Outcome,
) -> u8 {
    let doc = doc(command);
    let mut line = command_line();
    let definition = line.get_subcommands_mut().find(|sub| sub.get_name() == command);
    let definition =
        definition.map(|sub| std::mem::take(sub).name(name).version(VERSION)).unwrap_or_default();
    let args = bsd_args::modernize(command, &definition, &args, 1).unwrap_or(args);
    let matches = definition.try_get_matches_from(args);
    let parsed = matches.and_then(|matches| A::from_arg_matches(&matches));
    match parsed {
        Ok(args) => {
            // Only a filter of the command line is an error.
            let _ = log::set_filter(None);
            start_log(command);
            finish(run(args), usage_code(doc))
        }
        Err(error) => {
            let code = code_of(&error, command);
            output::usage(error, code)
        }
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The definition of the command line, with the texts of [`Doc`].
pub(crate) fn command_line() -> Command {
    let mut ffs = Ffs::command().after_help(TOP_HELP);
    let names: Vec<String> = ffs.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in names {
        if let Some(doc) = doc(&name) {
            ffs = ffs.mut_subcommand(&name, |sub| sub.after_help(doc.help()));
        }
    }
    ffs
}

const TOP_HELP: &str = "\
Try it:
  ffs demo                         show every main function on a real tree
  ffs newfs -s 1g new.img          an empty file system
  ffs build new.img TREE           an image of a tree, sized to fit
  ffs info disk.qcow2              what is in an image, and what to do next
  ffs ls -l disk.img:/etc          list files in an image, also a whole-disk image
  ffs cp -a disk.img:/home .       copy out of an image; with the arguments swapped, into it
  ffs shell disk.img               a prompt for many steps on one image, or a script of them
  ffs fsck disk.img                check and repair
  ffs mount disk.img /mnt          mount by FUSE; `ffs umount /mnt` waits until all is written
  ffs stat /mnt                    show counters of a mount; `ffs sysctl /mnt` shows its switches
  ffs lab compare dirs             measure directory operations, also of other file systems

Exit status: 0 if a command succeeded, 1 if something failed, 64 if the command line is wrong, 130
after ^C. The administration programs of BSD keep their codes; `ffs COMMAND --help` has them all.

`ffs COMMAND --help` describes a command; `ffs man DIR` writes the manual pages.";

/// The exit code of a wrong command line.
fn usage_code(doc: Option<&Doc>) -> u8 {
    doc.map_or(EX_USAGE, |doc| doc.usage_code)
}

/// The exit code of a command line that clap refuses. tunefs(8) has one for a wrong value.
fn code_of(error: &clap::Error, command: &str) -> u8 {
    let value = error.get(ContextKind::InvalidValue);
    let wrong = matches!(value, Some(ContextValue::String(value)) if !value.is_empty());
    match command {
        "tunefs" if wrong => cmd::tunefs::BAD_VALUE,
        _ => usage_code(doc(command)),
    }
}

/// Prints the error of a command; returns the exit code, `usage_code` for a wrong command line.
fn finish(outcome: Outcome, usage_code: u8) -> u8 {
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            if !failure.text.is_empty() {
                output::error(&failure.text);
            }
            failure.code_for(usage_code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_command_line_is_sound_and_every_command_documented() {
        command_line().debug_assert();
        for sub in command_line().get_subcommands().filter(|sub| sub.get_name() != "help") {
            let doc = doc(sub.get_name()).unwrap();
            assert!(!doc.examples.is_empty() && !doc.see_also.is_empty(), "{}", sub.get_name());
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
        }
        for (_, command) in MULTICALL {
            assert!(doc(command).is_some());
        }
    }

    #[test]
    fn ffs_lab_is_the_laboratory_and_the_whole_program() {
        for (called, is) in [
            ("", "lab"),
            ("run --out newfs", "lab run --out newfs"),
            ("--log debug run", "lab --log debug run"),
            ("--help", "lab --help"),
            ("help", "lab help"),
            ("help run", "lab help run"),
            ("help find", "help find"),
            ("help lab run", "help lab run"),
            ("help no-such-experiment", "lab help no-such-experiment"),
            ("no-such-experiment", "lab no-such-experiment"),
            ("lab run", "lab run"),
            ("newfs -s 1m a", "newfs -s 1m a"),
            ("--log debug mount a b", "--log debug mount a b"),
            ("man d", "man d"),
            ("--version", "--version"),
        ] {
            let args = std::iter::once("/usr/bin/ffs-lab").chain(called.split_whitespace());
            let args = lab_args(args.map(OsString::from).collect());
            let args: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
            assert_eq!(args.join(" "), format!("ffs {is}"), "{called}");
        }
        // A name of both is an experiment.
        let serve = lab_args(["ffs-lab", "serve"].map(OsString::from).to_vec());
        assert_eq!(serve.len() == 3, cfg!(feature = "lab"));
    }

    #[test]
    fn the_command_is_not_the_value_of_log() {
        let args = ["ffs", "--log", "dump", "-v", "dump", "0f"].map(OsString::from);
        assert_eq!(command_of(&args), (4, "dump"));
    }

    /// The exit code of a wrong command line of each command, by the table of the guide.
    fn codes_of_the_guide() -> (BTreeMap<String, u8>, u8) {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/streams.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = page.split_once("\n## Exit codes\n").unwrap().1;
        let (mut codes, mut others) = (BTreeMap::new(), None);
        let rows = table.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
        for row in rows.take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let code = cells[2].parse().unwrap();
            if cells[1].starts_with("all others") {
                assert_eq!(others.replace(code), None);
                continue;
            }
            for name in cells[1].split(", ") {
                let name = name.trim_matches('`').to_owned();
                assert_eq!(codes.insert(name, code), None, "{row}");
            }
        }
        (codes, others.unwrap())
    }

    /// Runs every command at and below `command` with an unknown option, and every command that
    /// has subcommands without one.
    fn check_codes(command: &Command, words: &[&str], expected: u8) -> usize {
        let exits = |more: Option<&str>| {
            let words: Vec<OsString> =
                words.iter().copied().chain(more).map(OsString::from).collect();
            assert_eq!(run(words.clone()), expected, "{words:?}");
        };
        exits(Some("--no-such-option"));
        if command.is_subcommand_required_set() {
            exits(None);
        }
        let below = command.get_subcommands().filter(|sub| sub.get_name() != "help");
        let counts = below.map(|sub| {
            let words: Vec<&str> = words.iter().copied().chain([sub.get_name()]).collect();
            check_codes(sub, &words, expected)
        });
        1 + counts.sum::<usize>()
    }

    #[test]
    fn a_wrong_command_line_has_the_exit_code_of_the_guide() {
        let (mut codes, others) = codes_of_the_guide();
        let line = command_line();
        let mut count = 0;
        let has_lab = cfg!(feature = "lab");
        let here =
            |sub: &&Command| sub.get_name() != "help" && (has_lab || sub.get_name() != "lab");
        for sub in line.get_subcommands().filter(here) {
            let name = sub.get_name();
            let expected = codes.remove(name).unwrap_or(others);
            count += check_codes(sub, &["ffs", name], expected);
            for (alone, _) in MULTICALL.iter().filter(|(_, command)| *command == name) {
                check_codes(sub, &[alone], expected);
            }
            let rows = doc(name).unwrap().exit_rows();
            let row = rows.iter().find(|(code, _)| *code == expected.to_string());
            assert!(row.unwrap().1.ends_with("the command line is wrong"), "{name}");
        }
        assert!(count > if has_lab { 80 } else { 60 }, "{count} commands");
        assert!(codes.is_empty(), "no such commands: {codes:?}");
        for words in [&["ffs"][..], &["ffs", "--no-such-option"], &["ffs", "no-such-command"]] {
            assert_eq!(run(words.iter().map(OsString::from).collect()), others, "{words:?}");
        }
    }
}
