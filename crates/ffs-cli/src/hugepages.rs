//! Huge pages for a process that keeps millions of inodes and names in memory.
//!
//! With small pages every look at one of a million inodes misses the processor's address cache,
//! which the kernel's own file systems, living in huge pages, never do. glibc asks the kernel for
//! huge pages only if it is told so before the program starts: so the program starts itself once
//! more.
//!
//! Memory that was given back stays with the process, so that what is measured a second time does
//! not wait for the kernel to make pages zero.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// What tells glibc. Other C libraries do not read it.
const VARIABLE: &str = "GLIBC_TUNABLES";
const HUGE: &str =
    "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.mmap_max=0";

/// Starts the program again with huge pages unless somebody has chosen already. If that cannot be,
/// it goes on without. To be called before anything was printed or opened.
pub(crate) fn want() {
    if !cfg!(target_os = "linux") || std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut args = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    // Returns only if it failed.
    let _ = again.args(args).env(VARIABLE, HUGE).exec();
}
