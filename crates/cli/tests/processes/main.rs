//! The program as processes: called, served by nodes on a real Redis, killed.
//!
//! One binary, because building and linking it takes longer than most of its tests.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are no tests themselves"
)]

mod cluster;
mod common;
mod demo;
mod judge;
mod kills;
mod program;
mod seals;
mod sessions;
