//! The commands, one file each: arguments, the calls of the libraries, and output.

pub(crate) mod build;
pub(crate) mod cat;
pub(crate) mod change;
pub(crate) mod chflags;
pub(crate) mod chmod;
pub(crate) mod chown;
pub(crate) mod completions;
pub(crate) mod cp;
pub(crate) mod debug;
pub(crate) mod demo;
pub(crate) mod df;
pub(crate) mod diff;
pub(crate) mod disk;
pub(crate) mod du;
pub(crate) mod dump;
pub(crate) mod dumpfs;
pub(crate) mod edit;
pub(crate) mod edquota;
pub(crate) mod find;
pub(crate) mod fsck;
pub(crate) mod getfacl;
pub(crate) mod growfs;
pub(crate) mod info;
#[cfg(feature = "lab")]
pub(crate) mod lab;
#[cfg(not(feature = "lab"))]
#[path = "lab_elsewhere.rs"]
pub(crate) mod lab;
pub(crate) mod ln;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mkdir;
pub(crate) mod mount;
pub(crate) mod mv;
pub(crate) mod newfs;
pub(crate) mod quota;
pub(crate) mod quotacheck;
pub(crate) mod quotaoff;
pub(crate) mod quotaon;
pub(crate) mod repquota;
pub(crate) mod restore;
pub(crate) mod rm;
pub(crate) mod serve;
pub(crate) mod setfacl;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod stat;
pub(crate) mod sysctl;
pub(crate) mod tar;
pub(crate) mod touch;
pub(crate) mod tree;
pub(crate) mod truncate;
pub(crate) mod tunefs;
pub(crate) mod umount;
pub(crate) mod undelete;
pub(crate) mod xattr;

/// What `--help` and the manual page add to the options.
pub(crate) struct Doc {
    /// Example commands with a description of each.
    pub examples: &'static [(&'static str, &'static str)],
    /// Exit codes with the meaning of each, except that of a wrong command line.
    pub exit: &'static [(&'static str, &'static str)],
    /// Related pages.
    pub see_also: &'static [&'static str],
    /// Section of the manual.
    pub section: &'static str,
    /// Exit code of a wrong command line: 64 (`EX_USAGE`), but that of BSD's program for its
    /// administration programs, and 2 for diff(1).
    pub usage_code: u8,
}

/// Exit codes of most commands.
pub(crate) const EXIT: &[(&str, &str)] = &[
    ("0", "the command succeeded"),
    ("1", "something failed; standard error has a line for each failure"),
    ("130", "interrupted by a signal; the image was unmounted cleanly"),
];

impl Doc {
    /// The exit codes with the meaning of each, also that of a wrong command line.
    pub(crate) fn exit_rows(&self) -> Vec<(String, String)> {
        const WRONG: &str = "the command line is wrong";
        let mut rows: Vec<(String, String)> =
            self.exit.iter().map(|(code, what)| ((*code).to_owned(), (*what).to_owned())).collect();
        let number = |code: &str| code.parse::<u8>().unwrap_or(u8::MAX);
        match rows.iter_mut().find(|(code, _)| number(code) == self.usage_code) {
            Some((_, what)) => what.push_str(&format!("; or {WRONG}")),
            None => {
                let at = rows.partition_point(|(code, _)| number(code) < self.usage_code);
                rows.insert(at, (self.usage_code.to_string(), WRONG.to_owned()));
            }
        }
        rows
    }

    /// The text below the options of `--help`.
    pub(crate) fn help(&self) -> String {
        let mut text = String::from("Examples:\n");
        for (command, what) in self.examples {
            text.push_str(&format!("  {command}\n      {what}\n"));
        }
        text.push_str("\nExit status:\n");
        for (code, what) in self.exit_rows() {
            text.push_str(&format!("  {code:<5} {what}\n"));
        }
        text.push_str(&format!("\nSee also: {}", self.see_also.join(", ")));
        text
    }
}
