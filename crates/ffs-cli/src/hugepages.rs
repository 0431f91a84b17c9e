//! Huge pages for a process that keeps millions of inodes and names in memory.
//!
//! With small pages each access to one of a million inodes misses the TLB. The kernel's own file
//! systems use huge pages and do not have these misses. glibc requests huge pages only if an
//! environment variable is set when the program starts, so the program executes itself again with
//! that variable.
//!
//! The process keeps freed memory. A second measurement therefore does not include the time in
//! which the kernel clears pages.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The variable that glibc reads. Other C libraries ignore it.
const VARIABLE: &str = "GLIBC_TUNABLES";
const HUGE: &str =
    "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.mmap_max=0";

/// Executes the program again with huge pages, unless the variable is set already. If that fails,
/// the program continues without huge pages. Call this before anything is printed or opened.
pub(crate) fn enable() {
    if !cfg!(target_os = "linux") || std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut args = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    // `exec` returns only if it fails.
    let _ = again.args(args).env(VARIABLE, HUGE).exec();
}
