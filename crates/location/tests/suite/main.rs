//! The location repository against real and faulty stores. One program, so that it is linked once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers outside of test functions"
)]

mod aggregate;
mod authority;
mod directory;
mod golden;
mod host;
mod lease;
mod malformed;
mod model;
mod moves;
mod progress;
mod race;
mod record;
mod recorder;
mod unit;
