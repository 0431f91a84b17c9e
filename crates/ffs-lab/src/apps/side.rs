//! The file systems under test, used through their commands.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use super::driver::first_line;
use super::failed;
use crate::error::{LabError, Result};

/// A file system under test with its mount options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    kind: Kind,
    /// The argument of `-o`; may be empty.
    options: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ffs,
    Ext4,
    Xfs,
    Btrfs,
}

const KINDS: &[(&str, Kind)] =
    &[("ffs", Kind::Ffs), ("ext4", Kind::Ext4), ("xfs", Kind::Xfs), ("btrfs", Kind::Btrfs)];

/// The way in which a state is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Mounted as the crash left it; a journal is replayed by that.
    AsFound,
    /// Mounted after `fsck -p`.
    Repaired,
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            View::AsFound => "as found",
            View::Repaired => "after fsck -p",
        })
    }
}

impl FromStr for Side {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Side> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let why = format!("expected {} and mount options after ':'", names.join(", "));
            return Err(LabError::spec(text, why));
        };
        Ok(Side { kind: *kind, options: options.to_owned() })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        f.write_str(name)?;
        if self.options.is_empty() { Ok(()) } else { write!(f, ":{}", self.options) }
    }
}

impl Side {
    /// Whether this is ffs.
    #[must_use]
    pub fn is_ffs(&self) -> bool {
        self.kind == Kind::Ffs
    }

    /// The ways in which its states are mounted.
    #[must_use]
    pub fn views(&self) -> &'static [View] {
        if self.is_ffs() { &[View::AsFound, View::Repaired] } else { &[View::AsFound] }
    }

    /// The size of a volume in bytes: `wanted`, or the smallest that this file system supports.
    #[must_use]
    pub fn size(&self, wanted: u64) -> u64 {
        match self.kind {
            Kind::Ffs | Kind::Ext4 => wanted,
            Kind::Btrfs => wanted.max(128 << 20),
            Kind::Xfs => wanted.max(300 << 20),
        }
    }
}

/// Runs the commands of a file system.
#[derive(Clone, Debug)]
pub struct Host {
    /// The `ffs` command.
    pub ffs: PathBuf,
}

impl Host {
    /// Makes a volume of `size` bytes in a new file.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if this machine cannot make one.
    pub fn make(&self, side: &Side, image: &Path, size: u64) -> Result<()> {
        let unusable = |why: String| LabError::unusable(&side.to_string(), why);
        let made = File::create(image).and_then(|file| file.set_len(size));
        made.map_err(|e| unusable(format!("{}: {e}", image.display())))?;
        let mut command = match side.kind {
            Kind::Ffs => {
                let mut command = Command::new(&self.ffs);
                command.args(["newfs", "-U"]);
                command
            }
            Kind::Ext4 => words("mkfs.ext4", &["-q", "-F"]),
            Kind::Xfs => words("mkfs.xfs", &["-q", "-f"]),
            Kind::Btrfs => words("mkfs.btrfs", &["-q", "-f"]),
        };
        run(command.arg(image)).map_err(unusable)
    }

    /// Mounts `image` on `dir`.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the message of the mount command.
    pub fn mount(&self, side: &Side, image: &Path, dir: &Path) -> Result<Mounted> {
        let mut command = if side.is_ffs() {
            let mut command = Command::new(&self.ffs);
            command.arg("mount");
            if !side.options.is_empty() {
                command.args(["-o", &side.options]);
            }
            command
        } else {
            let comma = if side.options.is_empty() { "" } else { "," };
            words("mount", &["-o", &format!("loop{comma}{}", side.options)])
        };
        let mounted = run(command.arg(image).arg(dir));
        mounted.map_err(|why| failed(&side.to_string(), "mount", why))?;
        Ok(Mounted {
            host: self.clone(),
            side: side.clone(),
            dir: dir.to_owned(),
            is_mounted: true,
        })
    }

    /// Runs `fsck -p` on an image.
    ///
    /// # Errors
    /// [`LabError::Failed`] if it does not repair the image.
    pub fn preen(&self, side: &Side, image: &Path) -> Result<()> {
        let mut command = Command::new(&self.ffs);
        command.args(["fsck", "-p"]).arg(image);
        run(&mut command).map_err(|why| failed(&side.to_string(), "fsck -p", why))
    }
}

/// A mounted volume. If it is dropped without [`Mounted::end`], it is detached even while in use.
#[derive(Debug)]
pub struct Mounted {
    host: Host,
    side: Side,
    dir: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    /// Unmounts it, which writes everything.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the message of the command.
    pub fn end(mut self) -> Result<()> {
        let mut command = if self.side.is_ffs() {
            let mut command = Command::new(&self.host.ffs);
            command.arg("umount");
            command
        } else {
            Command::new("umount")
        };
        let ended = run(command.arg(&self.dir));
        ended.map_err(|why| failed(&self.side.to_string(), "umount", why))?;
        self.is_mounted = false;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            // `-i`: no helper, which would wait for a server that may hang.
            let _ = run(words("umount", &["-i", "-l"]).arg(&self.dir));
        }
    }
}

fn words(program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    command
}

/// Runs a command. Returns the first line of its output if it failed.
fn run(command: &mut Command) -> std::result::Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    Err(first_line(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_written_as_it_is_read() {
        for text in ["ffs", "ffs:stable", "ffs:filedelay=0,dirdelay=0", "ext4", "xfs:noatime"] {
            assert_eq!(text.parse::<Side>().unwrap().to_string(), text);
        }
        let wrong = "zfs".parse::<Side>().unwrap_err().to_string();
        assert!(wrong.contains("zfs") && wrong.contains("ext4"), "{wrong}");
        assert_eq!("ext4".parse::<Side>().unwrap().views(), [View::AsFound]);
        assert_eq!("ffs".parse::<Side>().unwrap().views().len(), 2);
    }
}
