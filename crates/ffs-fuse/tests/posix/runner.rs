//! Runs cases one after the other and reports as cargo's own harness would.

use crate::bench::{Bench, Case, Need, Skip, Traits};
use crate::ground::Ground;
use rustix::fs::{IFlags, Mode, OFlags};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// The messages of threads that panicked.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn panics() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner))
}

enum Verdict {
    Passed,
    Failed(Vec<String>),
    Ignored(String),
}

/// Counts, and what to run.
pub(crate) struct Runner {
    words: Vec<String>,
    exact: bool,
    only_list: bool,
    begun: Instant,
    passed: usize,
    ignored: usize,
    left_out: usize,
    failed: Vec<String>,
}

impl Runner {
    /// From the arguments that cargo passes on.
    pub(crate) fn new(arguments: &[OsString]) -> Runner {
        let words: Vec<_> = arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(|l| format!("{}:{}: ", l.file(), l.line()));
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let words = text.unwrap_or("panicked");
            let line = format!("{}{words}", place.unwrap_or_default());
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }));
        Runner {
            exact: words.iter().any(|w| w == "--exact"),
            only_list: words.iter().any(|w| w == "--list"),
            words: words.into_iter().filter(|w| !w.starts_with('-')).collect(),
            begun: Instant::now(),
            passed: 0,
            ignored: 0,
            left_out: 0,
            failed: Vec::new(),
        }
    }

    fn wanted(&self, name: &str) -> bool {
        let fits = |w: &String| if self.exact { name == w } else { name.contains(w.as_str()) };
        self.words.is_empty() || self.words.iter().any(fits)
    }

    /// Runs the cases on the ground `name`, which is only made if there is one to run.
    pub(crate) fn run(&mut self, name: &str, cases: &[Case], ground: impl FnOnce() -> Ground) {
        let full = |c: &Case| format!("{name}::{}::{}", c.area, c.name);
        let wanted: Vec<_> = cases.iter().filter(|c| self.wanted(&full(c))).collect();
        self.left_out += cases.len() - wanted.len();
        if self.only_list {
            wanted.iter().for_each(|c| println!("{}: test", full(c)));
            return;
        }
        if wanted.is_empty() {
            return;
        }
        let at_last = format!("{name}::unmounted_and_checked");
        let ground = match catch_unwind(AssertUnwindSafe(ground)) {
            Ok(ground) => ground,
            Err(_) => return self.report(&at_last, Verdict::Failed(panics())),
        };
        let traits = ground.traits();
        for (n, case) in wanted.into_iter().enumerate() {
            let hangs = || {
                // Its thread cannot be ended; without its server it is at least woken.
                ground.abandon();
                println!("test {} ... FAILED\n    still running after {PATIENCE:?}", full(case));
                std::process::exit(101)
            };
            let verdict = run_one(case, n, &ground, traits, hangs);
            self.report(&full(case), verdict);
        }
        let end = catch_unwind(AssertUnwindSafe(|| ground.end()));
        let verdict = end.map_or_else(|_| Verdict::Failed(panics()), |()| Verdict::Passed);
        self.report(&at_last, verdict);
    }

    fn report(&mut self, name: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Verdict::Ignored(why) => {
                self.ignored += 1;
                println!("test {name} ... ignored, skipped: {why}");
            }
            Verdict::Failed(lines) => {
                println!("test {name} ... FAILED");
                lines.iter().for_each(|l| println!("    {l}"));
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Prints the result, and returns the exit code.
    pub(crate) fn finish(&self) -> i32 {
        if self.only_list {
            return 0;
        }
        if !self.failed.is_empty() {
            println!("\nfailures:\n    {}", self.failed.join("\n    "));
        }
        println!(
            "\ntest result: {}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; \
             finished in {:.2}s\n",
            if self.failed.is_empty() { "ok" } else { "FAILED" },
            self.passed,
            self.failed.len(),
            self.ignored,
            self.left_out,
            self.begun.elapsed().as_secs_f64(),
        );
        i32::from(!self.failed.is_empty()) * 101
    }
}

/// What is missing for a case.
fn missing(case: &Case, traits: &Traits, ours: bool) -> Option<String> {
    let has = |need: &Need| match need {
        Need::Root => traits.root,
        Need::Xattr => traits.xattr,
        Need::Acl => traits.acl,
        Need::Flags => traits.flags,
        Need::WideTimes => traits.wide_times,
        Need::Birthtime => traits.birthtime,
        Need::KernelChecks => traits.kernel_checks,
        Need::Ours => ours,
    };
    case.needs.iter().find(|n| !has(n)).map(|n| format!("needs {n:?}"))
}

fn run_one(
    case: &Case,
    n: usize,
    ground: &Ground,
    traits: Traits,
    hangs: impl FnOnce() -> Verdict,
) -> Verdict {
    if let Some(why) = missing(case, &traits, ground.ours()) {
        return Verdict::Ignored(why);
    }
    let dir = ground.dir().join(format!("case {n}"));
    let (send, receive) = channel();
    std::thread::scope(|s| {
        s.spawn(|| {
            let bench = Bench { ground, traits };
            let outcome = catch_unwind(AssertUnwindSafe(|| in_directory(&dir, &bench, case)));
            // The thread ends some time after the case. It must not keep the mount busy.
            let _ = rustix::process::chdir("/");
            let _ = send.send(outcome);
        });
        let verdict = match receive.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(e)) => match e.downcast::<Skip>() {
                Ok(skip) => Verdict::Ignored(skip.0),
                Err(_) => Verdict::Failed(panics()),
            },
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => hangs(),
        };
        tidy(&dir, verdict)
    })
}

/// Runs a case in a fresh directory, on a thread with a current directory and umask of its own.
fn in_directory(dir: &Path, bench: &Bench, case: &Case) {
    // SAFETY: no descriptors are unshared.
    unsafe { unshare_unsafe(UnshareFlags::FS) }.unwrap();
    rustix::process::umask(Mode::empty());
    rustix::fs::mkdir(dir, Mode::from_raw_mode(0o755)).unwrap();
    rustix::process::chdir(dir).unwrap();
    (case.run)(bench);
}

/// Removes what a case has left, which must work after it passed.
fn tidy(dir: &Path, verdict: Verdict) -> Verdict {
    if std::fs::remove_dir_all(dir).is_ok() {
        return verdict;
    }
    make_removable(dir);
    match (std::fs::remove_dir_all(dir), verdict) {
        (Err(e), Verdict::Passed) => Verdict::Failed(vec![format!("cannot be removed: {e}")]),
        (_, verdict) => verdict,
    }
}

/// Takes away flags and mounts that a failed case left, and gives its user the right to remove.
fn make_removable(at: &Path) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
    let Ok(f) = rustix::fs::open(at, flags, Mode::empty()) else { return };
    let _ = rustix::fs::ioctl_setflags(&f, IFlags::empty());
    let _ = rustix::fs::fchmod(&f, Mode::RWXU);
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        make_removable(&entry.path());
    }
}
