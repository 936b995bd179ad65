//! Hosts as an application sees them: on real sockets, with the stores in memory.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are not covered by the setting"
)]
#![expect(
    clippy::unused_async,
    reason = "handlers are async whether or not they wait"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test is its own owner: it awaits what it spawns"
)]
#![expect(clippy::similar_names, reason = "hosts are called a, b and c")]

mod app;
mod capacity;
mod creations;
mod entry_spots;
mod faults;
mod hostile;
mod joins;
mod journeys;
mod left_behind;
mod moves;
mod one_host;
mod players;
mod promises;
mod proxy;
mod replies;
mod returns;
mod session_attacks;
mod session_ends;
mod session_forgeries;
mod session_leaks;
mod session_promises;
mod session_routes;
mod session_wire;
mod sessions;
mod stress;
mod tap;
mod transfer;
mod two_hosts;
