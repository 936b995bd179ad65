//! The command on real and on broken files.

use super::*;

#[test]
fn placeholder() {}
