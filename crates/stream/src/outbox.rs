//! What waits to be written to one client: whole frames (ST-179), bounded by bytes, and waited for in order (ST-149).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::error::SendError;

/// The queue between senders and the one task of the connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Protects the queue; a leaf, held for a push or a pop.
    queue: Mutex<Queue>,
    /// Bytes that senders may still put in.
    room: Semaphore,
    budget: u32,
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Bytes of entries that did not wait for room.
    unpaid: usize,
    /// Nothing is taken any more.
    closed: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Entry {
    bytes: Bytes,
    /// What it has taken of the room.
    paid: u32,
}

impl Outbox {
    pub(crate) fn new(budget: u32) -> Self {
        let room = usize::try_from(budget).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            queue: Mutex::default(),
            room: Semaphore::new(room),
            budget,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room and takes a place in line.
    ///
    /// Cancel safe: dropped before it completed, nothing is sent.
    pub(crate) async fn send(&self, bytes: Bytes, timeout: Duration) -> Result<(), SendError> {
        // A frame larger than the whole room needs all of it.
        let paid = u32::try_from(bytes.len())
            .unwrap_or(u32::MAX)
            .min(self.budget);
        let room = tokio::time::timeout(timeout, self.room.acquire_many(paid)).await;
        let Ok(room) = room else {
            return Err(SendError::DeadlineExceeded(timeout));
        };
        let room = room.map_err(|_| SendError::Closed)?;
        let mut queue = self.lock();
        if queue.closed {
            return Err(SendError::Closed);
        }
        room.forget();
        queue.entries.push_back(Entry { bytes, paid });
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Takes a place in line without waiting, as long as what came in this way stays within the budget.
    pub(crate) fn send_now(&self, bytes: Bytes) -> Result<(), SendError> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(SendError::Closed);
        }
        let unpaid = queue.unpaid.saturating_add(bytes.len());
        let budget = usize::try_from(self.budget).unwrap_or(usize::MAX);
        if unpaid > budget && queue.unpaid > 0 {
            return Err(SendError::DeadlineExceeded(Duration::ZERO));
        }
        queue.unpaid = unpaid;
        queue.entries.push_back(Entry { bytes, paid: 0 });
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The next frame; remembers whom to wake when there is none.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Bytes> {
        let mut queue = self.lock();
        let Some(entry) = queue.entries.pop_front() else {
            if !queue.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
                queue.waker = Some(waker.clone());
            }
            return None;
        };
        if entry.paid == 0 {
            queue.unpaid = queue.unpaid.saturating_sub(entry.bytes.len());
        }
        drop(queue);
        self.room
            .add_permits(usize::try_from(entry.paid).unwrap_or(0));
        Some(entry.bytes)
    }

    /// Takes nothing more; who waits for room ends. What is queued is still given out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.room.close();
    }

    /// Forgets what is queued.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut self.lock().entries);
        drop(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes])
    }

    /// ST-149
    #[tokio::test(start_paused = true)]
    async fn a_full_queue_makes_senders_wait_and_gives_up_in_time() {
        let outbox = Outbox::new(10);
        let timeout = Duration::from_secs(1);
        outbox.send(frame(8), timeout).await.unwrap();
        let late = outbox.send(frame(8), timeout).await;
        assert_eq!(late, Err(SendError::DeadlineExceeded(timeout)));
        let waiting = outbox.send(frame(8), timeout);
        tokio::pin!(waiting);
        assert!(futures_now(waiting.as_mut()).is_none());
        assert_eq!(outbox.take(Waker::noop()).unwrap().len(), 8);
        waiting.await.unwrap();
    }

    /// ST-149
    #[tokio::test]
    async fn a_frame_above_the_room_goes_alone_and_pushes_have_a_bound_of_their_own() {
        let outbox = Outbox::new(10);
        outbox.send(frame(100), Duration::ZERO).await.unwrap();
        outbox.send_now(frame(10)).unwrap();
        assert!(outbox.send_now(frame(1)).is_err());
        outbox.close();
        assert_eq!(outbox.send_now(frame(1)), Err(SendError::Closed));
        assert_eq!(outbox.take(Waker::noop()).unwrap().len(), 100);
        assert_eq!(outbox.take(Waker::noop()).unwrap().len(), 10);
        assert_eq!(outbox.take(Waker::noop()), None);
    }

    fn futures_now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut cx = std::task::Context::from_waker(Waker::noop());
        match future.poll(&mut cx) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
