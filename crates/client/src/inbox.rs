//! What came without being asked for, until the application takes it (ST-169, ST-171).

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spotlane_stream_proto::CloseReason;
use spotlane_stream_proto::connector::{ConnectorState, Push, StrayError};
use thiserror::Error;
use tokio::sync::Notify;

/// What came, or happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incoming {
    /// A packet that the server sent.
    Push(Push),
    /// The state is another one.
    State(ConnectorState),
    /// A connection ended; once for each (ST-161). Bindings do not come back with the next one: log in
    /// again (S§9).
    Disconnected(CloseReason),
    /// An error of no call (ST-177).
    Error(StrayError),
    /// A push was dropped because nobody took those before it (ST-171).
    Dropped,
}

/// A wait that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// Nothing of the kind came in time.
    #[error("nothing of the kind came within {0:?}")]
    Timeout(Duration),
    /// The client is closed or dropped, and nothing more comes.
    #[error("the client is closed")]
    Closed,
    /// Something came where nothing was expected.
    #[error("a packet came where none was expected")]
    Unexpected,
}

#[derive(Debug)]
pub(crate) struct Shelf {
    /// Protects the queue; a leaf, held for a push or a pop.
    state: Mutex<State>,
    changed: Notify,
    pushes_max: Option<NonZeroUsize>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Incoming>,
    pushes: usize,
    closed: bool,
}

impl Shelf {
    pub(crate) fn new(pushes_max: Option<NonZeroUsize>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Notify::new(),
            pushes_max,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, incoming: Incoming) {
        let mut state = self.lock();
        let is_push = matches!(incoming, Incoming::Push(_));
        if is_push && self.pushes_max.is_some_and(|max| state.pushes >= max.get()) {
            if state.queue.back() != Some(&Incoming::Dropped) {
                state.queue.push_back(Incoming::Dropped);
            }
        } else {
            state.pushes = state.pushes.saturating_add(usize::from(is_push));
            state.queue.push_back(incoming);
        }
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// The first that fits, else whether more may come.
    fn take(
        &self,
        fits: &mut impl FnMut(&Incoming) -> bool,
    ) -> Result<Option<Incoming>, WaitError> {
        let mut state = self.lock();
        let at = state.queue.iter().position(fits);
        let taken = at.and_then(|at| state.queue.remove(at));
        if matches!(taken, Some(Incoming::Push(_))) {
            state.pushes = state.pushes.saturating_sub(1);
        }
        match taken {
            None if state.closed => Err(WaitError::Closed),
            taken => Ok(taken),
        }
    }
}

/// What came for a client, in order. Without anybody who takes it, it waits (ST-171); pings, liveness
/// and replies go on by themselves (ST-170).
#[derive(Debug)]
pub struct Inbox {
    pub(crate) shelf: Arc<Shelf>,
}

impl Inbox {
    /// The next thing that came; `None` when the client is closed and all was taken.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.first(|_| true).await.ok()
    }

    /// The immediate mode of dispatch (ST-169): gives everything to `handle` as it comes, one after the other, until the
    /// client is closed. What is taken this way waits for nobody; run it as a task of its own.
    ///
    /// # Cancel safety
    /// Dropped, the next thing is still there; what `handle` was given is its own.
    pub async fn dispatch(mut self, mut handle: impl AsyncFnMut(Incoming)) {
        while let Some(incoming) = self.next().await {
            handle(incoming).await;
        }
    }

    /// Takes what is there without waiting.
    pub fn try_next(&mut self) -> Option<Incoming> {
        self.shelf.take(&mut |_| true).ok().flatten()
    }

    /// The next push of this name that fits; others stay where they are (ST-172).
    ///
    /// # Errors
    /// None came in time, or the client is closed.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub async fn push(
        &mut self,
        name: &str,
        timeout: Duration,
        mut fits: impl FnMut(&Push) -> bool,
    ) -> Result<Push, WaitError> {
        let wanted = |incoming: &Incoming| match incoming {
            Incoming::Push(push) => push.name.as_str() == name && fits(push),
            _ => false,
        };
        let found = tokio::time::timeout(timeout, self.first(wanted)).await;
        match found.map_err(|_| WaitError::Timeout(timeout))?? {
            Incoming::Push(push) => Ok(push),
            _ => Err(WaitError::Unexpected),
        }
    }

    /// Waits that no push of this name comes within the window (ST-172).
    ///
    /// # Errors
    /// One came; it is taken.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    pub async fn no_push(&mut self, name: &str, window: Duration) -> Result<(), WaitError> {
        match self.push(name, window, |_| true).await {
            Ok(_) => Err(WaitError::Unexpected),
            Err(WaitError::Timeout(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn first(
        &mut self,
        mut fits: impl FnMut(&Incoming) -> bool,
    ) -> Result<Incoming, WaitError> {
        loop {
            // One inbox, one waiter: a notice that comes before the wait is kept.
            let changed = self.shelf.changed.notified();
            if let Some(incoming) = self.shelf.take(&mut fits)? {
                return Ok(incoming);
            }
            changed.await;
        }
    }
}
