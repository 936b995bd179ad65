//! Entry points of the fuzz targets.

pub mod entry;
pub mod stream;
