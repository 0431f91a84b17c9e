//! Where the threads of a server run: beside a program that waits for them, and never at the cost
//! of what other programs do.

use crate::Test;
use crate::harness::{Image, Mnt, pattern};
use crate::rings::{bind, processors};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const TESTS: &[Test] = &[
    ("placement_a_thread_joins_its_client_and_returns", joins_its_client_and_returns),
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

/// The policies of the server's threads.
fn policies(m: &Mnt<'_>) -> Vec<String> {
    let tasks = format!("/proc/{}/task", m.server.as_ref().unwrap().id());
    let stats = fs::read_dir(tasks).unwrap().filter_map(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        // The fields are counted from the third: see proc_pid_stat(5).
        Some(fields.nth(41 - 3).unwrap().to_owned())
    });
    stats.collect()
}

/// Makes requests until a thread has the policy. `false`: other programs left it no processor.
fn joined(m: &Mnt<'_>, file: &Path) -> bool {
    (0..20_000).any(|_| {
        stat_often(file, 50);
        policies(m).iter().any(|p| p == IDLE)
    })
}

fn joins_its_client_and_returns() {
    let image = Image::new();
    let m = image.mount(UNCACHED);
    fs::write(m.path("f"), "12345").unwrap();
    let root = rustix::process::geteuid().is_root();
    if !root || processors().len() < 2 || !joined(&m, &m.path("f")) {
        println!("skipped: placement: no CAP_SYS_NICE, one processor, or none of them free");
        return m.end();
    }
    assert!(m.counter("vfs.fusefs.sched_idle") > 0);
    // Without requests all return. The watchdog looks every few milliseconds.
    let returned = (0..200_000).any(|_| {
        std::thread::yield_now();
        policies(&m).iter().all(|p| p == OTHER)
    });
    assert!(returned);
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
