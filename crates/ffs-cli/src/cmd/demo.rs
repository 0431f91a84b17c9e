//! `ffs demo`: the main functions on real input; then a power failure, a snapshot, and a large
//! directory.

mod large;
mod power;
mod snapshot;
#[cfg(feature = "lab")]
mod study;
#[cfg(not(feature = "lab"))]
#[path = "demo/study_elsewhere.rs"]
mod study;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use bsdffs::build::{BuiltImage, ImageBuilder, Survey, Tree};
use bsdffs::copy::{CopyReport, FileId, HostSource, HostSourceOptions, transfer};
use ffs_admin::counted;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_admin::newfs::NewfsOptions;
use ffs_fuse::{UnmountRequest, unmount_and_wait};

use super::build::build_failure;
use super::{Doc, EXIT};
use crate::compare::Compare;
use crate::copying::{CopyProgress, warn_of_losses};
use crate::fail::{Failure, Outcome, shell_word};
use crate::output::{self, human};
use crate::progress::Progress;
use crate::session::{self, Session};
use crate::signals;

/// A tree found by itself is not larger than this.
const MOST_FILES: u64 = 60_000;
const MOST_BYTES: u64 = 1 << 30;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs demo", "with a source tree that is found by itself"),
        ("ffs demo /usr/share/doc", "with a tree of yours; it is only read"),
    ],
    exit: EXIT,
    see_also: &["ffs-build(1)", "ffs-fsck(8)", "ffs-mount(8)"],
    section: "1",
    usage_code: 64,
};

/// Show the main functions on a real tree.
///
/// Makes an image in a temporary directory, fills it with the tree, checks it, mounts and lists it
/// by FUSE if possible, reads every byte back and compares. Then it copies the tree onto a disk
/// whose power fails half way, and shows which files are kept, before and after `fsck -p`. It makes
/// a snapshot in the middle of another copy, and reads it back after the end. It counts the work in
/// a large directory with and without a hash. At the end it runs a small version of the paper's
/// study in virtual time. The demo needs no root. It writes only to the temporary directory, which
/// stays.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tree; without it the sources cargo has downloaded, or those of ffs itself
    tree: Option<PathBuf>,
    /// Decides which sectors of the disk's cache survive the power failure
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Leave out the study at the end, which takes the longest
    #[arg(long)]
    no_study: bool,
}

/// One line of the table at the end.
struct Step {
    what: &'static str,
    files: Option<u64>,
    bytes: Option<u64>,
    seconds: f64,
}

pub(crate) fn run(args: Args) -> Outcome {
    signals::listen();
    let mut out = std::io::stdout();
    let (tree, skip) = match args.tree {
        Some(tree) => match fs::read_dir(&tree) {
            Ok(_) => (tree, Vec::new()),
            Err(error) => return Err(Failure::new(tree.display(), error)),
        },
        None => find_tree()?,
    };
    let dir = tempfile::Builder::new().prefix("ffs-demo-").tempdir();
    let dir = dir.map_err(|error| Failure::new("temporary directory", error))?.keep();
    let image = dir.join("demo.img");
    let mut demo = Demo { tree, skip, image, steps: Vec::new() };

    writeln!(out, "Tree:   {}", demo.tree.display())?;
    let built = demo.build()?;
    let (size, what) = (human(built.size), built.report.summary());
    writeln!(out, "Image:  {} ({size}, UFS2), holding {what}.", demo.image.display())?;
    demo.check("checked by fsck")?;
    writeln!(out, "Check:  fsck finds nothing wrong.")?;
    match demo.mount(&dir.join("mnt"), built.report.entries())? {
        Ok(names) => {
            writeln!(
                out,
                "Mount:  through FUSE; {names} names listed, a new file written, unmounted."
            )?;
            demo.check("checked again")?;
        }
        Err(why) => {
            writeln!(out, "Mount:  not possible here ({why}).")?;
            writeln!(out, "        Going on without: the library needs no rights.")?;
        }
    }
    let same = demo.compare()?;
    writeln!(out, "Read:   every file read back by the library; {}.", same.summary())?;
    writeln!(out, "        Contents, modes, owners, times and links are those of the tree.")?;
    demo.power_failure(&built, args.seed, &mut out)?;
    demo.snapshot(&built, args.seed, &mut out)?;
    demo.large_directory(&mut out)?;
    if !args.no_study {
        demo.study(&dir.join("study"), &mut out)?;
    }
    writeln!(out, "\n{}", demo.table())?;
    demo.next(&dir, &mut out)?;
    Ok(0)
}

struct Demo {
    tree: PathBuf,
    /// Directories in the tree to leave out.
    skip: Vec<FileId>,
    image: PathBuf,
    steps: Vec<Step>,
}

impl Demo {
    fn build(&mut self) -> Result<BuiltImage, Failure> {
        let started = Instant::now();
        let tree = Tree::Directory { path: self.tree.clone(), skip: self.skip.clone() };
        let builder = ImageBuilder::new().free(16 << 20);
        let mut progress = CopyProgress(Progress::items("measure", None));
        let built = builder.build_file(tree, &self.image, &mut progress);
        drop(progress);
        let name = self.image.display().to_string();
        let built = built.map_err(|error| build_failure(&name, &error))?;
        let report = &built.report;
        warn_of_losses(report);
        self.step("made and filled", Some(report.entries()), Some(report.bytes), started);
        Ok(built)
    }

    fn check(&mut self, what: &'static str) -> Result<(), Failure> {
        let started = Instant::now();
        let opened = session::open(self.image.as_os_str(), false)?;
        let report = Fsck::new(opened.device, FsckOptions::no()).run();
        if !report.is_silent() {
            let found = report.findings.first().map(ToString::to_string);
            let why = found.or(report.stopped).unwrap_or_default();
            let hint =
                format!("see all of it: ffs fsck -n {}", shell_word(&self.image.to_string_lossy()));
            return Err(Failure::new("fsck found something wrong", why).hint(hint));
        }
        let totals = report.totals;
        self.step(what, Some(totals.files + totals.directories), None, started);
        Ok(())
    }

    /// Mounts, lists and writes; the names seen, or why that could not be.
    fn mount(&mut self, dir: &Path, entries: u64) -> Result<Result<u64, String>, Failure> {
        let started = Instant::now();
        let fail = |error: std::io::Error| Failure::new(dir.display(), error);
        fs::create_dir(dir).map_err(fail)?;
        let program = std::env::current_exe().map_err(fail)?;
        let mounted = Command::new(program).arg("mount").arg(&self.image).arg(dir).output();
        let mounted = mounted.map_err(fail)?;
        if !mounted.status.success() {
            let text = String::from_utf8_lossy(&mounted.stderr);
            let text = text.trim().trim_start_matches("ffs mount: ");
            let why = text.split("; ").next().unwrap_or(text);
            return Ok(Err(why.to_owned()));
        }
        let used = use_mount(dir);
        let request = UnmountRequest { mount_point: dir.to_owned(), ..UnmountRequest::default() };
        unmount_and_wait(&request).map_err(Failure::plain)?;
        let names = used.map_err(fail)?;
        // Among the entries the root counts, which is not listed; .snap is listed and was not
        // copied.
        if names != entries {
            let why = format!("{names} names are listed, {entries} were expected");
            return Err(Failure::new("the mount", why));
        }
        self.step("mounted, listed, unmounted", Some(names), None, started);
        Ok(Ok(names))
    }

    fn compare(&mut self) -> Result<CopyReport, Failure> {
        let started = Instant::now();
        let session = Session::read(self.image.as_os_str())?;
        let mut compare = Compare::new(&session.ffs, &session.cred);
        let options = HostSourceOptions {
            xattrs: true,
            hard_links: true,
            data: true,
            follow: true,
            skip: self.skip.clone(),
            ..HostSourceOptions::default()
        };
        let mut progress = CopyProgress(Progress::bytes("compare", None));
        let source = HostSource::new(&self.tree, b"", options);
        let result = transfer(source, &mut compare, &mut progress).map_err(Failure::from);
        let report = session.finish_with(result)?;
        if report.failed > 0 {
            let why = format!("differing from the tree: {}", counted(report.failed, "file"));
            return Err(Failure::new(self.image.display(), why)
                .hint("did the tree change meanwhile? Try again with one that does not"));
        }
        self.step("read back, compared", Some(report.entries()), Some(report.bytes), started);
        Ok(report)
    }

    fn power_failure(&mut self, built: &BuiltImage, seed: u64, out: &mut dyn Write) -> Outcome {
        let started = Instant::now();
        let tree = power::Tree { path: &self.tree, skip: &self.skip };
        let all = (built.report.entries(), built.report.bytes);
        let story =
            power::run(&tree, all, &self.image.with_file_name("power.img"), built.size, seed)?;
        for (n, line) in story.lines(seed).iter().enumerate() {
            writeln!(out, "{}{line}", if n == 0 { "Power:  " } else { "        " })?;
        }
        self.step("copied, power failed, recovered", Some(story.copied), None, started);
        Ok(0)
    }

    fn snapshot(&mut self, built: &BuiltImage, seed: u64, out: &mut dyn Write) -> Outcome {
        let started = Instant::now();
        let tree = power::Tree { path: &self.tree, skip: &self.skip };
        let all = (built.report.entries(), built.report.bytes);
        // Copies of changed blocks need space, too.
        let size = built.size + built.size / 2;
        let story =
            snapshot::run(&tree, all, &self.image.with_file_name("snapshot.img"), size, seed)?;
        for (n, line) in story.lines().iter().enumerate() {
            writeln!(out, "{}{line}", if n == 0 { "Snap:   " } else { "        " })?;
        }
        self.step("copied, snapshot read back", Some(story.names()), None, started);
        Ok(0)
    }

    fn large_directory(&mut self, out: &mut dyn Write) -> Outcome {
        let started = Instant::now();
        let table = large::run()?;
        writeln!(
            out,
            "Large:  a directory of {} names, without its hash and with it. What is looked at",
            large::NAMES
        )?;
        writeln!(
            out,
            "        for each name (bytes or records of the directory, slots of the hash):\n"
        )?;
        for line in table.lines() {
            writeln!(out, "        {line}")?;
        }
        writeln!(out, "\n        Listed, too: each name once.")?;
        self.step("large directory, twice", Some(2 * large::NAMES), None, started);
        Ok(0)
    }

    fn study(&mut self, dir: &Path, out: &mut dyn Write) -> Result<(), Failure> {
        let started = Instant::now();
        writeln!(out, "Study:  the paper's benchmarks, small, on a simulated machine of 2002")?;
        if let Some(why) = study::left_out() {
            writeln!(out, "        are left out here: {why}.")?;
            return Ok(());
        }
        let runs = study::runs();
        let count = runs.map(|runs| format!(": {runs} runs")).unwrap_or_default();
        writeln!(out, "        in virtual time{count}, every combination of switches.\n")?;
        study::run(dir)?;
        self.step("the paper's study, small", runs, None, started);
        Ok(())
    }

    fn step(
        &mut self,
        what: &'static str,
        files: Option<u64>,
        bytes: Option<u64>,
        started: Instant,
    ) {
        let seconds = started.elapsed().as_secs_f64();
        self.steps.push(Step { what, files, bytes, seconds });
    }

    fn table(&self) -> String {
        let head = ["", "files and directories", "data", "seconds"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for step in &self.steps {
            rows.push(vec![
                step.what.to_owned(),
                step.files.map(|n| n.to_string()).unwrap_or_default(),
                step.bytes.map(human).unwrap_or_default(),
                format!("{:.2}", step.seconds),
            ]);
        }
        output::table(rows, &[1, 2, 3])
    }

    fn next(&self, dir: &Path, out: &mut dyn Write) -> Result<(), Failure> {
        let name = self.image.to_string_lossy();
        let (image, root) = (shell_word(&name), format!("{name}:/"));
        let (root, rest) = (shell_word(&root), format!("{name}:/."));
        let dir = dir.to_string_lossy();
        writeln!(out, "What to try next (ffs is {}):", program())?;
        writeln!(out, "  ffs tree -L 1 {image}")?;
        writeln!(out, "  ffs ls -l {root}")?;
        writeln!(out, "  ffs cp -a {} SOMEWHERE", shell_word(&rest))?;
        writeln!(out, "  ffs mount {image} DIR      # as root, or with fusermount3")?;
        writeln!(
            out,
            "  ffs lab crash              # examine states that a power failure may leave"
        )?;
        writeln!(out, "  ffs lab run paper --out STUDY      # the whole study; hours")?;
        writeln!(out, "  ffs --help")?;
        writeln!(out, "  rm -r {}      # when you are done", shell_word(&dir))?;
        Ok(())
    }
}

/// Lists everything below `dir`, writes a file and reads it back; how many names there are.
fn use_mount(dir: &Path) -> std::io::Result<u64> {
    let mut names = 0;
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            names += 1;
            if entry.file_type()?.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    let (path, text) = (dir.join("written-through-the-mount"), "hello from the demo\n");
    fs::write(&path, text)?;
    if fs::read_to_string(&path)? != text {
        return Err(std::io::Error::other("what was written is not what is read"));
    }
    Ok(names)
}

fn program() -> String {
    let program = std::env::current_exe().ok();
    program.map_or_else(|| "ffs".to_owned(), |path| path.display().to_string())
}

/// A tree of real sources, and what of it is none.
fn find_tree() -> Result<(PathBuf, Vec<FileId>), Failure> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let sources = cargo.or_else(home).map(|cargo| cargo.join("registry/src"));
    if let Some(sources) = sources.filter(|path| path.is_dir() && fits(path)) {
        return Ok((sources, Vec::new()));
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = match own.canonicalize() {
        Ok(own) => own,
        Err(_) => std::env::current_dir().map_err(|error| Failure::new(".", error))?,
    };
    let skip = fs::metadata(tree.join("target")).iter().map(FileId::from).collect();
    Ok((tree, skip))
}

/// Whether the tree is small enough for a demonstration.
fn fits(tree: &Path) -> bool {
    let Ok(mut survey) = Survey::new(&NewfsOptions::default()) else { return false };
    let mut progress = CopyProgress(Progress::items("look", None));
    let source = HostSource::new(tree, b"", HostSourceOptions::default());
    let looked = transfer(source, &mut survey, &mut progress);
    looked.is_ok_and(|report| report.failed == 0 && report.files > 0)
        && survey.inodes() <= MOST_FILES
        && survey.bytes() <= MOST_BYTES
}
