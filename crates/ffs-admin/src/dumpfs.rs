//! Shows what is on a volume.
