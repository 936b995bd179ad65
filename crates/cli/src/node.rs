//! `spotlane node`: one host as a process.

/// What a node writes to standard output when it takes work, after the lines with its endpoints.
pub(crate) const READY_LINE: &str = "ready";
