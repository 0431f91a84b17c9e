//! Good images have no violation. Each rule has images that break this rule only.

mod broken;
mod comparison;
mod good;
mod image;
