//! Real Redis or Valkey servers for tests. No mock, and no test that is skipped because there is no server.
//!
//! Test layer. [`ensure_installed`] finds a server program or installs one where it may. The others start throw-away
//! servers on free loopback ports: [`Server`], [`Cluster`], [`Sentinel`], [`TlsServer`]. Each is stopped by its pid when
//! it is dropped, and also when the test process dies; no other process is ever touched.

mod client;
mod forms;
mod install;
mod server;

pub use client::{Client, Reply};
pub use forms::{Cluster, Sentinel, TlsServer};
pub use install::ensure_installed;
pub use server::Server;

/// Why there is no server, or no answer from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// No program was found and none could be installed.
    #[error(
        "tests of the store need a Redis 7 or Valkey server: install redis-server or valkey-server so that it is on \
         the path ({reason})"
    )]
    NotInstalled {
        /// Why it was not installed for you.
        reason: String,
    },
    /// It did not start.
    #[error("the server did not start: {reason}")]
    NotStarted {
        /// The last thing it said.
        reason: String,
    },
    /// It answered with an error.
    #[error("the server refused: {answer}")]
    Refused {
        /// Its answer.
        answer: String,
    },
    /// The connection failed.
    #[error("the connection to the server failed")]
    Io(#[from] std::io::Error),
}
