//! The C library `libffs`: the library [`bsdffs`] behind functions with C's calling convention.
//!
//! `cbindgen.toml` has the text at the head of `include/ffs.h`: results, ownership, threads.
//!
//! # Invariants
//! 1. No panic crosses the boundary: `handle::call` catches it, and the caller gets `-EIO`.
//! 2. Every pointer from the caller is compared with NULL before it is used.
//! 3. A buffer of the caller is written before a slice of it is made, because C does not initialise
//!    memory.
//!
//! # Safety
//! Callers in C keep the contract of `include/ffs.h`: a pointer to text ends with NUL, a buffer has
//! the size that is given with it, and a handle is one that this library returned and that was not
//! given back. All functions have this contract and no other.
//!
//! | module | content |
//! | --- | --- |
//! | `handle` | calls that catch panics and record failures |
//! | `pointer` | text, buffers and results of the caller |
//! | `types` | structures and constants |
//! | `volume` | opening, closing, making and checking volumes |
//! | `names` | changes of names; directories |
//! | `attributes` | attributes, extended attributes |
//! | `file` | open files |
#![allow(unsafe_code, reason = "the boundary to C is pointers; each use gives its reason")]
#![allow(non_camel_case_types, reason = "the names of types are those of C")]
#![allow(clippy::missing_safety_doc, reason = "the text of this module has the contract")]

pub mod attributes;
pub mod file;
mod handle;
pub mod names;
mod pointer;
pub mod types;
pub mod volume;
