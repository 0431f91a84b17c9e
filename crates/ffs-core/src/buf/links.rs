//! The links of a block in a doubly linked list.

use crate::openhash::{ItemId, NIL};

/// The neighbours of a block in a list; [`NIL`] at the ends.
#[derive(Clone, Copy)]
pub(super) struct Links {
    pub(super) prev: ItemId,
    pub(super) next: ItemId,
}

impl Default for Links {
    fn default() -> Links {
        Links { prev: NIL, next: NIL }
    }
}
