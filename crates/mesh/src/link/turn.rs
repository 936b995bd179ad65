//! How much one lane takes before the others get their turn (TR-53, EX-384).
//!
//! The rule speaks of a pass over the connections. Here each lane has a task of its own that reads it,
//! so a pass is one round of the runtime over the tasks that are ready, and a turn what such a task does
//! in one go. It ends after 64 records, or with the read behind which 256 KiB or 2 ms are used up. Then
//! the task goes behind all others that are ready: those run first, and so does what looks for sockets
//! that have become readable. So the next pass starts after the peer where this one stopped.
//!
//! A peer has two lanes, and the records of the other one are replies: they end requests of ours, all
//! those of one read under one lock, and are bounded by the 124 KiB of that read. A node with a single
//! link has nobody to let pass within a read.

use std::time::Duration;

use spotlane_types::time::Monotonic;

/// Records of one turn.
pub(super) const TURN_RECORDS: u32 = 64;
/// Bytes of one turn; ours. What a lane has woken may wait on the very thread that reads on.
const TURN_BYTES: usize = 256 * 1024;
/// The time of one turn; ours.
const TURN_TIME: Duration = Duration::from_millis(2);

/// What is used of a turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    records: u32,
    bytes: usize,
    /// The first read of the turn.
    since: Option<Monotonic>,
    late: bool,
}

impl Turn {
    /// Counts a record.
    #[inline]
    pub(super) const fn record(&mut self) {
        self.records = self.records.saturating_add(1);
    }

    /// Whether the last record was that of the turn.
    #[inline]
    pub(super) const fn has_no_record_left(&self) -> bool {
        self.records >= TURN_RECORDS
    }

    /// Counts a read.
    pub(super) fn read(&mut self, now: Monotonic, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        let since = *self.since.get_or_insert(now);
        self.late = since.after(TURN_TIME) <= now;
    }

    /// Whether the others come first before more is read. A lane that has to wait for it has ended its
    /// turn by that.
    pub(super) const fn is_over(&self) -> bool {
        self.has_no_record_left() || self.bytes >= TURN_BYTES || self.late
    }

    /// Lets everybody else run, then begins anew.
    ///
    /// Twice, because the runtime wakes those that yield last first: of two lanes that flood, the one that has just had
    /// its turn would have the next one too. The second time turns the order round again.
    pub(super) async fn end(&mut self) {
        *self = Self::default();
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Monotonic {
        Monotonic::ORIGIN.after(Duration::from_micros(micros))
    }

    /// TR-53
    #[test]
    fn a_turn_ends_by_records_bytes_or_time() {
        let mut turn = Turn::default();
        for _ in 0..63 {
            turn.record();
            assert!(!turn.is_over());
        }
        turn.record();
        assert!(turn.has_no_record_left() && turn.is_over());

        let mut turn = Turn::default();
        turn.read(at(0), TURN_BYTES - 1);
        assert!(!turn.is_over());
        turn.read(at(1), 1);
        assert!(turn.is_over());

        let mut turn = Turn::default();
        turn.read(at(5), 1);
        turn.read(at(2004), 1);
        assert!(!turn.is_over());
        turn.read(at(2005), 1);
        assert!(turn.is_over());
    }

    /// TR-53: whoever is ready comes first.
    #[tokio::test]
    async fn the_end_of_a_turn_lets_others_run() {
        let mut turn = Turn::default();
        while !turn.is_over() {
            turn.record();
        }
        let (first, second) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let flooding = async {
            turn.end().await;
            first.set(second.get());
        };
        tokio::join!(flooding, async { second.set(1) });
        assert_eq!(first.get(), 1, "the other one came first");
        assert!(!turn.is_over());
    }
}
