//! What is counted of a client that makes a lost connection again (ST-176).

use std::sync::atomic::{AtomicU64, Ordering};

use spotlane_stream_proto::connector::AttemptError;

/// How an attempt after a loss ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-176")]
pub enum ReconnectOutcome {
    /// The connection is there.
    Connected,
    /// It is not.
    Failed,
    /// It was given up for another attempt.
    Cancelled,
    /// The client was closed meanwhile.
    Shutdown,
}

/// Why it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-176")]
pub enum ReconnectReason {
    /// The connection ended.
    TransportClosed,
    /// The attempt before it found nobody.
    ConnectFailed,
    /// The attempt before it met a certificate that is not accepted.
    TlsFailed,
    /// The attempt before it took too long.
    Timeout,
    /// The application asked for it.
    Requested,
}

const OUTCOMES: [(ReconnectOutcome, &str); 4] = [
    (ReconnectOutcome::Connected, "connected"),
    (ReconnectOutcome::Failed, "failed"),
    (ReconnectOutcome::Cancelled, "cancelled"),
    (ReconnectOutcome::Shutdown, "shutdown"),
];

const REASONS: [(ReconnectReason, &str); 5] = [
    (ReconnectReason::TransportClosed, "transport_closed"),
    (ReconnectReason::ConnectFailed, "connect_failed"),
    (ReconnectReason::TlsFailed, "tls_failed"),
    (ReconnectReason::Timeout, "timeout"),
    (ReconnectReason::Requested, "requested"),
];

impl From<&AttemptError> for ReconnectReason {
    fn from(error: &AttemptError) -> Self {
        match error {
            AttemptError::Timeout(_) => Self::Timeout,
            AttemptError::Tls(_) => Self::TlsFailed,
            _ => Self::ConnectFailed,
        }
    }
}

/// The attempts of one client after losses, by outcome and reason; counted in `zlink.stream.reconnects` as well.
#[derive(Debug)]
pub struct Reconnects {
    transport: &'static str,
    counts: [[AtomicU64; REASONS.len()]; OUTCOMES.len()],
}

impl Reconnects {
    pub(crate) fn new(transport: &'static str) -> Self {
        Self {
            transport,
            counts: Default::default(),
        }
    }

    /// How many ended so and were made for that reason.
    pub fn count(&self, outcome: ReconnectOutcome, reason: ReconnectReason) -> u64 {
        self.cells()
            .filter(|(found, why, _)| *found == outcome && *why == reason)
            .map(|(_, _, count)| count.load(Ordering::Relaxed))
            .sum()
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.cells()
            .map(|(_, _, count)| count.load(Ordering::Relaxed))
            .sum()
    }

    pub(crate) fn add(&self, outcome: ReconnectOutcome, reason: ReconnectReason) {
        for (found, why, count) in self.cells() {
            if found == outcome && why == reason {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        let outcome = OUTCOMES.iter().find(|(found, _)| *found == outcome);
        let reason = REASONS.iter().find(|(why, _)| *why == reason);
        if let (Some((_, outcome)), Some((_, reason))) = (outcome, reason) {
            metrics::counter!(
                "zlink.stream.reconnects",
                "transport" => self.transport, "outcome" => *outcome, "reason" => *reason
            )
            .increment(1);
        }
    }

    fn cells(&self) -> impl Iterator<Item = (ReconnectOutcome, ReconnectReason, &AtomicU64)> {
        let rows = OUTCOMES.iter().zip(&self.counts);
        rows.flat_map(|((outcome, _), row)| {
            let cells = REASONS.iter().zip(row);
            cells.map(|((reason, _), count)| (*outcome, *reason, count))
        })
    }
}

/// Where a client stands between a loss and the next connection.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Why the next attempt is made; `None` before the first loss and while connected.
    why: Option<ReconnectReason>,
    /// The attempt that runs.
    running: Option<ReconnectReason>,
}

impl Progress {
    pub(crate) const fn lost(&mut self) {
        self.why = Some(ReconnectReason::TransportClosed);
    }

    /// The application connects by hand; means something after a loss only.
    pub(crate) const fn requested(&mut self) {
        if self.why.is_some() && self.running.is_none() {
            self.why = Some(ReconnectReason::Requested);
        }
    }

    pub(crate) const fn attempt(&mut self) {
        self.running = self.why;
    }

    pub(crate) fn attempted(&mut self, result: Result<(), &AttemptError>, counts: &Reconnects) {
        let Some(reason) = self.running.take() else {
            return;
        };
        let (outcome, next) = match result {
            Ok(()) => (ReconnectOutcome::Connected, None),
            Err(error) => (ReconnectOutcome::Failed, Some(error.into())),
        };
        self.why = next;
        counts.add(outcome, reason);
    }

    pub(crate) fn abandoned(&mut self, outcome: ReconnectOutcome, counts: &Reconnects) {
        if let Some(reason) = self.running.take() {
            counts.add(outcome, reason);
        }
    }
}
