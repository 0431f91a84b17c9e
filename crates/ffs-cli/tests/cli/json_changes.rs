//! `--json` of the commands that change files: one object for each file, before and after.

use serde_json::Value;

use crate::common::{Dir, fails, ffs, fsck_clean, json_lines, ok, run, text};

/// The attributes that `ffs stat` prints, in the form of `before` and `after`.
fn stat(path: &str) -> Value {
    let all: Value = json_lines(&ok(&["stat", "--json", path]));
    let mut file = all[0].clone();
    for key in ["path", "target", "xattrs"] {
        file.as_object_mut().unwrap().remove(key);
    }
    file
}

/// Runs `ffs ARGS...` and checks the only object that it prints against `ffs stat`.
fn changed(args: &[&str], path: &str, (was, is): (&str, &str)) -> Value {
    let before = run(&["stat", was]).status.success().then(|| stat(was));
    let printed = ok(args);
    let all: Vec<Value> = json_lines(&printed);
    let [object] = &all[..] else { panic!("{args:?}: {printed}") };
    let after = run(&["stat", is]).status.success().then(|| stat(is));
    let null = Value::Null;
    assert_eq!(object["path"]["name"], path, "{args:?}");
    assert_eq!(&object["before"], before.as_ref().unwrap_or(&null), "{args:?}");
    assert_eq!(&object["after"], after.as_ref().unwrap_or(&null), "{args:?}");
    let inode = &after.or(before).unwrap()["inode"];
    assert_eq!(&object["inode"], inode, "{args:?}");
    object.clone()
}

#[test]
fn each_change_is_an_object_with_the_file_before_and_after() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    ok(&["tunefs", "-a", "enable", &image]);
    let at = |path: &str| format!("{image}:{path}");
    let (f, dir, g, link) = (at("/f"), at("/dir"), at("/dir/g"), at("/link"));
    let here = |args: &[&str], path: &str| changed(args, path, (&at(path), &at(path)));
    here(&["touch", "--json", &f], "/f");
    here(&["touch", "--json", "-d", "@5", &f], "/f");
    here(&["truncate", "--json", "-s", "5000", &f], "/f");
    assert_eq!(here(&["truncate", "--json", "-s", "6000", &f], "/f")["before"]["size"], 5000);
    let mode = here(&["chmod", "--json", "751", &f], "/f");
    assert_eq!((&mode["after"]["mode"], &mode["changed"]), (&"0751".into(), &true.into()));
    assert_eq!(here(&["chmod", "--json", "751", &f], "/f")["changed"], false);
    assert_eq!(here(&["chown", "--json", "7:8", &f], "/f")["after"]["gid"], 8);
    assert_eq!(here(&["chflags", "--json", "nodump", &f], "/f")["after"]["flags"], "nodump");
    let acl = here(&["setfacl", "--json", "-m", "u:7:r", &f], "/f");
    assert!(acl["acl"]["after"].as_str().unwrap().contains("user:7:r--"), "{acl}");
    assert!(!acl["acl"]["before"].as_str().unwrap().contains("user:7"), "{acl}");
    here(&["xattr", "set", "--json", "user.n", "ab", &f], "/f");
    let value = here(&["xattr", "set", "--json", "user.n", "c", &f], "/f");
    assert_eq!(value["attribute"]["before_hex"], "6162");
    assert_eq!(value["attribute"]["after_hex"], "63");
    let value = here(&["xattr", "rm", "--json", "user.n", &f], "/f");
    assert_eq!(
        (&value["attribute"]["name"]["name"], &value["changed"]),
        (&"n".into(), &true.into())
    );
    assert_eq!(value["attribute"]["after_hex"], Value::Null);
    here(&["mkdir", "--json", &dir], "/dir");
    here(&["ln", "--json", "-s", "f", &link], "/link");
    here(&["ln", "--json", &f, &g], "/dir/g");
    let moved = changed(&["mv", "--json", &f, &dir], "/f", (&f, &at("/dir/f")));
    assert_eq!((&moved["to"]["name"], &moved["changed"]), (&"/dir/f".into(), &true.into()));
    // Two names of one file: rename(2) does nothing.
    assert_eq!(ok(&["mv", "--json", &at("/dir/f"), &g]), "");
    here(&["rm", "--json", &link], "/link");
    ok(&["mkdir", &at("/dir/inner"), &at("/dir/inner/low")]);
    let printed = ok(&["rm", "-r", "--json", &dir]);
    let removed: Vec<Value> = json_lines(&printed);
    let names: Vec<&Value> = removed.iter().map(|line| &line["path"]["name"]).collect();
    let expected = ["/dir/f", "/dir/g", "/dir/inner/low", "/dir/inner", "/dir"];
    assert_eq!(names, expected, "each file before its directory");
    assert_eq!(removed[3]["before"]["nlink"], 3, "before it was emptied");
    assert!(removed.iter().all(|line| line["after"].is_null() && line["before"].is_object()));
    fsck_clean(image.as_ref());
}

#[test]
fn what_fails_is_on_standard_error_and_the_others_are_printed() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", "-p", &at("/t/u")]);
    ok(&["touch", &at("/t/f"), &at("/t/u/g")]);
    let output = run(&["chmod", "-R", "--json", "700", &at("/none"), &at("/t")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("/none: no such file"), "{}", text(&output));
    let lines: Vec<Value> = json_lines(&String::from_utf8_lossy(&output.stdout));
    let names: Vec<&Value> = lines.iter().map(|line| &line["path"]["name"]).collect();
    assert_eq!(names, ["/t", "/t/f", "/t/u", "/t/u/g"]);
    for args in [
        &["touch", "--json", &at("/none/x"), &at("/t/f")][..],
        &["truncate", "--json", "-s", "1", &at("/t"), &at("/t/f")],
        &["mkdir", "--json", &at("/t/f"), &at("/new")],
        &["mv", "--json", &at("/none"), &at("/t/f"), &at("/t/u")],
        &["xattr", "set", "--json", "user.n", "v", &at("/none"), &at("/t/u/f")],
        &["rm", "--json", &at("/none"), &at("/t/u/f")],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output));
        let lines: Vec<Value> = json_lines(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(lines.len(), 1, "{args:?}: {}", text(&output));
    }
    fails(&["ln", "--json", &at("/none"), &at("/x")], 1, "/none: no such file");
    fsck_clean(image.as_ref());
}

#[test]
fn an_edit_is_an_object_too() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let file = format!("{image}:/f");
    for (editor, is_changed, size) in
        [("echo one >", true, 4), ("true", false, 4), ("echo longer >", true, 7)]
    {
        let run = ffs().args(["edit", "--json", "-e", editor, &file]).output().unwrap();
        assert!(run.status.success(), "{}", text(&run));
        let all: Value = json_lines(&String::from_utf8_lossy(&run.stdout));
        assert_eq!(
            (&all[0]["changed"], &all[0]["after"]["size"]),
            (&is_changed.into(), &size.into())
        );
        assert_eq!(all[0]["after"], stat(&file));
    }
}
