//! Standard output and standard error: the only place that writes to them.

use std::io::{Write, stderr, stdout};

/// Writes text to standard output at once. A reader that went away, as `head` does, is no error.
pub(crate) fn say(text: &str) {
    let mut out = stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    drop(writeln!(stderr().lock(), "{text}"));
}
