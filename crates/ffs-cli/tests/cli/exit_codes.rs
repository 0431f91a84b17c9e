//! The exit codes of wrong command lines that only a command itself notices. Those of options are
//! tested in `app.rs`, for every command.

use crate::common::{Dir, fails, ffs, ok};

/// Values that are out of range, with the exit codes.
const VALUES: &[(&str, i32)] = &[
    ("tunefs -m 200 IMAGE", 10),
    ("tunefs -m 5000000000 IMAGE", 10),
    ("tunefs -e 0 IMAGE", 10),
    ("tunefs -f 5000000000 IMAGE", 10),
    ("tunefs -k 5000000000 IMAGE", 10),
    ("tunefs -s 5000000000 IMAGE", 10),
    ("tunefs -L bad/label IMAGE", 10),
    ("tunefs -m x IMAGE", 10),
    ("tunefs -m -1 IMAGE", 10),
    ("tunefs -n on IMAGE", 10),
    ("tunefs -o speed IMAGE", 10),
    ("tunefs -S x -j enable IMAGE", 10),
    ("tunefs -x 1 IMAGE", 2),
    ("tunefs IMAGE -m", 2),
    ("build -m x NONE TREE", 64),
    ("build -m -1 NONE TREE", 64),
    ("tunefs -j enable -S 1 IMAGE", 10),
    ("newfs -m 200 -s 16m NONE", 1),
    ("dump -b 0 -0 -f NONE IMAGE", 1),
    ("growfs -s 17000p IMAGE", 1),
    ("build -m 200 NONE TREE", 64),
    ("build -b 1000 NONE TREE", 64),
    ("build -i 0 NONE TREE", 64),
    ("build -S 100 NONE TREE", 64),
    ("build --size 17000p NONE TREE", 64),
    ("disk create -m 200 --ufs root=TREE NONE", 64),
    ("disk create --swap 0 NONE", 64),
    ("find IMAGE -maxdepth -1", 64),
    ("find IMAGE -uid 99999999999999999999", 64),
    ("find IMAGE -printf %99999p", 64),
    ("truncate -s 17000p IMAGE:/x", 64),
    ("chmod 99999 IMAGE:/", 64),
    ("touch -t 200213010000 IMAGE:/x", 64),
    ("tree -L -1 IMAGE", 64),
    ("du -d -1 IMAGE", 64),
    // Values that the volume forbids.
    ("truncate -s 9000p IMAGE:/x", 1),
    ("build --size 64k NONE TREE", 1),
    ("debug owner IMAGE 99999999", 1),
];

#[test]
fn a_command_that_finds_its_command_line_wrong_has_the_code_of_a_wrong_option() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let (relative, slash, none) = (format!("{image}:etc"), format!("{image}/etc"), d.str("none"));
    for (args, code) in [
        (&["ls", &relative][..], 64),
        (&["ls", &slash], 64),
        (&["cat", &relative], 64),
        (&["ln", &slash, &image], 64),
        (&["find", "-name", "x"], 64),
        (&["find", &image, "-nam", "x"], 64),
        (&["stat", "-a", &image], 64),
        (&["snapshot", "mount", &image, &none], 64),
        (&["cp", &image], 64),
        (&["setfacl", &image], 64),
        (&["lab", "stress", "--only", "nonsense"], 64),
        (&["shell", &image, "-c", "ls --no-such-option"], 64),
        (&["shell", &image, "-c", "diff --no-such-option"], 2),
        (&["diff", &none, &none], 2),
        (&["diff", &relative, &none], 2),
        (&["tunefs", &image], 2),
        (&["mount", &image], 1),
        (&["newfs", "-s", "1m", "-"], 1),
        (&["fsck", "--explain", "nonsense"], 1),
        (&["edquota"], 1),
        (&["restore", "--json", "-x", "-f", &none], 1),
    ] {
        fails(args, code, "");
    }
    for (args, code) in VALUES {
        let args = args.replace("IMAGE", &image).replace("NONE", &none).replace("TREE", &d.str(""));
        fails(&args.split(' ').collect::<Vec<_>>(), *code, "");
        assert!(!d.path("none").exists(), "{args}");
    }
    let dump =
        ffs().args(["dump", "-0", "-f", &none, &image]).env("SOURCE_DATE_EPOCH", "x").output();
    assert_eq!(dump.unwrap().status.code(), Some(1));
}

#[test]
fn help_names_the_exit_code_of_a_wrong_command_line() {
    for (command, row) in [
        ("ls", "\n  64    the command line is wrong\n"),
        ("tunefs", "\n  2     the command line is wrong\n"),
        (
            "diff",
            "\n  2     trouble: something could not be compared; or the command line is wrong\n",
        ),
        ("mount", "\n  1     the command line is wrong\n"),
        ("fsck", "\n  1     the command line is wrong\n"),
    ] {
        let help = ok(&[command, "--help"]);
        assert!(help.contains(row), "{help}");
    }
    assert!(ok(&["--help"]).contains("64 if the command line is wrong"));
}
