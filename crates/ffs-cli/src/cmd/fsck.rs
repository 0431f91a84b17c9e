//! `ffs fsck`.

mod background;
mod explain;
mod question;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use ffs_admin::counted;
use ffs_admin::fsck::{
    Answers, Erase, Finding, Fsck, FsckOptions, FsckReport, JournalUse, Mode, Phase,
    Progress as At, exit,
};
use ffs_device::Timestamp;
use serde::Serialize;

use super::Doc;
use crate::bsd;
use crate::fail::{Failure, Outcome, show};
use crate::progress::Progress;
use crate::{output, session, signals};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs fsck -n disk.img", "check, change nothing"),
        ("ffs fsck disk.img", "ask before each repair"),
        ("ffs fsck -y disk.img", "repair everything"),
        ("ffs fsck -p disk.img", "repair only what a crash leaves; fast if clean"),
        ("ffs fsck -b 128 disk.img", "with the backup superblock at sector 128"),
        ("ffs fsck -n --json disk.img", "findings for programs"),
        ("ffs fsck --explain BLK-BAD", "what a finding means, and what its repair may cost"),
        ("ffs fsck -B /mnt", "check a mounted volume while it is in use"),
    ],
    exit: &[
        ("0", "consistent, or repaired completely; -F: it can be checked in the background"),
        ("3", "no superblock can be read"),
        ("4", "-F: a check in the foreground is needed"),
        ("5", "-F, -B: the file system has no soft updates"),
        ("6", "-F, -B: it cannot be checked in the background"),
        ("7", "-F: the file system is clean"),
        ("8", "the check failed, or -p found damage that needs a full check"),
        ("11", "newfs or growfs was interrupted: run that again; the message names it"),
        ("12", "interrupted"),
        ("16", "not completely repaired: run it again"),
    ],
    see_also: &["ffs-newfs(8)", "ffs-dumpfs(8)", "ffs-tunefs(8)"],
    section: "8",
    usage_code: 1,
};

/// Check and repair file systems.
///
/// Every finding about a file is followed by two lines that describe it: inode number, owner,
/// group, mode, links, size, modification time and path. A path begins with `?` if only its last
/// part is known, and is `?` if nothing is known. If the finding is about a name, the inode that it
/// names is described too. A question, REPAIR?, takes y or n; a answers it and all that follow with
/// y, q stops the check, and the end of the input answers all that follow with n. If no repair was
/// granted, nothing is written, with one exception: if the check completed, damage remains, and the
/// file system is marked clean, that mark is cleared, as by BSD's fsck, which prints MARKED DIRTY.
///
/// On a volume with soft updates, -p repairs what a crash may leave. At anything else it stops, and
/// has written nothing: a block in use that is marked free (CG-ALLOCFREE), for example, means that
/// the disk has failed or that the software which wrote it is at fault.
///
/// A volume with journaled soft updates that was not unmounted is recovered by its journal with
/// -p, in a time that does not depend on its size. -p checks everything if the journal cannot be
/// used, and prints the reason; -f checks everything in any case, and so does a check without -p.
///
/// -B checks a volume that is mounted with soft updates, while it is in use. The server of the
/// mount checks a snapshot, and makes the corrections as operations; the command waits for the
/// end. `ffs mount` starts such a check by itself after a crash. Of an image that is not mounted,
/// -B mounts the volume for the check. -F decides for scripts whether a volume can be mounted at
/// once and checked with -B (0), or has to be checked first.
///
/// On a terminal a bar shows the progress of the phase. SIGUSR1 prints the progress in one line.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]
    #[arg(required_unless_present = "explain", value_name = "IMAGE")]
    images: Vec<OsString>,
    /// Change nothing: answer no to every question (the later of -n and -y wins)
    #[arg(short = 'n', overrides_with = "yes")]
    no: bool,
    /// Repair everything: answer yes to every question
    #[arg(short = 'y', overrides_with = "no")]
    yes: bool,
    /// Preen: repair without questions what a crash leaves, stop at anything else
    #[arg(short = 'p')]
    preen: bool,
    /// Check although it is marked clean
    #[arg(short = 'f')]
    force: bool,
    /// Skip it if it is marked clean
    #[arg(short = 'C')]
    skip_clean: bool,
    /// Use the superblock at this 512-byte sector
    #[arg(short = 'b', value_name = "SECTOR", value_parser = bsd::number)]
    superblock: Option<u64>,
    /// Convert to a newer layout; 3 is the only level there is
    #[arg(short = 'c', value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(3..=3))]
    convert: Option<u32>,
    /// Permissions of a lost+found that is made, octal
    #[arg(short = 'm', value_name = "MODE", value_parser = bsd::mode, default_value = "1777")]
    mode: u16,
    /// Run again while a check requests it, ten times at most
    #[arg(short = 'R')]
    restart: bool,
    /// Shrink the initialised part of the inode area to what is in use
    #[arg(short = 'r')]
    shrink: bool,
    /// Stop at a read error instead of going on with zeros
    #[arg(short = 'S')]
    stop: bool,
    /// Zero free space
    #[arg(short = 'Z')]
    zero: bool,
    /// Discard free space (TRIM)
    #[arg(short = 'E')]
    erase: bool,
    /// Clear unused bytes of directories
    #[arg(short = 'z')]
    zero_unused: bool,
    /// Only decide whether it can be checked in the background
    #[arg(short = 'F')]
    decide: bool,
    /// Check a mounted volume, given by its directory, while it is in use
    #[arg(short = 'B')]
    background: bool,
    /// Count the findings by kind
    #[arg(short = 'd')]
    debug: bool,
    /// With -p: keep nameless files that have content
    #[arg(long)]
    keep_orphans: bool,
    /// Most memory for tables and repairs
    #[arg(long, value_name = "BYTES", value_parser = bsd::number)]
    max_memory: Option<u64>,
    /// Explain the code of a finding, such as BLK-BAD, and check nothing; without a code, or with
    /// `list`, list the codes
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "",
          conflicts_with = "images")]
    explain: Option<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json {
    image: String,
    #[serde(flatten)]
    report: FsckReport,
}

pub(crate) fn run(args: Args) -> Outcome {
    if let Some(code) = &args.explain {
        return explain::run(code);
    }
    let mut worst = exit::OK;
    if !args.no {
        signals::listen();
    }
    signals::listen_for_status();
    for image in &args.images {
        let name = show(image.as_bytes());
        let code = if args.decide {
            background::decide(image)
        } else if args.background {
            background::check(image, args.force, args.max_memory)
        } else {
            check(&args, image, &name).and_then(|report| {
                let code = report.exit_code;
                if args.json {
                    let mut out = output::stdout();
                    output::json_line(&mut out, &Json { image: name.clone(), report })?;
                    out.flush()?;
                } else {
                    print_report(&args, &name, &report)?;
                }
                Ok(code)
            })
        };
        match code {
            Ok(code) => worst = worst.max(code),
            Err(failure) if failure.text.is_empty() => return Err(failure),
            Err(failure) => {
                output::error(&failure.text);
                worst = worst.max(failure.code);
            }
        }
    }
    Ok(worst)
}

fn check(args: &Args, image: &OsString, name: &str) -> Result<FsckReport, Failure> {
    let opened = session::try_open(image, !args.no, "or check without changes: ffs fsck -n")
        .map_err(|failure| failure.code(exit::ERROR))?;
    let mut rounds = if args.restart { 10 } else { 1 };
    loop {
        let mut progress = Progress::items(name, None);
        let name = name.to_owned();
        let check = Fsck::new(opened.device.clone(), options(args));
        let check = check.with_progress(move |at| {
            if at.done == 0 {
                progress.begin(phase_of(&at));
            }
            progress.set(at.done, Some(at.total));
            if signals::take_status_request() {
                output::note(format!("{name}: {}", status(&at)));
            }
        });
        let report = check.run();
        rounds -= 1;
        if report.exit_code != exit::RERUN || rounds == 0 {
            return Ok(report);
        }
    }
}

/// The phase, and which round of the phases it belongs to if it is not the first.
fn phase_of(at: &At) -> String {
    match at.round {
        0 | 1 => at.phase.to_string(),
        round => format!("{} (pass {round})", at.phase),
    }
}

/// How far a check is, in one line.
fn status(at: &At) -> String {
    let percent = at.done.saturating_mul(100).checked_div(at.total).unwrap_or(100);
    format!("{}: {} of {} ({percent}%)", phase_of(at), at.done, at.total)
}

fn options(args: &Args) -> FsckOptions {
    let answers = if args.no {
        Answers::No
    } else if args.yes {
        Answers::Yes
    } else {
        Answers::Ask(Box::new(question::operator()))
    };
    FsckOptions {
        mode: if args.preen { Mode::Preen } else { Mode::Full(answers) },
        force: args.force || args.convert.is_some(),
        skip_clean: args.skip_clean,
        superblock: args.superblock,
        lostfound_mode: args.mode,
        keep_orphans: args.keep_orphans,
        zero_unused: args.zero_unused,
        shrink_initialised: args.shrink,
        stop_on_read_error: args.stop,
        erase: Erase { zero: args.zero, discard: args.erase },
        max_memory: args.max_memory,
        now: Timestamp::from(SystemTime::now()).secs,
        interrupt: signals::flag(),
        threads: None,
    }
}

fn print_report(args: &Args, name: &str, report: &FsckReport) -> Result<(), Failure> {
    let mut out = output::stdout();
    // Otherwise the questions have described the inodes already.
    let described = args.preen || args.yes || args.no;
    let list = |finding: &Finding, prefix: &str, out: &mut dyn Write| {
        writeln!(out, "{prefix}{finding}")?;
        if described { question::describe(finding, prefix, out) } else { Ok(()) }
    };
    match &report.journal {
        Some(JournalUse::Recovered(done)) => {
            writeln!(out, "{name}: recovered by the journal: {done}")?;
        }
        Some(JournalUse::Unusable(why)) => {
            writeln!(out, "{name}: the journal cannot be used ({why}); checking everything")?;
        }
        None => {}
    }
    if args.preen {
        for finding in &report.findings {
            list(finding, &format!("{name}: "), &mut out)?;
        }
    } else {
        writeln!(out, "** {name}{}", if args.no { " (NO WRITE)" } else { "" })?;
        phases(report, |finding, out| list(finding, "", out), &mut out)?;
    }
    if args.debug {
        for (id, count) in &report.counts {
            writeln!(out, "{id}: {count} ({})", id.meaning())?;
        }
    }
    let found: u64 = report.counts.values().sum();
    let listed = report.findings.len() as u64;
    if found > listed {
        let more = counted(found - listed, "more finding");
        writeln!(out, "not listed: {more}; -d counts them by kind")?;
    }
    let prefix = if args.preen { format!("{name}: ") } else { String::new() };
    let totals = report.totals;
    if report.skipped {
        let skipped = "FILE SYSTEM CLEAN; SKIPPING CHECKS";
        writeln!(out, "{prefix}{skipped}")?;
    } else if report.stopped.is_none() && totals.are_known() {
        writeln!(out, "{prefix}{totals}")?;
    }
    out.flush()?;
    if let Some(why) = &report.stopped {
        let unchanged = report.exit_code == exit::INTERRUPTED && !report.modified;
        let unchanged = if unchanged { "; nothing was changed" } else { "" };
        output::error(format!("{name}: {why}{unchanged}"));
    }
    verdict(args, name, report, &mut out)?;
    out.flush()?;
    Ok(())
}

fn phases(
    report: &FsckReport,
    list: impl Fn(&Finding, &mut dyn Write) -> std::io::Result<()>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if report.skipped {
        return Ok(());
    }
    let always =
        [Phase::Blocks, Phase::Names, Phase::Connectivity, Phase::References, Phase::Summaries];
    let all = [Phase::Setup, Phase::Groups, Phase::Blocks, Phase::Duplicates].into_iter().chain([
        Phase::Names,
        Phase::Connectivity,
        Phase::References,
        Phase::Quotas,
        Phase::Summaries,
    ]);
    for phase in all {
        let mut here = report.findings.iter().filter(|finding| finding.phase == phase).peekable();
        let ran = report.stopped.is_none() && always.contains(&phase);
        if (here.peek().is_some() && phase != Phase::Setup) || ran {
            writeln!(out, "** {phase}")?;
        }
        for finding in here {
            list(finding, out)?;
        }
    }
    Ok(())
}

fn verdict(
    args: &Args,
    name: &str,
    report: &FsckReport,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut line = |text: &str| writeln!(out, "\n***** {text} *****");
    if report.marked_dirty {
        line("FILE SYSTEM MARKED DIRTY")?;
        output::note(format!(
            "{name}: nothing was repaired; damage remains, so the file system is no longer marked \
             clean"
        ));
    } else if report.modified {
        line("FILE SYSTEM WAS MODIFIED")?;
    }
    if report.clean && report.modified {
        line("FILE SYSTEM MARKED CLEAN")?;
    }
    let settled =
        report.marked_dirty || report.stopped.is_some() || (args.no && report.is_silent());
    if !report.clean && !settled {
        line("FILE SYSTEM STILL DIRTY")?;
    }
    if args.no && !report.is_silent() && report.stopped.is_none() {
        output::note(format!("{name}: nothing was changed; repair it with: ffs fsck -y {name}"));
    } else if report.exit_code == exit::RERUN {
        line("PLEASE RERUN FSCK")?;
    }
    Ok(())
}
