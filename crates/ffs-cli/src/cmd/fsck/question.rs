//! The description of an inode, and the questions of fsck.
//!
//! As in BSD, fsck prints owner, mode, size and time before it asks for a repair: an inode number
//! is not enough for a decision. Owners are printed as numbers, with the name on this computer if
//! there is one.

use std::io::{self, Write};

use ffs_admin::fsck::{Answer, Finding, InodeAttrs, Phase};
use ffs_ondisk::{FileType, Timespec};

use crate::fail::show;
use crate::{output, progress, signals};

/// Describes the inodes of a finding, two lines each, beginning with `prefix`.
pub(super) fn describe(finding: &Finding, prefix: &str, out: &mut dyn Write) -> io::Result<()> {
    if let Some(inode) = &finding.inode {
        inode_lines(inode, "", finding.path.as_deref(), prefix, out)?;
    }
    if let Some(target) = &finding.target {
        inode_lines(target, "NAMES ", finding.entry_path().as_deref(), prefix, out)?;
    }
    Ok(())
}

fn inode_lines(
    inode: &InodeAttrs,
    role: &str,
    path: Option<&str>,
    prefix: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let InodeAttrs { ino, uid, gid, mode, nlink, size, mtime } = *inode;
    let (owner, group) = (user(uid), group(gid));
    let mode_text = mode_text(mode);
    writeln!(
        out,
        "{prefix}  {role}I={ino}  OWNER={uid}{owner} GROUP={gid}{group} MODE={mode:o} \
         ({mode_text}) LINKS={nlink}"
    )?;
    let time = output::time(Timespec { secs: mtime, nsec: 0 }, false);
    let what = if FileType::of_mode(mode) == Some(FileType::Directory) { "DIR" } else { "FILE" };
    let path = path.map_or_else(|| "?".to_owned(), show);
    writeln!(out, "{prefix}  SIZE={size} MTIME={time} UTC {what}={path}")
}

/// The mode as `ls` shows it.
fn mode_text(mode: u16) -> String {
    match FileType::of_mode(mode) {
        Some(kind) => output::mode_string(kind, mode & 0o7777),
        None if mode == 0 => "unallocated".to_owned(),
        None => output::mode_string(FileType::Regular, mode & 0o7777).replacen('-', "?", 1),
    }
}

/// The name of a user of this computer, in parentheses.
fn user(uid: u32) -> String {
    let found = uzers::get_user_by_uid(uid);
    found.map_or_else(String::new, |user| format!("({})", user.name().display()))
}

/// The name of a group of this computer, in parentheses.
fn group(gid: u32) -> String {
    let found = uzers::get_group_by_gid(gid);
    found.map_or_else(String::new, |group| format!("({})", group.name().display()))
}

/// Reads the answers from standard input.
pub(super) fn operator() -> impl FnMut(&Finding) -> Answer + Send {
    let mut phase: Option<Phase> = None;
    move |finding| {
        if phase.replace(finding.phase) != Some(finding.phase) {
            progress::suspend(|| {
                let _ = writeln!(io::stderr(), "** {}", finding.phase);
            });
        }
        ask(finding)
    }
}

/// Asks about one finding.
fn ask(finding: &Finding) -> Answer {
    loop {
        progress::suspend(|| {
            let mut text = Vec::new();
            // Writes to memory cannot fail. Without a visible prompt the answer is no answer, too.
            let _ = writeln!(text, "{finding}");
            let _ = describe(finding, "", &mut text);
            let _ = write!(text, "REPAIR? [y/n/a(ll)/q(uit)] ");
            let _ = io::stderr().write_all(&text);
        });
        let Some(answer) = signals::read_line() else {
            return if signals::interrupted() { Answer::Quit } else { Answer::NoToAll };
        };
        match answer.trim() {
            "y" | "Y" | "yes" => return Answer::Yes,
            "n" | "N" | "no" => return Answer::No,
            "a" | "A" | "all" => return Answer::YesToAll,
            "q" | "Q" | "quit" => return Answer::Quit,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_all_kinds() {
        assert_eq!(mode_text(0o100_644), "-rw-r--r--");
        assert_eq!(mode_text(0o041_777), "drwxrwxrwt");
        assert_eq!(mode_text(0), "unallocated");
        assert_eq!(mode_text(0o170_600), "?rw-------");
    }

    #[test]
    fn owners_have_a_name_where_the_host_has_one() {
        assert_eq!(user(0), "(root)");
        assert_eq!(user(4_000_000_001), "");
    }

    #[test]
    fn lines_describe_an_inode() {
        let inode = InodeAttrs {
            ino: 5,
            uid: 0,
            gid: 4_000_000_002,
            mode: 0o104_755,
            nlink: 3,
            size: 70_000,
            mtime: 1_234_567_890,
        };
        let mut text = Vec::new();
        inode_lines(&inode, "", Some("/a\u{1b}b"), "x: ", &mut text).unwrap();
        let expected = "x:   I=5  OWNER=0(root) GROUP=4000000002 MODE=104755 (-rwsr-xr-x) LINKS=3\n\
                        x:   SIZE=70000 MTIME=2009-02-13 23:31 UTC FILE=/a\\x1bb\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        let mut text = Vec::new();
        inode_lines(&InodeAttrs { mode: 0o040_700, ..inode }, "NAMES ", None, "", &mut text)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("  NAMES I=5 ") && text.ends_with(" DIR=?\n"), "{text}");
    }
}
