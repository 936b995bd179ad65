//! What became of a record that was taken.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// What became of a record after it was taken (TR-94).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-94")]
pub enum Written {
    /// The socket took all its bytes. It says nothing about the peer.
    Taken,
    /// The connection was lost before; how much of it left is not known, and it is never sent again
    /// (TR-61).
    Lost,
}

/// A record that was taken into the queue; as a future it gives the moment when it left it.
///
/// Cancel safety: dropping it changes nothing about the record.
#[derive(Debug)]
pub struct Tracked {
    charge: u64,
    written: oneshot::Receiver<Written>,
    /// What was seen already.
    known: Option<Written>,
}

impl Tracked {
    pub(crate) const fn new(charge: u64, written: oneshot::Receiver<Written>) -> Self {
        Self {
            charge,
            written,
            known: None,
        }
    }

    /// What the record is charged: 64 bytes and the body, per frame (TR-50).
    pub const fn charge(&self) -> u64 {
        self.charge
    }

    /// What became of it, if that is known yet.
    pub fn now(&mut self) -> Option<Written> {
        if self.known.is_none() {
            self.known = match self.written.try_recv() {
                Ok(written) => Some(written),
                Err(oneshot::error::TryRecvError::Empty) => None,
                Err(oneshot::error::TryRecvError::Closed) => Some(Written::Lost),
            };
        }
        self.known
    }
}

impl Future for Tracked {
    type Output = Written;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Written> {
        if let Some(known) = self.known {
            return Poll::Ready(known);
        }
        let written = Pin::new(&mut self.written).poll(cx);
        // The sender goes without a word with its connection only.
        written.map(|written| written.unwrap_or(Written::Lost))
    }
}
