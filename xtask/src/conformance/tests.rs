//! The command on real and on broken files.


#[test]
fn placeholder() {}
