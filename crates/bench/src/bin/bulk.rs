//! Bulk.

fn main() {}
