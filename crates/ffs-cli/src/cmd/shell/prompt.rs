//! The prompt: a line editor with completion and a history.
//!
//! # Invariants
//! 1. The history is in the file `ffs/shell_history` below `$XDG_STATE_HOME`, or below
//!    `~/.local/state`. Without these variables, or with `--no-history`, there is none.
//! 2. Each line is appended when it is entered, so a kill loses none. A history that cannot be
//!    written is one warning, and no error.
//! 3. SIGTERM and SIGHUP at the prompt unmount the volume and restore the terminal.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ffs_core::Ffs;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::Completion;
use crate::fail::{Failure, INTERRUPTED};
use crate::output;
use crate::signals;

/// Lines that the history keeps.
const HISTORY: usize = 10_000;

/// Whether the prompt waits for a line.
static WAITS: AtomicBool = AtomicBool::new(false);

/// The line editor.
pub(super) struct Prompt {
    editor: Editor<Completion, FileHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    /// The prompt, with the lines of earlier shells if `keeps_history`.
    pub(super) fn new(completion: Completion, keeps_history: bool) -> Result<Prompt, Failure> {
        let builder = Config::builder().max_history_size(HISTORY);
        let config = builder
            .map_err(unusable)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config).map_err(unusable)?;
        editor.set_helper(Some(completion));
        let history = if keeps_history { history_file() } else { None };
        let mut prompt = Prompt { editor, history };
        if let Some(path) = &prompt.history
            && let Err(error) = prompt.editor.load_history(path)
            && !is_missing(&error)
        {
            prompt.no_history(&error);
        }
        Ok(prompt)
    }

    /// Reads a line after `text`; `None` at the end of input. ^C begins a new line.
    pub(super) fn next(&mut self, text: &str) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            WAITS.store(true, Ordering::Release);
            let line = self.editor.readline(text);
            WAITS.store(false, Ordering::Release);
            match line {
                Ok(line) => {
                    self.remember(&line);
                    return Ok(Some(line.into_bytes()));
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                // The terminal was closed.
                Err(ReadlineError::Io(_)) if signals::shell_must_end() => return Ok(None),
                Err(error) => return Err(unusable(error)),
            }
        }
    }

    fn remember(&mut self, line: &str) {
        let Some(path) = &self.history else { return };
        let added = self.editor.add_history_entry(line);
        let kept = added.and_then(|added| match added {
            true => make_directory(path).and_then(|()| self.editor.append_history(path)),
            false => Ok(()),
        });
        if let Err(error) = kept {
            self.no_history(&error);
        }
    }

    /// Gives up the file of the history.
    fn no_history(&mut self, error: &ReadlineError) {
        if let Some(path) = self.history.take() {
            output::warn(format!("{}: the history is not kept: {error}", path.display()));
        }
    }
}

fn unusable(error: ReadlineError) -> Failure {
    Failure::new("the terminal", error)
}

fn is_missing(error: &ReadlineError) -> bool {
    matches!(error, ReadlineError::Io(error) if error.kind() == io::ErrorKind::NotFound)
}

/// The directory of the history, for its owner only.
fn make_directory(path: &Path) -> rustyline::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let Some(dir) = path.parent().filter(|dir| !dir.is_dir()) else { return Ok(()) };
    Ok(fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?)
}

/// The file of the history, as the XDG base directories have it.
fn history_file() -> Option<PathBuf> {
    let dir = |name| env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = dir("XDG_STATE_HOME").or_else(|| Some(dir("HOME")?.join(".local/state")))?;
    Some(state.join("ffs/shell_history"))
}

/// Ends the shell at the prompt when a signal requests that.
pub(super) struct Ending {
    volume: Ffs,
    image: String,
    terminal: Option<Termios>,
}

impl Ending {
    /// For a shell on `volume`, the image called `image`.
    pub(super) fn new(volume: Ffs, image: String) -> Ending {
        Ending { volume, image, terminal: tcgetattr(io::stdin()).ok() }
    }

    /// Ends the process, if a signal requests the end and the prompt waits. While a command runs,
    /// it ends first, and the shell after it.
    pub(super) fn check(&self) {
        if !signals::shell_must_end() || !WAITS.load(Ordering::Acquire) {
            return;
        }
        let code = match self.volume.unmount() {
            Ok(()) => INTERRUPTED,
            Err(error) => {
                let image = &self.image;
                output::error(format!("{image}: not everything could be written: {error}"));
                1
            }
        };
        if let Some(terminal) = &self.terminal {
            // The terminal may be closed.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
        }
        std::process::exit(i32::from(code));
    }
}
