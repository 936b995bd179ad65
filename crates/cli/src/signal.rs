//! Being told to stop: Ctrl-C and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, caught from the moment it is made.
#[derive(Debug)]
pub(crate) struct Interrupt {
    int: Signal,
    term: Signal,
}

impl Interrupt {
    /// Catches them from here on.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
        })
    }

    /// Completes at the next one.
    ///
    /// # Cancel safety
    /// None is lost.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}
