//! wip
pub mod acl;
mod placeholder;

/// A file in use: keeps it alive even when its last name is gone.
#[derive(Clone, Debug)]
pub struct Vnode {}
