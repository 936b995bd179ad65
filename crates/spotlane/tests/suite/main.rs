//! Hosts as an application sees them: on real sockets, with the stores in memory.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the setting"
)]

mod app;
mod moves;
mod one_host;
mod stress;
mod two_hosts;
