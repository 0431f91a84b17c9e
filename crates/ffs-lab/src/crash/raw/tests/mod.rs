//! Good images are silent, and every rule has images that break it and nothing else.

mod broken;
mod good;
mod image;
mod twin;
