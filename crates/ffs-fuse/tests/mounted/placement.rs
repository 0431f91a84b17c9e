//! Where the threads of a server run: beside a program that waits for them, and never at the cost
//! of what other programs do.

use crate::Test;
use crate::harness::{Image, Mnt, pattern};
use crate::rings::{bind, processors};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

pub(crate) const TESTS: &[Test] = &[
    ("placement_a_thread_joins_its_client_and_returns", joins_its_client_and_returns),
    ("placement_serves_others_while_its_client_computes", serves_others_while_its_client_computes),
    ("placement_leaves_the_processors_of_the_user", leaves_the_processors_that_the_user_chose),
    ("placement_can_be_switched_off", can_be_switched_off),
    ("placement_is_off_without_the_right_to_return", off_without_the_right_to_return),
    ("placement_busy_processors_hold_up_no_request", busy_processors_hold_up_no_request),
];

/// Every call is a request.
const UNCACHED: &str = "entry_timeout=0,attr_timeout=0";
/// The number of `SCHED_IDLE`, and of what threads have otherwise.
const IDLE: &str = "5";
const OTHER: &str = "0";

fn stat_often(file: &Path, times: usize) {
    for _ in 0..times {
        assert_eq!(fs::metadata(file).unwrap().len(), 5);
    }
}

/// The server's threads.
fn threads(m: &Mnt<'_>) -> Vec<PathBuf> {
    let tasks = format!("/proc/{}/task", m.server.as_ref().unwrap().id());
    fs::read_dir(tasks).unwrap().map(|task| task.unwrap().path()).collect()
}

/// The policies of the server's threads.
fn policies(m: &Mnt<'_>) -> Vec<String> {
    let policy = |task: PathBuf| {
        let stat = fs::read_to_string(task.join("stat")).ok()?;
        let mut fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        // The fields are counted from the third: see proc_pid_stat(5).
        Some(fields.nth(41 - 3).unwrap().to_owned())
    };
    threads(m).into_iter().filter_map(policy).collect()
}

/// The processors on which the server's threads may run, with their policies.
fn allowed(m: &Mnt<'_>) -> Vec<(String, String)> {
    let list = |task: PathBuf| {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        Some(list.unwrap().trim().to_owned())
    };
    policies(m).into_iter().zip(threads(m).into_iter().filter_map(list)).collect()
}

/// Makes requests until a thread has the policy.
fn join(m: &Mnt<'_>, file: &Path) {
    let joined = (0..20_000).any(|_| {
        stat_often(file, 50);
        policies(m).iter().any(|p| p == IDLE)
    });
    assert!(joined, "no thread joins its client: do other programs need all processors?");
}

/// Waits until no thread has the policy. The watchdog looks every few milliseconds.
fn wait_for_return(m: &Mnt<'_>) {
    let returned = (0..200_000).any(|_| {
        std::thread::yield_now();
        policies(m).iter().all(|p| p == OTHER)
    });
    assert!(returned);
}

/// Whether this process may do what the server must.
fn able() -> bool {
    let able = rustix::process::geteuid().is_root() && processors().len() > 1;
    if !able {
        println!("skipped: placement: no CAP_SYS_NICE, or one processor");
    }
    able
}

/// Runs `run` in a thread on a processor.
fn on_processor(processor: usize, run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            bind(processor);
            run();
        });
    });
}

fn joins_its_client_and_returns() {
    let image = Image::new();
    let m = image.mount(UNCACHED);
    fs::write(m.path("f"), "12345").unwrap();
    if !able() {
        return m.end();
    }
    wait_for_return(&m);
    let before = allowed(&m);
    for processor in processors().into_iter().rev().take(2) {
        on_processor(processor, || {
            join(&m, &m.path("f"));
            // It may have begun on another processor.
            let there = (IDLE.to_owned(), processor.to_string());
            assert!((0..20_000).any(|_| {
                stat_often(&m.path("f"), 50);
                allowed(&m).contains(&there)
            }));
        });
        assert!(m.counter("vfs.fusefs.sched_idle") > 0);
        wait_for_return(&m);
        assert_eq!(allowed(&m), before);
    }
    m.end();
}

fn serves_others_while_its_client_computes() {
    let image = Image::new();
    let m = image.mount(UNCACHED);
    fs::write(m.path("f"), "12345").unwrap();
    let (first, other) = (processors()[0], *processors().last().unwrap());
    if able() {
        // The client computes on the processor of the thread, and another program needs it. Over
        // io_uring each processor has its own thread, so the other program runs there, too.
        let noticed = || m.counter("vfs.fusefs.sched_idle_contended") > 0;
        let contended = [other, first].into_iter().cycle().take(100).any(|processor| {
            let ((joined, wait), stop) = (mpsc::channel(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // It is dropped if the client fails.
                    let joined = joined;
                    bind(first);
                    join(&m, &m.path("f"));
                    joined.send(()).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                if wait.recv().is_ok() {
                    // The client computes until this is noticed, or for so many requests.
                    on_processor(processor, || {
                        let _ = (0..200).any(|_| {
                            stat_often(&m.path("f"), 5);
                            noticed()
                        });
                    });
                }
                stop.store(true, Ordering::Relaxed);
            });
            noticed()
        });
        assert!(contended);
    }
    m.end();
}

fn leaves_the_processors_that_the_user_chose() {
    let image = Image::new();
    let m = image.mount(&format!("{UNCACHED},io_uring=off"));
    fs::write(m.path("f"), "12345").unwrap();
    if able() {
        join(&m, &m.path("f"));
        let chosen = *processors().last().unwrap();
        let server = m.server.as_ref().unwrap().id().to_string();
        let done = Command::new("taskset").args(["-acp", &chosen.to_string(), &server]).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{done:?}");
        let only = |m: &Mnt<'_>| allowed(m).iter().all(|(_, list)| *list == chosen.to_string());
        for _ in 0..100 {
            stat_often(&m.path("f"), 200);
            assert!(only(&m), "{:?}", allowed(&m));
        }
        wait_for_return(&m);
        assert!(only(&m));
    }
    m.end();
}

fn can_be_switched_off() {
    let image = Image::new();
    let m = image.mount(&format!("{UNCACHED},no_sched_idle"));
    fs::write(m.path("f"), "12345").unwrap();
    for _ in 0..20 {
        stat_often(&m.path("f"), 500);
        assert!(policies(&m).iter().all(|p| p == OTHER));
    }
    assert_eq!(m.counter("vfs.fusefs.sched_idle"), 0);
    m.end();
}

fn off_without_the_right_to_return() {
    let image = Image::new();
    // The call fails for the server as without CAP_SYS_NICE.
    let m = image.mount(&format!("{UNCACHED},{}sched_setscheduler", crate::sys::FORBID));
    fs::write(m.path("f"), "12345").unwrap();
    stat_often(&m.path("f"), 10_000);
    assert!(policies(&m).iter().all(|p| p == OTHER));
    assert_eq!(m.counter("vfs.fusefs.sched_idle"), 0);
    m.end();
}

fn busy_processors_hold_up_no_request() {
    let (image, stop) = (Image::new(), AtomicBool::new(false));
    let m = image.mount(UNCACHED);
    let content = pattern(1, 5);
    std::thread::scope(|scope| {
        for processor in processors() {
            let stop = &stop;
            scope.spawn(move || {
                bind(processor);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for n in 0..500 {
            let file = m.path(&n.to_string());
            fs::write(&file, &content).unwrap();
            stat_often(&file, 2);
            assert!(fs::read(&file).unwrap() == content);
        }
        stop.store(true, Ordering::Relaxed);
    });
    m.end();
}
