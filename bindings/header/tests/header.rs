//! `bindings/c/include/ffs.h` is what cbindgen makes of the sources.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::Path;

#[test]
fn the_committed_header_is_current() {
    let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../c");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut header = Vec::new();
    made.write(&mut header);
    let header = String::from_utf8(header).unwrap();
    let path = root.join("include/ffs.h");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("FFS_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &header).unwrap();
        return;
    }
    assert!(
        header == committed,
        "include/ffs.h is old; FFS_UPDATE_HEADER=1 cargo test -p ffs-header writes it"
    );
}
