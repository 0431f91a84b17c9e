//! Gives the shared library its name for the loader: a change of the interface changes the number.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libffs.so.0");
}
