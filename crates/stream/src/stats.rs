//! What a server counts (ST-158).

use std::sync::atomic::{AtomicU64, Ordering};

use spotlane_stream_proto::CloseReason;

const REASONS: [CloseReason; 6] = [
    CloseReason::ClientClose,
    CloseReason::IdleTimeout,
    CloseReason::HeartbeatTimeout,
    CloseReason::ServerDrain,
    CloseReason::ProtocolError,
    CloseReason::TransportError,
];

/// Counters of one server. They only rise, but for what is active.
#[derive(Debug, Default)]
pub struct StreamStats {
    active: AtomicU64,
    opened: AtomicU64,
    closed: [AtomicU64; REASONS.len()],
    refused: AtomicU64,
    handshakes_failed: AtomicU64,
    unexpected: AtomicU64,
    failed_sends: AtomicU64,
    discarded: AtomicU64,
    pushes_dropped: AtomicU64,
}

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident, $count:ident;)+) => {$(
        $(#[$meta])*
        pub fn $name(&self) -> u64 {
            self.$name.load(Ordering::Relaxed)
        }

        pub(crate) fn $count(&self) {
            self.$name.fetch_add(1, Ordering::Relaxed);
        }
    )+};
}

impl StreamStats {
    counters! {
        /// `zlink.stream.connections.opened`
        opened, count_opened;
        /// Connections above the limit or while draining.
        refused, count_refused;
        /// TLS handshakes and upgrades that failed: they have no session (ST-145).
        handshakes_failed, count_handshake_failed;
        /// Replies of clients, which are dispatched to nobody (ST-146).
        unexpected, count_unexpected;
        /// One-way packets whose handler failed (ST-148).
        failed_sends, count_failed_send;
        /// Packets that came after the last application turn (EX-111).
        discarded, count_discarded;
        /// Pushes that found no room (RL-330).
        pushes_dropped, count_push_dropped;
    }

    /// `zlink.stream.connections.active`
    pub fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// `zlink.stream.connections.closed` of one `close_reason`.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        let counted = self.closed.iter().zip(REASONS);
        let mut counted = counted.filter(|(_, counted)| *counted == reason);
        counted
            .next()
            .map_or(0, |(count, _)| count.load(Ordering::Relaxed))
    }

    pub(crate) fn session_opened(&self) {
        self.count_opened();
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_closed(&self, reason: CloseReason) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        for (count, counted) in self.closed.iter().zip(REASONS) {
            if counted == reason {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
