//! Only a test, which makes `bindings/c/include/ffs.h` and compares it with the committed file.
//!
//! It is a package of its own because cbindgen would change the features of packages that the
//! libraries use, so that these would be compiled twice.
