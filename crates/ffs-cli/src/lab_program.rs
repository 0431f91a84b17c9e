//! The laboratory as a program of its own, `ffs-lab`: it is this program with the feature `lab`.
//!
//! # Invariants
//! 1. The directory of the running program comes first, then PATH, as git looks for its commands.
//!    So a copy of both programs in one directory belongs together.
//! 2. The laboratory gets the command line unchanged, and replaces this process: its exit code,
//!    signals and terminal are those of `ffs lab`.
//! 3. A program does not run itself, and `ffs-lab` runs no other `ffs-lab`. What is run that way
//!    runs no further one ([`CALLER`]), so there is no loop.
//! 4. A relative directory in PATH, as the empty one, is not used: the current directory may be
//!    that of somebody else.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;

use crate::fail::Failure;

/// The name of the program in packages: packaging/README.md, "Two programs".
pub(crate) const NAME: &str = "ffs-lab";

/// The name by which it is called, so that its messages are those of `ffs lab`.
const CALLED: &str = "ffs";

/// The environment variable that a laboratory gets which was called by `ffs lab`.
const CALLER: &str = "FFS_LAB_CALLED_BY";

/// Whether these words of a command line, without options, call the laboratory.
pub(crate) fn is_called(words: &[&str]) -> bool {
    matches!(words, ["lab", ..] | ["help", "lab", ..])
}

/// The program for this process, if there is one.
pub(crate) fn find() -> Option<PathBuf> {
    let (own, path) = (env::current_exe().ok()?, env::var_os("PATH"));
    find_for(&own, path.as_deref(), env::var_os(CALLER).as_deref())
}

/// The laboratory in the directory of the program `own`, or else in one of `path`. `caller` is the
/// value of [`CALLER`].
fn find_for(own: &Path, path: Option<&OsStr>, caller: Option<&OsStr>) -> Option<PathBuf> {
    if caller.is_some() || own.file_name() == Some(OsStr::new(NAME)) {
        return None;
    }
    let itself = fs::metadata(own).ok();
    let is_itself = |found: &Metadata| {
        itself.as_ref().is_some_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
    };
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|found| found.is_file() && !is_itself(&found))
            && rustix::fs::access(file, Access::EXEC_OK).is_ok()
    };
    let dirs = path.map(|path| env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let dirs = own.parent().map(Path::to_owned).into_iter().chain(dirs);
    dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(NAME)).find(is_program)
}

/// The command that runs the laboratory at `program` with the arguments of `ffs`.
pub(crate) fn command(program: &Path, args: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.arg0(CALLED).args(args).env(CALLER, CALLED);
    command
}

/// Replaces this process by the laboratory. Returns only if that fails.
pub(crate) fn replace(program: &Path, args: &[OsString]) -> Failure {
    Failure::host(program, &command(program, args).exec())
}

/// There is no such program.
pub(crate) fn missing() -> Failure {
    Failure::plain(format!(
        "the laboratory is a program of its own, {NAME}, which is neither beside ffs nor in PATH"
    ))
    .hint("install the package bsdffs-lab, or the archive ffs-lab of the release")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A file at `path` with a mode.
    fn file(path: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, path.as_os_str().as_encoded_bytes()).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_owned()
    }

    #[test]
    fn the_laboratory_is_called_by_its_name_alone() {
        for words in [&["lab"][..], &["lab", "run"], &["help", "lab"], &["help", "lab", "run"]] {
            assert!(is_called(words), "{words:?}");
        }
        for words in [&[][..], &["help"], &["cp", "lab"], &["labs"], &["man", "lab"]] {
            assert!(!is_called(words), "{words:?}");
        }
    }

    #[test]
    fn the_directory_of_the_program_comes_before_path() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let own = file(&at("bin/ffs"), 0o755);
        let path = env::join_paths([at("none"), at("one"), at("two")]).unwrap();
        let find = || find_for(&own, Some(&path), None);
        assert_eq!((find(), find_for(&own, None, None)), (None, None));
        let two = file(&at("two/ffs-lab"), 0o755);
        assert_eq!(find(), Some(two.clone()));
        // Neither a file that cannot be executed nor a directory is a program.
        file(&at("one/ffs-lab"), 0o644);
        fs::create_dir(at("bin/ffs-lab")).unwrap();
        assert_eq!(find(), Some(two));
        fs::remove_dir(at("bin/ffs-lab")).unwrap();
        let beside = file(&at("bin/ffs-lab"), 0o755);
        assert_eq!(find(), Some(beside));
    }

    #[test]
    fn relative_directories_are_not_searched() {
        let dir = tempfile::tempdir().unwrap();
        let own = file(&dir.path().join("bin/ffs"), 0o755);
        // The tests run in the directory of the crate.
        let here = tempfile::tempdir_in(".").unwrap();
        file(&here.path().join("ffs-lab"), 0o755);
        let relative = Path::new(here.path().file_name().unwrap());
        for path in [relative, &Path::new(".").join(relative)] {
            assert_eq!(find_for(&own, Some(path.as_os_str()), None), None);
        }
    }

    #[test]
    fn what_is_run_that_way_runs_no_further_one() {
        let command = command(Path::new("/bin/sh"), &[]);
        let caller = command.get_envs().find(|(name, _)| *name == CALLER).and_then(|(_, v)| v);
        assert!(caller.is_some());
        let dir = tempfile::tempdir().unwrap();
        let own = file(&dir.path().join("ffs"), 0o755);
        let beside = file(&dir.path().join(NAME), 0o755);
        assert_eq!(find_for(&own, None, None), Some(beside));
        assert_eq!(find_for(&own, None, caller), None);
    }

    #[test]
    fn a_program_does_not_run_itself() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let own = file(&at("bin/ffs"), 0o755);
        symlink(&own, at("bin/ffs-lab")).unwrap();
        assert_eq!(find_for(&own, None, None), None);
        // A program without the laboratory under its name finds no other one.
        let (copy, other) = (file(&at("one/ffs-lab"), 0o755), at("two"));
        file(&other.join("ffs-lab"), 0o755);
        assert_eq!(find_for(&copy, Some(other.as_os_str()), None), None);
    }

    #[test]
    fn the_laboratory_gets_the_arguments_and_its_exit_code_is_kept() {
        let args = ["-c", "echo \"$0\" \"$#\"; exit 7"].map(OsString::from);
        let output = command(Path::new("/bin/sh"), &args).output().unwrap();
        assert_eq!(output.stdout, b"ffs 0\n");
        assert_eq!(output.status.code(), Some(7));
        let failure = replace(Path::new("/nowhere/ffs-lab"), &args);
        assert_eq!(failure.code, 1);
        assert!(failure.text.starts_with("/nowhere/ffs-lab: "), "{}", failure.text);
    }

    #[test]
    fn without_it_the_error_names_the_package() {
        let failure = missing();
        assert_eq!(failure.code, 1);
        assert!(failure.text.contains("ffs-lab") && failure.text.contains("package bsdffs-lab"));
    }
}
