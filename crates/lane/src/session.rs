//! What only a session lane can do: close its connection (EX-175). Its callbacks have a gate of their own
//! (EX-22).

use std::fmt;
use std::sync::Arc;

use crate::core::{Admission, After, Core};
use crate::error::Refusal;
use crate::host::AnyLane;
use crate::lane::Lane;
use crate::owner::Owner;
use crate::policy::{Connection, Session};

impl<O: Owner<Policy = Session>> Lane<O> {
    /// Open → Closing: new inbound packets are discarded with a recorded reason (EX-111), accepted ones
    /// and lifecycle work go on. A connection that closes already stays as it is.
    pub fn begin_closing(&self) -> Closing<O> {
        let mut after = After::default();
        let mut inner = self.core.lock();
        if inner.policy == Connection::Open {
            inner.policy = Connection::Closing;
        }
        if matches!(inner.admission, Admission::Open | Admission::Queueing) {
            // Lifecycle work may still come, so only those who wait with packets end.
            let lifecycle = inner
                .ext
                .as_mut()
                .map(|ext| std::mem::take(&mut ext.lifecycle_waiters));
            inner.end_waiters(&Refusal::ConnectionClosing, &mut after);
            if let Some(lifecycle) = lifecycle {
                inner.ext().lifecycle_waiters = lifecycle;
            }
            inner.admission = Admission::ConnectionClosing;
        }
        drop(inner);
        after.run(&self.core);
        Closing {
            core: Arc::clone(&self.core),
        }
    }

    /// Open or Closing → Closed, final. Accepted work goes on to its end.
    pub fn connection_lost(&self) {
        self.core.lock().policy = Connection::Closed;
        // A session does not move.
        self.core.close().ok();
    }

    /// The state of the connection.
    pub fn connection(&self) -> Connection {
        self.core.lock().policy
    }
}

/// A session whose connection is closing.
///
/// The time between the end of the replacement callback and the close is a timer of the session owner;
/// it occupies neither the lane nor a worker (EX-175).
#[must_use]
pub struct Closing<O: Owner<Policy = Session>> {
    core: Arc<Core<O>>,
}

impl<O: Owner<Policy = Session>> Closing<O> {
    /// Closing → Closed, final.
    pub fn closed(self) {
        self.core.lock().policy = Connection::Closed;
        // A session does not move.
        self.core.close().ok();
    }
}

impl<O: Owner<Policy = Session>> fmt::Debug for Closing<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing")
            .field("lane", &self.core.id)
            .finish_non_exhaustive()
    }
}
