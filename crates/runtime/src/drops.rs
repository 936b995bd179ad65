//! Messages that go nowhere: recorded, never silent (RL-330, RL-340).

use std::fmt::Display;

use crate::error::ErrorKind;

/// Why a message was dropped; the contract's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its object is not where it was looked for, and nothing leads there.
    StaleTarget,
    /// The host is shutting down.
    Shutdown,
    /// There was no room for it in time.
    Backpressure,
}

impl Reason {
    /// The word for what a caller would have been told.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ShuttingDown => Self::Shutdown,
            ErrorKind::DeadlineExceeded => Self::Backpressure,
            _ => Self::StaleTarget,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::StaleTarget => "stale_target",
            Self::Shutdown => "shutdown",
            Self::Backpressure => "backpressure",
        }
    }
}

/// Records messages that nobody waits for.
pub(crate) fn record(reason: Reason, messages: u64, why: &dyn Display) {
    metrics::counter!("zlink.mesh_node.messages.dropped", "reason" => reason.label())
        .increment(messages);
    tracing::trace!(
        target: "spotlane::runtime::dispatch",
        surface = "actor_relocation",
        reason = reason.label(),
        messages,
        %why,
        "zlink.message_flow"
    );
}
