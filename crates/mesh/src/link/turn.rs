//! How much one lane takes before the others get their turn (TR-53, EX-384).
//!
//! The rule speaks of a pass over the connections. Here each lane has a task of its own that reads it,
//! so a pass is one round of the runtime over the tasks that are ready, and a turn what such a task does
//! in one go. It ends after 64 records, or with the read behind which 256 KiB or 2 ms are used up. Then the
//! task goes behind all others that are ready: those run first, and so does what looks for sockets that
//! have become readable. So the next pass starts after the peer where this one stopped.
//!
//! A peer has two lanes, and the records of the other one are replies: they end requests of ours, all
//! those of one read under one lock, and are bounded by the 64 KiB of that read.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use spotlane_types::time::Monotonic;

/// Records of one turn.
pub(super) const TURN_RECORDS: u32 = 64;
/// Bytes of one turn; ours: what a lane has woken may wait on this very thread. A record that is longer is a turn of its own.
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
    /// Counts a record; true when it was the last one of the turn.
    #[inline]
    pub(super) const fn record(&mut self) -> bool {
        self.records = self.records.saturating_add(1);
        self.records >= TURN_RECORDS
    }

    /// Counts a read.
    pub(super) fn read(&mut self, now: Monotonic, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        let since = *self.since.get_or_insert(now);
        self.late = since.after(TURN_TIME) <= now;
    }

    /// Whether the others come first.
    pub(super) const fn is_over(&self) -> bool {
        self.records >= TURN_RECORDS || self.bytes >= TURN_BYTES || self.late
    }

    /// Waits for the next read. When there is something to read and the turn is over, the others come
    /// first; a lane that has to wait has ended its turn by that.
    pub(super) async fn wait<T>(&mut self, read: impl Future<Output = T>) -> T {
        let mut read = pin!(read);
        match poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
            Poll::Ready(done) => {
                if self.is_over() {
                    self.end().await;
                }
                done
            }
            Poll::Pending => {
                *self = Self::default();
                read.await
            }
        }
    }

    /// Lets everybody else run, then begins anew.
    pub(super) async fn end(&mut self) {
        *self = Self::default();
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
        assert!(!(0..63).any(|_| turn.record()));
        assert!(!turn.is_over());
        assert!(turn.record() && turn.is_over());

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

    /// TR-53: a lane that has to wait begins anew; one that has not lets the others run.
    #[tokio::test]
    async fn the_end_of_a_turn_lets_others_run() {
        let mut turn = Turn::default();
        while !turn.record() {}
        let (first, second) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let flooding = async {
            turn.wait(std::future::ready(())).await;
            first.set(second.get());
        };
        tokio::join!(flooding, async { second.set(1) });
        assert_eq!(first.get(), 1, "the other one came first");
        while !turn.record() {}
        turn.wait(tokio::task::yield_now()).await;
        assert!(!turn.is_over());
    }
}
